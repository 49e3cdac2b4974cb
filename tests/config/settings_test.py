# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The registry of settings: what is known about an argument stands at the argument."""

import dataclasses
import inspect
import pickle
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import gin
import pytest

import alf
from alf.callback import Callback
from alf.config import registry
from alf.config.kinds import AtLeast, Fraction, PositiveInt
from alf.config.parsing import parse_config
from alf.config.registry import own_config
from alf.config.settings import (
    Role,
    Seed,
    Timeout,
    check_arguments,
    checked,
    configurable,
    find_role,
    find_setting,
    settings_of,
)
from alf.errors import ConfigError
from alf.schedules import Schedule
from tests.example_runs import EXAMPLES

registry.import_settings()


class Part:
    pass


@configurable("settings_test")
class Owner:
    """Has one argument of each kind."""

    def __init__(
        self,
        part: Part,
        count: PositiveInt = 1,
        share: Annotated[Fraction | None, Role.ADJUSTABLE] = None,
        timeout: Timeout | None = 5.0,
        seed: Seed = None,
        mode: Literal["a", "b"] = "a",
        make: Callable[[], Any] | None = None,
        **others: int,
    ):
        self.part, self.count, self.others = part, count, others


@configurable("settings_test")
class Heir(Owner):
    pass


@configurable("settings_test", role=Role.MEASUREMENT)
@dataclasses.dataclass(frozen=True)
class Limits:
    steps: PositiveInt | None = None
    port: Annotated[int, AtLeast(0), Role.EXECUTION] = 0


@configurable("settings_test", "renamed")
def double(x: float) -> float:
    return 2 * x


@checked
class Items(NamedTuple):
    sizes: Sequence[PositiveInt]
    weights: dict[str, float] | None = None


@checked
class Pair(NamedTuple):
    left: PositiveInt
    right: int = 0


WRONG = [
    (lambda: Owner(Part(), 0), "Owner.count is 0: it must be an integer, at least 1"),
    (lambda: Owner(Part(), count=True), "Owner.count is True: it must be an integer, at least 1"),
    (lambda: Heir(Part(), count=0), "Heir.count is 0: it must be an integer, at least 1"),
    (
        lambda: Owner(Part(), share=2),
        "Owner.share is 2: it must be a number at least 0 and at most 1, or None",
    ),
    (lambda: Owner(Part(), mode="c"), "Owner.mode is 'c': it must be one of 'a', 'b'"),
    (lambda: Owner(Part(), make="f"), "Owner.make is 'f': it must be a class or function (@NAME), or None"),
    (lambda: Limits(steps=0), "Limits.steps is 0: it must be an integer, at least 1, or None"),
    (lambda: double("a"), "renamed.x is 'a': it must be a number"),
    (lambda: Items([1, 0]), "Items.sizes[1] is 0: it must be an integer, at least 1"),
    (
        lambda: Items(3),
        "Items.sizes is 3: it must be a tuple or list, each an integer, at least 1: write (3,)",
    ),
    (lambda: Items((), {"a": "b"}), "Items.weights['a'] is 'b': it must be a number"),
    (lambda: Items((), [1]), "Items.weights is [1]: it must be a dict, each a number, or None"),
    (lambda: Pair(0), "Pair.left is 0: it must be an integer, at least 1"),
]


ELSEWHERE = {
    "env_f": (alf.AsyncOffPolicyDriver, "is called alf.environments.load.name here"),
    "exp_replayer_class": (alf.AsyncOffPolicyDriver, "is called Experiment.exp_replayer here"),
    "rollout_state_spec": (alf.ActorCriticPolicy, "state_spec of the policy"),
    "gamma": (alf.PPOAlgorithm, "is called PPOAlgorithm.discount here"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_argument_of_another_library_is_answered(name):
    kind, answer = ELSEWHERE[name]
    with pytest.raises(ConfigError, match=f"^{kind.__name__} has no argument '{name}'; {name} .*{answer}"):
        kind(**{name: 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'no_such'"):
        kind(no_such=1)


def test_a_wrong_value_is_one_line_with_name_value_and_rule(subtests):
    for call, message in WRONG:
        with subtests.test(message), pytest.raises(ConfigError) as caught:
            call()
        assert str(caught.value) == message


def test_values_that_gin_binds_are_checked():
    with own_config():
        gin.parse_config(["Owner.count = 0", "renamed.x = 'a'"])
        for call, name in ((lambda: Owner(Part()), "Owner.count is 0"), (double, "renamed.x is 'a'")):
            with pytest.raises(ConfigError, match=name):
                call()


def test_right_values_arrive():
    part = Part()
    owner = Owner(part, 3, other=4)
    assert (owner.part, owner.count, owner.others) == (part, 3, {"other": 4})
    assert double(2) == 4 and Pair(1) == (1, 0) and Limits(2).steps == 2
    assert pickle.loads(pickle.dumps(Limits(2))) == Limits(2)


REFUSED_CALLS = [
    (Owner, TypeError, "missing 1 required positional argument: 'part'"),
    (lambda: double(1.0, y=2), TypeError, "unexpected keyword argument 'y'"),
    (lambda: check_arguments(Owner, {"count": 0}), ConfigError, "Owner.count is 0"),
]


@pytest.mark.parametrize("call, error, message", REFUSED_CALLS)
def test_what_a_call_says(call, error, message):
    check_arguments(Owner, {"count": 1, "unknown": 0})
    with pytest.raises(error, match=message):
        call()


def test_parts_that_alf_hands_over_are_left_to_who_takes_them():
    """Their errors say what to write; and users may hand over objects of their own that do the same."""
    assert Owner("no part").part == "no part"


def test_the_first_wrong_argument_is_named():
    for _ in range(3):
        with pytest.raises(ConfigError, match="Owner.count is 0"):
            Owner(Part(), 0, share=2, timeout=0, mode="c", make=3)


def test_what_the_registry_knows_of_a_setting():
    settings = settings_of("settings_test.Owner")
    assert list(settings) == ["count", "share", "timeout", "seed", "mode", "make", "others"]
    count = settings["count"]
    assert count[:2] == ("settings_test.Owner", "count") and (count.default, count.has_default) == (1, True)
    assert count.kind.text == "int, at least 1"
    assert settings["others"].name == "**others"
    assert find_setting("Owner.part") is None  # only ALF passes it
    assert settings_of("settings_test.Heir").keys() == settings.keys()
    assert find_setting("a/b/Owner.count") == find_setting("settings_test.Owner.count") == count
    assert find_setting("Owner.nothing") is find_setting("Nothing.count") is find_setting("macro") is None


def test_roles():
    roles = {
        "Owner.count": Role.CONDITION,
        "Owner.share": Role.ADJUSTABLE,
        "Owner.timeout": Role.EXECUTION,  # in one part of a union
        "Owner.seed": Role.SEED,
        "Limits.steps": Role.MEASUREMENT,  # that of the class
        "Limits.port": Role.EXECUTION,  # its own
        "eval/Owner.count": Role.MEASUREMENT,
        "a/Owner.count": Role.CONDITION,
        "Unknown.count": Role.CONDITION,
    }
    assert {name: find_role(name) for name in roles} == roles


@gin.configurable(module="settings_test")
class OwnCallback(Callback):
    def __init__(self, patience=1, seed=0):
        pass


def test_roles_of_the_users_own_classes():
    assert find_role("OwnCallback.patience") is Role.ADJUSTABLE  # like `Trainer.callbacks`
    assert find_role("OwnCallback.seed") is Role.SEED


def test_what_roles_mean():
    assert {x for x in Role if x.may_change} == {Role.ADJUSTABLE, Role.MEASUREMENT, Role.EXECUTION}
    assert {x for x in Role if x.tells_apart} == {Role.CONDITION, Role.ADJUSTABLE}


# Settings with which a run must go on, see docs/concepts.
MAY_CHANGE = {
    "Monitoring": "stall_timeout on_stall stop_timeout observers metrics",
    "DriverSettings": "start_spread actor_device",
    "PythonEnvironment": "workers num_workers",
    "WorkerSettings": "start_timeout step_timeout max_restarts restart_period pin_workers single_threaded "
    "worker_nice max_concurrent_starts heartbeat_interval",
    "alf.environments.load": "num_workers info_keys",
    "load_atari": "num_threads",
    "Trainer": "evaluator callbacks checkpoints summaries",
    "alf.training.Trainer": "save_git_state",
    "Checkpoints": "interval max_to_keep replay_buffer",
    "Summaries": "interval custom",
    "Evaluator": "num_episodes",
    "eval/alf.environments.load": "max_episode_steps",
    "main/LearnerSettings": "debug_summaries rollout_summaries summarize_grads_and_vars jit_compile",
    "Experiment": "intra_op_threads learner_device strategy",
    "StopCriteria": "num_env_steps",
    "EpisodeStatistics": "window",
    "RayCollectors": "settings weights_dtype compress",
    "CollectorSettings": "num_cpus num_gpus resources placement learner_num_cpus learner_num_gpus "
    "max_restarts restart_period timeout start_timeout",
    "PolicyPopulation": "interval",
    "Mutation": "rate",
    "Replacement": "quantile",
    "Peers": "timeout",
    "MirroredStrategy": "devices",
}
STAYS = {
    "LearnerSettings": "max_grad_norm",
    "Trainer": "initial_checkpoint batches_per_train_iter",
    "Experiment": "seed unroll_length num_envs",
    "Adam": "learning_rate",
    "PPOAlgorithm": "discount",
    "load_atari": "frame_skip",
    "DriverSettings": "learn_queue_cap mode",
    "alf.environments.load": "batch_size",
    "ActorCriticNetwork": "seed",
}


def test_with_which_settings_a_run_may_go_on():
    for settings, may_change in ((MAY_CHANGE, True), (STAYS, False)):
        names = [f"{owner}.{name}" for owner, names in settings.items() for name in names.split()]
        assert [name for name in names if find_role(name).may_change is not may_change] == []
        assert [name for name in names if find_setting(name) is None] == []


def test_each_default_of_alf_is_one_that_its_annotation_allows():
    wrong, count = [], 0
    for selector in registry.find_own():
        for setting in settings_of(selector).values() if selector.startswith("alf.") else ():
            if setting.has_default:
                count += 1
                wrong += [setting] * (not setting.kind.accepts(setting.default))
    assert wrong == [] and count > 350


def test_what_examples_bind_is_allowed(subtests):
    count = 0
    for path in sorted(EXAMPLES.glob("**/*.gin")):
        with subtests.test(str(path.relative_to(EXAMPLES))), own_config():
            parse_config([str(path)], [])
            for (_, selector), values in registry.list_bindings().items():
                for name, value in values.items():
                    kind = settings_of(selector)[name].kind if name in settings_of(selector) else None
                    if kind and not any(gin.config.iterate_references({"": value})):
                        count += 1
                        assert kind.accepts(value), (selector, name, value)
    assert count > 300


def test_what_follows_a_schedule_says_so():
    scheduled = [
        f"{selector}.{x.name}"
        for selector in registry.find_own()
        for x in settings_of(selector).values()
        if "Schedule" in x.kind.text and selector.startswith("alf.")
    ]
    assert len(scheduled) >= 13
    for name in scheduled:
        setting = find_setting(name)
        value = setting.default if setting.has_default else {"a": 1.0}
        assert isinstance(value, (int, float, dict, Schedule)), name


def test_signatures_stay():
    assert list(inspect.signature(Owner).parameters)[:2] == ["part", "count"]
    assert double.__name__ == "double" and Owner.__doc__ == "Has one argument of each kind."
