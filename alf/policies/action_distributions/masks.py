# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Action masks: the entries of an observation that say which actions are allowed."""

from collections.abc import Mapping

import tensorflow as tf
from absl import logging

from alf.core.nest_utils import zeros_from_spec
from alf.errors import ConfigError
from alf.workers.masks import ACTION_MASK


def split_mask(observation, key):
    """Separates an observation from its action mask, or a spec of an observation from the spec of its mask.

    Agents with different spaces have one entry each in the observation, and each entry has a mask. Then the
    results are dicts of observations and of masks.

    Args:
        observation: dict that holds the mask, or dict of such dicts.
        key: text, the key of the mask; None if there is no mask.

    Returns:
        the observation without the mask, or its only other entry itself if one is left; and the mask, or
        None.

    Raises:
        ConfigError: if there is no such entry, or nothing else.
    """
    if key is None:
        return observation, None
    if not has_mask(observation, key):
        has = f"the keys {list(observation)}" if isinstance(observation, Mapping) else "no keys"
        raise ConfigError(f"action_mask_key is {key!r}: the observation has {has}")
    if key not in observation:
        parts = {name: split_mask(x, key) for name, x in observation.items()}
        return tuple({name: part[i] for name, part in parts.items()} for i in range(2))
    rest = {k: v for k, v in observation.items() if k != key}
    if not rest:
        raise ConfigError(f"action_mask_key is {key!r}: the observation has nothing but that")
    # A single entry without its dict, so that an encoder of one image takes it.
    return (rest if len(rest) > 1 else rest.popitem()[1]), observation[key]


def has_mask(observation, key):
    """Returns whether an observation, or its spec, is a dict with the entry `key` or a dict of such dicts."""
    if not isinstance(observation, Mapping) or not observation:
        return False
    return key in observation or all(isinstance(x, Mapping) and key in x for x in observation.values())


def split_mask_spec(owner, observation_spec, key, actions, data_transformer):
    """Separates the spec of an observation from its mask, which it checks. Call it in the main thread.

    Args:
        owner: text, the class of the policy, for messages.
        observation_spec: nest of unbatched tensor specs.
        key: as in `split_mask`. With None the log warns of an entry "action_mask".
        actions: `ActionDistribution` of the policy.
        data_transformer: `Pipeline` of the policy, or None.

    Returns:
        the spec of the observation that the network gets.

    Raises:
        ConfigError: if there is no such entry, or nothing else; if the actions are not integers; if the mask
            does not have a number for each of them, or would be scaled.
    """
    network_spec, mask_spec = split_mask(observation_spec, key)
    if mask_spec is not None:
        actions.params(tf.zeros((actions.num_outputs,)), zeros_from_spec(mask_spec))
        floats = [x.dtype.name for x in tf.nest.flatten(mask_spec) if x.dtype.is_floating]
        if floats and data_transformer is not None and data_transformer.normalizes:
            # A scaled 0 is no 0: every action would be allowed.
            raise ConfigError(
                f"action_mask_key is {key!r}: it is of {floats[0]}, which ObservationNormalizer scales: "
                "make it of integers, such as np.int8, or leave ObservationNormalizer out"
            )
    elif has_mask(observation_spec, ACTION_MASK):
        logging.warning(
            "the observation has the entry %r, which %s takes for something to see, and chooses among all "
            "actions: set action_mask_key to %r",
            *(ACTION_MASK, owner, ACTION_MASK),
        )
    return network_spec
