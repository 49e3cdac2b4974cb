# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What learners draw: each learner other numbers, which follow from its stream and its updates."""

import numpy as np
import pytest
import tensorflow as tf

from alf.ops import draws
from alf.ops.draws import LEARNERS, Stream
from alf.replay import MixInReplayer, OneTimeReplayer, PrioritizedReplayer, UniformReplayer
from tests.learner.learner_test import Quadratic, make_experience, make_learner

NUM = 8  # sequences of a batch
EXPERIENCE = make_experience(q=NUM)._replace(
    observation=tf.reshape(tf.repeat(tf.range(NUM, dtype=tf.float32), 2), (NUM, 2, 1)),
    env_id=tf.reshape(tf.repeat(tf.range(NUM), 2), (NUM, 2, 1)),
)
SPEC = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), EXPERIENCE)


class Drawing(Quadratic):
    """Shows what it draws, and which sequences it gets, in which order."""

    def preprocess(self, experience):
        return draws.normal(experience.step_type.shape)

    def train_step(self, experience, prepared):
        return super().train_step(experience, prepared), prepared

    def calc_loss(self, experience, train_info):
        train_info, prepared = train_info
        info = super().calc_loss(experience, train_info)
        first = experience.observation[0]
        # A number of the base NUM: a batch has a sequence for each digit, or each update has one.
        place = tf.cast(self.progress.updates, tf.float32) + tf.range(tf.size(first), dtype=tf.float32)
        sequences = tf.reduce_sum(first * float(NUM) ** place)
        shown = {"sequences": sequences, "in loss": draws.normal(()), "noise": prepared[0, 0]}
        return info._replace(extra=shown)


def replay(kind):
    return lambda: {"replayer": kind(SPEC, num_groups=NUM, capacity=NUM), "mini_batch_size": NUM}


# What each kind shows that is drawn.
KINDS = {
    "minibatches": (lambda: {"num_minibatches": NUM}, {"sequences", "in loss"}),
    "older unrolls": (
        lambda: {"replayer": MixInReplayer(SPEC, replay_proportion=1.0)},
        {"sequences", "in loss", "noise"},
    ),
    "uniform replay": (replay(UniformReplayer), {"sequences", "in loss", "noise"}),
    "prioritized replay": (replay(PrioritizedReplayer), {"sequences", "in loss", "noise"}),
    "compiled": (lambda: {"jit_compile": True}, {"in loss", "noise"}),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def make(kind, stream=None):
    make_settings, _ = KINDS[kind]
    learner = make_learner(Drawing, **make_settings())
    if stream is not None:
        learner.stream = stream
    return learner


def draw(kind, learner, num_batches=2):
    """What a learner draws from the second batch on: the first ones fill the replayer."""
    found = []
    for _ in range(num_batches):
        learner.observe(EXPERIENCE)
        summary = learner.train()
        found.append({name: float(summary[name]) for name in KINDS[kind][1]})
    return found[1:]


def assert_all_differ(*learners):
    for batches in zip(*learners, strict=True):
        for name in batches[0]:
            assert len({batch[name] for batch in batches}) == len(batches), name


def test_learners_draw_other_numbers_and_each_repeats(kind):
    def run(seed):
        tf.random.set_seed(seed)
        learners = [make(kind), make(kind)]
        return [draw(kind, learner) for learner in learners]

    first, again = run(1), run(1)
    assert first == again
    assert_all_differ(*first, *run(2))


def test_draws_follow_from_the_stream_and_the_updates(kind):
    learner = make(kind, Stream(3, LEARNERS, 1))
    batches = draw(kind, learner, 4)
    assert_all_differ(*([batch] for batch in batches))
    # Other numbers of TensorFlow's generators make no difference, and neither does another learner.
    tf.random.set_seed(9)
    others = make(kind, Stream(3, LEARNERS, 0)), make(kind, Stream(4, LEARNERS, 1))
    ours, *theirs = (draw(kind, x) for x in (make(kind, Stream(3, LEARNERS, 1)), *others))
    assert ours == batches[:1]
    assert_all_differ(ours, *theirs)


def test_the_draws_of_a_replayer_are_not_those_of_the_updates():
    class Draws(OneTimeReplayer):
        """Draws the numbers that the noise would be, if both had one stream."""

        draws = True

        def replay_all(self):
            self.drawn = draws.normal((2, NUM))[0, 0]
            return super().replay_all()

    replayer = Draws()
    learner = make_learner(Drawing, replayer=replayer)
    learner.observe(EXPERIENCE)
    assert float(learner.train()["noise"]) != float(replayer.drawn)


@pytest.mark.parametrize("kind", ["minibatches", "uniform replay", "compiled"], indirect=True)
def test_a_learner_that_continues_draws_what_it_would_have_drawn(kind):
    whole, part = make(kind, Stream(3)), make(kind, Stream(3))
    whole.observe(EXPERIENCE)
    whole.train()
    part.progress.updates.assign(whole.progress.updates)
    np.testing.assert_equal(draw(kind, whole, 3)[1:], draw(kind, part, 3)[1:])
