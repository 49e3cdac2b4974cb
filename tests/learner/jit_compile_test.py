# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""jit_compile: XLA makes the same updates, of every algorithm."""

import functools

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm, PPOAlgorithm, SacAlgorithm
from alf.drivers import SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.nest_utils import to_tensor_spec
from alf.testing.toy_environments import MatchObservationEnvironment

sgd = functools.partial(tf.keras.optimizers.legacy.SGD, 0.1)
IMPALA = functools.partial(ImpalaAlgorithm, optimizer=sgd())
PPO = functools.partial(PPOAlgorithm, optimizer=sgd(), num_minibatches=2)
IMPACT = functools.partial(PPO, target_update_period=1)
DQN = functools.partial(DqnAlgorithm, optimizer=sgd(), target_update_period=2)
SAC = functools.partial(
    SacAlgorithm, actor_optimizer=sgd(), critic_optimizer=sgd(), alpha_optimizer=sgd(), initial_alpha=0.1
)


def train(make_algorithm, continuous, rnn_cell, jit_compile):
    """Trains a little; returns the algorithm and what its last call of `train` showed."""
    tf.keras.utils.set_random_seed(0)
    gin.clear_config()
    for network in ("ActorCriticNetwork", "PolicyNetwork", "CriticsNetwork", "QValueNetwork"):
        gin.bind_parameter(f"{network}.fc_layer_params", (16,))
        gin.bind_parameter(f"{network}.rnn_cell", rnn_cell)
        gin.bind_parameter(f"{network}.rnn_units", 8)
        gin.bind_parameter(f"{network}.seed", 0)
    gin.bind_parameter("ReplayTraining.mini_batch_size", 8)
    gin.bind_parameter("ReplayTraining.mini_batch_length", 3)
    env = MatchObservationEnvironment(4, episode_length=3, continuous=continuous)
    specs = (to_tensor_spec(spec) for spec in (env.observation_spec(), env.action_spec()))
    algorithm = make_algorithm(*specs, jit_compile=jit_compile)
    replayed = make_algorithm.func in (SacAlgorithm, DqnAlgorithm)
    driver = SyncOffPolicyDriver(
        [env], algorithm, unroll_length=4, exp_replayer="uniform" if replayed else "one_time"
    )
    driver.start()
    try:
        for _ in range(3):
            driver.run()
            summary = algorithm.train()
    finally:
        driver.stop()
    return algorithm, summary


@pytest.mark.parametrize(
    "make_algorithm, continuous, rnn_cell",
    [
        (IMPALA, False, None),
        (PPO, True, None),
        (IMPACT, False, None),
        (DQN, False, "gru"),
        (SAC, True, "gru"),
        (SAC, False, None),
    ],
)
def test_updates_are_the_same(make_algorithm, continuous, rnn_cell):
    plain, shown = train(make_algorithm, continuous, rnn_cell, False)
    compiled, shown_too = train(make_algorithm, continuous, rnn_cell, True)
    assert not hasattr(plain._loss_and_gradients, "get_concrete_function")
    assert compiled._loss_and_gradients._jit_compile
    assert int(compiled.train_step_counter) == int(plain.train_step_counter) > 1
    assert shown.keys() == shown_too.keys()
    for name, value in shown.items():
        np.testing.assert_allclose(shown_too[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    for a, b in zip(compiled.trainable_variables, plain.trainable_variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_it_is_checked():
    with pytest.raises(ConfigError, match="jit_compile is 'yes'"):
        train(IMPALA, False, None, "yes")
