# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""HybridReplayer: proportions, what changes, what fits."""

import numpy as np
import pytest
import tensorflow as tf

from alf.data_structures import NO_VERSION, Experience, PolicyState
from alf.errors import ConfigError
from alf.replay import HybridReplayer, Sequences, load_replayer, make_replayer
from alf.schedules import Progress
from tests.replay.streams import without_graphs

T, B = 4, 2
PROGRESS = Progress(tf.constant(0, tf.int64), tf.constant(0, tf.int64))


def unroll_spec(info=(), state=()):
    def rows(dtype):
        return tf.TensorSpec((T + 1, B), dtype)

    return Experience(
        step_type=rows(tf.int32),
        reward=rows(tf.float32),
        discount=rows(tf.float32),
        observation=rows(tf.float32),
        prev_action=rows(tf.int64),
        env_id=rows(tf.int32),
        action=rows(tf.int64),
        info=info,
        policy_version=rows(tf.int64),
        state=PolicyState((), state),
    )


def fill(replayer, spec, observation, version=5):
    """Adds three unrolls of constant observations."""
    for i in range(3):
        batch = tf.nest.map_structure(lambda s: tf.zeros((1, *s.shape), s.dtype), spec)
        step_type = np.ones((1, T + 1, B), np.int32)
        step_type[0, 0] = 0 if i == 0 else 1
        replayer.observe(
            batch._replace(
                step_type=tf.constant(step_type),
                observation=tf.fill((1, T + 1, B), float(observation)),
                policy_version=tf.fill((1, T + 1, B), tf.constant(version, tf.int64)),
            )
        )


def make_hybrid(tmp_path, offline_proportion=0.25, online="uniform", offline_spec=None, online_spec=None):
    """A hybrid replayer whose online observations are 1 and whose offline ones are 2."""
    with without_graphs():
        spec = offline_spec or unroll_spec()
        recorded = make_replayer("uniform", spec, 1)
        fill(recorded, spec, 2.0)
        recorded.save(str(tmp_path / "buffer.npz"))
        spec = online_spec or unroll_spec()
        fresh = make_replayer(online, spec, 1)
        hybrid = HybridReplayer(fresh, load_replayer(str(tmp_path / "buffer.npz")), offline_proportion)
        if hybrid.num_steps() == 0:
            fill(hybrid, spec, 1.0)
        return hybrid


@pytest.mark.parametrize("proportion, num_offline", [(0.25, 2), (0.5, 4), (0.01, 1), (0.99, 7)])
def test_a_batch_holds_the_proportion(tmp_path, proportion, num_offline):
    hybrid = make_hybrid(tmp_path, proportion)
    batch, sequences, weight = tf.function(hybrid.sample, autograph=False)(8, 3, PROGRESS)
    assert batch.observation.shape == (4, 8)
    np.testing.assert_array_equal(batch.observation[0], [1.0] * (8 - num_offline) + [2.0] * num_offline)
    np.testing.assert_array_equal(
        batch.policy_version[0], [5] * (8 - num_offline) + [NO_VERSION] * num_offline
    )
    assert weight.shape == sequences.start.shape == (8,)


def test_only_the_online_buffer_changes(tmp_path):
    hybrid = make_hybrid(tmp_path)
    assert hybrid.num_steps() == 3 * T * B
    hybrid.clear()
    assert hybrid.num_steps() == 0
    fill(hybrid, unroll_spec(), 3.0)
    batch, *_ = hybrid.sample(8, 3, PROGRESS)
    assert set(batch.observation.numpy().ravel()) == {2.0, 3.0}
    hybrid.save(str(tmp_path / "online.npz"))
    assert set(np.load(tmp_path / "online.npz")["observation"].ravel()) == {3.0}
    hybrid.clear()
    hybrid.load(str(tmp_path / "online.npz"))
    assert hybrid.num_steps() == 3 * T * B


def test_priorities_are_those_of_the_online_part(tmp_path):
    hybrid = make_hybrid(tmp_path, offline_proportion=0.5, online="prioritized")
    given = []
    hybrid._online.update_priorities = lambda *args: given.append(args)
    env = tf.constant([0, 1, 2, 3, -1, -2, -3, -4], tf.int64)  # the last four are of the offline replayer
    sequences = Sequences(env, *(tf.range(8, dtype=tf.int64) for _ in range(2)))
    hybrid.update_priorities(sequences, tf.range(8.0))
    ((fresh, priorities),) = given
    np.testing.assert_array_equal(fresh.start, range(4))
    np.testing.assert_array_equal(priorities, range(4))


def test_all_sequences_are_those_of_both(tmp_path):
    hybrid = make_hybrid(tmp_path)
    sequences = hybrid.all_sequences(T)
    order = tf.constant([6, 0, 11, 5, 7])  # of 6 sequences of each
    chosen = tf.nest.map_structure(lambda x: tf.gather(x, order), sequences)
    assert len(sequences.env) == 12
    batch = tf.function(hybrid.gather, autograph=False)(chosen, T)
    np.testing.assert_array_equal(batch.observation[0], [2.0, 1.0, 2.0, 1.0, 2.0])
    assert batch.reward.shape == (T + 1, 5)
    _, sequences, _ = hybrid.sample(8, T, PROGRESS)
    again = hybrid.gather(sequences, T)
    np.testing.assert_array_equal(again.observation[0], [1.0] * 6 + [2.0] * 2)


def test_info_and_state_that_are_not_needed_are_left_out(tmp_path):
    info = {"logits": tf.TensorSpec((T + 1, B, 3), tf.float32)}
    recorded = unroll_spec(info, state=tf.TensorSpec((B, 5), tf.float32))
    batch, *_ = make_hybrid(tmp_path, offline_spec=recorded).sample(4, T, PROGRESS)
    assert batch.info == () and batch.state == PolicyState((), ())
    with pytest.raises(ConfigError, match="does not fit: its info is"):
        make_hybrid(tmp_path, online_spec=recorded)


def test_env_info_that_is_not_needed_is_left_out(tmp_path):
    recorded = unroll_spec()._replace(env_info={"a/b": tf.TensorSpec((T + 1, B), tf.float32)})
    batch, *_ = make_hybrid(tmp_path, offline_spec=recorded).sample(4, T, PROGRESS)
    assert batch.env_info == ()
    batch, *_ = make_hybrid(tmp_path, offline_spec=recorded, online_spec=recorded).sample(4, T, PROGRESS)
    assert batch.env_info["a/b"].shape == (T + 1, 4)
    with pytest.raises(ConfigError, match="does not fit: its env_info is"):
        make_hybrid(tmp_path, online_spec=recorded)


WRONG = [
    *((dict(offline_proportion=x), f"HybridReplayer.offline_proportion is {x}") for x in (0, -0.5)),
    (dict(offline_proportion=1), r"offline_proportion is 1.*set Experiment\.num_envs = 0"),
    (dict(online="one_time"), "exp_replayer is 'one_time': with an offline buffer it must be"),
]


def test_what_is_wrong_is_named(tmp_path, subtests):
    for settings, message in WRONG:
        with subtests.test(message), pytest.raises(ConfigError, match=f"(?s){message}"):
            make_hybrid(tmp_path, **settings)
    for field in ("observation", "action", "reward"):
        other = unroll_spec()._replace(**{field: tf.TensorSpec((T + 1, B, 7), tf.float32)})
        message = f"the offline buffer does not fit: its {field} is"
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            make_hybrid(tmp_path, online_spec=other)
    with subtests.test("batch"), pytest.raises(ConfigError, match="mini_batch_size is 1"):
        make_hybrid(tmp_path).sample(1, 3, PROGRESS)
