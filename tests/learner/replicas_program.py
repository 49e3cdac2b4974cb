# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A program: trains algorithms on one device and, from the same experience, on replicas.

`replicas_program.py NUM_REPLICAS KIND...` prints JSON: for each kind the largest differences of weights and
of summaries, how far the weights moved, and the devices that computed.
"""

import functools
import json
import sys

import numpy as np
import tensorflow as tf

import alf  # noqa: F401  (before TensorFlow)
from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm, PPOAlgorithm, SacAlgorithm
from alf.drivers import SyncOffPolicyDriver
from alf.environments import load
from alf.learner import ReplayLearner, UnrollLearner, optimizers
from alf.networks import ActorCriticNetwork
from alf.networks.recurrent import LSTM
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy, SacPolicy
from alf.replay import PrioritizedReplayer
from alf.training import Experiment
from tests.builders import build_learner, collect_and_observe, driver_of

# Two where unrolls may begin with a recurrent state. A larger buffer would be traced again.
NUM_ITERATIONS = {"ppo": 2, "impala": 2, "dqn": 1, "sac": 1}


def without_random_numbers():
    """Lets both learners draw the same: nothing is shuffled, noise is a constant."""
    tf.random.shuffle = lambda x: tf.reverse(x, [0])
    tf.random.normal = lambda shape: tf.fill(shape, 0.3)


def replay(replayer):
    """All sequences of the buffer in turn, not those that chance selects."""
    return functools.partial(
        ReplayLearner,
        replayer=replayer,
        mini_batch_size=8,
        mini_batch_length=4,
        whole_replay_buffer_training=True,
    )


def parts(kind):
    """What makes the learners of a kind: arguments of `Experiment`."""
    lstm = functools.partial(ActorCriticNetwork, rnn=functools.partial(LSTM, 8), fc_layer_params=(8,))
    return {
        "ppo": dict(
            env=functools.partial(load, "CartPole-v1", batch_size=8),
            algorithm=PPOAlgorithm,
        ),
        "impala": dict(
            env=functools.partial(load, "CartPole-v1", batch_size=8),
            policy=functools.partial(ActorCriticPolicy, network=lstm),
            algorithm=ImpalaAlgorithm,
        ),
        "dqn": dict(
            env=functools.partial(load, "CartPole-v1", batch_size=8),
            policy=EpsilonGreedyPolicy,
            algorithm=functools.partial(DqnAlgorithm, n_step=3, target_update_period=2),
            exp_replayer=functools.partial(PrioritizedReplayer, capacity=1000),
        ),
        "sac": dict(
            env=functools.partial(load, "Pendulum-v1", batch_size=8, max_episode_steps=5, num_workers=0),
            policy=SacPolicy,
            algorithm=SacAlgorithm,
            exp_replayer=functools.partial(PrioritizedReplayer, capacity=1000),
        ),
    }[kind]


def make_driver(kind, strategy):
    settings = parts(kind)
    in_minibatches = functools.partial(UnrollLearner, num_epochs=2, num_minibatches=2)

    def make_learner(algorithm, replayer):
        chosen = replay(replayer) if "exp_replayer" in settings else in_minibatches
        # Not Adam, which makes steps of equal size from gradients that are 0 but for rounding.
        optimizer = optimizers.SGD(0.1)
        return build_learner(algorithm, optimizer, chosen, replayer, max_grad_norm=1.0, strategy=strategy)

    return driver_of(
        Experiment(
            **settings,
            num_groups=1,
            learner=make_learner,
            driver=SyncOffPolicyDriver,
            unroll_length=8,
            seed=0,
        )
    )


def main():
    num_replicas, *kinds = sys.argv[1:]
    (cpu,) = tf.config.list_physical_devices("CPU")
    devices = [tf.config.LogicalDeviceConfiguration()] * int(num_replicas)
    tf.config.set_logical_device_configuration(cpu, devices)
    without_random_numbers()
    # One for all: TensorFlow refuses a second one in a process.
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(len(devices))])
    print(json.dumps({kind: compare(kind, strategy) for kind in kinds}))


def compare(kind, strategy):
    driver = make_driver(kind, None)
    expected, learner = driver.learner, make_driver(kind, strategy).learner
    devices, differences = note_devices(learner.algorithm), []
    observe = expected.observe
    expected.observe = lambda experience: (observe(experience), learner.observe(experience))
    start = weights(learner)
    assert distance(start, weights(expected)) == 0
    driver.start()
    for _ in range(NUM_ITERATIONS[kind]):
        collect_and_observe(driver)
        ours, theirs = learner.train(), expected.train()
        assert ours.keys() == theirs.keys()
        differences += [abs(float(ours[key]) - float(theirs[key])) for key in ours]
    driver.stop()
    return {
        "summary": max(differences),
        "weights": distance(weights(learner), weights(expected)),
        "moved": distance(weights(learner), start),
        "devices": sorted(devices),
    }


def note_devices(algorithm):
    """Returns a set that gets the names of the devices where `train_step` computes."""
    devices, train_step = set(), algorithm.train_step

    def note(experience, state):
        devices.add(tf.identity(experience.reward).device.rpartition("/")[2])
        return train_step(experience, state)

    algorithm.train_step = note
    return devices


def weights(learner):
    """The variables, those of target networks, too, without counters; and the priorities in the buffer."""
    found = [v.numpy() for v in learner.algorithm.variables if v.dtype.is_floating]
    if isinstance(learner.replayer, PrioritizedReplayer):
        found.append(learner.replayer._tree.numbers().numpy())
    return found


def distance(a, b):
    return max(float(np.abs(x - y).max()) for x, y in zip(a, b, strict=True))


if __name__ == "__main__":
    main()
