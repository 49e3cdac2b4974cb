# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""UnrollLearner: segments, minibatches and passes, by counting what is trained on; checks of a batch."""

import contextlib
import functools
import math

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Algorithm, ImpalaAlgorithm, PPOAlgorithm
from alf.core.nest_utils import BoundedTensorSpec, add_leading_dims
from alf.data_structures import FIRST, LAST, MID, Experience, LossInfo, PolicyState, PolicyStep
from alf.errors import ConfigError
from alf.learner import UnrollLearner, optimizers
from alf.networks import GRU, LSTM, ActorCriticNetwork
from alf.policies import ActorCriticPolicy, Policy
from alf.policies.action_distributions import ActionInfo
from alf.replay import CyclicOneTimeReplayer, MixInReplayer, MultiPassReplayer, OneTimeReplayer
from tests.builders import build_learner
from tests.learner.small_learners import without_graph

SGD = optimizers.SGD
NUMBER = tf.TensorSpec((), tf.float32)
OBSERVATION = tf.TensorSpec((4,), tf.float32)
ACTION = BoundedTensorSpec((), tf.int64, 0, 2)
T = 6


class EchoPolicy(Policy):
    """Its action is the observation."""

    def __init__(self, state_spec=()):
        super().__init__(NUMBER, NUMBER, PolicyState(train=state_spec))

    def rollout_step(self, time_step, state):
        return PolicyStep(time_step.observation, state)


class Counting(Algorithm):
    """Adds up the weights with which each transition was trained on, by the number in its observation."""

    def __init__(self, size=100):
        super().__init__(EchoPolicy())
        self.counts = tf.Variable(tf.zeros(size), trainable=False)
        self.weight = tf.Variable(1.0)

    def train_step(self, experience, prepared):
        number = tf.cast(experience.observation, tf.int32)
        self.counts.scatter_nd_add(number[..., tf.newaxis], experience.weight)
        return ()

    def calc_loss(self, experience, train_info):
        return LossInfo(self.weight * tf.reduce_sum(experience.weight))


def numbered(q, b, start=0, t=T, resets=()):
    """`Experience` of [Q, T+1, B] whose observations number the rows 0 .. T - 1; row T's does not count."""
    numbers = start + np.arange(q * t * b).reshape(q, t, b)
    observation = np.pad(numbers, [(0, 0), (0, 1), (0, 0)]).astype(np.float32)
    step_type = np.full((q, t + 1, b), MID, np.int32)
    for i, row, column in resets:
        step_type[i, row, column] = FIRST
    zeros = np.zeros((q, t + 1, b), np.float32)
    experience = Experience(
        step_type,
        zeros,
        zeros + 1,
        observation,
        zeros,
        zeros.astype(np.int32),
        zeros,
        (),
        zeros.astype(np.int64),
    )
    return tf.nest.map_structure(tf.constant, experience)


@pytest.mark.parametrize(
    "num_epochs, num_minibatches, recurrence",
    [(1, 1, None), (3, 2, None), (1, 6, 1), (3, 2, 2), (1, 1, 3), (1, 6, 6), (2, 32, 3), (1, 1, 99)],
)
def test_an_epoch_trains_on_every_transition_once(num_epochs, num_minibatches, recurrence):
    splits = dict(num_epochs=num_epochs, num_minibatches=num_minibatches, recurrence=recurrence)
    learner = build_learner(Counting(), SGD(0.0), **splits)
    # Two rows lead to a FIRST one: one inside of a segment, one at the end of segments of 1, 2 and 3 rows.
    learner.observe(numbered(2, 3, resets=[(0, 5, 1), (1, 6, 0)]))
    learner.train()
    expected = np.zeros(100)
    expected[: 2 * 3 * T] = num_epochs
    expected[[(0 * T + 4) * 3 + 1, (1 * T + 5) * 3 + 0]] = 0
    np.testing.assert_array_equal(learner.algorithm.counts, expected)
    assert int(learner.progress.env_steps) == 2 * 3 * T - 2
    segments = 2 * 3 * math.ceil(T / (recurrence or T))  # an update has one at least
    assert int(learner.progress.updates) == num_epochs * min(num_minibatches, segments)


@pytest.mark.parametrize("num_minibatches", [1, 32])
def test_minibatches_by_size_replace_their_number(num_minibatches):
    splits = dict(num_minibatches=num_minibatches, recurrence=2, mini_batch_size=12)
    learner = build_learner(Counting(), SGD(0.0), num_epochs=2, **splits)
    learner.observe(numbered(2, 3))
    learner.train()
    assert int(learner.progress.updates) == 2 * (2 * 3 * T // 12)


def make_policy(rnn=None):
    network = functools.partial(ActorCriticNetwork, fc_layer_params=(8,), rnn=rnn, seed=0)
    policy = ActorCriticPolicy(OBSERVATION, ACTION, network)
    for variable in policy.trainable_variables:  # the heads begin near 0
        variable.assign_add(0.3 * tf.random.stateless_normal(variable.shape, (1, 2)))
    return policy


def make_experience(policy, q=1, b=1, seed=0):
    """`Experience` of [Q, T+1, B, ...] with ends of episodes, and states that are not zeros."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return tf.constant(rng.normal(size=(q, T + 1, b, *shape)), tf.float32)

    step_type = np.full((q, T + 1, b), MID, np.int32)
    step_type[0, 2, 0], step_type[0, 3, 0] = LAST, FIRST
    zeros = tf.zeros((q, T + 1, b), tf.int64)
    raw = tf.constant(rng.integers(0, 3, (q, T + 1, b)))
    spec = add_leading_dims(policy.state_spec.train, q, b)
    state = tf.nest.map_structure(lambda s: tf.constant(rng.normal(size=s.shape), tf.float32), spec)
    return Experience(
        step_type=tf.constant(step_type),
        reward=normal(),
        discount=tf.ones((q, T + 1, b)),
        observation=normal(4),
        prev_action=zeros,
        env_id=tf.cast(zeros, tf.int32),
        action=raw,
        info=ActionInfo(normal(3), raw),
        policy_version=zeros,
        state=PolicyState((), state),
    )


def train(experience, rnn=None, cls=PPOAlgorithm, **settings):
    """Makes the updates of one batch; returns the summary and the changes of the variables."""
    tf.random.set_seed(0)
    learner = without_graph(build_learner(cls(make_policy(rnn)), SGD(0.1), **settings))
    before = [v.numpy() for v in learner.algorithm.trainable_variables]
    learner.observe(experience)
    summary = {name: float(x) for name, x in learner.train().items()}
    return summary, [
        v.numpy() - x for v, x in zip(learner.algorithm.trainable_variables, before, strict=True)
    ]


def cut(experience, start, steps):
    """Takes so many steps of unrolls from the row `start`."""
    rows = tf.nest.map_structure(lambda x: x[:, start : start + steps + 1], experience._replace(state=()))
    return rows._replace(state=experience.state)


def assert_close(a, b):
    tf.nest.map_structure(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), a, b)


def test_segments_of_ppo_learn_the_same_as_the_whole(subtests):
    """Targets and advantages are those of whole unrolls: nothing ends with a segment."""
    for steps in (T, 5):  # 2 divides 6, but not 5
        experience = cut(make_experience(make_policy(), q=2, b=2), 0, steps)
        whole = train(experience)
        for recurrence in (1, 2, 3, 4):
            with subtests.test(steps=steps, recurrence=recurrence):
                assert_close(train(experience, recurrence=recurrence), whole)


@pytest.mark.parametrize("rnn, recurrence, steps", [(GRU, 2, T), (LSTM, 3, T), (GRU, 3, 5), (LSTM, 2, 5)])
def test_recurrent_segments_begin_with_the_state_of_their_first_row(rnn, recurrence, steps):
    """The loss is that of whole unrolls; the gradient is not, because it goes back through one segment."""
    experience = cut(make_experience(make_policy(rnn), q=2, b=2), 0, steps)
    (whole, changes), (parts, others) = (train(experience, rnn, recurrence=n) for n in (T, recurrence))
    for name in ("loss", "policy_loss", "value_loss", "entropy", "kl"):
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-4, err_msg=name)
    assert max(np.abs(a - b).max() for a, b in zip(changes, others, strict=True)) > 1e-4


@pytest.mark.parametrize("rnn", [GRU, LSTM])
def test_the_final_state_is_that_to_which_acting_leads(rnn):
    policy = make_policy(rnn)
    unroll = tf.nest.map_structure(lambda x: x[0], make_experience(policy, b=3))
    state = unroll.state
    for t in range(T + 1):
        row = tf.nest.map_structure(lambda x, t=t: x[t], unroll._replace(state=(), info=()))
        is_first = tf.equal(row.step_type, FIRST)[:, tf.newaxis]
        state = tf.nest.map_structure(lambda s, f=is_first: tf.where(f, 0.0, s), state)
        state = policy.rollout_step(row, state).state
    assert_close(policy.final_state(unroll), state.train)


def test_segments_of_impala_are_shorter_unrolls():
    whole = make_experience(make_policy(), b=2)
    parts = [cut(whole, i, 3)._replace(state=()) for i in (0, 3)]
    shorter = tf.nest.map_structure(lambda *x: tf.concat(x, axis=0), *parts)._replace(state=PolicyState())
    split = train(whole, cls=ImpalaAlgorithm, recurrence=3)
    assert_close(split, train(shorter, cls=ImpalaAlgorithm))
    assert abs(split[0]["loss"] - train(whole, cls=ImpalaAlgorithm)[0]["loss"]) > 1e-4


def test_the_last_segment_of_impala_may_be_shorter():
    """The change of the weights is the mean over all transitions, so it is that of the parts together."""
    whole = cut(make_experience(make_policy(), b=2), 0, 5)
    _, changes = train(whole, cls=ImpalaAlgorithm, recurrence=3)
    sums = [np.zeros_like(x) for x in changes]
    for start, steps in ((0, 3), (3, 2)):
        part = cut(whole, start, steps)._replace(state=PolicyState())
        count = (part.step_type.numpy()[:, 1:] != FIRST).sum()
        for total, change in zip(sums, train(part, cls=ImpalaAlgorithm)[1], strict=True):
            total += count * change
    total = (whole.step_type.numpy()[:, 1:] != FIRST).sum()
    assert total == 9
    assert_close([x / total for x in sums], changes)


@pytest.mark.parametrize("steps, recurrence, updates", [(5, 3, 2), (7, 3, 3), (7, 4, 2)])
def test_transitions_of_unequal_segments_count_once(steps, recurrence, updates):
    learner = build_learner(Counting(), SGD(0.0), recurrence=recurrence, num_minibatches=updates)
    learner.observe(numbered(2, 3, t=steps))
    learner.train()
    np.testing.assert_array_equal(learner.algorithm.counts, np.arange(100) < 6 * steps)
    assert int(learner.progress.updates) == updates and int(learner.progress.env_steps) == 6 * steps


def test_one_environment_makes_several_minibatches():
    gin.parse_config("UnrollLearner.recurrence = 2\nUnrollLearner.num_minibatches = 3")
    learner = without_graph(build_learner(PPOAlgorithm(make_policy()), SGD(0.1)))
    learner.check_batch(num_unrolls=1, unroll_length=T, batch_size=1)
    learner.observe(make_experience(learner.policy))
    learner.train()
    assert int(learner.progress.updates) == 3


SPEC = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), numbered(1, 3))
MIX_IN = functools.partial(MixInReplayer, SPEC)
CYCLIC = [functools.partial(CyclicOneTimeReplayer, SPEC, n) for n in (3, 4)]


# Settings; the number of unrolls, T and B of a batch; the message, or None if they fit.
SPLITS = [
    ({"num_minibatches": 2}, (1, T, 3), "is 2: .* 1 unrolls .* 3 env.* = 3; .*recurrence"),
    ({"num_minibatches": 2}, (2, T, 3), None),
    ({"num_minibatches": 4, "recurrence": 3}, (2, T, 1), None),
    ({"mini_batch_size": T}, (2, T, 3), None),
    ({"mini_batch_size": T + 1}, (2, T, 3), "mini_batch_size is 7, .* is 5.14286: it must divide"),
    ({"mini_batch_size": 4, "recurrence": 1}, (1, T, 3), "is 4.5: it must divide the segments .* = 18"),
    ({"mini_batch_size": 99}, (2, T, 3), "is 0.363636: it must divide the segments"),
    ({"mini_batch_size": T // 2}, (1, T, 1), "is 2: it must divide .* = 1; "),
    ({"num_minibatches": 4, "recurrence": 2}, (2, T, 1), "num_minibatches is 4: .* 3 segments .* = 6"),
    ({"recurrence": 4, "num_minibatches": 4}, (2, T, 1), None),
    ({"recurrence": 12, "num_minibatches": 2}, (2, T, 1), None),
    # One unroll more or less may come at any time.
    ({"num_minibatches": 2, "replayer": MIX_IN}, (2, T, 3), "num_minibatches is 2: "),
    ({"num_minibatches": 3, "replayer": MIX_IN}, (2, T, 3), None),
    # The oldest unroll is dropped.
    ({"num_minibatches": 2, "replayer": CYCLIC[0]}, (4, T, 3), "= 9;"),
    ({"num_minibatches": 2, "replayer": CYCLIC[1]}, (4, T, 3), None),
    ({"num_minibatches": 2, "replayer": MultiPassReplayer}, (2, T, 3), None),
]


def fits_or_raises(message):
    return contextlib.nullcontext() if message is None else pytest.raises(ConfigError, match=message)


def test_batches_that_cannot_be_split_are_refused(subtests):
    for settings, batch, message in SPLITS:
        replayer = settings.get("replayer", OneTimeReplayer)
        training = functools.partial(UnrollLearner, **{**settings, "replayer": replayer()})
        learner = without_graph(build_learner(Counting(1000), SGD(0.0), training))
        with subtests.test(settings=settings, batch=batch):
            with fits_or_raises(message):
                learner.check_batch(*batch)
            # Whoever does not ask hears of it when such a batch comes.
            num_unrolls, unroll_length, batch_size = batch
            with fits_or_raises(message):
                for _ in range(2):
                    learner.observe(numbered(num_unrolls, batch_size, t=unroll_length))
                    learner.train()


def test_recurrence_is_checked(subtests):
    for recurrence in (0, 2.0, True):
        message = f"UnrollLearner.recurrence is {recurrence}"
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            build_learner(Counting(), SGD(0.0), recurrence=recurrence)


def test_a_policy_that_cannot_say_its_state_is_named():
    class Stateful(Counting):
        def __init__(self):
            super().__init__()
            self.policy = EchoPolicy(state_spec=NUMBER)

    learner = build_learner(Stateful(), SGD(0.1), recurrence=2)
    with pytest.raises(ConfigError, match=r"recurrence is 2: EchoPolicy has .* no final_state\(\)"):
        learner.check_batch(1, T, 1)


@pytest.mark.parametrize("num_batches, num_passes", [(1, 1), (1, 3), (2, 2), (3, 4)])
def test_every_unroll_is_trained_on_in_several_passes(num_batches, num_passes):
    replayer = MultiPassReplayer(num_batches, num_passes)
    learner = build_learner(Counting(40 * 2 * T), SGD(0.0), replayer=replayer, num_minibatches=2)
    seen, size = [], 2 * T
    for i in range(4 * num_batches):
        learner.observe(numbered(2, 1, start=i * size))
        learner.train()
        counts = learner.algorithm.counts.numpy().reshape(-1, size)
        assert np.all(counts == counts[:, :1]), "all transitions of a batch alike"
        seen.append(counts[: i + 1, 0])
        held = [passes for passes in seen[-1] if passes < num_passes]
        assert len(held) <= num_batches and replayer.num_steps() == len(held) * size
        assert int(learner.progress.env_steps) == (i + 1) * size, "fresh ones once"
        assert int(learner.progress.updates) == 2 * seen[-1].sum()
    np.testing.assert_array_equal(seen[-1], num_passes)
    if num_passes > 1 and num_batches > 1:
        assert seen[num_batches - 2].tolist() == [1] * (num_batches - 1), "later batches come in between"
