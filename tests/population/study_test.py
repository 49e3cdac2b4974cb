# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Study: its orders and its table against a literal model of a population, also if it is killed anywhere."""

import copy
import errno
import functools
import json
import math
import os

import numpy as np
import pytest

from alf.errors import ConfigError, SaveError
from alf.population.mutation import Choice, LogUniform, Mutation, Replacement, choose_parent, mutate
from alf.population.population import Population
from alf.population.study import Study

INTERVAL = 100
RANGES = {"Adam.learning_rate": LogUniform(1e-6, 1e-1), "A.kind": Choice(["x", "y", "z"])}
MUTATION = dict(rate=0.7, min_factor=1.2, max_factor=2.0, resample_rate=0.1)


def make_population(**replacement):
    return Population(
        RANGES,
        INTERVAL,
        seed=3,
        max_failures=2,
        mutation_ctor=lambda: Mutation(**MUTATION),
        replacement_ctor=lambda: Replacement(**replacement),
    )


def make_study(folder, num_members=5, config=None, **replacement):
    return Study(str(folder), make_population(**replacement), num_members, config or {"a.b": "1"})


def make_report(member, env_steps, objective, diverged=False, is_over=False):
    path = f"members/{member}/checkpoints/ckpt-{env_steps}"
    return dict(
        member=member, env_steps=env_steps, objective=objective, path=path, diverged=diverged, is_over=is_over
    )


def make_reports(seed, num_members=5, num_intervals=12):
    """Reports in any order of the members, some without an objective, some diverged."""
    rng, steps, reports = np.random.default_rng(seed), [0] * num_members, []
    for _ in range(num_members * num_intervals):
        member = int(rng.integers(num_members))
        steps[member] += INTERVAL
        objective = math.nan if rng.random() < 0.1 else float(rng.normal())
        diverged = bool(rng.random() < 0.1)
        reports.append(make_report(member, steps[member], math.nan if diverged else objective, diverged))
    return reports


def literal_orders(study, reports, quantile, min_gap, min_relative_gap, warm_up):
    """What each member is to do after each report, computed without `Study`. Yields lists of orders."""
    orders, objectives, reported = copy.deepcopy(study.orders), [math.nan] * len(study.orders), {}
    draws = study._num_draws
    for report in reports:
        member = report["member"]
        order = orders[member]
        objectives[member] = math.nan if report["diverged"] else report["objective"]
        reported[member] = {**report, "settings": order["settings"]}
        draws += 1
        rng = np.random.default_rng([study.seed, draws])
        parent = None
        if report["diverged"]:
            best = sorted((x, i) for i, x in enumerate(objectives) if not math.isnan(x))
            # Of the best ones of all members, so many as are in the quantile.
            best = [i for _, i in best][-math.ceil(len(objectives) * quantile) :]
            parent = best[rng.integers(len(best))] if best else None
        elif report["env_steps"] >= warm_up:
            parent = choose_parent(member, objectives, rng, quantile, min_gap, min_relative_gap)
        number = order["number"] + 1
        if parent is not None:
            other = reported[parent]
            settings = mutate(other["settings"], RANGES, rng, **MUTATION)
            copied = {key: other[key] for key in ("member", "path", "env_steps", "objective")}
            orders[member] = dict(member=member, number=number, settings=settings, parent=copied)
        elif report["diverged"]:
            settings = {name: values.draw(rng) for name, values in RANGES.items()}
            orders[member] = dict(member=member, number=number, settings=settings, parent=None)
        yield copy.deepcopy(orders)


SETTINGS = [
    dict(quantile=0.4),
    dict(quantile=0.2, min_gap=1.0),
    dict(quantile=0.4, min_relative_gap=1.5),
    dict(quantile=0.2, min_gap=0.0, warm_up=4 * INTERVAL),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_the_orders_are_those_of_the_literal_model(tmp_path, settings, seed):
    study, reports = make_study(tmp_path, **settings), make_reports(seed)
    given = {"quantile": 0.25, "min_gap": 0.0, "min_relative_gap": 0.0, "warm_up": 0} | settings
    copies = 0
    for report, expected in zip(reports, literal_orders(study, reports, **given), strict=True):
        assert study.report(report) == expected[report["member"]]
        assert study.orders == expected
        copies += expected[report["member"]]["parent"] is not None
    assert copies > 5


def test_a_study_that_is_killed_at_any_moment_goes_on_as_if_it_were_not(tmp_path):
    whole, reports = make_study(tmp_path, quantile=0.4), make_reports(5)
    (tmp_path / "killed").mkdir()
    for report in reports:
        whole.report(report)
        make_study(tmp_path / "killed", quantile=0.4).report(report)  # from the files alone
    killed = make_study(tmp_path / "killed", quantile=0.4)
    assert killed.orders == whole.orders and killed.table() == whole.table()
    assert (tmp_path / "killed" / "population.csv").read_text() == whole.table()


def test_the_table(tmp_path):
    study = make_study(tmp_path, 4, quantile=0.25)
    for member, objective in enumerate([4.0, 3.0, 2.0, 1.0]):
        order = study.report(make_report(member, 100, objective))
    assert order["parent"] == dict(
        member=0, path="members/0/checkpoints/ckpt-100", env_steps=100, objective=4.0
    )
    assert study.report(make_report(3, 200, 3.5)) is order
    study.report(make_report(3, 300, 3.7))
    lines = [line.split(",") for line in (tmp_path / "population.csv").read_text().splitlines()]
    assert lines[0] == ["member", "env_steps", "objective", "parent", "parent_env_steps", *RANGES]
    assert [line[:5] for line in lines[1:]] == [
        ["0", "100", "4.0", "", ""],
        ["1", "100", "3.0", "", ""],
        ["2", "100", "2.0", "", ""],
        ["3", "100", "1.0", "", ""],
        ["3", "200", "3.5", "0", "100"],
        ["3", "300", "3.7", "", ""],
    ]
    assert lines[5][5:] == [str(order["settings"][name]) for name in RANGES]
    assert study.best() == 0


def test_a_member_that_has_ended_gets_no_other_order_but_may_be_copied(tmp_path):
    study = make_study(tmp_path, 2, quantile=0.5)
    first = copy.deepcopy(study.orders)
    assert study.report(make_report(0, 100, 1.0)) == first[0]
    assert study.report(make_report(1, 100, 0.5, is_over=True)) == first[1]
    study.report(make_report(1, 150, 2.0, is_over=True))
    assert study.report(make_report(0, 200, 1.0))["parent"]["member"] == 1


def test_a_member_that_diverges_too_often_ends(tmp_path):
    study = make_study(tmp_path, 2, quantile=0.5)
    seen = [study.report(make_report(0, 100, math.nan, diverged=True)) for _ in range(2)]
    assert all(order["parent"] is None for order in seen)
    assert seen[0]["settings"] != seen[1]["settings"], "drawn anew, because there is nobody to copy"
    study.report(make_report(0, 100, 1.0))
    seen = [study.report(make_report(0, 100, math.nan, diverged=True)) for _ in range(3)]
    assert [order is None for order in seen] == [False, False, True]


def test_without_a_quantile_nothing_ever_changes(tmp_path):
    study = make_study(tmp_path, 5, quantile=0.0)
    before = copy.deepcopy(study.orders)
    for report in make_reports(1):
        study.report(report)
    assert study.orders == before


def test_a_lost_member_is_not_copied(tmp_path):
    study = make_study(tmp_path, 2, quantile=0.5)
    study.report(make_report(1, 100, 5.0))
    study.lose(1)
    assert study.report(make_report(0, 100, 1.0))["parent"] is None
    assert study.best() == 0


def test_seeds_make_studies(tmp_path):
    orders = []
    for i, seed in enumerate([1, 1, 2, None, None]):
        folder = tmp_path / str(i)
        folder.mkdir()
        study = Study(str(folder), Population(RANGES, INTERVAL, seed=seed), 3, {})
        orders.append(study.orders)
        settings = [tuple(order["settings"].values()) for order in study.orders]
        assert len(set(settings)) > 1
    assert orders[0] == orders[1] and orders[0] != orders[2] and orders[3] != orders[4]


def test_another_study_in_the_folder_is_refused(tmp_path):
    make_study(tmp_path, 3).report(make_report(1, 100, 1.0))
    with pytest.raises(ConfigError, match="^--population is 4: the study in .* has 3 members$"):
        make_study(tmp_path, 4)
    with pytest.raises(ConfigError, match=r"holds a study of another config \(a.b is 2 here, 1 there\)"):
        make_study(tmp_path, 3, config={"a.b": "2"})
    other = Population({"B.c": LogUniform(1, 2)}, INTERVAL)
    with pytest.raises(
        ConfigError, match="^Population.settings has B.c: the study in .* tunes Adam.learning"
    ):
        Study(str(tmp_path), other, 3, {"a.b": "1"})


OTHERS = {
    "members": lambda folder: make_study(folder, 4),
    "config": lambda folder: make_study(folder, 3, config={"a.b": "2"}),
    "settings": lambda folder: Study(
        str(folder), Population({"B.c": LogUniform(1, 2)}, INTERVAL), 3, {"a.b": "1"}
    ),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_a_study_in_which_nothing_was_trained_begins_anew(tmp_path, make):
    """A wrong first attempt does not stand in the way of the right one, unless a member has a checkpoint."""
    make_study(tmp_path, 3)
    checkpoints = tmp_path / "members" / "1" / "checkpoints"
    checkpoints.mkdir(parents=True)
    study = make(tmp_path)
    state = json.loads((tmp_path / "population.json").read_text())
    assert state["orders"] == study.orders and state["config"] == study._config
    make_study(tmp_path, 3)
    (checkpoints / "ckpt-0.complete").touch()
    before = (tmp_path / "population.json").read_bytes()
    with pytest.raises(ConfigError, match="^--population is 4|another config|^Population.settings has"):
        make(tmp_path)
    assert (tmp_path / "population.json").read_bytes() == before


def test_members_without_their_state_are_not_taken_for_those_of_another_study(tmp_path):
    checkpoints = tmp_path / "members" / "1" / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "ckpt-0.complete").touch()
    with pytest.raises(ConfigError, match="population.json cannot be read: it is missing, but members/ has"):
        make_study(tmp_path, 3)
    assert not (tmp_path / "population.json").exists()


def change(*keys, value):
    """A function that sets a part of a state."""

    def damage(state):
        *parents, last = keys
        for key in parents:
            state = state[key]
        state[last] = value

    return damage


DAMAGE = {
    "orders": change("orders", value={}),
    "no order": change("orders", value=[]),
    "an order": change("orders", 1, value=None),
    "a member's number": change("orders", 1, "member", value=7),
    "settings": change("orders", 0, "settings", value=[]),
    "a setting": change("orders", 0, "settings", "Adam.learning_rate", value=None),
    "a setting's name": change("orders", 1, "settings", value={"B.c": 1.0}),
    "parent": change("orders", 1, "parent", value={"member": 0}),
    "config": change("config", value=[]),
    "a text": change("config", "a.b", value=1),
    "seed": change("seed", value="0"),
    "a negative seed": change("seed", value=-1),
    "draws": change("num_draws", value=None),
    "objective": change("objective", value=None),
    "objectives": change("objectives", value=1.0),
    "a text as objective": change("objectives", 0, value="1.0"),
    "few objectives": change("objectives", value=[1.0]),
    "an objective without a row": change("objectives", 0, value=1.0),
    "rows": change("rows", value="no"),
    "a row": change("rows", 0, value=[]),
    "a row's member": change("rows", 0, "member", value=7),
    "a text as steps": change("rows", 0, "env_steps", value="100"),
    "a row's settings": change("rows", 0, "settings", value={}),
    "a row's path": change("rows", 0, "path", value=0),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_wrong_part_of_the_state_is_one_line(tmp_path, damage):
    make_study(tmp_path, 2).report(make_report(1, 100, 1.0))
    make_study(tmp_path, 2)  # the state is good
    path = tmp_path / "population.json"
    state = json.loads(path.read_text())
    damage(state)
    path.write_text(json.dumps(state))
    with pytest.raises(
        ConfigError, match="population.json cannot be read: .*; put a good copy of it there, or"
    ):
        make_study(tmp_path, 2)
    assert json.loads(path.read_text()) == state


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\x00", b"[" * 100_000, b"[]", b"null", b"{}"])
def test_a_state_that_is_none_is_one_line(tmp_path, content):
    (tmp_path / "population.json").write_bytes(content)
    with pytest.raises(ConfigError, match="population.json cannot be read: .*; put a good copy"):
        make_study(tmp_path, 2)
    assert (tmp_path / "population.json").read_bytes() == content


@pytest.mark.parametrize("name", ["population.json", "population.csv"])
def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, monkeypatch, name):
    def fsync(file):
        if os.readlink(f"/proc/self/fd/{file}") == str(tmp_path / f"{name}.tmp"):
            raise OSError(errno.ENOSPC, "No space left on device")

    study = make_study(tmp_path, 2)
    study.report(make_report(1, 100, 1.0))
    before = (tmp_path / name).read_bytes()
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SaveError, match=f"^.*/{name} cannot be written: No space left on device$"):
        study.report(make_report(0, 100, 2.0))
    assert (tmp_path / name).read_bytes() == before and not list(tmp_path.glob("*.tmp"))


def test_a_study_may_go_on_with_another_objective(tmp_path):
    """What was reported by the one before does not count."""
    study = make_study(tmp_path, 2)
    for member in range(2):
        study.report(make_report(member, INTERVAL, 1000.0 + member))
    population = make_population(quantile=0.5)
    population.objective = "info/speed"
    for _ in range(2):
        again = Study(str(tmp_path), population, 2, {"a.b": "1"})
    assert again.report(make_report(0, 2 * INTERVAL, 0.25))["parent"] is None
    assert again.best() == 0
    assert again.report(make_report(1, 2 * INTERVAL, 0.125))["parent"]["member"] == 0
    assert Study(str(tmp_path), population, 2, {"a.b": "1"}).objectives == [0.25, 0.125]


def test_a_study_may_go_on_with_other_ranges(tmp_path):
    """Members, and those who copy what was reported before, get values that the new ranges have."""
    ranges = {"Adam.learning_rate": LogUniform(1e-4, 1e-3), "A.kind": Choice(["z", "new"])}
    study = make_study(tmp_path)
    for member in range(5):
        study.report(make_report(member, INTERVAL, float(member)))
    population = make_population(quantile=0.4)
    population.settings = ranges
    again = Study(str(tmp_path), population, 5, {"a.b": "1"})
    orders = [again.orders, [again.report(make_report(i, 2 * INTERVAL, float(i))) for i in (0, 1)]]
    assert orders[1][0]["parent"] is not None
    for order in sum(orders, []):
        assert 1e-4 <= order["settings"]["Adam.learning_rate"] <= 1e-3
        assert order["settings"]["A.kind"] in ("z", "new")


def test_the_state_is_json_without_nan(tmp_path):
    study = make_study(tmp_path, 2)
    study.report(make_report(0, 100, math.nan))
    refuse = functools.partial(json.loads, parse_constant=lambda name: pytest.fail(name))
    refuse((tmp_path / "population.json").read_text())
    assert math.isnan(make_study(tmp_path, 2).objectives[0])
