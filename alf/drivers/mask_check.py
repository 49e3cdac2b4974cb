# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""MaskCheck: finds action masks of environments that allow no action, before a policy acts on them."""

import numpy as np
import tensorflow as tf

from alf.data_structures import FIRST, LAST, MID, OBSERVATION, OWNER
from alf.drivers.env_specs import get_agents
from alf.errors import EnvError
from alf.policies.action_distributions import has_mask, split_mask


class MaskCheck:
    """Checks the action masks of a batched environment wherever a policy acts that heeds them.

    A LAST step may forbid everything, because nobody acts there; so may a FIRST step in a game, where an
    agent may not be in it.

    Args:
        name: text, the environment in messages.
        env: batched environment.
        policy: `Policy` or `PolicyGroup`.
    """

    def __init__(self, name, env, policy):
        self._name, self._agents = name, get_agents(env)
        self._has_owner = bool(getattr(env, "policies", ()))
        self._is_game = hasattr(env, "game_begins")
        policies = getattr(policy, "policies", {})
        spaces = getattr(policy, "spaces", None) or {}
        entries = [(i, spaces.get(key), one) for i, (key, one) in enumerate(policies.items())]
        # A policy of all entries of agents with different spaces: a row has masks of other agents, too.
        is_mixed = getattr(env, "space_names", None) is not None
        self._masked = [x for x in entries if _heeds_mask_of_env(x[2]) and not (is_mixed and x[1] is None)]
        self._steps = np.zeros(env.batch_size, np.int64)  # of each row's episode

    def __call__(self, time_step):
        """Checks an `EnvStep` of arrays [B, ...], the next one of the environment.

        Raises:
            EnvError: if a mask allows no action, or holds a negative number or NaN.
        """
        if not self._masked:
            return
        step_type = np.asarray(time_step.step_type)
        self._steps += 1
        self._steps[step_type == FIRST] = 0
        for number, entry, policy in self._masked:
            own = time_step.observation[OBSERVATION] if self._has_owner else time_step.observation
            _, mask = split_mask(own if entry is None else own[entry], policy.action_mask_key)
            is_possible = policy.actions.is_possible(mask)
            # Most masks need no look at who acts. NaN is never at least 0.
            if is_possible.all() and all(x.min() >= 0 for x in _list_numbers(mask)):
                continue
            rows = step_type == MID if self._is_game else step_type != LAST
            if self._has_owner:
                rows = rows & (time_step.observation[OWNER] == number)
            # As of masks for logits, 0 and -inf, which would mean the contrary.
            is_odd = np.any([~(x >= 0).all(axis=-1) for x in _list_numbers(mask)] or [False], axis=0)
            for fault, is_wrong in (
                ("allows no action, which only the last step of an episode may do", ~is_possible & rows),
                ("has a number below 0, or NaN: it must be 1 or 0 for each action", is_odd & rows),
            ):
                if is_wrong.any():
                    self._raise(is_wrong.argmax(), policy.action_mask_key, fault)

    def _raise(self, row, key, fault):
        agent = f" (agent {self._agents[row % len(self._agents)]!r})" if self._is_game else ""
        step = f"step {self._steps[row]} of its episode"
        raise EnvError(f"{self._name}, row {row}{agent}, {step}: the action mask {key!r} {fault}")


def _heeds_mask_of_env(policy):
    """Returns whether a policy heeds a mask that is in the environment's own observation as it sees it."""
    key, observed = policy.action_mask_key, policy.time_step_spec.observation
    if key is None or not has_mask(observed, key):
        return False
    masks = [split_mask(spec, key)[1] for spec in (observed, policy.observation_spec)]
    return [x.shape for x in tf.nest.flatten(masks[0])] == [x.shape for x in tf.nest.flatten(masks[1])]


def _list_numbers(mask):
    """Lists the arrays of a mask that may hold negative numbers."""
    leaves = [mask] if isinstance(mask, np.ndarray) else tf.nest.flatten(mask)
    return [x for x in leaves if x.dtype.kind in "if"]
