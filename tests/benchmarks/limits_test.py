# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.limits: the lean programs compute the numbers of ALF's updates."""

import functools
import types

import numpy as np
import pytest
import tensorflow as tf
from absl import app

from benchmarks.limits import alf_presets as presets
from benchmarks.limits import rows, sampling
from tests.benchmarks.conftest import import_program

limits = import_program("benchmarks.limits.__main__")

# The settings are those of the presets, except where a call says another one.
PAIRS = {
    "PPO": presets.make_ppo,  # all epochs of a batch
    "IMPALA": presets.make_impala,  # all minibatches of a batch
    "DQN, prioritized": presets.make_dqn,
    "DQN, some updates": lambda: presets.make_dqn(updates=3),
    "DQN, compiled": lambda: presets.make_dqn(updates=3, jit_compile=True),
    "PPO, compiled": lambda: presets.make_ppo(jit_compile=True),
    "IMPALA, compiled": lambda: presets.make_impala(jit_compile=True),
    "SAC": lambda: presets.make_sac("Pendulum-v1", updates=2),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_lean_program_computes_the_weights_of_alf(name):
    pair = PAIRS[name]()
    before = pair.alf_weights()
    assert pair.difference() == 0.0
    assert pair.alf() == pytest.approx(pair.lean(), rel=1e-4, abs=1e-6)
    assert pair.difference() <= 1e-5
    moved = max(np.abs(x - y).max() for x, y in zip(before, pair.alf_weights()))
    assert moved > 1e-4  # far more than the difference


@pytest.fixture(scope="module")
def impala():
    """A preset, an `Experience` of it, and its lean program with statistics of observations."""
    preset = presets.Preset("CartPole-v1", "impala")
    (experience,) = preset.collect()
    preset.learner.observe(experience)
    lean = preset.make_impala()
    presets.copy_scales(lean, preset.learner.policy.data_transformer)
    return preset, experience, lean


@pytest.mark.parametrize("make", [sampling.make_tensorflow, sampling.NumpyPolicy])
def test_a_lean_loop_has_the_policy_of_alf(make, impala):
    preset, experience, lean = impala
    policy = preset.learner.policy
    rows = tf.nest.map_structure(lambda x: x[0], experience)
    expected = policy.unroll(policy.data_transformer.unroll(rows, rows.state.transformer)).params
    compute = make(lean)
    found = [compute(x) for x in rows.observation.numpy()]
    np.testing.assert_allclose(found, expected, atol=1e-6)


class CountingEnvs:
    """Two environments, whose observation counts the steps of all episodes; they last 3 and 4 steps."""

    observation_space = types.SimpleNamespace(shape=(2, 1))
    single_action_space = types.SimpleNamespace(n=2)

    def reset(self, seed):
        self.count, self.steps = 0, np.zeros(2, int)
        return np.zeros((2, 1), np.float32), {}

    def step(self, action):
        self.count += 1
        resets = self.steps == (3, 4)  # the step after an end
        self.steps = np.where(resets, 0, self.steps + 1)
        ends = self.steps == (3, 4)
        truncated = ends & [False, True]
        reward = np.where(resets, 0.0, 1.0)
        return np.full((2, 1), self.count), reward, ends & ~truncated, truncated, {}


def test_unrolls_of_a_lean_loop_follow_each_other():
    sampler = sampling.Sampler(CountingEnvs(), lambda x: np.array([[0.0, 1e9]] * 2), length=6, discount=0.5)
    unrolls = [tf.nest.map_structure(np.copy, sampler.collect()) for _ in range(2)]
    first, second = unrolls
    assert first.observation[:, 0, 0].tolist() == list(range(7))
    assert second.observation[:, 0, 0].tolist() == list(range(6, 13))
    assert first.step_type[1:, 0].tolist() == [1, 1, 1, 0, 1, 1]
    assert second.step_type[:, 0].tolist() == [1, 1, 0, 1, 1, 1, 0]
    assert first.step_type[1:, 1].tolist() == [1, 1, 1, 1, 0, 1]
    assert (first.discount[:, 0] == [1, 1, 1, 0, 1, 1, 1]).all()  # terminated
    assert (first.discount[:, 1] == 1).all()  # truncated
    # Row 0 of the second unroll is the last row of the first: its reward is not in the sums yet.
    assert first.sums.tolist() == [0, 0]
    assert second.sums.tolist() == [1.0, 0.0]
    assert (first.action[:-1] == 1).all()


def test_the_table_has_alf_as_a_fraction_of_the_limit():
    assert limits.format_row("updates PPO", 400.0, 100.0) == "| updates PPO | 400.0 | 100.0 | 0.25 |"
    assert {name.split()[0] for name in rows.ROWS} == {"updates", "sampling", "loop"}
    with pytest.raises(app.UsageError, match="no row 'PPO': there are updates PPO, "):
        limits.main(["limits", "PPO"])


def test_the_measurements_take_turns(monkeypatch):
    done = []

    def take(name, figures, seconds):
        done.append((name, seconds))
        return figures.pop(0)

    calls = [functools.partial(take, "ALF", [4e-6, 9e-6, 5e-6]), functools.partial(take, "lean", [2e-6] * 3)]
    monkeypatch.setitem(rows.ROWS, "updates PPO", lambda: calls)
    assert rows.measure("updates PPO", 7.0, rounds=3) == pytest.approx([5.0, 2.0])
    assert done == [("ALF", 7.0), ("lean", 7.0)] * 3
