# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Members that make a `Trainer` again and again, of which nothing stays; members with replay buffers."""

import contextlib
import gc
import weakref

import pytest
from tensorflow.python.framework.func_graph import FuncGraph

from alf.studies.ranges import Integers, Uniform
from tests.bin.conftest import KINDS
from tests.studies.followed import Followed
from tests.studies.idle import learn_nothing

pytestmark = pytest.mark.programs

LENGTH = "Experiment.unroll_length"


@pytest.fixture
def make_member(tmp_path):
    with contextlib.ExitStack() as stack:

        def make(kind, index=0):
            config = "\n".join(line.strip() for line in KINDS[kind].splitlines())
            ranges = {LENGTH: Integers(2, 9), "Adam.learning_rate": Uniform(0, 1)}
            member = Followed(f"{config}\nStopCriteria.num_iterations = None", str(tmp_path), index, ranges)
            stack.callback(member.close)
            return member

        yield make


def make_order(number, unroll_length, parent=None):
    settings = {LENGTH: unroll_length, "Adam.learning_rate": 0.01}
    return dict(number=number, settings=settings, parent=parent)


def list_graphs():
    return [x for x in gc.get_objects() if isinstance(x, FuncGraph)]


@pytest.mark.parametrize("kind", ["cartpole", "dqn"])
def test_no_part_and_no_graph_of_an_old_trainer_lives(make_member, kind):
    """TensorFlow may keep some graphs until it has others in their place: no more each time."""
    member, old_parts, old_graphs, num_alive = make_member(kind), [], [], []
    for number in range(3):  # the second one continues from a checkpoint
        gc.collect()
        before = weakref.WeakSet(list_graphs())
        member.follow(make_order(number, 3 + number))
        gc.collect()
        assert [part() for part in old_parts] == [None] * len(old_parts)
        num_alive.append([len(graphs) for graphs in old_graphs])
        trainer = member.trainer
        learner = trainer.learner
        parts = trainer, trainer.driver, learner, learner.policy, learner.algorithm, learner.replayer
        old_parts += map(weakref.ref, parts)
        old_graphs.append(weakref.WeakSet(graph for graph in list_graphs() if graph not in before))
        assert len(old_graphs[-1]) > 8
        del trainer, learner, parts
    _, (of_first,), alive = num_alive
    assert alive[0] == 0 and sum(alive) <= of_first < 8


def test_a_member_with_a_replay_buffer_and_several_optimizers_copies(make_member, monkeypatch):
    learn_nothing(monkeypatch)
    parent, child = make_member("sac"), make_member("sac", 1)
    report = parent.follow(make_order(0, 4))
    parent.close()
    child.follow(make_order(0, 4))
    copied = {"member": 0} | {key: report[key] for key in ("path", "env_steps", "objective")}
    steps = []
    for number, length in [(1, 4), (2, 5), (2, 5)]:  # at once, with another graph, and without an order
        order = make_order(number, length, parent=copied)
        steps.append(child.follow(order)["env_steps"])
        if number == 1:  # it has what it had before the copy, too
            assert int(child.trainer.learner.replayer.num_steps()) >= 80
    assert [count // 40 for count in steps] == [2, 3, 4]
