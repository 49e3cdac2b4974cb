# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluation: what an agent reaches in exactly N episodes."""

from typing import Any, NamedTuple

import numpy as np

from alf.data_structures import FIRST, LAST
from alf.errors import ConfigError, check_int
from alf.nest_utils import find_mismatch, to_tensor_spec

_NUM_RESAMPLES = 10_000
_CONFIDENCE = 0.95


class Episodes(NamedTuple):
    """Whole episodes, ordered by sub-environment, then by time: arrays [N]."""

    returns: Any  # float64; undiscounted sums of rewards, of all components of a vector reward
    lengths: Any  # int64; steps


def evaluate(agent, env, num_episodes, deterministic=True, should_stop=lambda: False, on_step=lambda: None):
    """Lets an agent act until each sub-environment has ended its share of the episodes.

    Sub-environment i of B contributes its first N // B episodes, one more if i < N % B. So short episodes are
    not preferred, as they would be among the first N that end. An episode that a worker's restart breaks off
    does not count.

    Args:
        agent: `Agent`.
        env: batched TF-Agents `PyEnvironment` of the agent's specs; it is reset first.
        num_episodes: N, int.
        deterministic: as in `Agent.predict`.
        should_stop: callable () -> bool, asked before every step.
        on_step: callable (), called after the reset and after every step.

    Returns:
        the `Episodes`; only those that have ended, if `should_stop` returned True.

    Raises:
        ConfigError: if the environment has other specs than the agent.
    """
    check_int("num_episodes", num_episodes)
    _check_specs(agent, env)
    batch_size = env.batch_size
    shares = np.full([batch_size], num_episodes // batch_size)
    shares[: num_episodes % batch_size] += 1
    ended = [[] for _ in shares]  # of each sub-environment: (return, length)
    returns, lengths = np.zeros([batch_size]), np.zeros([batch_size], np.int64)
    missing, state = shares.copy(), None
    time_step = env.reset()
    on_step()
    while missing.any() and not should_stop():
        action, state = agent.act(*time_step, state, deterministic)
        time_step = env.step(action)
        on_step()
        is_first = time_step.step_type == FIRST
        reward = np.asarray(time_step.reward, np.float64).reshape(batch_size, -1).sum(axis=1)
        returns = np.where(is_first, 0.0, returns + reward)
        lengths = np.where(is_first, 0, lengths + 1)
        for i in np.flatnonzero((time_step.step_type == LAST) & (missing > 0)):
            ended[i].append((returns[i], lengths[i]))
            missing[i] -= 1
    pairs = [pair for episodes in ended for pair in episodes]
    return Episodes(np.array([r for r, _ in pairs]), np.array([n for _, n in pairs], np.int64))


def _check_specs(agent, env):
    specs = {"observation": (env.observation_spec(), agent.observation_spec)}
    specs["action"] = env.action_spec(), agent.action_spec
    for name, (ours, theirs) in specs.items():
        mismatch = find_mismatch(to_tensor_spec(ours), theirs)
        if mismatch:
            raise ConfigError(
                f"the environment is not one that the agent was trained for: {name}: {mismatch}"
            )


def summarize(values):
    """Describes numbers, an array [N]: a dict of floats.

    `mean`, `median`, `std` (of the sample, 0 for one number), `min`, `max`, and `low` and `high`, the ends of
    the 95 % interval of the mean by bootstrap percentiles (Efron 1979).
    """
    values = np.asarray(values, np.float64)
    rng = np.random.default_rng(0)
    means = [rng.choice(values, len(values)).mean() for _ in range(_NUM_RESAMPLES)]
    low, high = np.quantile(means, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    figures = dict(mean=values.mean(), median=np.median(values), min=values.min(), max=values.max())
    std = values.std(ddof=1) if len(values) > 1 else 0.0
    return {name: float(x) for name, x in {**figures, "std": std, "low": low, "high": high}.items()}
