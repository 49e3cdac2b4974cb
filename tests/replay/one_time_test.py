# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Experience is learned from once."""

import numpy as np
import pytest
import tensorflow as tf

from alf.data_structures import Experience
from alf.errors import ConfigError
from alf.replay import make_replayer
from tests.fakes import assert_equal_nests


def make_experience(num_unrolls, start):
    """An `Experience` of [Q, 3, 2], every field numbered from `start`."""

    def number(*shape, dtype=tf.float32):
        numbers = tf.range(start, start + int(np.prod(shape)))
        return tf.cast(tf.reshape(numbers, shape), dtype)

    q = num_unrolls
    return Experience(
        step_type=number(q, 3, 2, dtype=tf.int32),
        reward=number(q, 3, 2),
        discount=number(q, 3, 2),
        observation={"a": number(q, 3, 2, 4), "b": (number(q, 3, 2, dtype=tf.uint8),)},
        prev_action=number(q, 3, 2, dtype=tf.int64),
        env_id=number(q, 3, 2, dtype=tf.int32),
        action=number(q, 3, 2, dtype=tf.int64),
        info=(),
        policy_version=number(q, 3, 2, dtype=tf.int64),
        state=(number(q, 2, 5),),
    )


def to_numpy(nest):
    return tf.nest.map_structure(lambda x: x.numpy(), nest)


@pytest.fixture
def replayer():
    return make_replayer("one_time")


def test_gives_what_was_observed(replayer):
    experience = make_experience(2, 0)
    replayer.observe(experience)
    assert_equal_nests(to_numpy(replayer.replay_all()), to_numpy(experience))


def test_joins_what_was_observed_in_order(replayer):
    parts = [make_experience(2, 0), make_experience(1, 100), make_experience(3, 50)]
    for part in parts:
        replayer.observe(part)
    expected = tf.nest.map_structure(lambda *x: np.concatenate(x), *map(to_numpy, parts))
    assert_equal_nests(to_numpy(replayer.replay_all()), expected)


def test_gives_everything_once(replayer):
    with pytest.raises(RuntimeError, match=r"observe\(\) must come before train\(\)"):
        replayer.replay_all()
    replayer.observe(make_experience(1, 0))
    replayer.replay_all()
    with pytest.raises(RuntimeError, match="nothing to train on"):
        replayer.replay_all()
    second = make_experience(1, 7)
    replayer.observe(second)
    assert_equal_nests(to_numpy(replayer.replay_all()), to_numpy(second))


def test_unknown_replayer():
    with pytest.raises(ConfigError, match="exp_replayer is 'uniform': .*one_time"):
        make_replayer("uniform")


def test_every_call_makes_another_one():
    first, second = make_replayer("one_time"), make_replayer("one_time")
    first.observe(make_experience(1, 0))
    with pytest.raises(RuntimeError):
        second.replay_all()
