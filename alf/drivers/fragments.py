# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""rollout, rollout_episodes: experience of a policy, without a learner."""

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from alf.config.kinds import PositiveInt
from alf.config.settings import checked
from alf.core.annotations import Environment
from alf.data_structures import FIRST, LAST, Experience
from alf.drivers.driver import Driver
from alf.drivers.driver_settings import DriverSettings
from alf.drivers.env_specs import to_batched_envs
from alf.drivers.sync_off_policy_driver import SyncOffPolicyDriver
from alf.environments.batched_environment import EnvironmentWrapper
from alf.policies.policy import GreedyPolicy


@checked
def rollout(
    envs: Environment | Sequence[Environment],
    policy: Any,
    n_steps: PositiveInt,
    settings: DriverSettings | None = None,
    driver: Callable[..., Driver] = SyncOffPolicyDriver,
    close_envs: bool = True,
    deterministic: bool = False,
) -> Iterator[Experience]:
    """Lets a policy act in environments for ever; yields fragments of `n_steps` transitions.

    Example: `for fragment in alf.rollout(envs, policy, 100)`. When the loop ends, by `break` for example, its
    threads end, and the environments are closed. The policy's weights may change between two fragments.

    Args:
        envs: batched environment, or a list of Q of them with the same batch size B and specs, which step in
            turn. The first fragment begins with a reset.
        policy: `Policy` or `Agent`.
        n_steps: T.
        settings: `DriverSettings`, such as `DriverSettings(sticky=True)`; None takes the defaults.
        driver: callable (envs, policy, unroll_length=, settings=) -> `Driver`. With
            `AsyncOffPolicyDriver` all environments step at the same time. In its mode "lockstep" a fragment
            has an unroll of each environment; in the mode "async" it has the first `learn_queue_cap` unrolls
            that are ready, and the environments keep stepping, with the weights of that time.
        close_envs: False leaves the environments open, for the caller.
        deterministic: True acts as well as the policy can (`Policy.predict`), and `Experience.info` is ().
            False explores as in training (`Policy.rollout`).

    Yields:
        `Experience` of tensors [T+1, Q*B, ...], `state` [Q*B, ...] of row 0. Row T is row 0 of the next
        fragment of the same environments; it repeats `action` and `info` of row T-1. `env_id` [T+1, Q*B]
        numbers the sub-environments. `env_info` is there if the environments have `info_keys`.

    Raises:
        ConfigError: if an argument is wrong, or policy and environments do not fit.
        Exception: the errors of `Driver.collect`.
    """
    envs = list(envs) if isinstance(envs, (list, tuple)) else [envs]
    if not close_envs:
        envs = [_KeptOpen(env) for env in to_batched_envs(envs)]
    policy = getattr(policy, "policy", policy)  # of an `Agent`
    policy = GreedyPolicy(policy) if deterministic else policy
    return _generate(driver(envs, policy, unroll_length=n_steps, settings=settings))


def _generate(driver):
    try:
        driver.start()
        while True:
            for batch in driver.collect():
                yield _merge(batch)
    finally:
        driver.stop()


@checked
def rollout_episodes(
    envs: Environment | Sequence[Environment],
    policy: Any,
    n_episodes: PositiveInt = 1,
    n_steps: PositiveInt = 32,
    **kwargs: Any,
) -> Iterator[list[Experience]]:
    """Lets a policy act in environments for ever; yields lists of whole episodes of their own lengths.

    Episodes come in the order in which they end, so the first ones are short more often than others: use
    `alf.evaluate`, which can keep the same records of its episodes, to measure a policy. An episode that the
    restart of a worker interrupts is left out.

    Args:
        n_episodes: N, the episodes of a list.
        n_steps: transitions of the fragments that the episodes are cut from.
        envs, policy, **kwargs: the arguments of `rollout`.

    Yields:
        list of N `Experience`s of arrays [L+1, 1, ...], from the FIRST to the LAST step of an episode of L
        transitions, without `state`.
    """
    pieces: Any = collections.defaultdict(list)  # by column: the fragments of its episode under way
    ended: list[Experience] = []
    for fragment in rollout(envs, policy, n_steps, **kwargs):
        # Row T comes again, with its action, in the next fragment.
        rows = tf.nest.map_structure(lambda x: x.numpy()[:-1], fragment._replace(state=()))
        for column, env_id in enumerate(rows.env_id[0]):
            cut = tf.nest.map_structure(lambda x, i=column: x[:, i : i + 1], rows)
            for episode in _cut(cut, pieces[env_id]):
                ended.append(episode)
        while len(ended) >= n_episodes:
            yield ended[:n_episodes]
            del ended[:n_episodes]


def _cut(rows, pieces):
    """Yields the episodes that end in `rows`, [T, 1, ...]; `pieces`, a list, keeps the unfinished one."""
    firsts = np.flatnonzero(rows.step_type[:, 0] == FIRST).tolist()
    bounds = [*sorted({0, *firsts}), len(rows.step_type)]
    for start, stop in zip(bounds, bounds[1:]):
        if start in firsts:
            pieces.clear()
        pieces.append(tf.nest.map_structure(lambda x, a=start, b=stop: x[a:b], rows))
        if rows.step_type[stop - 1, 0] == LAST:
            yield tf.nest.map_structure(lambda *x: np.concatenate(x), *pieces)


def _merge(batch):
    """Turns an `Experience` [Q, T+1, B, ...] into [T+1, Q*B, ...]."""

    def merge(x):
        x = tf.transpose(x, (1, 0, *range(2, x.shape.rank)))
        return tf.reshape(x, (x.shape[0], -1, *x.shape[3:]))

    state = tf.nest.map_structure(lambda x: tf.reshape(x, (-1, *x.shape[2:])), batch.state)
    return tf.nest.map_structure(merge, batch._replace(state=()))._replace(state=state)


class _KeptOpen(EnvironmentWrapper):
    """A batched environment that its driver does not close."""

    def close(self):
        pass
