# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Experience is learned from once."""

import functools
import json

import gin
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from alf.data_structures import FIRST
from alf.errors import ConfigError
from alf.learner import ReplayLearner, UnrollLearner
from alf.replay import (
    CyclicOneTimeReplayer,
    MixInReplayer,
    MultiPassReplayer,
    OneTimeReplayer,
    SequenceReplayer,
    UniformReplayer,
    UnrollReplayer,
    make_replayer,
)
from alf.testing.fakes import assert_equal_nests
from tests.learner.learner_test import Quadratic
from tests.replay.streams import Streams, to_numpy

ONE_TIME = ["one_time", "cyclic_one_time", "mix_in", "multi_pass"]


@pytest.fixture
def streams():
    return Streams(recurrent=True)


def make(name, streams):
    return make_replayer(name, streams.unroll_spec, streams.num_groups)


def join(parts):
    return tf.nest.map_structure(lambda *x: np.concatenate(x), *map(to_numpy, parts))


@pytest.mark.parametrize("name", ONE_TIME)
def test_gives_what_was_observed_in_order(name, streams):
    replayer = make(name, streams)
    parts = [streams.next_unrolls(envs) for envs in ([0, 1], [0], [0, 0, 1])]
    for part in parts:
        replayer.observe(part)
    assert replayer.num_steps() == 6 * 3 * 2
    experience, num_fresh = replayer.replay_all()
    assert num_fresh == 6
    assert_equal_nests(to_numpy(experience), join(parts))
    # "multi_pass" keeps it for another pass.
    assert replayer.num_steps() == (6 * 3 * 2 if name == "multi_pass" else 0)


@pytest.mark.parametrize("name", ["one_time", "cyclic_one_time"])
def test_gives_everything_once(name, streams):
    replayer = make(name, streams)
    with pytest.raises(RuntimeError, match=r"observe\(\) must come before train\(\)"):
        replayer.replay_all()
    replayer.observe(streams.next_unrolls([0]))
    replayer.replay_all()
    with pytest.raises(RuntimeError, match="nothing to train on"):
        replayer.replay_all()
    second = streams.next_unrolls([1])
    replayer.observe(second)
    assert_equal_nests(to_numpy(replayer.replay_all()[0]), to_numpy(second))


@pytest.mark.parametrize("name", ONE_TIME)
def test_forgets_what_was_cleared(name, streams):
    replayer = make(name, streams)
    replayer.observe(streams.next_unrolls([0]))
    replayer.clear()
    with pytest.raises(RuntimeError, match="nothing to train on"):
        replayer.replay_all()
    second = streams.next_unrolls([0])
    replayer.observe(second)
    assert_equal_nests(to_numpy(replayer.replay_all()[0]), to_numpy(second))


@pytest.mark.parametrize("name", [*ONE_TIME, "uniform", "prioritized"])
def test_a_name_makes_its_kind(name, streams):
    replayer = make(name, streams)
    assert replayer.name == name
    assert isinstance(replayer, UnrollReplayer if name in ONE_TIME else SequenceReplayer)


def test_a_class_or_a_replayer_may_stand_for_a_name(streams):
    replayer = make(MixInReplayer, streams)
    assert isinstance(replayer, MixInReplayer)
    assert make(replayer, streams) is replayer
    gin.parse_config("UniformReplayer.capacity = 24")
    for kind, num_steps in ((UniformReplayer, 24), (functools.partial(UniformReplayer, capacity=12), 12)):
        replayer = make(kind, streams)
        replayer.observe(streams.next_unrolls([0] * 5 + [1] * 5))
        assert replayer.num_steps() == num_steps
    replayer = make(lambda **kwargs: UniformReplayer(**kwargs, capacity=18), streams)
    assert replayer.max_steps == 5


@pytest.mark.parametrize("scope", ["", "small/"])
def test_a_gin_reference_may_stand_for_a_name(streams, scope):
    gin.parse_config(f"""
        small/UniformReplayer.capacity = 12
        UniformReplayer.capacity = 24
        tests.holder.exp_replayer = @{scope}UniformReplayer
    """)
    assert make(hold(), streams).max_steps == (3 if scope else 6)


@gin.configurable("holder", module="tests")
def hold(exp_replayer=None):
    return exp_replayer


def made(**changes):
    """A uniform replayer made for the streams, but for the changes."""
    streams = Streams(recurrent=True)
    kwargs = dict(unroll_spec=streams.unroll_spec, num_groups=streams.num_groups, context=0)
    return UniformReplayer(**{**kwargs, **changes})


UNROLLS = Streams().unroll_spec
WRONG_REPLAYERS = [
    (lambda: 3, "3: it must be one of .*'uniform'.*, a replayer, or a class"),
    (lambda: None, "None: it must be one of"),
    (lambda: "unifrom", "'unifrom': .*one_time.*uniform"),
    (lambda: dict, "<class 'dict'>, which makes {}: it must be one of"),
    (lambda: Streams, ".*which makes <tests.replay.streams.Streams .*: it must be one of"),
    (lambda: made(num_groups=1), ".*a 'uniform' replayer that was made with num_groups = 1: num_groups = 2"),
    (lambda: made(context=3), ".*a 'uniform' replayer that was made with context = 3: context = 0 is"),
    (lambda: made(unroll_spec=UNROLLS), ".*'uniform' replayer .* another unroll_spec"),
    (lambda: MixInReplayer(UNROLLS), ".*'mix_in' replayer .* another unroll_spec"),
    (lambda: CyclicOneTimeReplayer(UNROLLS), ".*'cyclic_one_time' .* another unroll_spec"),
]
TOO_MANY = 10**12
WRONG_SETTINGS = [
    (
        lambda: UnrollLearner(Quadratic(), replayer="uniform"),
        "replayer is .* an? UnrollReplayer",
    ),
    (
        lambda: UnrollLearner(Quadratic(), replayer=OneTimeReplayer),
        "replayer is .* an? UnrollReplayer",
    ),
    (
        lambda: ReplayLearner(Quadratic(), replayer="uniform"),
        "replayer is .* a SequenceReplayer",
    ),
    (
        lambda: ReplayLearner(Quadratic(), replayer=OneTimeReplayer),
        "replayer is .* a SequenceReplayer",
    ),
    (lambda: MultiPassReplayer(num_batches=0), "MultiPassReplayer.num_batches is 0"),
    (lambda: MultiPassReplayer(num_passes=0), "MultiPassReplayer.num_passes is 0"),
    (lambda: CyclicOneTimeReplayer(UNROLLS, 0), "CyclicOneTimeReplayer.max_unrolls is 0"),
    (lambda: CyclicOneTimeReplayer(UNROLLS, TOO_MANY), "CyclicOneTimeReplayer.max_unrolls is .*: that takes"),
    (lambda: MixInReplayer(UNROLLS, 0), "MixInReplayer.max_unrolls is 0"),
    (lambda: MixInReplayer(UNROLLS, TOO_MANY), f"MixInReplayer.max_unrolls is {TOO_MANY}: that takes"),
    (lambda: MixInReplayer(UNROLLS, replay_proportion=-1), "MixInReplayer.replay_proportion is -1"),
]


def test_what_is_wrong_is_named(streams, subtests):
    for make_wrong, message in WRONG_REPLAYERS:
        with subtests.test(message), pytest.raises(ConfigError, match=f"^exp_replayer is {message}"):
            make(make_wrong(), streams)
    for call, message in WRONG_SETTINGS:
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            call()


def test_every_call_makes_another_one(streams):
    first, second = make("one_time", streams), make("one_time", streams)
    first.observe(streams.next_unrolls([0]))
    with pytest.raises(RuntimeError):
        second.replay_all()


@functools.cache
def make_cyclic(max_unrolls):
    return CyclicOneTimeReplayer(Streams().unroll_spec, max_unrolls)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([1, 4]),
    st.lists(st.one_of(st.integers(1, 7), st.sampled_from(["replay_all", "clear"])), max_size=12),
)
def test_the_oldest_make_way_and_are_counted(max_unrolls, actions):
    streams = Streams()
    replayer = make_cyclic(max_unrolls)
    replayer.clear()
    waiting, num_dropped, num_steps = [], replayer.num_dropped, replayer.num_dropped_steps
    for action in actions:
        if action == "clear":
            replayer.clear()
            waiting = []
        elif action != "replay_all":
            unrolls = streams.next_unrolls([i % 2 for i in range(action)])
            replayer.observe(unrolls)
            waiting += [tf.nest.map_structure(lambda x, q=q: x[q : q + 1], unrolls) for q in range(action)]
            dropped, waiting = waiting[:-max_unrolls], waiting[-max_unrolls:]
            num_dropped += len(dropped)
            num_steps += sum(int(np.count_nonzero(x.step_type[:, 1:] != FIRST)) for x in dropped)
        elif waiting:
            experience, num_fresh = replayer.replay_all()
            assert num_fresh == len(waiting)
            assert_equal_nests(to_numpy(experience), join(waiting))
            waiting = []
        assert replayer.num_steps() == len(waiting) * 3 * 2
        assert replayer.num_dropped == num_dropped
        assert replayer.num_dropped_steps == num_steps
        assert replayer.counts() == {"dropped_steps": num_steps}


def test_the_numbers_of_what_was_dropped_outlive_a_restart():
    streams = Streams()
    replayer = CyclicOneTimeReplayer(streams.unroll_spec, 1)
    replayer.observe(streams.next_unrolls([0, 1, 0]))
    again = CyclicOneTimeReplayer(streams.unroll_spec, 1)
    again.set_state({})
    again.set_state(json.loads(json.dumps(replayer.get_state())))
    assert (again.num_dropped, again.counts()) == (2, replayer.counts())
    assert again.num_dropped_steps > 0


def first_rewards(experience):
    """What tells unrolls apart: the position of their first row, if there is one environment."""
    return experience.reward[:, 0, 0].numpy().astype(int).tolist()


@pytest.mark.parametrize("proportion", [0, 0.3, 1, 2.5])
def test_older_unrolls_come_in_proportion(proportion):
    streams = Streams(num_groups=1)
    replayer = MixInReplayer(streams.unroll_spec, max_unrolls=4, replay_proportion=proportion)
    older, num_older, num_fresh = [], 0, 0
    for i in range(20):
        fresh = streams.next_unrolls([0] * (1 + i % 3))
        replayer.observe(fresh)
        experience, count = replayer.replay_all()
        assert count == 1 + i % 3
        assert first_rewards(experience)[:count] == first_rewards(fresh)
        replayed = first_rewards(experience)[count:]
        assert set(replayed) <= set(older[-4:])
        if older:
            num_fresh += count
            num_older += len(replayed)
            assert num_older == num_fresh * round(10 * proportion) // 10
        starts = first_rewards(experience)
        again = streams.sequences([0] * len(starts), [0] * len(starts), starts, 0, 3)
        np.testing.assert_array_equal(tf.transpose(experience.action[:, :, 0]), again.action)
        older += first_rewards(fresh)


def test_the_state_keeps_the_fraction_of_an_unroll():
    """Half an unroll is owed when the state is taken: the next fresh unroll makes it a whole one."""
    streams = Streams(num_groups=1)
    replayers = [MixInReplayer(streams.unroll_spec, replay_proportion=0.5) for _ in range(2)]
    for _ in range(2):
        replayers[0].observe(streams.next_unrolls([0]))
        replayers[0].replay_all()
    replayers[1].observe(streams.next_unrolls([0]))
    replayers[1].replay_all()
    replayers[1].set_state({})
    replayers[1].set_state(json.loads(json.dumps(replayers[0].get_state())))
    replayers[1].observe(streams.next_unrolls([0]))
    assert len(first_rewards(replayers[1].replay_all()[0])) == 2
    assert OneTimeReplayer().get_state() == {}


def test_older_unrolls_are_drawn_uniformly():
    streams = Streams(num_groups=1)
    replayer = MixInReplayer(streams.unroll_spec, max_unrolls=5, replay_proportion=2000)
    tf.random.set_seed(1)
    for _ in range(2):
        replayer.observe(streams.next_unrolls([0] * 7))  # more than fit
        experience, _ = replayer.replay_all()
    drawn = np.unique(first_rewards(experience)[7:], return_counts=True)
    np.testing.assert_array_equal(drawn[0], [6, 9, 12, 15, 18])
    assert np.all(np.abs(drawn[1] - 2800) < 4 * np.sqrt(2800))


def test_nothing_cleared_is_mixed_in():
    streams = Streams(num_groups=1)
    replayer = MixInReplayer(streams.unroll_spec, max_unrolls=5, replay_proportion=3)
    for _ in range(2):
        replayer.observe(streams.next_unrolls([0]))
        replayer.replay_all()
    replayer.clear()
    replayer.observe(streams.next_unrolls([0]))
    assert first_rewards(replayer.replay_all()[0]) == [6]
    replayer.observe(streams.next_unrolls([0]))
    assert first_rewards(replayer.replay_all()[0]) == [9, 6, 6, 6]


def test_batches_take_turns():
    streams = Streams(num_groups=1)
    replayer = MultiPassReplayer(num_batches=2, num_passes=3)
    handed_out = []
    for _ in range(4):
        replayer.observe(streams.next_unrolls([0]))
        is_fresh = True
        while is_fresh or replayer.has_more:
            experience, num_fresh = replayer.replay_all()
            assert num_fresh == int(is_fresh)
            handed_out += first_rewards(experience)
            is_fresh = False
    assert handed_out == [0, 3, 0, 3, 0, 3, 6, 9, 6, 9, 6, 9]
    assert replayer.num_steps() == 0
    replayer.observe(streams.next_unrolls([0]))
    replayer.replay_all()
    assert replayer.num_steps() == 3 * 2
    replayer.clear()
    assert replayer.num_steps() == 0 and not replayer.has_more


def test_one_time_needs_no_specs(streams):
    replayer = OneTimeReplayer()
    replayer.observe(streams.next_unrolls([0]))
    assert replayer.replay_all()[1] == 1
