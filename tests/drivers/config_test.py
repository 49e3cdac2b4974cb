# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A wrong setting, environment or algorithm is one clear error that names what is wrong."""

from unittest import mock

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from tf_agents.environments import random_py_environment

from alf.drivers import AsyncOffPolicyDriver, DriverSettings, EnvSpecs, SyncOffPolicyDriver
from alf.environments import ArraySpec, BehaviorEnvironment, BoundedArraySpec, load
from alf.errors import ConfigError, EnvError
from alf.replay import make_replayer
from alf.testing.fakes import (
    FakeEnvironment,
    FrozenPolicy,
    RecordingLearner,
    SpecEnvironment,
    make_counting_envs,
)
from alf.testing.toy_environments import CountingEnvironment, MatchObservationEnvironment
from tests.builders import build_driver, collect_and_observe

DRIVERS = [AsyncOffPolicyDriver, SyncOffPolicyDriver]


def config_error(*texts):
    """Expects one ConfigError whose text holds all `texts`."""
    pattern = "".join(f"(?=.*{text})" for text in texts)
    return pytest.raises(ConfigError, match=f"(?s){pattern}")


# --- Settings.


class InPython(CountingEnvironment):
    computes_in_python = True


@pytest.mark.parametrize(
    "envs, device, given, expected",
    [
        ([InPython, InPython], "CPU:0", {}, (1, 0)),
        ([InPython, CountingEnvironment], "CPU:0", {}, (None, 0)),
        ([InPython, InPython], "GPU:0", {}, (1, 1)),
        ([InPython, InPython], "GPU:0", {"actor_device": "/cpu:0"}, (1, 0)),
        ([InPython, InPython], "CPU:0", {"actor_queue_cap": 2}, (None, 1)),
        ([InPython, InPython], "CPU:0", {"num_actor_queues": 2}, (None, 2)),
        ([InPython, InPython], "CPU:0", {"start_spread": 1.0}, (None, 0)),
        ([InPython, InPython], "CPU:0", {"num_env_threads": None, "num_actor_queues": 1}, (None, 1)),
        ([CountingEnvironment] * 2, "CPU:0", {"num_env_threads": 2}, (2, 0)),
    ],
)
def test_threads_and_actors_are_chosen_by_the_environments(envs, device, given, expected):
    envs = [make(2, 5) for make in envs]
    chosen = DriverSettings(**given).choose(envs, device)
    assert (chosen.num_env_threads, chosen.num_actor_queues) == expected


def test_a_driver_says_which_it_has_chosen(caplog):
    caplog.set_level("INFO")
    envs = [BehaviorEnvironment(InPython(2, 5), lambda *_: None) for _ in range(2)]
    driver = AsyncOffPolicyDriver(envs, FrozenPolicy(envs[0]))
    driver.stop()
    assert driver.settings.count_threads(2) == (1, 0)
    assert "groups: 2 of 2 environments, threads: 1, actors: 0" in caplog.text


@pytest.mark.parametrize("cap, unrolls", [(None, 3), (2, 2)])
def test_a_batch_may_have_an_unroll_of_each_group(cap, unrolls):
    make = lambda i: FakeEnvironment(2, env_index=i)  # noqa: E731
    driver = make_counting_driver(AsyncOffPolicyDriver, make, learn_queue_cap=cap)
    driver.start()
    try:
        (batch,) = driver.collect()
    finally:
        driver.stop()
    assert batch.step_type.shape[0] == driver.batch_shape[0] == unrolls


def test_environments_say_where_they_compute():
    makers = {
        lambda: load("CartPole-v1", 2): True,
        lambda: load("CartPole-v1", 2, num_workers=0): True,
        lambda: load("CartPole-v1", 2, num_workers=1): False,
    }
    for make, expected in makers.items():
        with make() as env:
            assert env.computes_in_python == expected


WRONG_SETTINGS = [
    (
        3,
        {"num_actor_queues": 2, "actor_queue_cap": 2},
        ["num_groups is 3", r"num_actor_queues \* actor_queue_cap = 2 \* 2", "wait for ever"],
    ),
    (2, {"num_actor_queues": 3}, ["num_groups is 2", r"num_actor_queues \* actor_queue_cap = 3 \* 1"]),
    (2, {"actor_queue_cap": 3}, ["num_groups is 2", r"num_actor_queues \* actor_queue_cap = 1 \* 3"]),
    (2, {"learn_queue_cap": 3}, ["learn_queue_cap is 3", "num_groups = 2"]),
    (2, {"learn_queue_cap": 0}, ["learn_queue_cap is 0", "at least 1"]),
    (2, {"actor_queue_cap": 0}, ["actor_queue_cap is 0", "at least 1"]),
    (2, {"num_actor_queues": -1}, ["num_actor_queues is -1", "at least 0"]),
    (3, {"num_env_threads": 2}, ["num_env_threads is 2", "must divide num_groups = 3"]),
    (2, {"num_env_threads": 4}, ["num_env_threads is 4", "must divide num_groups = 2"]),
    (4, {"num_env_threads": 2, "actor_queue_cap": 3}, ["num_env_threads is 2, less than", "= 1 \\* 3"]),
    (2, {"num_actor_queues": 0, "actor_queue_cap": 2}, ["actor_queue_cap is 2", "num_actor_queues is 0"]),
    (2, {"prefetch": True, "mode": "lockstep"}, ["DriverSettings.prefetch is True", "mode must be 'async'"]),
    (2, {"unroll_length": 0}, ["AsyncOffPolicyDriver.unroll_length is 0", "above 0"]),
]


def test_a_wrong_setting_is_named(subtests):
    for num_groups, kwargs, texts in WRONG_SETTINGS:
        envs = make_counting_envs(num_groups)
        with subtests.test(num_groups=num_groups, **kwargs), config_error(*texts):
            build_driver(AsyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), **kwargs)
    envs = make_counting_envs(1)
    with config_error("SyncOffPolicyDriver.unroll_length is -1", "above 0"):
        build_driver(SyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=-1)
    with config_error("DriverSettings.prefetch is True", "use AsyncOffPolicyDriver"):
        build_driver(SyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), prefetch=True)


def test_unroll_length_of_a_spec():
    """A replayer is made for this spec before there is a driver that checks its unroll_length."""
    envs = make_counting_envs(1)
    for unroll_length in (0, 1.5):
        with config_error(f"unroll_length is {unroll_length}", "an integer, at least 1"):
            EnvSpecs(envs).unroll_spec(FrozenPolicy(envs[0]), unroll_length)


def test_name_of_the_replayer():
    envs = make_counting_envs(2)
    unroll_spec = EnvSpecs(envs).unroll_spec(FrozenPolicy(envs[0]), 3)
    for name in ("one_tmie", "x"):
        with config_error(f"exp_replayer is '{name}'", "one_time"):
            make_replayer(name, unroll_spec, num_groups=2)


def test_the_bounds_themselves_are_allowed():
    envs = make_counting_envs(4)
    driver = build_driver(
        AsyncOffPolicyDriver,
        envs,
        RecordingLearner(FrozenPolicy(envs[0])),
        num_actor_queues=2,
        actor_queue_cap=2,
        learn_queue_cap=4,
        unroll_length=1,
    )
    driver.stop()
    specs = EnvSpecs(envs)
    assert (specs.num_groups, specs.batch_size) == (4, 2)


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_no_environment(driver_class):
    learner = RecordingLearner(FrozenPolicy(CountingEnvironment(2)))
    with config_error("envs is empty"):
        build_driver(driver_class, [], learner)


def test_the_synchronous_driver_has_no_collectors():
    env = CountingEnvironment(2)
    with config_error("SyncOffPolicyDriver has no collectors"):
        build_driver(SyncOffPolicyDriver, [env], RecordingLearner(FrozenPolicy(env)), collectors=mock.Mock())


def test_unbatched_environment():
    env = random_py_environment.RandomPyEnvironment(
        BoundedArraySpec((2,), np.float32, 0, 1), BoundedArraySpec((), np.int64, 0, 1)
    )
    assert not env.batched
    with config_error(r"envs\[1\] is not batched"):
        build_driver(
            AsyncOffPolicyDriver,
            [CountingEnvironment(1), env],
            RecordingLearner(FrozenPolicy(CountingEnvironment(1))),
        )


@pytest.mark.parametrize(
    "other",
    [
        CountingEnvironment(3),
        MatchObservationEnvironment(2, num_actions=2),
        SpecEnvironment(
            2,
            CountingEnvironment(2).observation_spec(),
            CountingEnvironment(2).action_spec(),
            ArraySpec((2,), np.float32, "reward"),
        ),
    ],
    ids=["batch_size", "observation_spec", "reward_spec"],
)
def test_environments_that_differ(other):
    envs = [CountingEnvironment(2), other]
    with config_error(r"envs\[1\]", "batch_size", r"specs than envs\[0\]"):
        build_driver(AsyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])))


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize(
    "action_spec, text",
    [
        (BoundedArraySpec((), np.int32, 0, 1), r"int32 \(\) instead of int64 \(\)"),
        (BoundedArraySpec((2,), np.int64, 0, 1), r"int64 \(2,\) instead of int64 \(\)"),
        ({"a": BoundedArraySpec((), np.int64, 0, 1)}, "structure"),
    ],
    ids=["dtype", "shape", "dict"],
)
def test_policy_of_other_actions_than_the_environments(driver_class, action_spec, text):
    env = CountingEnvironment(2)
    other = SpecEnvironment(2, env.observation_spec(), action_spec, env.reward_spec())
    with config_error("policy's action_spec", text):
        build_driver(driver_class, [env], RecordingLearner(FrozenPolicy(other)))


def test_reward_of_too_high_a_rank():
    env = CountingEnvironment(2)
    specs = env.observation_spec(), env.action_spec(), ArraySpec((2, 2), np.float32, "reward")
    with config_error("reward has shape"):
        build_driver(SyncOffPolicyDriver, [SpecEnvironment(2, *specs)], RecordingLearner(FrozenPolicy(env)))


# --- What environments return.


class WrongEnvironment(FakeEnvironment):
    """Returns `change(time_step)` from step number `wrong_at` on; 0 is the reset, and only that."""

    def __init__(self, *args, change, wrong_at, **kwargs):
        super().__init__(*args, **kwargs)
        self._change = change
        self._wrong_at = wrong_at

    def answer(self, number, time_step):
        is_wrong = number >= self._wrong_at if self._wrong_at else number == 0
        return self._change(time_step) if is_wrong else time_step


def _observation(change):
    return lambda time_step: time_step._replace(observation=change(time_step.observation))


# One check serves resets and steps. It looks at types of arrays, at the structure, and at the other parts.
WRONG_STEPS = {
    ("dtype", 0): (
        _observation(lambda x: x.astype(np.float64)),
        ["observation_spec", "float64", "instead of float32"],
    ),
    ("shape", 3): (_observation(lambda x: x[:, :2]), [r"\(2, 2\)", r"\(2, 3\)", "observation_spec"]),
    ("unbatched", 0): (_observation(lambda x: x[0]), [r"\(3,\)", r"\(2, 3\)", "batch_size"]),
    ("dict", 0): (_observation(lambda x: {"state": x}), ["structure", "observation_spec"]),
    ("tuple", 3): (_observation(lambda x: (x, x)), ["structure", "observation_spec"]),
    ("float", 0): (
        _observation(lambda x: 0.5),
        [r"float64 \(\) instead of float32 \(2, 3\)", "observation_spec"],
    ),
    ("reward", 3): (lambda t: t._replace(reward=np.float32(1.0)), [r"reward \(\)", "batch_size"]),
    ("reward", 0): (lambda t: t._replace(reward=np.zeros((2, 2), np.float32)), [r"\(2, 2\)", "reward_spec"]),
    ("discount", 0): (lambda t: t._replace(discount=np.ones(1, np.float32)), [r"discount \(1,\)"]),
    ("step_type", 0): (lambda t: t._replace(step_type=t.step_type[0]), [r"step_type \(\)", "batch_size"]),
}


def test_an_environment_that_breaks_its_spec_is_named(subtests):
    for (name, wrong_at), (change, texts) in WRONG_STEPS.items():
        envs = [
            FakeEnvironment(2, env_index=0),
            WrongEnvironment(2, env_index=1, change=change, wrong_at=wrong_at),
        ]
        driver = build_driver(
            SyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=5
        )
        with subtests.test(name, wrong_at=wrong_at), config_error(r"envs\[1\]", *texts):
            driver.start()
            collect_and_observe(driver)
        driver.stop()


def test_environment_that_breaks_its_spec_with_the_asynchronous_driver():
    envs = [
        FakeEnvironment(2, env_index=0),
        WrongEnvironment(2, env_index=1, change=_observation(lambda x: x[:, :2]), wrong_at=3),
    ]
    driver = build_driver(
        AsyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=2
    )
    with config_error(r"envs\[1\]", "observation_spec"):
        driver.start()
        for _ in range(100):
            collect_and_observe(driver)
    driver.stop()


class OtherKeys(SpecEnvironment):
    """As many arrays as its spec says, under another name."""

    def _time_step(self):
        time_step = super()._time_step()
        return time_step._replace(observation={"b": time_step.observation["a"]})


def test_environment_with_other_keys_than_its_spec():
    spec = {"a": BoundedArraySpec((2,), np.float32, 0, 1)}
    env = OtherKeys(2, spec, CountingEnvironment(2).action_spec(), ArraySpec((), np.float32))
    driver = build_driver(SyncOffPolicyDriver, [env], RecordingLearner(FrozenPolicy(env)), unroll_length=2)
    with config_error(r"envs\[0\]", "structure", "observation_spec"):
        driver.start()
    driver.stop()


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_rewards_of_any_dtype_become_float32(dtype):
    env = CountingEnvironment(2)
    specs = env.observation_spec(), env.action_spec(), BoundedArraySpec((), dtype, 0, 9, "reward")
    env = SpecEnvironment(2, *specs)
    learner = RecordingLearner(FrozenPolicy(env))
    driver = build_driver(SyncOffPolicyDriver, [env], learner, unroll_length=3)
    try:
        driver.start()
        collect_and_observe(driver)
    finally:
        driver.stop()
    assert learner.observed[0].reward.dtype == np.float32
    assert np.any(learner.observed[0].reward > 0)


# --- What rollout_step returns.


WRONG_POLICY_STEPS = {
    "dtype": (lambda p: p._replace(action=tf.cast(p.action, tf.int32)), ["int32", "int64"]),
    "shape": (lambda p: p._replace(action=p.action[:, tf.newaxis]), [r"\(\d+, 1\)"]),
    "scalar": (lambda p: p._replace(action=p.action[0]), [r"int64 \(\)"]),
    "tuple": (lambda p: p._replace(action=(p.action, p.action)), ["specs"]),
    "no info": (lambda p: p._replace(info=()), ["specs"]),
    "more info": (lambda p: p._replace(info={**p.info, "more": p.action}), ["specs"]),
    "state": (lambda p: p._replace(state=p.action), ["specs"]),
    "no policy step": (lambda p: p.action, ["specs"]),
}


def test_a_rollout_step_that_breaks_its_specs_is_named(subtests):
    """The drivers share the check."""
    rows = [(SyncOffPolicyDriver, name) for name in WRONG_POLICY_STEPS]
    rows += [(AsyncOffPolicyDriver, name) for name in ("dtype", "no info")]
    for driver_class, name in rows:
        change, texts = WRONG_POLICY_STEPS[name]
        envs = [FakeEnvironment(2)]
        driver = build_driver(
            driver_class, envs, RecordingLearner(FrozenPolicy(envs[0], change=change)), unroll_length=2
        )
        with subtests.test(name, driver=driver_class.__name__):
            with config_error("rollout_step", *texts):
                driver.start()
            driver.stop()
            assert envs[0].num_closes == 1


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize(
    "envs, text",
    [
        (
            [CountingEnvironment(2), gymnasium.make("CartPole-v1")],
            r"envs\[1\] \(TimeLimit\) is not",
        ),
        (
            [CountingEnvironment],
            r"envs\[0\] \(type\) is not a batched environment, such as",
        ),
        (lambda: CountingEnvironment(2), "it must be a list of batched environments; or see from_env_fn"),
        (CountingEnvironment(2), "it must be a list of batched environments"),
    ],
    ids=["gymnasium", "class", "callable", "environment"],
)
def test_what_is_no_environment(driver_class, envs, text):
    with config_error(text):
        build_driver(driver_class, envs, RecordingLearner(FrozenPolicy(CountingEnvironment(2))))


# --- from_env_fn.


def make_counting_driver(driver_class, env_fn, num_groups=3, **kwargs):
    learner = RecordingLearner(FrozenPolicy(CountingEnvironment(2)))
    return build_driver(
        lambda envs, policy, **given: driver_class.from_env_fn(env_fn, num_groups, policy, **given),
        None,
        learner,
        **kwargs,
    )


@pytest.mark.parametrize(
    "driver_class, takes_index", [(AsyncOffPolicyDriver, True), (SyncOffPolicyDriver, False)]
)
def test_from_env_fn(driver_class, takes_index):
    made = []

    def env_fn(index):
        made.append(FakeEnvironment(2, env_index=index))
        return made[-1]

    kwargs = {"learn_queue_cap": 3} if driver_class is AsyncOffPolicyDriver else {}
    env_fn_or_less = env_fn if takes_index else lambda: env_fn(len(made))
    driver = make_counting_driver(driver_class, env_fn_or_less, unroll_length=2, **kwargs)
    assert len(made) == 3
    try:
        driver.start()
        for _ in range(3):
            collect_and_observe(driver)
    finally:
        driver.stop()
    for experience in driver.learner.observed:
        np.testing.assert_array_equal(experience.env_id, experience.observation[..., 0])
    assert [env.num_closes for env in made] == [1, 1, 1]


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize("raised, expected", [(ZeroDivisionError, EnvError), (ConfigError, ConfigError)])
def test_from_env_fn_that_fails(driver_class, raised, expected):
    made = []

    def env_fn(index):
        if index == 2:
            raise raised("no")
        made.append(FakeEnvironment(2))
        return made[-1]

    with pytest.raises(expected, match=r"env_fn raised for environment 2: \w+\('no'\)"):
        make_counting_driver(driver_class, env_fn)
    assert [env.num_closes for env in made] == [1, 1]


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_from_env_fn_closes_its_environments_if_there_is_no_driver(driver_class):
    made = []
    env_fn = lambda: made.append(FakeEnvironment(2)) or made[-1]  # noqa: E731
    with config_error("unroll_length is -1"):
        make_counting_driver(driver_class, env_fn, unroll_length=-1)
    assert [env.num_closes for env in made] == [1, 1, 1]
    for num_groups in (0, 1.5):
        with config_error(f"num_groups is {num_groups}: it must be an integer, at least 1"):
            make_counting_driver(driver_class, env_fn, num_groups=num_groups)
    with config_error(r"env_fn is \[\]: it must be a class or function"):
        make_counting_driver(driver_class, [])
