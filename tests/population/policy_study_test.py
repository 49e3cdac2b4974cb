# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PolicyStudy: its decisions against a literal model, also if the run ends anywhere and goes on."""

import copy
import json
import math

import numpy as np
import pytest

from alf.population.mutation import Discount, LogUniform, Mutation, Replacement, mutate
from alf.population.policy_study import PolicyStudy

INTERVAL, SEED = 100, 3
RANGES = {"Adam.learning_rate": LogUniform(1e-6, 1e-1), "PPOAlgorithm.discount": Discount(0.9, 0.999)}
MUTATION = dict(rate=0.7, min_factor=1.2, max_factor=2.0, resample_rate=0.1)


def make_study(num_policies=5, seed=SEED, objective="AverageReturn", **replacement):
    rules = Mutation(**MUTATION), Replacement(**replacement)
    study = PolicyStudy(num_policies, RANGES, INTERVAL, objective, seed, *rules)
    study.begin()
    return study


def make_reports(seed, num_policies=5, num_intervals=12):
    """Reports in any order of the policies: member, environment steps, objective, whether it has diverged."""
    rng, steps, reports = np.random.default_rng(seed), [0] * num_policies, []
    for _ in range(num_policies * num_intervals):
        member = int(rng.integers(num_policies))
        steps[member] += INTERVAL
        has_diverged = bool(rng.random() < 0.1)
        no_objective = has_diverged or rng.random() < 0.1
        objective = math.nan if no_objective else float(rng.normal())
        reports.append((member, steps[member], objective, has_diverged))
    return reports


def literal_decisions(reports, num_policies, quantile, min_gap, min_relative_gap, warm_up):
    """Computes the decisions without `PolicyStudy`; yields the parent, and the settings of all."""
    settings = []
    for i in range(num_policies):
        rng = np.random.default_rng([SEED, i + 1])
        settings.append({name: values.draw(rng) for name, values in RANGES.items()})
    last = {}  # member -> objective, without NaN
    count = math.ceil(num_policies * quantile)
    for number, (member, env_steps, objective, has_diverged) in enumerate(reports, start=num_policies + 1):
        last.pop(member, None)
        if not math.isnan(objective):
            last[member] = objective
        rng = np.random.default_rng([SEED, number])
        nobody = [i for i in range(num_policies) if i not in last]
        order = nobody + sorted(last, key=lambda i: (last[i], i))
        best = [i for i in order[num_policies - count :] if i in last]
        parent = None
        if best and (has_diverged or (env_steps >= warm_up and member in order[:count])):
            parent = best[rng.integers(len(best))]
            if member in last:
                gap = last[parent] - last[member]
                enough = gap > 0 and gap >= min_gap and gap >= min_relative_gap * abs(last[parent])
                parent = parent if enough else None
        if parent is not None:
            settings[member] = mutate(settings[parent], RANGES, rng, **MUTATION)
        yield parent, copy.deepcopy(settings)


SETTINGS = {
    "half": dict(quantile=0.4),
    "gap": dict(quantile=0.2, min_gap=1.0),
    "relative_gap": dict(quantile=0.4, min_relative_gap=1.5),
    "warm_up": dict(quantile=0.2, warm_up=4 * INTERVAL),
}
DEFAULTS = dict(min_gap=0.0, min_relative_gap=0.0, warm_up=0)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_decisions_are_those_of_the_literal_model(settings, seed):
    study, reports = make_study(**SETTINGS[settings]), make_reports(seed)
    copies = 0
    for report, expected in zip(
        reports, literal_decisions(reports, 5, **DEFAULTS | SETTINGS[settings]), strict=True
    ):
        assert (study.report(*report), study.settings) == expected
        copies += expected[0] is not None
    assert study.num_copies == copies > 5


def test_a_run_that_ends_anywhere_goes_on_as_if_it_had_not():
    whole, reports = make_study(quantile=0.4), make_reports(5)
    state = json.dumps(whole.get_state())
    for report in reports:
        again = make_study(quantile=0.4, seed=SEED)
        again.set_state(json.loads(state))
        again.begin()
        assert again.report(*report) == whole.report(*report)
        state = json.dumps(again.get_state())
    assert json.loads(state) == whole.get_state()
    assert whole.num_copies > 10


def test_what_was_reported_by_another_objective_does_not_count():
    study = make_study(2, quantile=0.5)
    for member in range(2):
        study.report(member, INTERVAL, 1000.0 + member)
    for _ in range(2):  # it is kept which ones these are
        again = make_study(2, objective="info/speed", quantile=0.5)
        again.set_state(study.get_state())
        assert all(math.isnan(objective) for objective in again.objectives)
        assert again.is_due(0, 2 * INTERVAL) and not again.is_due(0, 2 * INTERVAL - 1)
        study = again
    assert study.report(0, 2 * INTERVAL, 0.25) is None
    assert study.objectives[0] == 0.25
    assert study.report(1, 2 * INTERVAL, 0.125) == 0


def test_what_was_saved_does_not_change_afterwards():
    study, reports = make_study(quantile=0.4), make_reports(5)
    for report in reports[:20]:
        study.report(*report)
    state = study.get_state()
    before = copy.deepcopy(state)
    for report in reports[20:]:
        study.report(*report)
    assert state == before != study.get_state()


def test_an_interval_is_over_once_however_far_a_train_iteration_goes():
    study, steps, reported = make_study(2), 0, []
    for more in [60, 60, 20, 59, 1, 350, 40, 10]:  # 60, 120, 140, 199, 200, 550, 590, 600
        steps += more
        if study.is_due(0, steps):
            study.report(0, steps, 1.0)
            reported.append(steps)
    assert reported == [120, 200, 550, 600]
    assert not study.is_due(1, 99) and study.is_due(1, 100)


def test_rows_say_whom_a_policy_had_copied_before_and_with_which_settings():
    study = make_study(4, quantile=0.25)
    first = copy.deepcopy(study.settings)
    for member, objective in enumerate([4.0, 3.0, 2.0, 1.0]):
        parent = study.report(member, 100 + member, objective)
    assert parent == 0 and study.num_copies == 1
    second = copy.deepcopy(study.settings[3])
    assert study.report(3, 203, 3.5) is None
    assert study.report(3, 303, 3.7) is None
    found = [
        (r["member"], r["env_steps"], r["objective"], r["parent"], r["parent_env_steps"]) for r in study.rows
    ]
    assert found[3:] == [(3, 103, 1.0, None, None), (3, 203, 3.5, 0, 100), (3, 303, 3.7, None, None)]
    assert [row["settings"] for row in study.rows] == [*first, second, second]
    assert study.num_copies == 1


def test_without_a_good_policy_nobody_copies():
    study = make_study(2, quantile=0.5)
    assert study.report(0, 50, math.nan, True) is None
    assert study.report(1, 100, math.nan) is None
    assert make_study(2, quantile=0.0).report(0, 50, math.nan, True) is None


def test_without_a_seed_runs_differ():
    first, second = (make_study(seed=None).settings for _ in range(2))
    assert first != second
    assert make_study().settings == make_study().settings != make_study(seed=4).settings
