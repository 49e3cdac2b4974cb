# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PopulationStudy: orders and reports, what it goes on with, crashes, turns, other studies, damage."""

import errno
import json
import math
import os

import pytest

from alf.errors import ConfigError, SaveError
from alf.studies.evolution import Mutation, Replacement
from alf.studies.population_study import PopulationStudy
from alf.studies.ranges import Choice, LogUniform
from alf.studies.settings import Population

INTERVAL = 100
RANGES = {"Adam.learning_rate": LogUniform(1e-6, 1e-1), "A.kind": Choice(["x", "y", "z"])}


def make_population(ranges=RANGES, seed=3, **replacement):
    return Population(
        ranges,
        INTERVAL,
        seed=seed,
        max_failures=2,
        mutation=Mutation,
        replacement=lambda: Replacement(**replacement),
    )


def make_study(
    folder, num_members=3, config=None, lines=None, population=None, takes_turns=False, **replacement
):
    announce = (lambda text: None) if lines is None else lines.append
    population = population or make_population(**replacement)
    rest = config or {"a.b": "1"}, population, num_members, takes_turns
    return PopulationStudy(str(folder), announce, *rest)


def read_order(run):
    with open(os.path.join(run.path, "order.json"), encoding="utf-8") as file:
        return json.load(file)


def report(study, run, env_steps, objective, diverged=False, is_over=False, reason=""):
    """Does what a member does at the end of an interval; returns what `watch` says."""
    content = dict(
        turn=read_order(run)["turn"], env_steps=env_steps, objective=objective, path=f"ckpt-{env_steps}"
    )
    content |= dict(diverged=diverged, is_over=is_over, reason=reason)
    with open(os.path.join(run.path, "report.json"), "w", encoding="utf-8") as file:
        json.dump(content, file)
    return study.watch(run)


def test_orders_are_written_before_they_are_given_and_reports_are_taken_once(tmp_path):
    lines = []
    study = make_study(tmp_path, 2, lines=lines, quantile=0.5)
    first, second = study.next_run(), study.next_run()
    assert study.next_run() is None and first.arguments == (
        "-m",
        "alf",
        "run_member",
        str(tmp_path / "config.gin"),
        first.path,
    )
    order = read_order(second)
    settings = study.evolution.orders[1]["settings"]
    assert order["tunables"] == {"Adam.learning_rate": settings["Adam.learning_rate"]}
    assert order["graph"] == {"A.kind": settings["A.kind"]} and list(order["limits"]) == [
        "Adam.learning_rate"
    ]
    assert (order["number"], order["parent"], order["interval"], order["objective"]) == (
        0,
        None,
        100,
        "BalancedReturn",
    )
    assert not report(study, first, 100, 4.0)
    assert not study.watch(first) and len(study.evolution.rows) == 1, "a report is taken once"
    assert not report(study, second, 100, 1.0)
    order = read_order(second)
    assert (order["number"], order["parent"]) == (
        1,
        dict(member=0, path="ckpt-100", env_steps=100, objective=4.0),
    )
    state = json.loads((tmp_path / "population.json").read_text())
    assert state["orders"] == study.evolution.orders and state["rows"] == study.evolution.rows
    assert lines[0].startswith(
        "member 0 has the best objective so far, 4, at 100 env steps; Adam.learning_rate "
    )
    assert lines[1].startswith("member 1, 1, copies member 0, 4, at 100 env steps; Adam.learning_rate ")
    table = [line.split(",") for line in (tmp_path / "population.csv").read_text().splitlines()]
    assert table[0] == ["member", "env_steps", "objective", "parent", "parent_env_steps", *RANGES]
    assert [line[:5] for line in table[1:]] == [["0", "100", "4.0", "", ""], ["1", "100", "1.0", "", ""]]


def test_a_study_that_is_killed_between_decisions_goes_on_with_its_orders(tmp_path):
    study = make_study(tmp_path, 2, quantile=0.5)
    runs = [study.next_run(), study.next_run()]
    report(study, runs[0], 100, 4.0)
    report(study, runs[1], 100, 1.0)
    report(study, runs[0], 200, 5.0)
    again = make_study(tmp_path, 2, quantile=0.5)
    assert again.evolution.get_state() == study.evolution.get_state()
    run = [again.next_run(), again.next_run()][1]
    assert not again.watch(run), "the report of before is not taken again"
    before, now = read_order(runs[1]), read_order(run)
    assert now["number"] == before["number"] == 1 and now["turn"] >= before["turn"]
    assert {**now, "turn": 0} == {**before, "turn": 0}
    assert not report(again, run, 200, math.nan)
    assert again.evolution.rows[-1]["parent"] == 0


def test_a_member_that_has_ended_and_a_target_that_ends_all(tmp_path):
    lines = []
    study = make_study(tmp_path, 2, lines=lines)
    first, second = study.next_run(), study.next_run()
    report(study, first, 100, 1.0, is_over=True, reason="num_env_steps=100 reached")
    study.end(first, 0, "")
    assert lines[-1] == "member 0 has ended: num_env_steps=100 reached" and study.next_run() is None
    assert not study.watch(second) and study.stop_reason is None
    report(study, second, 100, 2.0, is_over=True, reason="target_return=2 reached")
    assert study.stop_reason == "member 1: target_return=2 reached" and study.watch(first)


def test_a_member_that_crashes_is_started_again_until_it_is_lost(tmp_path):
    lines = []
    study = make_study(tmp_path, 2, lines=lines, quantile=0.5)
    first, second = study.next_run(), study.next_run()
    report(study, first, 100, 5.0)
    for _ in range(2):
        study.end(first, -9, "its process was ended by SIGKILL")
        assert lines[-1] == "member 0 is started again: its process was ended by SIGKILL"
        first = study.next_run()
        assert first.member == 0 and study.next_run() is None
    study.end(first, 1, "the simulator broke")
    assert lines[-1] == "member 0 is lost: the simulator broke" and study.next_run() is None
    assert study.errors == ["the simulator broke"]
    report(study, second, 100, 1.0)
    assert study.evolution.orders[1]["parent"] is None, "nobody copies it"


def test_a_report_before_a_crash_counts(tmp_path):
    study = make_study(tmp_path, 2)
    run = study.next_run()
    content = dict(turn=read_order(run)["turn"], env_steps=100, objective=2.0, path=None, reason="")
    with open(os.path.join(run.path, "report.json"), "w", encoding="utf-8") as file:
        json.dump(content | dict(diverged=False, is_over=False), file)
    study.end(run, 1, "the simulator broke")
    assert [row["objective"] for row in study.evolution.rows] == [2.0]


def test_a_member_that_crashes_while_it_waits_for_its_turn_waits_on(tmp_path):
    study = make_study(tmp_path, 2, takes_turns=True)
    run = study.next_run()
    assert report(study, run, 100, 2.0)
    study.end(run, -9, "its process was ended by SIGKILL")
    assert [study.next_run().member for _ in range(2)] == [1, 0] and study.next_run() is None


def test_a_member_that_diverges_too_often_ends(tmp_path):
    lines = []
    study = make_study(tmp_path, 2, lines=lines, quantile=0.5)
    run = study.next_run()
    bad = dict(env_steps=100, objective=math.nan, diverged=True, reason="its loss is not finite")
    assert [report(study, run, **bad) for _ in range(2)] == [False, False]
    assert not report(study, run, 200, 1.0)
    assert [report(study, run, **bad) for _ in range(3)] == [False, False, True]
    assert lines[-2:] == [
        "member 0 has diverged: its loss is not finite",
        "member 0 ends: it has diverged too often",
    ]
    study.end(run, None, "")
    assert [study.next_run().member, study.next_run()] == [1, None]


def test_a_wrong_setting_that_only_a_member_can_see_ends_the_study(tmp_path):
    study = make_study(tmp_path)
    with pytest.raises(ConfigError, match="^nothing reads the gin binding SGD.momentum$"):
        study.end(study.next_run(), 2, "nothing reads the gin binding SGD.momentum")


def test_members_without_room_take_turns(tmp_path):
    study = make_study(tmp_path, 3, takes_turns=True)
    first = study.next_run()
    assert report(study, first, 100, 1.0), "the others wait"
    study.end(first, None, "")
    assert [study.next_run().member for _ in range(3)] == [1, 2, 0]
    assert not report(study, first, 200, 1.0), "nobody waits"


def test_seeds_make_studies(tmp_path):
    orders = []
    for i, seed in enumerate([1, 1, 2, None, None]):
        (tmp_path / str(i)).mkdir()
        orders.append(make_study(tmp_path / str(i), population=make_population(seed=seed)).evolution.orders)
        settings = [tuple(order["settings"].values()) for order in orders[-1]]
        assert len(set(settings)) > 1
    assert orders[0] == orders[1] and orders[0] != orders[2] and orders[3] != orders[4]


OTHERS = {
    "members": (dict(num_members=4), "^population is 4: the study in .* has 3 members$"),
    "config": (dict(config={"a.b": "2"}), r"holds a study of another config \(a.b is 2 here, 1 there\)"),
    "settings": (
        dict(population=make_population({"B.c": LogUniform(1, 2)})),
        "^Population.settings has B.c: the study in .* tunes Adam.learning",
    ),
}


@pytest.mark.parametrize("other, message", OTHERS.values(), ids=OTHERS)
def test_another_study_in_the_folder(tmp_path, other, message):
    """A wrong first attempt does not stand in the way of the right one, unless a member has a checkpoint."""
    make_study(tmp_path)
    checkpoints = tmp_path / "members" / "1" / "checkpoints"
    checkpoints.mkdir(parents=True)
    study = make_study(tmp_path, **other)
    state = json.loads((tmp_path / "population.json").read_text())
    assert state["orders"] == study.evolution.orders and state["config"] == other.get("config", {"a.b": "1"})
    make_study(tmp_path)
    (checkpoints / "ckpt-0").mkdir()
    before = (tmp_path / "population.json").read_bytes()
    with pytest.raises(ConfigError, match=message):
        make_study(tmp_path, **other)
    assert (tmp_path / "population.json").read_bytes() == before
    (tmp_path / "population.json").unlink()
    with pytest.raises(
        ConfigError, match="population.json cannot be read: it is missing, but there are runs"
    ):
        make_study(tmp_path)
    assert not (tmp_path / "population.json").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\x00", b"[" * 100_000, b"[]", b"null", b"{}"], ids=repr)
def test_a_damaged_state_is_one_line(tmp_path, content):
    (tmp_path / "population.json").write_bytes(content)
    with pytest.raises(
        ConfigError, match="population.json cannot be read: .*; put a good copy of it there, or"
    ):
        make_study(tmp_path)
    assert (tmp_path / "population.json").read_bytes() == content


@pytest.mark.parametrize("name", ["population.json", "population.csv"])
def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, monkeypatch, name):
    def fsync(file):
        if os.readlink(f"/proc/self/fd/{file}") == str(tmp_path / f"{name}.tmp"):
            raise OSError(errno.ENOSPC, "No space left on device")

    study = make_study(tmp_path, 2)
    run = study.next_run()
    report(study, run, 100, 1.0)
    before = (tmp_path / name).read_bytes()
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SaveError, match=f"^.*/{name} cannot be written: No space left on device$"):
        report(study, run, 200, 2.0)
    assert (tmp_path / name).read_bytes() == before and not list(tmp_path.glob("*.tmp"))
    assert read_order(run)["number"] == 0, "an order that is not written is not given"
