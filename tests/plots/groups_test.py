# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Which runs are one curve, and how curves are named."""

import pytest

from alf.config import registry
from alf.plots.groups import find_target, find_task, group_runs, name_folders
from alf.plots.runs import Run

registry.import_settings()

PPO = {"Experiment.seed": "0", "Adam.learning_rate": "0.001", "PPOAlgorithm.discount": "0.99"}
IMPALA = {"Experiment.seed": "0", "Adam.learning_rate": "0.003", "ImpalaAlgorithm.vtrace": "True"}


def group(*settings, **kwargs):
    """Returns {label: indices of the runs}."""
    groups = group_runs([Run(str(i), one, {}) for i, one in enumerate(settings)], **kwargs)
    assert len({one.label for one in groups}) == len(groups)
    return {one.label: [int(run.path) for run in one.runs] for one in groups}


@pytest.mark.parametrize(
    "binding",
    [
        *("Experiment.seed", "a/ActorCriticNetwork.seed", "StopCriteria.num_env_steps"),
        *("Summaries.interval", "Checkpoints.interval", "Evaluator.num_episodes"),
        *("Monitoring.stall_timeout", "LearnerSettings.debug_summaries", "eval/Mine.x"),
        *("alf.environments.load.num_workers", "Experiment.learner_device"),
    ],
)
def test_a_binding_that_is_no_difference(binding):
    assert group(PPO, {**PPO, binding: "7"}) == {"PPO": [0, 1]}


@pytest.mark.parametrize("used", ["x/rate", "rate"])
def test_a_macro_is_as_what_uses_it(used):
    for name, value in (("Experiment.seed", f"%{used}"), ("Evaluator.interval_steps", f"(1, %{used})")):
        assert group({**PPO, name: value, used: "1"}, {**PPO, name: value, used: "2"}) == {"PPO": [0, 1]}
    runs = [{**PPO, "Adam.epsilon": f"(%{used}, 1)", used: value} for value in "12"]
    assert group(*runs) == {f"{used}=1": [0], f"{used}=2": [1]}


def test_the_target_of_all_runs():
    name, other = "StopCriteria.target_return", "StopCriteria.target_eval_return"
    assert find_target([{name: "4"}, {name: "%x/high", "x/high": "%top", "top": "4"}], "AverageReturn") == 4.0
    assert find_target([{name: "4"}], "metrics/AverageReturn") == 4.0
    assert find_target([{name: "4", other: "5"}], "eval/return_mean") == 5.0
    for settings in ([{name: "4"}, {name: "5"}], [{name: "4"}, {}], [{name: "None"}], [{other: "4"}]):
        assert find_target(settings, "AverageReturn") is None
    assert find_target([{name: "4"}], "train/loss") is None


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ([["/r/a"]], ["a"]),
        ([["/r/a", "/r/b"]], ["r"]),
        ([["/r/a/0", "/r/a/1"], ["/r/b/0", "/r/b/1"], ["/r/c"]], ["a", "b", "c"]),
        ([["/r/a0", "/r/a1"], ["/r/b0", "/r/b1"]], ["a0", "b0"]),
        ([["/x/a/0"], ["/y/a/0"]], ["x/a/0", "y/a/0"]),
    ],
)
def test_the_folders_of_groups(groups, names):
    assert name_folders(groups) == names


def test_the_task_of_a_run():
    load = "alf.environments.load"
    assert find_task({f"{load}.name": "'CartPole-v1'", f"eval/{load}.name": "'Other-v1'"}) == "CartPole-v1"
    assert find_task({"load_atari.name": "%x/game", "x/game": "'Pong'"}) == "Pong"
    assert find_task({f"{load}.name": "@make_mine", "Other.name": "'x'"}) == "@make_mine"
    assert find_task(PPO) == ""


@pytest.mark.parametrize("value", ["'{}'", "%x/task"], ids=["text", "macro"])
def test_runs_of_several_tasks_are_one_group_if_that_is_asked_for(value):
    name = "alf.environments.load.name"
    runs = [{**PPO, name: value.format(task), "x/task": f"'{task}'"} for task in ("A-v1", "B-v1")]
    runs.append({**runs[0], "Adam.learning_rate": "0.01"})
    assert group(*runs, across_tasks=True) == {
        "Adam.learning_rate=0.001": [0, 1],
        "Adam.learning_rate=0.01": [2],
    }
    assert len(group(*runs)) == 3


@pytest.mark.parametrize("binding", ["Adam.learning_rate", "Experiment.num_groups", "Loss.seedling"])
def test_a_binding_that_is_a_difference(binding):
    runs = [{**PPO, binding: value, "Experiment.seed": seed} for seed in "01" for value in ("0.1", "0.01")]
    assert group(*runs) == {f"{binding}=0.1": [0, 2], f"{binding}=0.01": [1, 3]}


def test_algorithms_are_named_without_what_they_differ_in():
    assert group(PPO, IMPALA) == {"PPO": [0], "IMPALA": [1]}


def test_groups_of_one_of_several_algorithms():
    other = {**PPO, "Adam.learning_rate": "0.01"}
    expected = {"PPO, Adam.learning_rate=0.001": [0], "IMPALA": [1], "PPO, Adam.learning_rate=0.01": [2]}
    assert group(PPO, IMPALA, other) == expected


def test_several_bindings():
    other = {**PPO, "Adam.learning_rate": "0.01", "PPOAlgorithm.discount": "0.9"}
    assert list(group(PPO, other)) == [
        "Adam.learning_rate=0.001, PPOAlgorithm.discount=0.99",
        "Adam.learning_rate=0.01, PPOAlgorithm.discount=0.9",
    ]


def test_a_binding_that_one_group_lacks_says_less_than_one_that_differs():
    uniform = {**PPO, "Experiment.exp_replayer": "'uniform'"}
    prioritized = {**PPO, "Experiment.exp_replayer": "'prioritized'", "PrioritizedReplayer.alpha": "0.6"}
    assert list(group(uniform, prioritized)) == [
        "Experiment.exp_replayer='uniform'",
        "Experiment.exp_replayer='prioritized'",
    ]


def test_a_binding_that_is_the_only_difference_and_that_one_group_lacks():
    assert list(group(PPO, {**PPO, "RewardScaling.scale": "0.1"})) == ["PPO", "RewardScaling.scale=0.1"]


def test_a_long_value_is_cut_off():
    layers = {name: {**PPO, "Net.layers": f"({', '.join([name] * 20)})"} for name in ("64", "32")}
    first, _ = group(*layers.values())
    assert first == "Net.layers=(64, 64, 64, 64, 64, 64, 64, 64, 64, ..."


def test_a_binding_that_one_group_lacks_is_shown_where_the_others_do_not_tell():
    scaled = {**PPO, "RewardScaling.scale": "0.1"}
    assert list(group(PPO, scaled, {**PPO, "Adam.learning_rate": "0.01"})) == [
        "Adam.learning_rate=0.001",
        "Adam.learning_rate=0.001, RewardScaling.scale=0.1",
        "Adam.learning_rate=0.01",
    ]


def test_labels_that_are_cut_off_alike_are_numbered():
    runs = [{**PPO, "Net.name": "x" * 50 + end} for end in "abc"]
    label = f"Net.name={'x' * 37}..."
    assert list(group(*runs)) == [label, f"{label} (2)", f"{label} (3)"]


def test_several_policies_have_several_algorithms():
    both = {"a/PPOAlgorithm.discount": "0.9", "b/alf.algorithms.DqnAlgorithm.discount": "0.9"}
    assert group(both) == {"DQN + PPO": [0]}


def test_a_setting_that_a_run_does_not_have_has_its_default():
    """Also where another difference has to be named."""
    newer = {**PPO, "PPOAlgorithm.kl_weight": "0.0"}
    assert group(PPO, newer) == {"PPO": [0, 1]}
    assert list(group(PPO, {**newer, "Adam.learning_rate": "0.01"})) == [
        "Adam.learning_rate=0.001",
        "Adam.learning_rate=0.01",
    ]
    assert list(group(PPO, {**newer, "PPOAlgorithm.kl_weight": "0.1"})) == [
        "PPO",
        "PPOAlgorithm.kl_weight=0.1",
    ]


def test_one_setting_under_two_names():
    assert group(PPO, {"alf.optimizers.Adam.learning_rate": "0.001", **PPO}) == {"PPO": [0, 1]}


def test_two_algorithms_are_two_curves_though_all_settings_are_defaults():
    assert group({"PPOAlgorithm.discount": "0.99"}, {"DqnAlgorithm.discount": "0.99"}) == {
        "PPO": [0],
        "DQN": [1],
    }
