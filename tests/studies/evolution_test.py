# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evolution: its decisions against a literal model, for runs and for policies; if it ends anywhere."""

import copy
import json
import math

import numpy as np
import pytest

from alf.studies.evolution import Evolution, Mutation, Replacement, mutate
from alf.studies.ranges import Choice, Discount, LogUniform

INTERVAL, SEED = 100, 3
RANGES = {
    "Adam.learning_rate": LogUniform(1e-6, 1e-1),
    "PPOAlgorithm.discount": Discount(0.9, 0.999),
    "A.kind": Choice(["x", "y", "z"]),
}
MUTATION = dict(rate=0.7, min_factor=1.2, max_factor=2.0, resample_rate=0.1)
KINDS = {"runs": True, "policies": False}  # whether members have checkpoints


def make_evolution(
    num_members=5, seed=SEED, objective="AverageReturn", runs=True, ranges=RANGES, state=None, **replacement
):
    rules = Mutation(**MUTATION), Replacement(**replacement)
    evolution = Evolution(ranges, *rules, objective, seed, has_checkpoints=runs)
    if state is None:
        evolution.begin(num_members)
    else:
        evolution.set_state(json.loads(json.dumps(state)))
    return evolution


def make_reports(seed, num_members=5, num_intervals=12):
    """Reports in any order of the members, some without an objective, some diverged."""
    rng, steps, reports = np.random.default_rng(seed), [0] * num_members, []
    for _ in range(num_members * num_intervals):
        member = int(rng.integers(num_members))
        steps[member] += INTERVAL
        objective = math.nan if rng.random() < 0.1 else float(rng.normal())
        diverged = bool(rng.random() < 0.1)
        path = f"members/{member}/checkpoints/ckpt-{steps[member]}"
        reports.append(
            dict(member=member, env_steps=steps[member], objective=objective, diverged=diverged, path=path)
        )
    return reports


def literal_decisions(reports, runs, quantile, min_gap, min_relative_gap, warm_up):
    """Computes the decisions without `Evolution`; yields the parent, and the settings of all."""
    settings, last, reported = [], {}, {}
    for i in range(5):
        rng = np.random.default_rng([SEED, i + 1])
        settings.append({name: values.draw(rng) for name, values in RANGES.items()})
    count = math.ceil(5 * quantile)
    for number, report in enumerate(reports, start=6):
        member, objective = report["member"], report["objective"]
        if math.isnan(objective) and reported.get(member) is settings[member]:  # the same order as before
            objective = last.get(member, math.nan)
        last.pop(member, None)
        if not math.isnan(objective) and not report["diverged"]:
            last[member] = objective
        reported[member] = settings[member]
        rng = np.random.default_rng([SEED, number])
        order = [i for i in range(5) if i not in last] + sorted(last, key=lambda i: (last[i], i))
        best, parent = [i for i in order[5 - count :] if i in last], None
        is_bad = report["diverged"] or (report["env_steps"] >= warm_up and member in order[:count])
        if best and is_bad:
            parent = best[rng.integers(len(best))]
            if member in last:
                gap = last[parent] - last[member]
                enough = gap > 0 and gap >= min_gap and gap >= min_relative_gap * abs(last[parent])
                parent = parent if enough else None
        if parent is not None:
            before = reported[parent] if runs else settings[parent]
            settings[member] = mutate(before, RANGES, Mutation(**MUTATION), rng)
        elif report["diverged"] and runs:
            settings[member] = {name: values.draw(rng) for name, values in RANGES.items()}
        yield parent, copy.deepcopy(settings)


SETTINGS = {
    "half": dict(quantile=0.4),
    "gap": dict(quantile=0.2, min_gap=1.0),
    "relative_gap": dict(quantile=0.4, min_relative_gap=1.5),
    "warm_up": dict(quantile=0.2, warm_up=4 * INTERVAL),
}
DEFAULTS = dict(min_gap=0.0, min_relative_gap=0.0, warm_up=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_decisions_are_those_of_the_literal_model(kind, settings, seed):
    evolution, reports = make_evolution(runs=KINDS[kind], **SETTINGS[settings]), make_reports(seed)
    rules, copies, last = DEFAULTS | SETTINGS[settings], 0, {}
    for report, (parent, expected) in zip(
        reports, literal_decisions(reports, KINDS[kind], **rules), strict=True
    ):
        before, last[report["member"]] = evolution.orders[report["member"]], report
        order = evolution.report(**report)
        assert order is evolution.orders[report["member"]]
        assert [x["settings"] for x in evolution.orders] == expected
        assert (order is not before) == (order["number"] == before["number"] + 1)
        if parent is not None:
            copied = {key: last[parent][key] for key in ("member", "path", "env_steps")}
            copied["objective"] = evolution.objectives[parent]
            assert order["parent"] == copied and order is not before
            copies += 1
        else:
            assert order is before or (order["parent"] is None and report["diverged"])
    assert evolution.num_copies == copies >= 5


@pytest.mark.parametrize("kind", KINDS)
def test_what_ends_anywhere_goes_on_as_if_it_had_not(kind):
    whole, reports = make_evolution(runs=KINDS[kind], quantile=0.4), make_reports(5)
    state = whole.get_state()
    for report in reports:
        again = make_evolution(runs=KINDS[kind], quantile=0.4, state=state)
        assert again.report(**report) == whole.report(**report)
        state = again.get_state()
    assert state == whole.get_state() and whole.num_copies > 10
    assert "NaN" not in json.dumps(state)


def test_what_was_saved_does_not_change_afterwards():
    evolution, reports = make_evolution(quantile=0.4), make_reports(5)
    for report in reports[:20]:
        evolution.report(**report)
    state = evolution.get_state()
    before = copy.deepcopy(state)
    for report in reports[20:]:
        evolution.report(**report)
    assert state == before != evolution.get_state()


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_reported_by_another_objective_does_not_count(kind):
    evolution = make_evolution(2, runs=KINDS[kind], quantile=0.5)
    for member in range(2):
        evolution.report(member, INTERVAL, 1000.0 + member)
    for _ in range(2):
        state = evolution.get_state()
        evolution = make_evolution(2, objective="info/speed", runs=KINDS[kind], quantile=0.5, state=state)
        assert all(math.isnan(objective) for objective in evolution.objectives)
    before = evolution.orders[0]
    assert evolution.report(0, 2 * INTERVAL, 0.25) is before and evolution.best() == 0
    assert evolution.report(1, 2 * INTERVAL, 0.125)["parent"]["member"] == 0


def test_other_ranges_get_values_that_they_have():
    """Members, and those who copy what was reported before."""
    evolution = make_evolution()
    for member in range(5):
        evolution.report(member, INTERVAL, float(member))
    ranges = RANGES | {"Adam.learning_rate": LogUniform(1e-4, 1e-3), "A.kind": Choice(["z", "new"])}
    again = make_evolution(ranges=ranges, quantile=0.4, state=evolution.get_state())
    orders = [*again.orders, *(again.report(i, 2 * INTERVAL, float(i)) for i in (0, 1))]
    assert orders[-2]["parent"] is not None
    for order in orders:
        assert 1e-4 <= order["settings"]["Adam.learning_rate"] <= 1e-3
        assert order["settings"]["A.kind"] in ("z", "new")


def test_rows_say_whom_a_member_had_copied_before_and_with_which_settings():
    evolution = make_evolution(4, quantile=0.25)
    first = [order["settings"] for order in evolution.orders]
    for member, objective in enumerate([4.0, 3.0, 2.0, 1.0]):
        order = evolution.report(member, 100 + member, objective)
    assert order["parent"]["member"] == 0 and evolution.num_copies == 1
    assert evolution.report(3, 203, 3.5) is order
    assert evolution.report(3, 303, 3.7) is order
    names = "member", "env_steps", "objective", "parent", "parent_env_steps"
    found = [tuple(row[name] for name in names) for row in evolution.rows]
    assert found[3:] == [(3, 103, 1.0, None, None), (3, 203, 3.5, 0, 100), (3, 303, 3.7, None, None)]
    assert [row["settings"] for row in evolution.rows] == [*first, order["settings"], order["settings"]]
    assert evolution.num_copies == 1 and evolution.best() == 0


def test_a_member_that_has_ended_gets_no_other_order_but_may_be_copied():
    evolution = make_evolution(2, quantile=0.5)
    first = list(evolution.orders)
    assert evolution.report(0, 100, 1.0) is first[0]
    assert evolution.report(1, 100, 0.5, is_over=True) is first[1]
    evolution.report(1, 150, 2.0, is_over=True)
    assert evolution.report(0, 200, 1.0)["parent"]["member"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_objective_holds_until_there_is_another_one_or_another_order(kind):
    evolution = make_evolution(2, runs=KINDS[kind], quantile=0.5)
    evolution.report(0, 100, 5.0)
    evolution.report(0, 200, math.nan)
    assert evolution.objectives[0] == evolution.rows[-1]["objective"] == 5.0
    assert evolution.report(1, 100, 1.0)["parent"]["objective"] == 5.0
    evolution.report(1, 200, math.nan)
    assert math.isnan(evolution.objectives[1]) and evolution.rows[-1]["objective"] is None
    evolution.report(0, 300, math.nan, diverged=True)
    assert math.isnan(evolution.objectives[0]) and evolution.rows[-1]["objective"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_good_member_nobody_copies(kind):
    evolution = make_evolution(2, runs=KINDS[kind], quantile=0.5)
    before = evolution.orders[0]
    order = evolution.report(0, 50, math.nan, diverged=True)
    assert order["parent"] is None
    assert (order["settings"] != before["settings"]) == KINDS[kind], "a run draws new settings"
    assert evolution.report(1, 100, math.nan)["parent"] is None


def test_without_a_quantile_nothing_ever_changes():
    evolution = make_evolution(quantile=0.0)
    before = copy.deepcopy(evolution.orders)
    for report in make_reports(1):
        evolution.report(**report)
    assert evolution.orders == before


def test_a_lost_member_is_not_copied():
    evolution = make_evolution(2, quantile=0.5)
    evolution.report(1, 100, 5.0)
    evolution.lose(1)
    assert evolution.report(0, 100, 1.0)["parent"] is None and evolution.best() == 0
