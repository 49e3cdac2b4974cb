# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Several policies in one driver: each step is learned once, by the policy that made it, and by no other."""

import collections
import re
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import BoundedTensorSpec, to_tensor_spec, zeros_from_spec
from alf.data_structures import FIRST, OBSERVATION, OWNER, EnvStep, PolicyState, PolicyStep, TimeStep
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.drivers.collector import Collector
from alf.drivers.env_specs import EnvSpecs
from alf.environments import ArraySpec, BatchedEnvironment, BoundedArraySpec
from alf.errors import ConfigError, EnvError
from alf.games import LearnerGroup, MappedEnvironment, PolicyGroup
from alf.ops.draws import Stream
from alf.policies import Policy
from alf.policies.random_policy import RandomPolicy
from alf.replay import UniformReplayer
from alf.testing.fakes import FakeEnvironment, RecordingLearner, RecordingObserver
from alf.testing.toy_environments import CountingEnvironment
from tests.builders import build_driver, collect_and_observe

B, T, EPISODE = 6, 5, 3
ENV_ID, NUMBER, STEP = range(3)  # of the counting environment's observation
NAMES = ("a", "b", "frozen")


def map_at_random(episode):
    """Any policy, in each episode another one."""
    return [NAMES[episode.rng.integers(3)] for _ in episode.agents]


class NotingPolicy(Policy):
    """Notes in `info` what it was shown, who it is, and the state, which counts the steps of an episode.

    Its number of rows may change from call to call. With a `width` the state is a vector of so many counts.
    """

    def __init__(self, number, observation_spec, action_spec, width=None):
        self._number = number
        int32, int64, float32 = (tf.TensorSpec((), dtype) for dtype in (tf.int32, tf.int64, tf.float32))
        state = tf.TensorSpec(() if width is None else (width,), tf.int64)
        seen = TimeStep(int32, float32, float32, observation_spec, action_spec, int32)
        info = {"seen": seen, "who": int32, "version": int64, "state": state}
        super().__init__(
            observation_spec, action_spec, PolicyState(train=state), info, name=f"policy_{number}"
        )

    def rollout_step(self, time_step, state):
        num_rows = tf.shape(time_step.step_type)[0]
        info = {
            "seen": time_step,
            "who": tf.fill((num_rows,), self._number),
            "version": tf.fill((num_rows,), self.progress.updates.read_value()),
            "state": state.train,
        }
        action = zeros_from_spec(self.action_spec, num_rows)
        state = state._replace(train=state.train + 1)
        return PolicyStep(tf.nest.map_structure(lambda x: x + 1, action), state, info)


def make_group(env, names=NAMES, spaces=None, widths=(None, None, None)):
    """A group of `NotingPolicy` for a `MappedEnvironment`."""
    observation, action = to_tensor_spec(env.observation_spec()), to_tensor_spec(env.action_spec())
    policies = {}
    for number, name in enumerate(names):
        parts = observation[OBSERVATION], action
        if spaces is not None:
            parts = [part[spaces[name]] for part in parts]
        policies[name] = NotingPolicy(number, *parts, width=widths[number])
    return PolicyGroup(policies, observation, action, spaces)


class Run(NamedTuple):
    """What a driver did."""

    observer: RecordingObserver
    learners: dict
    num_batches: int

    def transitions(self, name):
        """What a policy has learned from: lists of (number, position in `learned`) by environment id."""
        found = collections.defaultdict(list)
        for experience in self.learners[name].observed:
            for q, b, t in np.argwhere(experience.step_type[:, 1:].swapaxes(1, 2) != FIRST):
                seen = experience.observation[q, :, b]
                assert seen[t + 1, NUMBER] == seen[t, NUMBER] + 1
                found[int(experience.env_id[q, t, b])].append(int(seen[t + 1, NUMBER]))
        return found

    def expected(self, owner):
        """The transitions that the log has of a policy, the same way."""
        found = collections.defaultdict(list)
        for record in self.observer.records:
            for t, b in np.argwhere(record.step_type != FIRST):
                if record.owner[t, b] == owner:
                    number = record.observation[OBSERVATION][t, b, NUMBER]
                    found[int(record.env_id[b])].append(int(number))
        return found


def check_beginnings(learned, logged):
    """One may have more than the other: a queue holds the rest when the driver stops."""
    length = min(len(learned), len(logged))
    assert length > 0
    assert learned[:length] == logged[:length]


class NotingObserver(RecordingObserver):
    needs = ("observation",)


def collect(
    mapping=map_at_random,
    num_batches=60,
    num_sequences=4,
    replayer=None,
    seed=3,
    driver_class=AsyncOffPolicyDriver,
    **kwargs,
):
    """Collects with the three policies, of which two learn; "b" makes twice as many updates as "a"."""
    widths = kwargs.pop("widths", (None, None, None))
    envs = [
        MappedEnvironment(CountingEnvironment(B, EPISODE, env_index=i), mapping, NAMES, seed=seed + i)
        for i in range(2)
    ]
    group = make_group(envs[0], widths=widths)
    learners = {name: RecordingLearner(group.policies[name], replayer) for name in NAMES[:2]}
    learner = LearnerGroup(group, learners, dict.fromkeys(learners, num_sequences))
    observer = NotingObserver()
    kwargs = {"unroll_length": T, "observers": [observer], **kwargs}
    driver = build_driver(driver_class, envs, learner, **kwargs)
    driver.start()
    try:
        for i in range(num_batches):
            collect_and_observe(driver)
            learner.train()
            group.policies["ab"[i % 2]].progress.updates.assign_add(i % 2 + 1)
    finally:
        driver.stop()
    return Run(observer, learners, num_batches)


@pytest.fixture(
    scope="module",
    params=[(1, 240, (None, None, None)), (4, 60, (None, 2, None)), (17, 30, (None, None, None))],
    ids=["one sequence", "states of several shapes", "more sequences than rows"],
)
def run(request):
    """Runs the mapping at random once for all tests that read it."""
    num_sequences, num_batches, widths = request.param
    return collect(num_batches=num_batches, num_sequences=num_sequences, widths=widths)


@pytest.fixture(scope="module")
def constant_run():
    """A run whose mapping gives each row to one policy, and most of them to "a"."""
    return collect(mapping=("a", "frozen", "a", "a", "a", "b"), num_sequences=2, num_batches=120)


def test_each_step_is_learned_once_by_its_own_policy(run):
    for owner, name in enumerate(NAMES[:2]):
        learned, expected = run.transitions(name), run.expected(owner)
        assert len(learned) == 2 * B
        for env_id, numbers in learned.items():
            check_beginnings(numbers, expected[env_id])


def test_rows_of_others_are_first_steps_with_what_the_policy_itself_saw(run):
    num_others = 0
    for owner, name in enumerate(NAMES[:2]):
        for experience in run.learners[name].observed:
            info, is_answered = experience.info, np.ones(experience.step_type.shape, bool)
            is_answered[:, -1] = False  # the last row has the answer of the row before
            assert (info["who"] == owner).all()
            seen = experience._replace(info=())
            own = np.where(is_answered & (experience.step_type != FIRST))
            np.testing.assert_array_equal(info["seen"].observation[own], seen.observation[own])
            np.testing.assert_array_equal(info["seen"].step_type[own], seen.step_type[own])
            steps = seen.observation[..., STEP][own].astype(np.int64)
            state = info["state"][own]
            np.testing.assert_array_equal(state if state.ndim == 1 else state[:, 1], steps)
            # The version is read before the weights, which may have become newer.
            assert (info["version"][own] >= experience.policy_version[own]).all()
            num_others += np.count_nonzero(
                (experience.step_type == FIRST) & (seen.observation[..., STEP] > 0)
            )
    assert num_others > 0


def test_the_state_that_enters_a_sequence_is_that_of_its_policy(run):
    for name in NAMES[:2]:
        num_states = 0
        for experience in run.learners[name].observed:
            state = experience.state.train
            state = state if state.ndim == 2 else state[..., 0]
            goes_on = experience.step_type[:, 0] != FIRST
            step = experience.observation[:, 0, :, STEP]
            np.testing.assert_array_equal(state[goes_on], step[goes_on])
            num_states += np.count_nonzero(goes_on)
        assert num_states > 0


def test_policies_change_where_episodes_begin_alone(run):
    owners = collections.defaultdict(list)
    for record in run.observer.records:
        for b, env_id in enumerate(record.env_id):
            owners[env_id] += zip(record.step_type[:, b], record.owner[:, b], strict=True)
    num_changes = 0
    for rows in owners.values():
        for (_, before), (step_type, after) in zip(rows, rows[1:]):
            assert before == after or step_type == FIRST
            num_changes += before != after
    assert num_changes > 20


def test_versions_are_those_of_the_policy_of_each_row(run):
    a, b = (run.learners[name].observed[-1].policy_version for name in NAMES[:2])
    assert a.max() <= run.num_batches // 2 < b.max()  # b makes twice as many updates


def test_a_constant_mapping_gives_each_row_to_one_policy(constant_run):
    for name, rows in (("a", {0, 2, 3, 4}), ("b", {5})):
        observed = constant_run.learners[name].observed
        assert {int(i) % B for x in observed for i in x.env_id.ravel()} == rows
        assert all((x.step_type[:, 1:] != FIRST).any() for x in observed)


def test_a_sequence_of_policies_begins_anew_after_its_last_one():
    env = MappedEnvironment(FakeEnvironment(5), ("a", "frozen", "b"), NAMES)
    assert env.reset().observation[OWNER].tolist() == [0, 2, 1, 0, 2]


def test_replay_buffers_get_each_row_as_an_unroll_of_its_own():
    replayer = UniformReplayer.__new__(UniformReplayer)  # its type alone counts
    run = collect(replayer=replayer)
    shapes = {x.step_type.shape for name in "ab" for x in run.learners[name].observed}
    assert shapes == {(4, T + 1, 1)}
    for owner, name in enumerate("ab"):
        expected = run.expected(owner)
        for env_id, numbers in run.transitions(name).items():
            check_beginnings(numbers, expected[env_id])


@pytest.mark.parametrize(
    "driver_class, kwargs",
    [
        (AsyncOffPolicyDriver, {"learn_queue_cap": 2}),
        (AsyncOffPolicyDriver, {"num_actor_queues": 0}),
        (AsyncOffPolicyDriver, {"num_env_threads": 1}),
        (AsyncOffPolicyDriver, {"mode": "lockstep"}),
        (AsyncOffPolicyDriver, {"parameter_update_period": 2, "max_waiting_batches": 3}),
        (SyncOffPolicyDriver, {}),
    ],
    ids=[
        "batches of two unrolls",
        "without actors",
        "one thread",
        "lockstep",
        "copied weights",
        "synchronous",
    ],
)
def test_every_driver_serves_several_policies(driver_class, kwargs):
    run = collect(driver_class=driver_class, **kwargs)
    for owner, name in enumerate("ab"):
        expected = run.expected(owner)
        for env_id, numbers in run.transitions(name).items():
            check_beginnings(numbers, expected[env_id])


@pytest.mark.parametrize("kwargs", [{"actor_queue_cap": 2}, {"num_env_threads": 1}], ids=str)
def test_policies_draw_for_two_environments_in_one_call(kwargs):
    """Each has 3 rows then, which are no equal parts for two counters of draws."""
    envs = [
        MappedEnvironment(CountingEnvironment(3, EPISODE, env_index=i), mapping, ("a", "b"))
        for i, mapping in enumerate([("a", "a", "b"), ("a", "b", "b")])
    ]
    observation, action = to_tensor_spec(envs[0].observation_spec()), to_tensor_spec(envs[0].action_spec())
    policies = {name: RandomPolicy(observation[OBSERVATION], action) for name in "ab"}
    learners = {name: RecordingLearner(policy) for name, policy in policies.items()}
    learner = LearnerGroup(PolicyGroup(policies, observation, action), learners, {"a": 3, "b": 3})
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=T, learn_queue_cap=2, **kwargs)
    driver.start()
    try:
        for _ in range(6):
            collect_and_observe(driver)
            learner.train()
    finally:
        driver.stop()
    for name in "ab":
        assert {int(x) for e in learners[name].observed for x in e.action.ravel()} == {0, 1}


def test_a_row_draws_the_same_whoever_shares_the_batch():
    env = MappedEnvironment(CountingEnvironment(4, EPISODE), ("a", "b", "b", "a"), ("a", "b"))
    observation, action = to_tensor_spec(env.observation_spec()), to_tensor_spec(env.action_spec())
    action = BoundedTensorSpec(action.shape, action.dtype, 0, 10**6)
    group = PolicyGroup(
        {name: RandomPolicy(observation[OBSERVATION], action) for name in "ab"}, observation, action
    )

    @tf.function(autograph=False)
    def act(owner, counters):
        rows = owner.shape[0]
        time_step, state = zeros_from_spec((group.time_step_spec, group.policy_step_spec.state), rows)
        time_step = time_step._replace(observation={**time_step.observation, OWNER: owner})
        with Stream(0).at([tuple(tf.unstack(x)) for x in tf.unstack(counters)]):
            return group.rollout(time_step, state).action

    owners = tf.constant([[0, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 1]])
    counters = tf.constant([[3, 0], [5, 2], [3, 1]], tf.int64)
    alone = tf.concat([act(owners[i], counters[i : i + 1]) for i in range(3)], axis=0)
    np.testing.assert_array_equal(act(tf.reshape(owners, [-1]), counters), alone)
    assert len(set(alone.numpy().ravel())) == 12


def make_learner_group(num_sequences):
    """A group with two learners, and an `Experience` with 4 sequences of "a" and one of "b"."""
    env = MappedEnvironment(CountingEnvironment(B, EPISODE), ("a", "a", "a", "b", "frozen", "a"), NAMES)
    group, specs = make_group(env), EnvSpecs([env])
    learners = {name: RecordingLearner(group.policies[name]) for name in "ab"}
    unroll = zeros_from_spec(specs.unroll_spec(group, T))
    owner = tf.constant([0, 0, 0, 1, 2, 0]) * tf.ones((T + 1, 1), tf.int32)
    unroll = unroll._replace(observation={**unroll.observation, OWNER: owner})
    experience = tf.nest.map_structure(lambda x: x[tf.newaxis], unroll)
    return LearnerGroup(group, learners, num_sequences), experience


def test_a_batch_waits_until_it_is_complete():
    learner, experience = make_learner_group({"a": 3, "b": 2})
    learners, counts = learner.learners, []
    for _ in range(4):
        learner.observe(experience)
        learner.train()
        counts.append([len(learners[name].observed) for name in "ab"])
    assert counts == [[1, 0], [2, 1], [4, 1], [5, 2]]  # of 4, 8, 12, 16 sequences and of 1, 2, 3, 4
    assert {x.step_type.shape for name in "ab" for x in learners[name].observed} == {
        (1, T + 1, 3),
        (1, T + 1, 2),
    }


def test_the_policy_lag_is_that_of_the_policy_that_trained_last():
    learner, experience = make_learner_group({"a": 4, "b": 2})
    for name, lag in (("a", 1.0), ("b", 2.0)):
        learner.learners[name].train = lambda lag=lag: {"policy_lag_mean": lag}
    for _ in range(3):  # complete batches of "a", of "a" and "b", and of "a"
        learner.observe(experience)
    shown = learner.train()
    assert shown == {"a/policy_lag_mean": 1.0, "b/policy_lag_mean": 2.0, "policy_lag_mean": 1.0}


class TwoKinds(BatchedEnvironment):
    """Games of two agents: one sees two numbers and moves a float, one sees an image and chooses of 3."""

    agents = ("car", "dog")
    space_names = ("car", "dog")

    def __init__(self, num_games=2):
        observation = {
            "car": ArraySpec((2,), np.float32),
            "dog": ArraySpec((4, 4), np.uint8),
        }
        action = {
            "car": BoundedArraySpec((1,), np.float32, -2, 2),
            "dog": BoundedArraySpec((), np.int64, 0, 2),
        }
        super().__init__(2 * num_games, observation, action)
        self._num_games, self._step_in_game = num_games, 0
        self.actions = []

    def _make(self):
        ended = self._step_in_game == 4
        step_type = 0 if self._step_in_game == 0 else 2 if ended else 1
        self.game_begins = np.full(self._num_games, self._step_in_game == 0)
        observation = {"car": np.zeros((self._batch_size, 2), np.float32)}
        observation["dog"] = np.zeros((self._batch_size, 4, 4), np.uint8)
        observation["car"][::2] = self._step_in_game
        observation["dog"][1::2] = self._step_in_game
        rows = self._batch_size
        reward = np.tile([1.0, 2.0], self._num_games).astype(np.float32) * (step_type != 0)
        step_types = np.full(rows, step_type, np.int32)
        return EnvStep(step_types, reward, np.ones(rows, np.float32), observation)

    def _reset(self):
        self._step_in_game = 0
        return self._make()

    def _step(self, action):
        self.actions.append(action)
        self._step_in_game = 0 if self._step_in_game == 4 else self._step_in_game + 1
        return self._make()


def test_agents_may_have_different_spaces():
    inner = TwoKinds()
    spaces = {"driver": "car", "walker": "dog"}
    mapping = {"car": "driver", "dog": "walker"}
    env = MappedEnvironment(inner, mapping, tuple(spaces), spaces)
    group = make_group(env, tuple(spaces), spaces)
    learners = {name: RecordingLearner(group.policies[name]) for name in spaces}
    learner = LearnerGroup(group, learners, dict.fromkeys(spaces, 2))
    driver = build_driver(AsyncOffPolicyDriver, [env], learner, unroll_length=3)
    driver.start()
    for _ in range(20):
        collect_and_observe(driver)
        learner.train()
    driver.stop()
    for name, reward in (("driver", 1.0), ("walker", 2.0)):
        for experience in learners[name].observed:
            is_transition = experience.step_type != FIRST
            assert set(experience.reward[is_transition]) == {reward}
            assert {int(x) for x in experience.observation.ravel()} <= {0, 1, 2, 3, 4}
            assert (experience.action == 1).all()
    for action in inner.actions:  # each agent's own entry alone is filled
        np.testing.assert_array_equal(action["car"][:, 0], [1, 0, 1, 0])
        np.testing.assert_array_equal(action["dog"], [0, 1, 0, 1])
    metrics = {metric.name: metric.result() for metric in driver.get_metrics()}
    assert metrics["agents/car/AverageReturn"] == metrics["policies/driver/AverageReturn"] == 4
    assert metrics["agents/dog/AverageReturn"] == metrics["policies/walker/AverageReturn"] == 8
    assert metrics["AverageReturn"] == 6


def test_collectors_send_what_the_group_needs():
    envs = [MappedEnvironment(CountingEnvironment(B, EPISODE), map_at_random, NAMES, seed=1)]
    collector = Collector(envs, make_group(envs[0]), unroll_length=T)
    try:
        leaves = collector.collect()
        assert leaves[0].shape[:3] == (1, T + 1, B)
    finally:
        collector.close()


@pytest.mark.parametrize(
    "mapping, idle",
    [
        ("b", ("a", "frozen")),
        (["a", "frozen", "a"], ("b",)),
        (("a", "b", "frozen"), ("frozen",)),
        ({"agent": "a"}, ("b", "frozen")),
        (map_at_random, ()),
    ],
    ids=["name", "list", "more policies than rows", "dict", "callable"],
)
def test_policies_without_a_row_are_found(mapping, idle):
    assert MappedEnvironment(FakeEnvironment(2), mapping, NAMES).find_idle() == idle


WRONG = [
    ("c", "Policies.mapping is 'c': there is no policy 'c'"),
    ({"a": "a"}, "Policies.mapping is .*: it must have an entry for each of the agents"),
    ([], r"Policies.mapping is \[\]: it must be a policy's name, a dict"),
    (7, "Policies.mapping is 7: it must be a policy's name, a dict"),
    (["a", "x"], "Policies.mapping is .*: there is no policy 'x'"),
]


def test_a_wrong_mapping_is_named(subtests):
    for mapping, message in WRONG:
        with subtests.test(message), pytest.raises(ConfigError, match=f"^{message}.*$"):  # one line
            MappedEnvironment(FakeEnvironment(2), mapping, NAMES)
    for answer in (None, "a", [], ["a", "b"], ["x"], [3]):
        env = MappedEnvironment(FakeEnvironment(2), lambda episode, answer=answer: answer, NAMES)
        with subtests.test(f"returns {answer}"), pytest.raises(EnvError, match="Policies.mapping returned"):
            env.reset()


def test_a_policy_of_other_spaces_is_refused():
    spaces, message = {"driver": "car", "walker": "dog"}, "'walker' to 'car', whose spaces are not those"
    env = MappedEnvironment(TwoKinds(), lambda episode: ["walker", "driver"], tuple(spaces), spaces)
    with pytest.raises(EnvError, match=message):
        env.reset()
    with pytest.raises(EnvError, match=message):  # a fixed mapping at once
        MappedEnvironment(TwoKinds(), {"car": "walker", "dog": "driver"}, tuple(spaces), spaces)


class Beginless(TwoKinds):
    """Says nothing about games, or something about each row."""

    def __init__(self, begins):
        super().__init__()
        self._begins = begins

    def _make(self):
        time_step = super()._make()
        del self.game_begins
        if self._begins is not None:
            self.game_begins = self._begins
        return time_step


@pytest.mark.parametrize(
    ("begins", "message"), [(None, "no game_begins"), ([True] * 4, r"game_begins of shape \(4,\)")]
)
def test_an_environment_of_several_agents_must_say_which_games_begin(begins, message):
    for mapping in (lambda episode: ["a", "b"], ["a", "b"]):
        with pytest.raises(EnvError, match=rf"agents \('car', 'dog'\), but {message}: .* bool \[2\]"):
            MappedEnvironment(Beginless(begins), mapping, NAMES).reset()
    MappedEnvironment(Beginless([True, False]), lambda episode: ["a", "b"], NAMES).reset()


def test_a_callable_that_raises_ends_the_run_with_one_line():
    def choose(episode):
        return {0: ["a"], 1: ["b"]}[episode.number]

    env = MappedEnvironment(FakeEnvironment(2, episode_length=3), choose, NAMES)
    env.reset()
    with pytest.raises(
        EnvError, match=r"^Policies.mapping raised KeyError\(2\) for game \d, episode 2"
    ) as caught:
        for _ in range(20):
            env.step(np.zeros(2, np.int64))
    assert re.search(r"group_test.py, line \d+\)$", str(caught.value))
    with pytest.raises(EnvError, match="^Policies.mapping raised TypeError"):
        MappedEnvironment(FakeEnvironment(2), lambda: ["a"], NAMES).reset()


class Waiting(CountingEnvironment):
    """Repeats the first step of an episode once, as an environment does that waits for the next unroll."""

    def _reset(self):
        self._first, self._waits = super()._reset(), True
        return self._first

    def _step(self, action):
        if self._waits:
            self._waits = False
            return self._first
        step = super()._step(action)
        if step.step_type[0] == FIRST:
            self._first, self._waits = step, True
        return step


def test_a_game_that_waits_keeps_its_policies():
    asked = []

    def choose(episode):
        asked.append(episode.number)
        return [NAMES[episode.number % 3]]

    env = MappedEnvironment(Waiting(1, EPISODE), choose, NAMES)
    steps = [env.reset(), *(env.step(np.zeros(1, np.int64)) for _ in range(3 * (EPISODE + 2) - 1))]
    first = [int(step.step_type[0]) == FIRST for step in steps]
    assert first == [True, True, *[False] * EPISODE] * 3
    owners = [int(step.observation[OWNER][0]) for step in steps]
    assert owners == [i for i in range(3) for _ in range(EPISODE + 2)] and asked == [0, 1, 2]
    # A reset begins a game in any case.
    assert env.reset().observation[OWNER] == [0] and env.reset().observation[OWNER] == [1]


def test_a_copy_of_a_group_answers_the_same():
    env = MappedEnvironment(CountingEnvironment(B, EPISODE), map_at_random, NAMES, seed=0)
    group = make_group(env)
    group.policies["b"].progress.updates.assign(7)
    copied = group.copy()
    assert int(copied.progress.updates) == 7
    group.policies["b"].progress.updates.assign(9)
    assert int(copied.progress.updates) == 7
    copied.assign(group)
    assert int(copied.progress.updates) == 9
    assert set(env.reset().observation) == {OBSERVATION, OWNER}
