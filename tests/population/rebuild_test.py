# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Members that make a `Trainer` again and again, of which nothing stays; members with replay buffers."""

import contextlib
import gc
import weakref

import pytest
from tensorflow.python.framework.func_graph import FuncGraph

from alf.population.member import Member
from alf.population.mutation import Integers, Uniform
from tests.bin.conftest import KINDS

SECONDS = 120.0
LENGTH = "Experiment.unroll_length"


@pytest.fixture
def make_member(tmp_path):
    with contextlib.ExitStack() as stack:

        def make(kind, index=0):
            config = "\n".join(line.strip() for line in KINDS[kind].splitlines())
            ranges = {LENGTH: Integers(2, 9), "Adam.learning_rate": Uniform(0, 1)}
            arguments = str(tmp_path), index, ranges, 40, "AverageReturn", 7
            member = Member(f"{config}\nStopCriteria.num_iterations = None", *arguments)
            stack.callback(member.close, "the test is over")
            return member

        yield make


def make_order(number, unroll_length, member=0, parent=None):
    settings = {LENGTH: unroll_length, "Adam.learning_rate": 0.01}
    return dict(member=member, number=number, settings=settings, parent=parent)


@pytest.mark.parametrize("kind", ["cartpole", "dqn"])
def test_no_part_of_an_old_trainer_lives(make_member, kind):
    member, old = make_member(kind), []
    for number in range(3):
        member.follow(make_order(number, 3 + number), SECONDS)
        gc.collect()
        assert [part() for part in old] == [None] * len(old)
        trainer = member._trainer
        learner = trainer.learner
        parts = trainer, trainer.driver, learner, learner.policy, learner.algorithm, learner.replayer
        old += map(weakref.ref, parts)
        del trainer, learner, parts
    assert len(old) == 18


@pytest.mark.parametrize("kind", ["cartpole", "dqn"])
def test_no_graph_of_an_old_trainer_lives(make_member, kind):
    member, counts = make_member(kind), []
    for number in range(3):
        member.follow(make_order(number, 3 + number), SECONDS)
        member.close("it is counted")
        member._trainer = None
        gc.collect()
        counts.append(sum(isinstance(x, FuncGraph) for x in gc.get_objects()))
    # Graphs of other tests may still go.
    assert counts[0] >= counts[1] >= counts[2]


@pytest.mark.parametrize("kind", ["dqn", "sac"])
def test_a_member_with_a_replay_buffer_trains_and_copies(make_member, kind):
    parent, child = make_member(kind), make_member(kind, 1)
    report = parent.follow(make_order(0, 4), SECONDS)
    parent.close("enough")
    child.follow(make_order(0, 4, member=1), SECONDS)
    copied = {key: report[key] for key in ("member", "path", "env_steps", "objective")}
    steps = []
    for number, length in [(1, 4), (2, 5), (2, 5)]:  # at once, with another graph, and without an order
        order = make_order(number, length, member=1, parent=copied)
        steps.append(child.follow(order, SECONDS)["env_steps"])
        if number == 1:  # it has what it had before the copy, too
            assert int(child._trainer.learner.replayer.num_steps()) >= 80
    assert [count // 40 for count in steps] == [2, 3, 4]
