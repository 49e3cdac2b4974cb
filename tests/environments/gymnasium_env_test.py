# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Tests for the adapter of Gymnasium vector environments."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from alf.data_structures import FIRST, LAST, MID
from alf.environments import ArraySpec, BoundedArraySpec, GymnasiumEnvironment, load
from alf.errors import EnvError
from alf.testing import EnvironmentContract, rollout
from alf.workers.arrays import without_bools
from alf.workers.specs import space_from_spec, spec_from_space
from tests.workers.envs import REFUSED_SPACES

NEXT_STEP = gymnasium.vector.AutoresetMode.NEXT_STEP
BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)


class TestCartPoleContract(EnvironmentContract):
    def make_env(self, seed):
        return load("CartPole-v1", batch_size=4, seed=seed)


class TestMountainCarContract(EnvironmentContract):
    def make_env(self, seed):
        return load("MountainCar-v0", batch_size=2, seed=seed, max_episode_steps=30)


class TestPendulumContract(EnvironmentContract):
    def make_env(self, seed):
        return load("Pendulum-v1", batch_size=2, seed=seed, max_episode_steps=30)


class ReplayVectorEnv(gymnasium.vector.VectorEnv):
    """Replays rows (reward, terminated, truncated) and reuses all of its buffers.

    The observation is the number of steps; actions and seeds are recorded.
    """

    def __init__(self, rows=(), num_envs=2, action_space=None, autoreset_mode=NEXT_STEP):
        self.metadata = {"autoreset_mode": autoreset_mode}
        self.num_envs = num_envs
        self.single_observation_space = BOX
        self.single_action_space = action_space or spaces.Discrete(2)
        self.seeds, self.actions, self.num_closed = [], [], 0
        self._rows = list(rows)
        self._observation = np.zeros([num_envs, 1], np.float32)
        self._reward = np.zeros([num_envs], np.float32)
        self._terminated = np.zeros([num_envs], np.bool_)
        self._truncated = np.zeros([num_envs], np.bool_)

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self._observation[:] = 0
        return self._observation, {}

    def step(self, actions):
        self.actions.append(actions)
        self._observation += 1
        self._reward[:], self._terminated[:], self._truncated[:] = self._rows.pop(0)
        return self._observation, self._reward, self._terminated, self._truncated, {}

    def close(self, **kwargs):
        self.num_closed += 1


class NestedEnv(gymnasium.Env):
    """Shows in its observation the action that it was given."""

    def __init__(self):
        self.action_space = spaces.Dict(
            {
                "choice": spaces.Discrete(3, start=5),
                "rest": spaces.Tuple(
                    (spaces.MultiDiscrete([2, 4]), spaces.MultiBinary(2), spaces.Box(-1, 1, (2,)))
                ),
            }
        )
        self.observation_space = self.action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return action, 0.0, bool(action["rest"][1][0]), False, {}


class TestNestedContract(EnvironmentContract):
    def make_env(self, seed):
        env = gymnasium.vector.SyncVectorEnv([NestedEnv] * 3, copy=False)
        return GymnasiumEnvironment(env, seed=seed)


NO, YES = [False, False], [True, True]


class InfosEnv(ReplayVectorEnv):
    """Returns `infos` one after another: the first ones from the reset."""

    def __init__(self, *infos):
        super().__init__([([0, 0], NO, NO)] * len(infos))
        self._infos = list(infos)

    def reset(self, *, seed=None, options=None):
        return super().reset()[0], self._infos.pop(0)

    def step(self, actions):
        return *super().step(actions)[:4], self._infos.pop(0)


def test_infos_with_masks_and_without():
    buffer = np.array([3, 4])
    mask = np.array([False, True])
    infos = {}, {"a": buffer, "b": {"c": np.array([1.5, 2.5]), "_c": mask}}, {"a": buffer, "_a": mask}
    env = GymnasiumEnvironment(InfosEnv(*infos), info_keys=("a", "b/c"))
    env.reset()
    found = [env.get_info()]
    for _ in range(2):
        env.step(np.zeros(2, np.int64))
        found.append(env.get_info())
    buffer[:] = 9  # the environment may use it again
    nan = np.nan
    np.testing.assert_array_equal([info["a"] for info in found], [[nan, nan], [3, 4], [nan, 4]])
    np.testing.assert_array_equal([info["b/c"] for info in found], [[nan, nan], [nan, 2.5], [nan, nan]])


def test_episodes_of_a_wrapper_whose_mask_is_beside_the_dict():
    env = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point")
    env = GymnasiumEnvironment(
        gymnasium.wrappers.vector.RecordEpisodeStatistics(env), 0, info_keys=("episode/l",)
    )
    env.reset()
    lengths, ended = np.zeros(3), 0
    for _ in range(60):
        step = env.step(np.zeros(3, np.int64))
        lengths = np.where(step.step_type == FIRST, 0, lengths + 1)
        expected = np.where(step.step_type == LAST, lengths, np.nan)
        np.testing.assert_array_equal(env.get_info()["episode/l"], expected)
        ended += np.count_nonzero(step.step_type == LAST)
    assert ended > 6


def test_termination_and_truncation():
    env = GymnasiumEnvironment(
        ReplayVectorEnv(
            [
                ([1, 2], NO, NO),
                ([3, 4], [True, False], [False, True]),
                ([5, 6], NO, NO),
                ([7, 8], [True, False], YES),
                ([9, 9], NO, NO),
            ]
        )
    )
    steps = [env.reset()] + [env.step(np.zeros([2], np.int64)) for _ in range(5)]
    np.testing.assert_array_equal([t.step_type[0] for t in steps], [FIRST, MID, LAST, FIRST, LAST, FIRST])
    np.testing.assert_array_equal([t.step_type[1] for t in steps], [FIRST, MID, LAST, FIRST, LAST, FIRST])
    np.testing.assert_array_equal([t.discount[0] for t in steps], [1, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal([t.discount[1] for t in steps], [1, 1, 1, 1, 1, 1])
    # Rewards of rows that only reset are nobody's: 0, whatever the environment says.
    np.testing.assert_array_equal([t.reward[0] for t in steps], [0, 1, 3, 0, 7, 0])
    np.testing.assert_array_equal([t.observation[0, 0] for t in steps], np.arange(6))


def test_rows_end_on_their_own():
    env = GymnasiumEnvironment(
        ReplayVectorEnv([([1, 1], [False, True], NO), ([1, 1], [True, False], NO), ([1, 1], NO, NO)])
    )
    env.reset()
    steps = [env.step(np.zeros([2], np.int64)) for _ in range(3)]
    np.testing.assert_array_equal([t.step_type for t in steps], [[MID, LAST], [LAST, FIRST], [FIRST, MID]])
    np.testing.assert_array_equal([t.reward for t in steps], [[1, 1], [1, 0], [0, 1]])
    np.testing.assert_array_equal([t.discount for t in steps], [[1, 0], [0, 1], [1, 1]])


def test_reset_after_an_end_starts_from_first():
    env = GymnasiumEnvironment(ReplayVectorEnv([([1, 1], YES, NO), ([1, 1], NO, NO)]))
    env.reset()
    env.step(np.zeros([2], np.int64))
    env.reset()
    np.testing.assert_array_equal(env.step(np.zeros([2], np.int64)).step_type, MID)


def test_copies_the_buffers_of_the_environment():
    env = GymnasiumEnvironment(ReplayVectorEnv([([1, 2], NO, NO), ([3, 4], YES, NO)]))
    first = env.reset()
    second = env.step(np.zeros([2], np.int64))
    env.step(np.zeros([2], np.int64))
    np.testing.assert_array_equal(first.observation, [[0], [0]])
    np.testing.assert_array_equal(second.observation, [[1], [1]])
    np.testing.assert_array_equal(second.reward, [1, 2])
    np.testing.assert_array_equal(second.discount, [1, 1])


def test_passes_observations_on_when_told_that_they_are_fresh():
    raw = ReplayVectorEnv([([1, 2], NO, NO)])
    env = GymnasiumEnvironment(raw, copy_observations=False)
    assert env.reset().observation is raw._observation


def test_cartpole_time_limit_keeps_the_discount():
    """With 9 steps at most, pushing one way falls (in 8 to 10) or runs out of time."""
    steps = rollout_one_way(load("CartPole-v1", 16, seed=0, max_episode_steps=9))
    threshold = 12 * 2 * np.pi / 360
    both = set()
    for t in steps:
        for b in np.flatnonzero(t.step_type == LAST):
            # The final observation is in the LAST row: it tells whether the pole fell.
            fell = abs(t.observation[b, 2]) > threshold or abs(t.observation[b, 0]) > 2.4
            assert t.discount[b] == (0 if fell else 1)
            both.add(bool(fell))
    assert both == {True, False}


def rollout_one_way(env, num_steps=100):
    action = np.ones([env.batch_size], np.int64)
    steps = [env.reset()] + [env.step(action) for _ in range(num_steps)]
    env.close()
    return steps


def test_cartpole_starts_anew_in_the_row_after_last():
    steps = rollout_one_way(load("CartPole-v1", 16, seed=0))
    num_first = 0
    for before, t in zip(steps, steps[1:]):
        first = t.step_type == FIRST
        num_first += np.count_nonzero(first)
        assert np.all(np.abs(t.observation[first]) <= 0.05)
        assert np.all(np.abs(before.observation[first]).max(axis=1) > 0.05)
        np.testing.assert_array_equal(t.reward, np.where(first, 0, 1))
    assert num_first > 16


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0"])
def test_the_action_of_a_row_after_last_is_ignored(name):
    """Two runs that differ in the actions of these rows only go the same way."""
    observations = []
    for ignored in (0, 1):
        env = load(name, 2, seed=5, max_episode_steps=6)
        time_step = env.reset()
        for _ in range(30):
            action = np.where(time_step.step_type == LAST, ignored, 1)
            time_step = env.step(action)
            observations.append(time_step.observation)
        env.close()
    np.testing.assert_array_equal(observations[:30], observations[30:])


def test_pendulum_time_limit_keeps_the_discount():
    env = load("Pendulum-v1", 2, seed=0, max_episode_steps=5)
    steps = rollout(env, 13)
    step_types = np.array([FIRST, MID, MID, MID, MID, LAST] * 2 + [FIRST, MID])
    for b in range(2):
        np.testing.assert_array_equal([t.step_type[b] for t in steps], step_types)
        np.testing.assert_array_equal([t.discount[b] for t in steps], 1)
        assert np.all([t.reward[b] < 0 for t in steps if t.step_type[b] != FIRST])
    env.close()


def test_clips_the_actions_of_a_box_and_leaves_the_callers_alone():
    space = spaces.Box(np.float32([-1, -np.inf]), np.float32([2, 0]))
    raw = ReplayVectorEnv([([0, 0], NO, NO)], action_space=space)
    env = GymnasiumEnvironment(raw)
    env.reset()
    action = np.array([[-3, -1e30], [5, 1]], np.float32)
    copy = action.copy()
    env.step(action)
    np.testing.assert_array_equal(raw.actions[0], np.float32([[-1, -1e30], [2, 0]]))
    np.testing.assert_array_equal(action, copy)
    assert raw.actions[0].dtype == np.float32


def test_clips_the_actions_of_an_integer_box():
    raw = ReplayVectorEnv([([0, 0], NO, NO)], action_space=spaces.Box(0, 9, (1,), np.int32))
    env = GymnasiumEnvironment(raw)
    env.reset()
    env.step(np.array([[-1], [10]]))
    np.testing.assert_array_equal(raw.actions[0], [[0], [9]])
    assert raw.actions[0].dtype == np.int32


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_takes_integers_of_any_width(dtype):
    env = load("CartPole-v1", 3, seed=0)
    env.reset()
    env.step(np.array([0, 1, 0], dtype))
    env.close()


WRONG_ACTIONS = {
    "kind": (lambda: GymnasiumEnvironment(ReplayVectorEnv()), [0.5, 1.0], TypeError, "same_kind"),
    "shape": (
        lambda: GymnasiumEnvironment(ReplayVectorEnv()),
        [[0], [0]],
        ValueError,
        r"shape \(2, 1\) instead of \(2,\)",
    ),
    # They are not clipped.
    "range": (lambda: load("CartPole-v1", 2, seed=0), [0, 2], AssertionError, "invalid"),
}


@pytest.mark.parametrize("make, action, error, message", WRONG_ACTIONS.values(), ids=WRONG_ACTIONS)
def test_refuses_actions(make, action, error, message):
    env = make()
    env.reset()
    with pytest.raises(error, match=message):
        env.step(np.array(action))
    env.close()


def test_nested_actions_arrive():
    env = GymnasiumEnvironment(gymnasium.vector.SyncVectorEnv([NestedEnv] * 2))
    env.reset()
    observation = env.step(
        {
            "choice": np.array([5, 7], np.int32),
            "rest": (
                np.array([[0, 3], [1, 2]]),
                np.array([[0, 1], [0, 0]], np.int8),
                np.float32([[0.5, 3], [-2, 0]]),
            ),
        }
    ).observation
    np.testing.assert_array_equal(observation["choice"], [5, 7])
    np.testing.assert_array_equal(observation["rest"][0], [[0, 3], [1, 2]])
    np.testing.assert_array_equal(observation["rest"][1], [[0, 1], [0, 0]])
    np.testing.assert_array_equal(observation["rest"][2], [[0.5, 1], [-1, 0]])


@pytest.mark.parametrize(
    "observation, message",
    [
        (np.float64([[0.7], [1.0]]), r"is an array of shape \(2, 1\) and dtype float64, .* dtype uint8"),
        (np.int64([[0], [256]]), r"has values from 0 to 256, its space says dtype uint8"),
        (np.array([[0], [None]]), ".* dtype object, its space says"),
        (np.zeros([1, 1], np.uint8), r".* shape \(1, 1\) and dtype uint8, its space says shape \(2, 1\)"),
        ([[1], [1, 2]], "is a list of 2, which is not an array"),
    ],
)
@pytest.mark.parametrize("copy", [True, False])
def test_observations_that_do_not_fit_are_named(observation, message, copy):
    raw = ReplayVectorEnv([([0, 0], NO, NO)] * 2)
    raw.single_observation_space = spaces.Box(0, 255, (1,), np.uint8)
    env = GymnasiumEnvironment(raw, copy_observations=copy)
    raw._observation = np.zeros([2, 1], np.int64)  # The space's dtype is another one, but the values fit.
    env.reset()
    raw._observation[1] = 254
    time_step = env.step(np.zeros([2], np.int64))
    assert time_step.observation.dtype == np.uint8 and time_step.observation.tolist() == [[1], [255]]
    raw.step = lambda action: (observation, np.zeros(2), np.zeros(2, bool), np.zeros(2, bool), {})
    with pytest.raises(EnvError, match=f"ReplayVectorEnv.*, step 2: the observation {message}"):
        env.step(np.zeros([2], np.int64))


def test_seed_is_handed_to_the_first_reset_only():
    raw = ReplayVectorEnv()
    env = GymnasiumEnvironment(raw, seed=np.int64(7))
    env.reset()
    env.reset()
    assert raw.seeds == [7, None]
    assert type(raw.seeds[0]) is int  # SyncVectorEnv takes no NumPy integer.
    env.seed(np.int64(8))
    env.reset()
    env.reset()
    assert raw.seeds == [7, None, 8, None]
    assert type(raw.seeds[2]) is int


def test_sub_environments_differ():
    for name in ("CartPole-v1", "MountainCar-v0"):
        env = load(name, 4, seed=0)
        assert len(np.unique(env.reset().observation, axis=0)) == 4
        env.close()


def test_closes_once():
    raw = ReplayVectorEnv()
    env = GymnasiumEnvironment(raw)
    env.close()
    env.close()
    assert raw.num_closed == 1


def test_specs_of_spaces():
    def check(space, spec):
        assert spec_from_space(space, "x") == spec

    check(spaces.Discrete(3, start=-1), BoundedArraySpec((), np.int64, -1, 1, "x"))
    check(
        spaces.MultiDiscrete([2, 5], dtype=np.int32, start=[0, 3]),
        BoundedArraySpec((2,), np.int32, [0, 3], [1, 7], "x"),
    )
    check(spaces.MultiBinary(4), BoundedArraySpec((4,), np.int8, 0, 1, "x"))
    check(
        spaces.Box(0, 255, (2, 3), np.uint8),
        BoundedArraySpec((2, 3), np.uint8, np.zeros([2, 3]), np.full([2, 3], 255), "x"),
    )
    unbounded = spec_from_space(spaces.Box(-np.inf, np.inf, (2,), np.float64), "x")
    assert type(unbounded) is ArraySpec
    assert unbounded == ArraySpec((2,), np.float64, "x")
    half = spec_from_space(spaces.Box(0, np.inf, (1,)), "x")
    np.testing.assert_array_equal(half.maximum, [np.finfo(np.float32).max])
    nested = spec_from_space(
        spaces.Dict({"a": spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(1)))}), "x"
    )
    assert nested["a"][1].shape == (1,)


@pytest.mark.parametrize("shape", [(), (2, 3)])
@pytest.mark.parametrize(
    "dtype, bounds",
    [
        (np.uint8, (0, 255)),
        (np.bool_, (0, 1)),
        (np.int64, (np.iinfo(np.int64).min, np.iinfo(np.int64).max)),
        (np.float32, None),
    ],
)
def test_spaces_of_specs_without_bounds(dtype, bounds, shape):
    """Bools become uint8 with the bounds of bools, as those of an environment."""
    space = space_from_spec(ArraySpec(shape, dtype))
    assert isinstance(space, spaces.Box) and (space.shape, space.dtype) == (shape, dtype)
    assert space.contains(np.asarray(space.sample()))
    spec = spec_from_space(without_bools(space), "x")
    dtype = np.uint8 if dtype is np.bool_ else dtype
    assert spec == (BoundedArraySpec(shape, dtype, *bounds) if bounds else ArraySpec(shape, dtype))


def test_autoreset_mode_is_that_of_the_environment_not_of_its_class():
    """SyncVectorEnv keeps the mode in a dict that all environments of a class share."""

    def make():
        return gymnasium.make("MountainCar-v0")

    same_step = gymnasium.vector.SyncVectorEnv([make], autoreset_mode="SameStep")
    next_step = gymnasium.vector.SyncVectorEnv([make])
    with pytest.raises(ValueError, match="SAME_STEP"):
        GymnasiumEnvironment(same_step)
    GymnasiumEnvironment(next_step).close()
    same_step.close()


def changed(**attributes):
    """A `ReplayVectorEnv` with other attributes."""
    env = ReplayVectorEnv()
    for name, value in attributes.items():
        setattr(env, name, value)
    return env


SAME_STEP, DISABLED = gymnasium.vector.AutoresetMode.SAME_STEP, gymnasium.vector.AutoresetMode.DISABLED
SPACE, FAULT = REFUSED_SPACES[1]  # all of them are in python_env_test.py
REFUSED = [
    ({"metadata": {"autoreset_mode": SAME_STEP}}, {}, f"mode {SAME_STEP}"),
    ({"metadata": {"autoreset_mode": DISABLED}}, {}, f"mode {DISABLED}"),
    ({"metadata": {}}, {}, "mode None"),
    ({"single_observation_space": SPACE}, {}, f"^the observation space{FAULT}: supported are .*empty(\\n|$)"),
    ({"single_action_space": SPACE}, {}, f"^the action space{FAULT}: supported are .*empty(\\n|$)"),
    ({}, {"copy_observations": "False"}, "GymnasiumEnvironment.copy_observations is 'False': it must be"),
]


def test_what_cannot_be_an_environment_is_refused(subtests):
    for attributes, settings, message in REFUSED:
        with subtests.test(message), pytest.raises(ValueError, match=message):
            GymnasiumEnvironment(changed(**attributes), **settings)


ZEROS, FALSE = np.zeros([2, 1], np.float32), np.zeros(2, bool)
NO_STEP = r"step 1: step\(\) returned .* instead of \(obs.*info\)"
NO_RESET = r"reset\(\) returned .* instead of \(observation, info\)"
NO_REWARD, NO_FLAGS = r"step 1: the reward is .*says shape \(2,\)", r"step 1: {} is .* dtype bool"
NO_PART = "step 0: the observation is .*its space is Dict"
NO_BOOLS = [[0, 1], np.zeros(2), ["no", "no"], np.zeros([2, 1], bool), False, None]
WRONG = [
    *(({"reset": wrong}, NO_RESET) for wrong in [(1, 2, 3, 4), (1, 2, 3, 4, 5, 6), None]),
    *(({"step": wrong}, NO_STEP) for wrong in [(1, 2, 3, 4), (1, 2, 3, 4, 5, 6), None]),
    *(({"reset": (part, {}), "space": spaces.Dict(a=BOX)}, NO_PART) for part in [{"b": ZEROS}, None]),
    *(
        ({"step": (ZEROS, wrong, FALSE, FALSE, {})}, NO_REWARD)
        for wrong in [np.array([None, 1.0]), np.zeros([2, 1]), [1.0], None]
    ),
    *(
        ({"step": (ZEROS, np.zeros(2), wrong, FALSE, {})}, NO_FLAGS.format("terminated"))
        for wrong in NO_BOOLS
    ),
    *(({"step": (ZEROS, np.zeros(2), FALSE, wrong, {})}, NO_FLAGS.format("truncated")) for wrong in NO_BOOLS),
    ({"reset": (ZEROS, {"a": 3.0})}, r"step 0: the info's 'a' is 3.0: it must be an array of 2 numbers"),
    (
        {"step": (ZEROS, np.zeros(2), FALSE, FALSE, {"a": np.array(["x", "y"])})},
        "step 1: the info's 'a' of sub-environment 0 is .*x.*: it must",
    ),
    (
        {"step": (ZEROS, np.zeros(2), FALSE, FALSE, None)},
        "step 1: the info has None where the key 'a' needs a dict",
    ),
]


def test_a_wrong_return_value_is_named(subtests):
    for wrong, message in WRONG:
        reset, step = wrong.get("reset", (ZEROS, {})), wrong.get("step")
        raw = changed(reset=lambda seed=None, reset=reset: reset, step=lambda action, step=step: step)
        raw.single_observation_space = wrong.get("space", BOX)
        env = GymnasiumEnvironment(raw, info_keys=("a",))
        with subtests.test(str(wrong)), pytest.raises(EnvError, match=f"ReplayVectorEnv.*{message}"):
            env.reset()
            if "step" in wrong:
                env.step(np.zeros(2, np.int64))
            env.get_info()


def test_lists_of_bools_will_do():
    env = GymnasiumEnvironment(
        changed(step=lambda action: (ZEROS, np.zeros(2), [False] * 2, [False, True], {}))
    )
    env.reset()
    assert env.step(np.zeros(2, np.int64)).step_type.tolist() == [1, 2]


def test_an_episode_that_ends_where_it_starts_is_refused():
    env = GymnasiumEnvironment(ReplayVectorEnv([([1, 1], YES, NO), ([1, 1], YES, NO)]))
    env.reset()
    env.step(np.zeros([2], np.int64))
    with pytest.raises(RuntimeError, match="not NEXT_STEP autoreset"):
        env.step(np.zeros([2], np.int64))
