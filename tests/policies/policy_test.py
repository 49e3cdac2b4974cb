# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Policy: what surrounds rollout_step and predict_step; copies of policies; which variables a policy has."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, SacAlgorithm
from alf.core.nest_utils import BoundedTensorSpec, zeros_from_spec
from alf.data_structures import FIRST, LAST, MID, PolicyState, PolicyStep, TimeStep
from alf.errors import ConfigError
from alf.networks import GRU, LSTM, ActorCriticNetwork, CriticsNetwork, PolicyNetwork, QValueNetwork
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy, Policy, SacPolicy
from alf.policies.action_distributions import make_action_distribution
from alf.policies.data_transformers import FrameStacker, ObservationNormalizer, Pipeline
from alf.schedules import LinearSchedule

VECTOR = tf.TensorSpec((2,), tf.float32)
FRAMES = tf.TensorSpec((4,), tf.float32)  # two vectors
REWARD = tf.TensorSpec((), tf.float32)
DISCRETE = BoundedTensorSpec((), tf.int64, 0, 2)
BOX = BoundedTensorSpec((2,), tf.float32, -1.0, 1.0)
B = 3


def make_time_step(step_type=(FIRST, MID, LAST), observation=None):
    rows = len(step_type)
    zeros = tf.zeros(rows)
    if observation is None:
        observation = tf.reshape(tf.range(2.0 * rows), (rows, 2))
    step_type = tf.constant(step_type, tf.int32)
    return TimeStep(step_type, zeros, zeros + 1, observation, zeros, tf.zeros(rows, tf.int32))


class LinearPolicy(Policy):
    """Its action is a weighted sum of the observation, plus the state, which counts the steps."""

    num_made = 0

    def __init__(self, data_transformer=None, change=lambda policy_step: policy_step):
        LinearPolicy.num_made += 1
        spec = FRAMES if data_transformer else VECTOR
        super().__init__(spec, REWARD, PolicyState(train=REWARD), {"seen": spec}, data_transformer)
        self.weights = tf.Variable(tf.range(1.0, 1.0 + spec.shape[0]))
        self._change = change

    def rollout_step(self, time_step, state):
        action = tf.linalg.matvec(time_step.observation, self.weights) + state.train
        state = state._replace(train=state.train + 1)
        return self._change(PolicyStep(action, state, {"seen": time_step.observation}))


class GreedyPolicy(LinearPolicy):
    def predict_step(self, time_step, state):
        return self.rollout_step(time_step, state)._replace(action=tf.fill((B,), 9.0), info="dropped")


def make_stacking_policy(cls=LinearPolicy):
    return cls(Pipeline(VECTOR, REWARD, [partial(FrameStacker, num_frames=2)]))


@pytest.mark.parametrize("in_graph", [False, True])
def test_rollout_transforms_and_zeroes_the_state_where_episodes_begin(in_graph):
    policy = make_stacking_policy()
    state = PolicyState(((tf.fill((B, 1, 2), 7.0),),), tf.constant([10.0, 20.0, 30.0]))
    rollout = tf.function(policy.rollout, autograph=False) if in_graph else policy.rollout
    step = rollout(make_time_step(), state)
    seen = [[0, 1, 0, 1], [7, 7, 2, 3], [7, 7, 4, 5]]
    np.testing.assert_array_equal(step.info["seen"], seen)
    np.testing.assert_array_equal(step.action, np.matmul(seen, [1, 2, 3, 4]) + [0, 20, 30])
    np.testing.assert_array_equal(step.state.train, [1, 21, 31])
    np.testing.assert_array_equal(step.state.transformer[0][0][:, 0], [[0, 1], [2, 3], [4, 5]])


def test_predict_does_the_same_with_predict_step_and_without_info():
    state = PolicyState(((tf.fill((B, 1, 2), 7.0),),), tf.constant([10.0, 20.0, 30.0]))
    step = make_stacking_policy(GreedyPolicy).predict(make_time_step(), state)
    np.testing.assert_array_equal(step.action, [9.0] * B)
    np.testing.assert_array_equal(step.state.train, [1, 21, 31])
    np.testing.assert_array_equal(step.state.transformer[0][0][:, 0], [[0, 1], [2, 3], [4, 5]])
    assert step.info == ()


class Stateless(Policy):
    """Returns no state."""

    def __init__(self):
        pipeline = Pipeline(VECTOR, REWARD, [partial(FrameStacker, num_frames=2)])
        super().__init__(FRAMES, REWARD, data_transformer=pipeline)

    def rollout_step(self, time_step, state):
        assert state == PolicyState()
        return PolicyStep(tf.zeros(B))


def test_a_policy_without_a_state_returns_none_beside_the_transformer():
    policy = Stateless()
    state = zeros_from_spec(policy.state_spec, B)
    for choose in (policy.rollout, policy.predict):
        new = choose(make_time_step(), state).state
        assert new.train == new.noise == ()
        np.testing.assert_array_equal(new.transformer[0][0][:, 0], [[0, 1], [2, 3], [4, 5]])


class DictState(LinearPolicy):
    """Its state is a dict."""

    def __init__(self):
        Policy.__init__(self, VECTOR, REWARD, PolicyState(train={"count": REWARD}))

    def rollout_step(self, time_step, state):
        train = {"count": state.train["count"] + 1}
        return PolicyStep(train["count"], state._replace(train=train))


def test_a_state_may_be_a_dict():
    policy = DictState().copy()
    assert type(policy.state_spec) is PolicyState
    state = policy.rollout(make_time_step(), zeros_from_spec(policy.state_spec, B)).state
    np.testing.assert_array_equal(state.train["count"], np.ones(B))


def test_predict_step_acts_as_rollout_step_by_default():
    policy, rows = LinearPolicy(), make_time_step()
    state = PolicyState(train=tf.ones(B))
    np.testing.assert_array_equal(
        policy.predict_step(rows, state).action, policy.rollout_step(rows, state).action
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda step: step._replace(action=tf.cast(step.action, tf.float64)),
        lambda step: step._replace(action=step.action[:, tf.newaxis]),
        lambda step: step._replace(action=step.action[:2]),
        lambda step: step._replace(action={"a": step.action}),
        lambda step: step._replace(state=()),
        lambda step: step._replace(info=()),
        lambda step: tuple(step),
        lambda step: step.action,
        lambda step: None,
    ],
)
def test_a_step_that_does_not_fit_the_specs_is_an_error(change):
    policy = LinearPolicy(change=change)
    state = zeros_from_spec(policy.state_spec, B)
    message = "^rollout_step does not return what the policy's specs say: it"
    with pytest.raises(ConfigError, match=message):
        policy.rollout(make_time_step(), state)
    with pytest.raises(ConfigError, match=message):
        tf.function(policy.rollout, autograph=False)(make_time_step(), state)


@pytest.mark.parametrize("spec, end", [(VECTOR, r".*\(2,\) instead of .*\(4,\)"), ({"a": FRAMES}, "")])
def test_a_data_transformer_that_does_not_fit_is_an_error(spec, end):
    message = f"^data_transformer does not return what observation_spec says: {end}"
    with pytest.raises(ConfigError, match=message):
        LinearPolicy(Pipeline(spec, REWARD))


MASKED = {"seen": VECTOR, "mask": tf.TensorSpec((3,), tf.int8)}
SMALL = dict(fc_layer_params=(8,), seed=0)
small = lambda cls, rnn=None, **kwargs: partial(cls, rnn=rnn, **SMALL, **kwargs)  # noqa: E731
shared_std = partial(make_action_distribution, std="shared")
POLICIES = {
    "shared": partial(ActorCriticPolicy, VECTOR, BOX, small(ActorCriticNetwork), shared_std),
    "separate": partial(ActorCriticPolicy, VECTOR, DISCRETE, small(ActorCriticNetwork, share_layers=False)),
    "gru": partial(ActorCriticPolicy, VECTOR, DISCRETE, small(ActorCriticNetwork, GRU)),
    "separate lstm": partial(
        ActorCriticPolicy, VECTOR, BOX, small(ActorCriticNetwork, LSTM, share_layers=False)
    ),
    "mask": partial(ActorCriticPolicy, MASKED, DISCRETE, small(ActorCriticNetwork), action_mask_key="mask"),
    "epsilon-greedy": partial(EpsilonGreedyPolicy, VECTOR, DISCRETE, small(QValueNetwork)),
    "masked epsilon-greedy": partial(
        EpsilonGreedyPolicy, MASKED, DISCRETE, small(QValueNetwork), action_mask_key="mask"
    ),
    "recurrent epsilon-greedy": partial(EpsilonGreedyPolicy, VECTOR, DISCRETE, small(QValueNetwork, LSTM)),
    "sac": partial(SacPolicy, VECTOR, BOX, small(PolicyNetwork)),
    "sac with a recurrent critic": partial(
        SacPolicy, VECTOR, DISCRETE, small(PolicyNetwork, GRU), small(CriticsNetwork, LSTM)
    ),
}


def make_normalized(name):
    """A policy that normalizes its observations, in the middle of training."""
    spec = POLICIES[name].args[0]
    unbounded = tf.nest.map_structure(lambda s: tf.TensorSpec(s.shape, s.dtype), spec)
    policy = POLICIES[name](data_transformer=Pipeline(unbounded, REWARD, [ObservationNormalizer]))
    change(policy, 0)
    return policy


def change(policy, seed):
    """Gives every variable another value."""
    rng = np.random.default_rng(seed)
    for variable in policy.variables:
        change = 10 * rng.random(variable.shape) if variable.dtype.is_integer else rng.random(variable.shape)
        variable.assign_add(tf.cast(change + 1, variable.dtype))


def predict(policy):
    """What a policy answers to fixed rows."""
    rng = np.random.default_rng(0)
    observation = tf.nest.map_structure(
        lambda s: tf.constant(rng.integers(0, 2, (B, *s.shape)), s.dtype), policy.observation_spec
    )
    state = tf.nest.map_structure(
        lambda s: tf.constant(rng.normal(size=(B, *s.shape)), s.dtype), policy.state_spec
    )
    rows = make_time_step(observation=observation)
    return policy.predict(rows, state)


def assert_same(a, b):
    for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", POLICIES)
def test_a_copy_computes_the_same_with_variables_of_its_own_until_it_takes_those_of_the_original(
    name, monkeypatch
):
    policy = make_normalized(name)
    expected = predict(policy)
    with monkeypatch.context() as patch:
        for cls in (Policy, tf.Module):
            patch.setattr(cls, "__init__", lambda *args, **kwargs: pytest.fail("a constructor was called"))
        copied = policy.copy()
    assert type(copied) is type(policy)
    assert_same(copied.variables, policy.variables)
    assert not {id(v) for v in copied.variables} & {id(v) for v in policy.variables}
    assert [v.trainable for v in copied.variables] == [v.trainable for v in policy.variables]
    assert len(copied.trainable_variables) == len(policy.trainable_variables) > 0
    before = [v.numpy() for v in copied.variables]
    change(policy, 1)
    assert all(np.any(a != b) for a, b in zip(copied.variables, policy.variables, strict=True))
    assert_same(copied.variables, before)
    assert_same(predict(copied), expected)
    copied.assign(policy)
    assert_same(copied.variables, policy.variables)
    assert int(copied.progress.env_steps) == int(policy.progress.env_steps) > 0
    assert_same(predict(copied), predict(policy))


def test_a_graph_may_copy_weights_statistics_and_progress():
    policy = make_normalized("separate lstm")
    copied = policy.copy()
    change(policy, 1)

    @tf.function(autograph=False)
    def assign():
        with tf.control_dependencies(copied.assign(policy)):
            return tf.constant(0)

    assign()
    assert_same(copied.variables, policy.variables)


def test_epsilon_follows_the_progress_of_the_copy():
    policy = EpsilonGreedyPolicy(VECTOR, DISCRETE, small(QValueNetwork), LinearSchedule(1.0, 0.0, over=100))
    copied = policy.copy()
    policy.progress.env_steps.assign(100)
    assert float(policy.epsilon()) == 0.0 and float(copied.epsilon()) == 1.0
    rows, state = make_time_step([MID] * 300), PolicyState()
    greedy = policy.predict_step(rows, state).action
    np.testing.assert_array_equal(policy.rollout_step(rows, state).action, greedy)
    assert np.mean(copied.rollout_step(rows, state).action != greedy) > 0.4
    copied.assign(policy)
    np.testing.assert_array_equal(copied.rollout_step(rows, state).action, greedy)


def test_a_recurrent_critic_is_carried_along_by_the_copy():
    policy = POLICIES["sac with a recurrent critic"]()
    copied = policy.copy()
    state = zeros_from_spec(policy.state_spec, B)
    expected = policy.rollout_step(make_time_step(), state).state
    assert all(np.abs(x).max() > 0 for x in tf.nest.flatten(expected))
    for variable in policy.recurrent_critic.variables:
        variable.assign(tf.zeros_like(variable))
    assert_same(copied.rollout_step(make_time_step(), state).state, expected)


@pytest.mark.parametrize("name, algorithm", [("epsilon-greedy", DqnAlgorithm), ("sac", SacAlgorithm)])
def test_a_policy_has_no_variables_that_only_training_needs(name, algorithm):
    policy = POLICIES[name]()
    expected = [*policy.network.variables, *policy.progress]
    algorithm = algorithm(policy)
    assert {id(v) for v in policy.variables} == {id(v) for v in expected}
    assert len(policy.variables) == len(expected) < len(algorithm.variables)


@pytest.mark.parametrize(
    "cls, network",
    [
        (ActorCriticPolicy, ActorCriticNetwork),
        (EpsilonGreedyPolicy, QValueNetwork),
        (SacPolicy, PolicyNetwork),
    ],
)
def test_policies_warn_of_a_mask_that_they_do_not_heed(cls, network, caplog):
    spec = {"observation": VECTOR, "action_mask": tf.TensorSpec((3,), tf.int8)}
    cls(VECTOR, DISCRETE, small(network))
    cls(spec, DISCRETE, small(network), action_mask_key="action_mask")
    assert not caplog.messages
    cls(spec, DISCRETE, small(network))
    assert caplog.messages == [
        f"the observation has the entry 'action_mask', which {cls.__name__} takes for something to see, and "
        "chooses among all actions: set action_mask_key to 'action_mask'"
    ]
