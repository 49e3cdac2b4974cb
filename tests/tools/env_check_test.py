# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""check_env finds each defect of an environment once, and none in one that is right.

Most environments here cannot be pickled, so that they step in this process: a worker process takes longer to
start than all the rest. What a worker process decides, such as a crash, has tests with one.
"""

import concurrent.futures
import functools
import os
import signal
import threading
import time

import numpy as np
import pytest
from gymnasium import spaces

from alf.environments.python_env import MESSAGE_SECONDS
from alf.errors import ConfigError
from alf.tools.env_check import check_env
from tests.tools.checked_envs import BOX, Asleep, Busy, Locked, Overridden, Steady, Unclosable, right
from tests.workers.envs import REFUSED_SPACES


def check(make=Steady, num_steps=40, info_keys=(), **kwargs):
    """Checks an environment in this process, because cloudpickle cannot pickle the lock."""
    lock = threading.Lock()

    def make_here():
        with lock:
            return make(**kwargs)

    return check_env(make_here, num_steps=num_steps, info_keys=info_keys)


def check_in_worker(make=Steady, num_steps=40, settings=None, **kwargs):
    return check_env(functools.partial(make, **kwargs), num_steps=num_steps, **(settings or {}))


@pytest.mark.parametrize("run", [check, check_in_worker])
def test_one_that_is_right_has_no_problem(run):
    report = run()
    assert (report.problems, report.hints) == ([], [])
    assert report.num_steps == 40 and report.num_episodes >= 40 // 7
    assert "problems: none" in str(report) and "hints: none" in str(report)


DEFECTS = {
    "shape": (
        dict(observation=np.zeros(3, np.float32)),
        "reset 1: the observation is an array of shape (3,) and dtype float32, its space says",
    ),
    "dtype": (
        dict(observation=np.zeros(2, np.complex64)),
        "reset 1: the observation is an array of shape (2,) and dtype complex64, its space says",
    ),
    "bounds": (
        dict(observation=np.full(2, 3, np.float32)),
        "reset 1: the observation has values from 3 to 3, beyond the bounds of its space Box",
    ),
    "bounds of integers": (
        dict(observation_space=spaces.Discrete(3), observation=3),
        "reset 1: the observation has values from 3 to 3, beyond the bounds of its space Discrete(3)",
    ),
    "bounds of a part": (
        dict(observation_space=spaces.Dict(a=BOX, b=BOX), observation=dict(a=[0, 0], b=[0, 2])),
        "reset 1: the observation's 'b' has values from 0 to 2",
    ),
    "NaN observation": (
        dict(observation=np.array([np.nan, 0], np.float32)),
        "reset 1: the observation has 1 numbers that are not finite",
    ),
    "reward NaN": (dict(reward=float("nan")), "step 1: the reward is nan: it must be finite"),
    "reward infinite": (dict(reward=-np.inf), "step 1: the reward is -inf: it must be finite"),
    "reward of another type": (dict(reward="1"), "step 1: the reward is '1', its space says"),
    "reward of another shape": (dict(reward=[0.5]), "step 1: the reward is a list of 1, its space says"),
    "flag is an integer": (dict(terminated=0), "step 1: terminated is 0: it must be True or False"),
    "other flag": (dict(truncated=None), "step 1: truncated is None: it must be True or False"),
    "reset returns the observation alone": (
        dict(make=Overridden, on_reset=lambda env, seed: Steady.reset(env, seed=seed)[0]),
        "reset 1: reset() returned an array of shape (2,) and dtype float32 instead of (observation, info)",
    ),
    "step of the old Gym": (
        dict(make=Overridden, on_step=lambda env, count: (right()[0], 0.5, False, {})),
        "step 1: step() returned a tuple of 4 instead of (observation, reward, terminated, truncated, info)",
    ),
    "step raises": (
        dict(make=Overridden, on_step=lambda env, count: [][count]),
        "step 1: step() raised IndexError: list index out of range",
    ),
    "constructor raises": (dict(wrong=1, make=lambda wrong: 1 / 0), "constructor: ZeroDivisionError: "),
    "constructor calls another one wrongly": (
        dict(make=lambda: spaces.Discrete(2, nope=1)),
        "constructor: TypeError: ",
    ),
    "no environment": (dict(make=dict), "constructor: {} is neither a gymnasium.Env nor"),
}


def test_a_defect_is_the_one_problem(subtests):
    for name, (kwargs, text) in DEFECTS.items():
        with subtests.test(msg=name):
            problems = check(**kwargs).problems
            assert len(problems) == 1, problems
            assert problems[0].startswith(text)


def test_what_goes_wrong_later_names_its_step():
    def reset(env, seed):
        env._count = 0
        return right()

    def step(env, count):
        return right()[0], float("inf") if count == 7 else 0.5, False, False, {}

    [problem] = check_in_worker(Overridden, on_step=step, on_reset=reset).problems
    assert problem == "step 7: the reward is inf: it must be finite"


def test_defects_of_one_step_are_found_together():
    problems = check(observation=None, reward=None, terminated=None).problems
    starts = ["reset 1: the observation is None", "step 1: the reward is None", "step 1: terminated is None"]
    assert [p.startswith(s) for p, s in zip(problems, starts, strict=True)] == [True] * 3


def test_a_space_that_is_not_supported_is_the_one_problem(subtests):
    space, _ = REFUSED_SPACES[1]  # all of them are in tests/environments/python_env_test.py
    for kind in ("observation", "action"):
        with subtests.test(msg=f"{kind} {space}"):
            report = check(**{f"{kind}_space": space})
            [problem] = report.problems
            assert problem.startswith(f"the {kind} space") and "supported are Box" in problem
            assert report.num_steps == 0 and report.num_workers is None


def test_both_spaces_are_looked_at():
    problems = check_in_worker(observation_space=spaces.Text(3), action_space=spaces.Text(3)).problems
    assert [p.split(" is ")[0] for p in problems] == ["the observation space", "the action space"]


def test_a_seed_that_is_ignored():
    [problem] = check(Overridden, on_reset=lambda env, seed: env.draw()).problems
    assert problem.startswith("reset 1: the observation differs from before, though reset(seed=0)")


def test_a_reset_that_takes_no_seed():
    class Unseeded(Steady):
        def reset(self):
            return Steady.reset(self, seed=0)

    problem = check(Unseeded).problems[0]
    assert problem.startswith(
        "reset 1: reset() of Unseeded takes no seed: define it as reset(self, *, seed=None"
    )


def test_a_reset_that_does_not_forget():
    """Only the first episode takes 5 steps; all others end at once."""

    def step(env, count):
        return right()[0], 0.5, count >= 5, False, {}

    [problem] = check(Overridden, on_step=step, on_reset=lambda env, seed: right()).problems
    assert problem.startswith("step 1: the end of the episode differs from before")


def test_a_reward_that_no_seed_decides():
    def step(env, count):
        return right()[0], count / 64, False, False, {}

    [problem] = check(Overridden, on_step=step, on_reset=lambda env, seed: right()).problems
    assert problem.startswith("step 1: the reward differs from before")


def act_in_step_4(act):
    """A check of an environment in a worker process, which calls `act` there."""

    def step(env, count):
        if count == 4:
            act()
        return right()[0], 0.5, False, False, {}

    return functools.partial(check_in_worker, Overridden, on_step=step, on_reset=lambda env, seed: right())


@pytest.mark.parametrize(
    "act, words",
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL"),
        (lambda: os._exit(3), "ended with exit status 3"),
    ],
    ids=["crashes", "ends"],
)
def test_one_that_crashes_is_one_problem(act, words):
    [problem] = act_in_step_4(act)().problems
    assert problem.startswith("step 4: the worker process") and problem.endswith(words)


@pytest.fixture(scope="module")
def hanging():
    """Reports of environments that hang, by the place. Side by side, they take one time-out together."""
    env, never = Locked(), threading.Event()
    env.step = lambda action: never.wait()
    limit = {"step_timeout": 3.0}
    checks = {
        "step": functools.partial(act_in_step_4(lambda: time.sleep(1000)), settings=limit),
        "step here": functools.partial(check_env, env, num_steps=9, **limit),
        "constructor": functools.partial(check_env, lambda: time.sleep(1000), start_timeout=3.0),
        "close": functools.partial(check_in_worker, Unclosable, 9, how="hangs", settings=limit),
    }
    with concurrent.futures.ThreadPoolExecutor(len(checks)) as pool:
        futures = {name: pool.submit(check) for name, check in checks.items()}
        yield {name: future.result() for name, future in futures.items()}
    never.set()


def test_a_step_that_hangs_is_one_problem(hanging):
    [problem] = hanging["step"].problems
    assert problem.startswith("step 4: the worker process")
    assert problem.endswith("did not answer within step_timeout=3 s")
    [problem] = hanging["step here"].problems
    assert problem == "step 1: the environment did not answer within step_timeout=3 s"


def test_a_constructor_that_hangs_is_one_problem(hanging):
    [problem] = hanging["constructor"].problems
    assert problem.startswith("constructor: the worker process")
    assert problem.endswith("did not answer within start_timeout=3 s, before it had made its environments")


def test_a_close_that_hangs_is_one_problem(hanging):
    [problem] = hanging["close"].problems
    assert problem.startswith(
        "close: the worker process of environments 0 to 0 did not answer within step_timeout=3 s"
    )
    assert_rest_of_report(hanging["close"])


def test_a_close_that_exits_is_one_problem():
    report = check_in_worker(Unclosable, 9, how="exits")
    assert report.problems == ["close: close() raised SystemExit: 4"]
    assert_rest_of_report(report)


def assert_rest_of_report(report):
    assert report.num_steps == 9 and report.num_workers is not None


def test_a_close_that_fails_here_is_called_once():
    lock = threading.Lock()  # cloudpickle cannot pickle it
    made = []

    def make():
        with lock:
            made.append(Unclosable("raises"))
        return made[0]

    [problem] = check_env(make, num_steps=9).problems
    assert problem == "close: close() raised ZeroDivisionError: division by zero" and made[0].closes == 1


def test_sys_exit_is_a_problem():
    def step(env, count):
        raise SystemExit(4)

    [problem] = check_in_worker(Overridden, on_step=step).problems
    assert problem == "step 1: step() raised SystemExit: 4"


def test_an_object_is_not_changed():
    env = Overridden()
    report = check_env(env, num_steps=9)
    assert report.problems == [] and report.num_steps == 9 and env._count == 0


def test_an_object_that_cannot_be_pickled_steps_here():
    env = Locked()
    report = check_env(env, num_steps=9)
    assert report.problems == [] and report.num_steps == 9
    assert report.num_workers == 0 and "cannot pickle" in report.num_workers_reason
    assert not env.is_closed  # It is the caller's.


def test_no_more_than_so_many_steps_and_seconds():
    counts = []

    class Counting(Locked):
        def step(self, action):
            counts.append(1)
            return super().step(action)

    assert check_env(Counting(), num_steps=17).num_steps == 17
    assert len(counts) == 2 * 17  # once more, to compare
    report = check_env(functools.partial(Asleep, 0.01), num_steps=10_000, max_seconds=0.4)
    assert report.problems == [] and 0 < report.num_steps <= 20  # 0.2 s, each step at least 0.01 s


def test_the_seed_decides_the_environment_and_the_actions():
    def record(seed):
        seeds, actions = [], []

        class Recording(Locked):
            def reset(self, *, seed=None, options=None):
                seeds.append(seed)
                return super().reset(seed=seed)

            def step(self, action):
                actions.append(int(action))
                return super().step(action)

        assert check_env(Recording(), num_steps=40, seed=seed).problems == []
        return set(seeds) - {None}, actions

    assert record(7) == record(7)
    (seven, actions), (eight, others) = record(7), record(8)
    assert (seven, eight) == ({7}, {8}) and actions != others


def test_the_cost_is_at_least_what_it_sleeps():
    cost = check(Asleep, step_seconds=0.002, reset_seconds=0.005, num_steps=20).cost
    for name, slept in (("step", 2000), ("reset", 5000)):
        assert slept <= cost[name].median <= cost[name].p95 <= cost[name].largest


def test_the_number_of_workers_follows_from_the_cost(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    # One step takes longer than a message.
    computes, waits = functools.partial(Busy, MESSAGE_SECONDS), functools.partial(Asleep, 0.02)
    cases = [(waits, 64, 32, "waits"), (computes, 3, 3, "half of the 8"), (computes, 64, 4, "half of the 8")]
    for make, batch_size, num_workers, reason in cases:
        report = check_env(make, num_steps=5, batch_size=batch_size)
        assert report.num_workers == num_workers
        assert f"{batch_size} steps take" in report.num_workers_reason
        assert reason in report.num_workers_reason
    assert f"num_workers = {num_workers}: " in str(report)


def test_an_id_with_its_own_vector_environment():
    report = check_env("CartPole-v1", num_steps=20)
    assert report.problems == [] and report.num_workers == "auto"


IMAGE = spaces.Box(0, 255, (84, 84, 3), np.uint8)
HINTS = {
    "image, channels last": (
        dict(observation_space=IMAGE),
        "the observation is taken as an image [height, width, channels]; where that is wrong: "
        "NatureEncoder.channels = 'first'",
    ),
    "image, channels first": (
        dict(observation_space=spaces.Box(0, 255, (3, 84, 84), np.uint8)),
        "the observation is taken as an image [channels, height, width]; where that is wrong: "
        "NatureEncoder.channels = 'last'",
    ),
    "small image": (
        dict(observation_space=spaces.Dict(eye=spaces.Box(0, 255, (16, 16, 3), np.uint8))),
        "the observation's 'eye' is taken as an image [height, width, channels]; where that is wrong: "
        "ImpalaResEncoder.channels = 'first'",
    ),
    "image, either": (
        dict(observation_space=spaces.Box(0, 255, (3, 16, 3), np.uint8)),
        "the observation: ImpalaResEncoder.channels is 'auto': the image (3, 16, 3) does not show",
    ),
    "gray image": (
        dict(observation_space=spaces.Box(0, 255, (84, 84), np.uint8)),
        "the observation is uint8 of shape (84, 84): a gray image needs an axis of one channel, (84, 84, 1)",
    ),
    "float image": (
        dict(observation_space=spaces.Box(0, 1, (8, 8, 3), np.float32)),
        "the observation has the shape (8, 8, 3) and dtype float32: it is taken as a vector",
    ),
    "large observation": (
        dict(observation_space=spaces.Box(0, 99, (2,)), observation=np.array([11, 2], np.float32)),
        "the observation has values from 2 to 11: Experiment.data_transformers = (@ObservationNormalizer,)",
    ),
    "large reward": (
        dict(reward=-11),
        "rewards are as large as 11: Experiment.data_transformers = (@RewardNormalizer,) scales them",
    ),
    "no reward": (dict(reward=0), "all rewards of the random steps are 0"),
    "float64 observation": (
        dict(observation_space=spaces.Box(-1, 1, (2,), np.float64)),
        "the observation is float64",
    ),
    "float64 action": (dict(action_space=spaces.Box(-1, 1, (2,), np.float64)), "the action is float64"),
    "actions from 1": (dict(action_space=spaces.Discrete(3, start=1)), "the action counts from 1: "),
    "observations from -1": (
        dict(observation_space=spaces.Discrete(3, start=-1)),
        "the observation counts from -1: ",
    ),
    "no end": (dict(length=10_000), "no episode has ended: alf.environments.load.max_episode_steps"),
    "equal lengths": (
        dict(length=4),
        "all episodes take 4 steps, so that they end together: alf.environments.load.max_random_steps = 4 ",
    ),
    "info": (dict(info=None), "the info is not always a dict"),
}


def test_a_hint_for_one_that_works(subtests):
    for name, (kwargs, text) in HINTS.items():
        with subtests.test(msg=name):
            report = check(**kwargs)
            assert report.problems == []
            assert len(report.hints) == 1 and report.hints[0].startswith(text), report.hints


def test_both_transformers_are_one_binding():
    hints = check(observation_space=spaces.Box(11, 99, (2,)), reward=20).hints
    assert len(hints) == 2
    binding = "Experiment.data_transformers = (@ObservationNormalizer, @RewardNormalizer)"
    assert all(binding in hint for hint in hints)


def test_info_keys_are_read():
    [problem] = check(num_steps=5, info={"speed": "fast"}, info_keys=("speed",)).problems
    assert problem.startswith("reset 1: the info's 'speed' is 'fast': it must be a number")


def test_a_vector_reward():
    class Vector(Steady):
        reward_space = spaces.Box(-1, 1, (2,), np.float32)

    assert check(Vector, reward=np.array([0.5, 1], np.float32)).problems == []
    [problem] = check(Vector, reward=np.array([0.5, np.nan], np.float32)).problems
    assert problem.startswith("step 1: the reward is [0.5 nan]: it must be finite")
    [problem] = check(Vector).problems
    assert problem.startswith("step 1: the reward is 0.5, its space says shape (2,)")


def test_a_game_of_pettingzoo():
    pytest.importorskip("pettingzoo")
    report = check_env("pettingzoo:pettingzoo.classic.tictactoe_v3:env", num_steps=30)
    assert report.problems == [] and report.num_steps == 30 and report.num_episodes >= 30 // 9


WRONG_SETTINGS = [
    (dict(env="NoSuch-v0"), "load.name: no Gymnasium environment 'NoSuch-v0'"),
    (dict(env="ALE/Pong-v5"), "load.name is 'ALE/Pong-v5': environments that step in C"),
    (dict(num_steps=0), "check_env.num_steps is 0"),
    (dict(batch_size=0), "check_env.batch_size is 0"),
    (dict(max_seconds=0), "check_env.max_seconds is 0"),
    (dict(step_timeout=0), "check_env.step_timeout is 0"),
    (dict(start_timeout=0), "check_env.start_timeout is 0"),
    (dict(start_timeout=1e30), "check_env.start_timeout is 1e+30: it must be a number above 0 and at most"),
    (dict(seed=-1), "check_env.seed is -1"),
    (dict(max_episode_steps=0), "check_env.max_episode_steps is 0"),
    (dict(info_keys="a"), "check_env.info_keys is 'a'"),
]


def test_a_wrong_setting_is_named(subtests):
    for kwargs, text in WRONG_SETTINGS:
        with subtests.test(msg=str(kwargs)):
            with pytest.raises(ConfigError) as error:
                check_env(**{"env": "CartPole-v1", **kwargs})
            assert str(error.value).startswith(text)


def test_arguments_of_the_constructor():
    report = check_env(Steady, num_steps=8, length=4)
    assert report.num_episodes == 2
    report = check_env("MountainCar-v0", num_steps=8, max_episode_steps=4)
    assert report.num_episodes == 2
