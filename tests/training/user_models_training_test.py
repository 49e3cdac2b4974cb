# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Runs with models and optimizers of users: they train, continue, act and are exported."""

import gin
import keras
import numpy as np
import pytest
import tensorflow as tf

import alf
from alf.data_structures import LossInfo
from alf.errors import ConfigError
from alf.evaluation.exporter import export
from alf.learner import optimizers
from alf.networks import KerasEncoder
from tests.builders import build_learner
from tests.learner.learner_test import Quadratic, train


@gin.configurable(module="user_models")
def make_keras(spec):
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Dense(8, "tanh", kernel_regularizer=keras.regularizers.L2(0.1)),
            layers.BatchNormalization(momentum=0.5),
            layers.Dropout(0.2),
        ]
    )


@gin.configurable(module="user_models")
class Linear(tf.Module):
    def __init__(self, spec):
        super().__init__()
        self.kernel = tf.Variable(np.random.default_rng(0).normal(size=(*spec.shape, 8)), dtype=tf.float32)

    def __call__(self, x):
        return tf.tanh(x @ self.kernel)


@gin.configurable(module="user_models")
def make_function(spec):
    return tf.sin


NETWORKS = {
    "impala": ["ActorCriticNetwork"],
    "ppo": ["ActorCriticNetwork"],
    "dqn": ["QValueNetwork"],
    "sac": ["PolicyNetwork", "CriticsNetwork"],
}


@pytest.mark.parametrize(
    "algorithm, model, env",
    [
        ("ppo", make_keras, "CartPole-v1"),
        ("impala", Linear, "CartPole-v1"),
        ("ppo", make_function, "CartPole-v1"),
        ("dqn", make_keras, "CartPole-v1"),
        ("sac", make_keras, "Pendulum-v1"),
    ],
)
def test_a_run_trains_continues_acts_and_is_exported(tmp_path, algorithm, model, env):
    settings = {"KerasEncoder.model": model, "num_envs": 2, "seed": 0}
    for name in NETWORKS[algorithm]:
        settings |= {f"{name}.encoder": KerasEncoder, f"{name}.compute_dtype": "bfloat16"}
    run_dir = str(tmp_path / "run")
    agent, _ = alf.train(env, algorithm, 600, run_dir, **settings)
    first = [v.numpy() for v in agent.policy.variables]
    agent, run = alf.train(env, algorithm, 1200, run_dir, **settings)
    weights = [v.numpy() for v in agent.policy.variables]
    assert len(weights) == len(first)
    assert not all(np.array_equal(x, y) for x, y in zip(weights, first, strict=True))
    observation = np.full(agent.policy.observation_spec.shape, 0.1, np.float32)
    action, _ = agent.predict(observation)
    loaded = alf.load_agent(run_dir)
    for ours, theirs in zip(weights, loaded.policy.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(loaded.predict(observation)[0], action, rtol=1e-6)
    export(loaded.policy, str(tmp_path / "exported"))
    signature = tf.saved_model.load(str(tmp_path / "exported")).signatures["serving_default"]
    arguments = {
        name: tf.zeros([1, *x.shape[1:]], x.dtype)
        for name, x in signature.structured_input_signature[1].items()
    }
    arguments["observation"] = tf.constant(observation[np.newaxis])
    np.testing.assert_allclose(signature(**arguments)["action"][0], action, rtol=1e-5, atol=1e-6)


def test_losses_of_a_model_are_added_to_the_loss():
    regularizer = keras.regularizers.L2(0.5)

    class Regularized(Quadratic):
        def __init__(self):
            super().__init__()
            self.encoder = KerasEncoder(
                tf.TensorSpec((2,)),
                lambda spec: keras.layers.Dense(
                    1,
                    use_bias=False,
                    kernel_initializer="ones",
                    kernel_regularizer=regularizer,
                ),
            )

        def train_step(self, experience, prepared):
            self.encoder(tf.ones((1, 2)), training=True)
            return super().train_step(experience, prepared)

    learner = build_learner(Regularized(), optimizers.SGD(0.1))
    plain = build_learner(Quadratic(), optimizers.SGD(0.1))
    summary, expected = train(learner), train(plain)
    assert summary["model_losses"] == 1.0 and "model_losses" not in expected
    np.testing.assert_allclose(summary["loss"], expected["loss"] + 1.0, rtol=1e-6)
    np.testing.assert_allclose(learner.algorithm.encoder.trainable_variables[0], [[0.9], [0.9]], rtol=1e-6)


def test_weights_that_nobody_would_train_are_refused():
    class Hidden(Quadratic):
        def __init__(self):
            super().__init__()
            self.layer = keras.layers.Dense(1, name="mine")
            self.layer.build((None, 2))

        def calc_loss(self, experience, train_info):
            return LossInfo(tf.reduce_sum(self.layer(tf.ones((1, 2)))) + tf.reduce_sum(self.weights))

    with pytest.raises(ConfigError, match="loss of Hidden uses .*: mine/kernel.* into a KerasEncoder"):
        train(build_learner(Hidden(), optimizers.SGD(0.1)))


@pytest.mark.parametrize(
    "make", [lambda: keras.optimizers.AdamW(0.1, weight_decay=0.5), lambda: "Lion", optimizers.AdamW]
)
def test_optimizers_are_in_checkpoints(tmp_path, make):
    learners = [build_learner(Quadratic(), make()) for _ in range(2)]
    train(learners[0])
    path = tf.train.Checkpoint(learner=learners[0]).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(learner=learners[1]).read(path).assert_consumed().assert_existing_objects_matched()
    for learner in learners:
        train(learner)
    own = [learner._optimizer.variables for learner in learners]
    assert len(own[0]) > 2
    for ours, theirs in zip(*own, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(*(learner.algorithm.weights for learner in learners))
