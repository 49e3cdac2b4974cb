# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""UniformReplayer, and what it shares with PrioritizedReplayer, against a model in plain Python."""

import collections
import functools
from typing import NamedTuple

import gin
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from alf.data_structures import FIRST
from alf.errors import ConfigError
from alf.replay import PrioritizedReplayer, Sequences, UniformReplayer, make_replayer
from alf.schedules import Progress
from tests.replay.buffer_model import BufferModel
from tests.replay.streams import Streams, check_content, chi_square_p, without_graphs

KINDS = [UniformReplayer, PrioritizedReplayer]


@pytest.fixture
def _without_graphs():
    with without_graphs():
        yield


def make(kind=UniformReplayer, context=0, capacity=48, **kwargs):
    """Makes a replayer and the streams to fill it from."""
    streams = Streams(**kwargs)
    return kind(streams.unroll_spec, streams.num_groups, context, capacity=capacity), streams


def as_tuples(sequences):
    return list(zip(*(x.numpy().tolist() for x in sequences)))


class Layout(NamedTuple):
    """What a graph is traced for: few of them, because that takes seconds."""

    num_groups: int
    batch_size: int
    unroll_length: int
    recurrent: bool
    context: int
    capacity: int
    length: int


LAYOUTS = [
    Layout(num_groups=1, batch_size=1, unroll_length=1, recurrent=False, context=0, capacity=1, length=1),
    Layout(num_groups=3, batch_size=2, unroll_length=3, recurrent=False, context=2, capacity=46, length=4),
    Layout(num_groups=2, batch_size=1, unroll_length=3, recurrent=True, context=1, capacity=19, length=4),
]
ACTIONS = st.lists(
    st.one_of(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.just("clear")), min_size=1, max_size=8
)


@functools.cache
def make_once(layout):
    streams = Streams(layout.unroll_length, layout.batch_size, layout.num_groups, layout.recurrent)
    sizes = layout.num_groups, layout.context, layout.capacity
    replayer = UniformReplayer(streams.unroll_spec, *sizes)

    @tf.function(autograph=False)
    def look():
        covering = replayer.all_sequences(layout.length)
        content = replayer.gather(covering, layout.length)
        return replayer.num_steps(), replayer.num_sequences(layout.length), covering, content

    return (
        replayer,
        streams,
        look,
        tf.function(lambda: replayer.sample(7, layout.length, None), autograph=False),
    )


def as_new(layout):
    """A replayer into which nothing was ever put, its streams, and graphs that look and sample."""
    replayer, streams, *graphs = make_once(layout)
    for positions in (replayer.steps, replayer.steps_after_write, replayer.first):
        positions.assign(tf.zeros_like(positions))
    streams.steps = [0] * layout.num_groups
    return replayer, streams, *graphs


def check_against_model(look, sample, model, streams, layout):
    starts = model.starts(layout.length)
    num_steps, num_sequences, covering, content = look()
    assert num_steps.numpy() == model.num_steps()
    assert num_sequences.numpy() == len(starts)
    check_covering(as_tuples(covering), starts, layout.length)
    if starts:
        check_content(content, covering, streams, layout.context, layout.length)
        experience, drawn, weight = sample()
        check_content(experience, drawn, streams, layout.context, layout.length)
        assert set(as_tuples(drawn)) <= starts
        assert weight.shape == (7,) and weight.dtype == tf.float32


def check_covering(covering, starts, length):
    """Sequences must not overlap, another one must not fit beside them, and the newest must be there."""
    assert set(covering) <= starts
    covered = [(e, c, s + i) for e, c, s in covering for i in range(length)]
    assert len(covered) == len(set(covered))
    for e, c, s in starts:
        assert not {(e, c, s + i) for i in range(length)}.isdisjoint(covered)
    newest = [{x[0]: x[2] for x in sorted(sequences)} for sequences in (covering, starts)]
    assert newest[0] == newest[1]
    assert covering == sorted(covering, key=lambda x: (x[0], x[2], x[1]))


@settings(max_examples=20, deadline=None)
@given(layout=st.sampled_from(LAYOUTS), actions=ACTIONS)
def test_behaves_like_the_model(layout, actions):
    replayer, streams, look, sample = as_new(layout)
    model = BufferModel(streams, layout.capacity, layout.context)
    for action in actions:
        if action == "clear":
            replayer.clear()
            model.clear()
        else:
            before = list(streams.steps)
            replayer.observe(streams.next_unrolls([env % layout.num_groups for env in action]))
            for env, first in enumerate(before):
                if streams.steps[env] > first:
                    model.write(env, first, streams.steps[env])
        check_against_model(look, sample, model, streams, layout)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recurrent", [False, True])
def test_every_sequence_is_drawn_equally_often(kind, recurrent, _without_graphs):
    replayer, streams = make(kind, context=1, batch_size=3, num_groups=3, recurrent=recurrent, capacity=90)
    replayer.observe(streams.next_unrolls([0, 1, 0, 0, 1, 0]))  # of one there is nothing, of one it is full
    model = BufferModel(streams, 90, 1)
    model.write(0, 0, streams.steps[0])
    model.write(1, 0, streams.steps[1])
    starts = model.starts(2)
    tf.random.set_seed(1)
    _, sequences, weight = replayer.sample(20_000, 2, None)
    counts = collections.Counter(as_tuples(sequences))
    assert set(counts) == starts
    assert chi_square_p(list(counts.values())) > 1e-3
    np.testing.assert_array_equal(weight, 1.0)


def test_no_step_is_lost_at_the_seam(_without_graphs):
    replayer, streams = make(capacity=4 * 7)  # 8 slots: unrolls of 3 wrap around in every way
    for _ in range(9):
        replayer.observe(streams.next_unrolls([0, 1, 1]))
        covering = replayer.all_sequences(1)
        pairs = replayer.gather(covering, 1).reward.numpy()
        np.testing.assert_array_equal(pairs[1] - pairs[0], 1.0)
        newest = [max(p for e, _, p in as_tuples(covering) if e == env) for env in range(2)]
        assert newest == [steps - 1 for steps in streams.steps]


def test_the_same_environment_more_often_in_a_batch_than_the_buffer_is_long(_without_graphs):
    replayer, streams = make(num_groups=1, capacity=2 * 4)
    replayer.observe(streams.next_unrolls([0] * 5))
    assert set(as_tuples(replayer.all_sequences(4))) == {(0, 0, 11), (0, 1, 11)}
    check_content(replayer.gather(replayer.all_sequences(4), 4), replayer.all_sequences(4), streams, 0, 4)


def test_first_step_after_a_gap_takes_the_place_of_the_last_one(_without_graphs):
    replayer, streams = make(num_groups=1)
    replayer.observe(streams.next_unrolls([0]))
    unroll = streams.next_unrolls([0])
    first = tf.fill((1, 1, 2), FIRST)
    unroll = unroll._replace(
        step_type=tf.concat([first, unroll.step_type[:, 1:]], axis=1),
        reward=tf.concat([-tf.ones((1, 1, 2)), unroll.reward[:, 1:]], axis=1),
    )
    replayer.observe(unroll)
    column = tf.constant([0], tf.int64)
    rows = replayer.gather(Sequences(column, column, column), 6)
    np.testing.assert_array_equal(rows.reward[:, 0], [0, 1, 2, -1, 4, 5, 6])
    assert rows.step_type[3, 0] == FIRST


@pytest.mark.parametrize("kind", KINDS)
def test_sampling_too_early_says_so(kind):
    replayer, streams = make(kind, context=1)
    message = "ALF: the replay buffer holds no sequence of 3 steps yet"
    sample = tf.function(lambda: replayer.sample(2, 3, None), autograph=False)
    for _ in range(2):
        assert replayer.num_sequences(3) == 0
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            sample()
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            replayer.sample(2, 3, None)
        assert replayer.all_sequences(3).start.shape == (0,)
        with without_graphs():
            replayer.observe(streams.next_unrolls([0, 1]))
    with without_graphs():
        replayer.observe(streams.next_unrolls([0]))
    assert sample()[1].env.shape == (2,)


def test_shapes_are_static_in_a_graph():
    replayer, streams = make(context=2, recurrent=True)

    @tf.function(autograph=False)
    def sample():
        experience, *_ = replayer.sample(5, 3, None)
        rows = experience._replace(state=())
        assert all(x.shape[:2] == (6, 5) for x in tf.nest.flatten(rows))
        assert all(x.shape[0] == 5 for x in tf.nest.flatten(experience.state))
        return experience

    replayer.observe(streams.next_unrolls([0, 1, 0, 1]))
    sample()


@pytest.mark.parametrize("kind", KINDS)
def test_settings(kind):
    name = kind.__name__
    with pytest.raises(ConfigError, match=f"{name}.capacity is 0"):
        make(kind, capacity=0)
    with pytest.raises(ConfigError, match=f"{name}.capacity is 8: it must be at least 12, one unroll of 3"):
        make(kind, capacity=8)
    with pytest.raises(
        ConfigError, match=rf"{name}.capacity is {10**12}: that takes .* GB, this machine has"
    ):
        make(kind, capacity=10**12)
    replayer, _ = make(kind, capacity=12, context=1)
    with pytest.raises(ConfigError, match=f"{name}.capacity is 12, 3 steps of each .* sequences of 3 steps"):
        replayer.sample(1, 3, None)


def test_gin_sets_them(_without_graphs):
    gin.parse_config("UniformReplayer.capacity = 24")
    streams = Streams()
    replayer = make_replayer("uniform", streams.unroll_spec, streams.num_groups)
    replayer.observe(streams.next_unrolls([0] * 5 + [1] * 5))
    assert replayer.num_steps() == 24


def test_experience_of_another_spec_is_refused(_without_graphs):
    replayer, _ = make()
    with pytest.raises(
        ConfigError, match=r"unroll_spec: it has int32 \(1, 4, 3\) instead of int32 \(None, 4, 2\)"
    ):
        replayer.observe(Streams(batch_size=3).next_unrolls([0]))
    with pytest.raises(ConfigError, match="structure"):
        replayer.observe(Streams().next_unrolls([0])._replace(info=()))
    assert replayer.num_steps() == 0


def test_it_is_not_in_checkpoints():
    replayer, _ = make(PrioritizedReplayer)
    module = tf.Module()
    module.replayer = replayer
    assert not module.variables and not module._trackable_children()


@pytest.mark.usefixtures("_without_graphs")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "recurrent, length, overlap", [(False, 4, None), (False, 4, 1), (False, 4, 0), (True, 8, 2), (True, 7, 4)]
)
def test_new_sequences_and_their_overlap(kind, recurrent, length, overlap):
    """Unrolls have 3 steps, and with a recurrent state sequences start where unrolls did."""
    streams = Streams(3, 2, 2, recurrent)
    replayer = kind(streams.unroll_spec, 2, 1, capacity=4 * 21, overlap=overlap)
    model, known = BufferModel(streams, 4 * 21, 1, overlap), set()
    for envs in [[0], [1, 0], [0, 0], [1], [0, 1, 0], [0], [0, 0], [1]]:
        before = list(streams.steps)
        replayer.observe(streams.next_unrolls(envs))
        for env in set(envs):
            model.write(env, before[env], streams.steps[env])
        starts = model.starts(length)
        assert replayer.num_sequences(length).numpy() == len(starts)
        assert set(as_tuples(replayer.new_sequences(length))) == starts - known
        known |= starts
        if starts:
            experience, drawn, _ = replayer.sample(200, length, Progress(tf.constant(0), tf.constant(0)))
            assert set(as_tuples(drawn)) <= starts
            check_content(experience, drawn, streams, 1, length)
            check_covering(as_tuples(replayer.all_sequences(length)), starts, length)
    assert len(known) > len(starts) > 0  # some were overwritten


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_overlap_is_refused(kind):
    streams = Streams(3, 2, 2, recurrent=True)
    name = kind.__name__
    for overlap, message in [
        (4, f"^{name}.overlap is 4: it must be less than mini_batch_length, which is 4$"),
        (2, f"^{name}.overlap is 2: with a recurrent state .* = 4 - 2 must be a multiple of 3, the unroll"),
    ]:
        replayer = kind(streams.unroll_spec, 2, capacity=40, overlap=overlap)
        with pytest.raises(ConfigError, match=message):
            replayer.num_sequences(4)
    with pytest.raises(ConfigError, match=f"{name}.overlap is -1"):
        kind(streams.unroll_spec, 2, capacity=40, overlap=-1)
