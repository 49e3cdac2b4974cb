# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The distribution of a dict, tuple or list of actions."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from alf.errors import ConfigError
from alf.policies.action_distributions.distribution import ActionDistribution, describe_mask


class NestedActions(ActionDistribution):
    """Independent distributions of the entries of a dict, tuple or list of actions.

    Parameters, raw and masks have the structure of the specs. A mask that is None, or missing in a dict,
    allows all actions of its part.

    Args:
        action_spec: dict, tuple or list of specs, not empty.
        make_part: callable (spec) -> `ActionDistribution`.
    """

    def __init__(self, action_spec, make_part):
        # In the order of the spec, in which the network's outputs are split: trained weights depend on it.
        self._keys = tuple(action_spec if isinstance(action_spec, Mapping) else range(len(action_spec)))
        if not self._keys:
            raise ConfigError(f"action_spec is {action_spec}: it holds no action")
        self._spec = action_spec
        self._parts = tuple(make_part(action_spec[key]) for key in self._keys)
        params_spec = self._pack(part.params_spec for part in self._parts)
        raw_spec = self._pack(part.raw_spec for part in self._parts)
        super().__init__(params_spec, raw_spec, num_outputs=sum(part.num_outputs for part in self._parts))
        noise_spec = tuple(part.noise_spec for part in self._parts)
        self.noise_spec = noise_spec if tf.nest.flatten(noise_spec) else ()

    def _pack(self, entries):
        """Packs one entry for each part into the structure of the action spec."""
        if isinstance(self._spec, Mapping):
            return dict(zip(self._keys, entries))
        if hasattr(self._spec, "_make"):  # a namedtuple
            return self._spec._make(entries)
        return list(entries) if isinstance(self._spec, list) else tuple(entries)

    def _zip(self, *nests):
        """Yields each part with its entry of each of the `nests`."""
        return zip(self._parts, *([nest[key] for key in self._keys] for nest in nests))

    def params(self, outputs, mask=None):
        outputs = tf.split(outputs, [part.num_outputs for part in self._parts], axis=-1)
        masks = self._list_masks(mask)
        return self._pack(part.params(x, m) for part, x, m in zip(self._parts, outputs, masks))

    def is_possible(self, mask):
        masks = zip(self._parts, self._list_masks(mask))
        return np.all([part.is_possible(x) for part, x in masks if x is not None], axis=0)

    def _list_masks(self, mask):
        """Returns the masks of the parts, a list; None for a part that has none."""
        is_dict = isinstance(self._spec, Mapping)
        if mask is None:
            return [None] * len(self._parts)
        if is_dict and isinstance(mask, Mapping) and mask.keys() <= set(self._keys):
            # Only integers have masks: a dict may leave the other parts out.
            return [mask.get(key) for key in self._keys]
        if not is_dict and isinstance(mask, (list, tuple)) and len(mask) == len(self._keys):
            return list(mask)
        raise ConfigError(
            f"the action mask is {describe_mask(mask)}: it must have the structure of {self._spec}"
        )

    def sample(self, params):
        return self._pack(part.sample(p) for part, p in self._zip(params))

    def explore(self, params, noise, is_first):
        # The noise is a tuple with an entry for each part, or () for all of them.
        noises = noise or ((),) * len(self._parts)
        draws = [part.explore(p, x, is_first) for (part, p), x in zip(self._zip(params), noises)]
        return self._pack(raw for raw, _ in draws), tuple(x for _, x in draws) if noise else ()

    def mode(self, params):
        return self._pack(part.mode(p) for part, p in self._zip(params))

    def action(self, raw):
        return self._pack(part.action(r) for part, r in self._zip(raw))

    # The parts are independent, so log-probabilities, entropies and divergences add up.

    def log_prob(self, params, raw):
        return tf.add_n([part.log_prob(p, r) for part, p, r in self._zip(params, raw)])

    def entropy(self, params):
        return tf.add_n([part.entropy(p) for part, p in self._zip(params)])

    def kl(self, params_p, params_q):
        return tf.add_n([part.kl(p, q) for part, p, q in self._zip(params_p, params_q)])

    def describe(self, params):
        parts = self._pack(part.describe(p)["distribution"] for part, p in self._zip(params))
        return {"entropy": self.entropy(params), "distribution": parts}

    def has_choice(self, params):
        return tf.reduce_any([part.has_choice(p) for part, p in self._zip(params)], axis=0)

    def symmetric_kl_to_uniform(self, params):
        return tf.add_n([part.symmetric_kl_to_uniform(p) for part, p in self._zip(params)])
