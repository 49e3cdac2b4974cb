# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The tables and the picture of a sweep, from what its runs have written."""

import csv
import io
import json
import os
from pathlib import Path

from alf.studies import table
from tests.studies.stand_ins import make_sweep_study

GRID = {"Adam.learning_rate": ["0.00012345"], "Net.layers": [f"({n},)" for n in (8, 16, 32)]}
# The last and the best returns of each run by trial; None: it has failed.
RETURNS = [[(3.0, 9.0), (5.0, 6.0)], [(7.0, 8.0), None], [None, None]]


def write_run(path, seed, rows, status):
    os.makedirs(path)
    lines = [f"{100 * i},{2 * i},{value}\n" for i, value in enumerate(rows, 1)]
    Path(path, "progress.csv").write_text("env_steps,seconds,metrics/BalancedReturn\n" + "".join(lines))
    config = f"Experiment.seed = {seed}\nPPOAlgorithm.discount = 0.9\nStopCriteria.target_return = 6.5\n"
    Path(path, "operative_config.gin").write_text(config)
    Path(path, "done.json").write_text(json.dumps({"status": status}))


def make_study(folder, grid=GRID, value="last", returns=RETURNS, seeds=(0, 1)):
    study = make_sweep_study(folder, grid, seeds, config={}, value=value)
    while (run := study.next_run()) is not None:
        found = returns[run.trial][run.seed]
        if found is None:
            study.end(run, 1, "KeyError: 'a | b'")
        else:
            write_run(run.path, run.seed, [found[1], found[0]], "SUCCESS")
            study.end(run, 0, "")
    return study


def test_the_mean_over_seeds_the_best_first(tmp_path):
    rows = table.make_rows(make_study(tmp_path))
    shown = [
        (row.settings["Net.layers"], row.finished, row.failed, row.mean, row.low, row.high) for row in rows
    ]
    assert shown == [
        ("(16,)", 1, 1, 7.0, 7.0, 7.0),
        ("(8,)", 2, 0, 4.0, 3.0, 5.0),
        ("(32,)", 0, 2, None, None, None),
    ]
    assert (rows[1].env_steps, rows[1].seconds) == (200, 4)
    # Seed 1 has the higher return of the second row; that of the first row has failed.
    assert [row.best and row.best.seed for row in rows] == [0, 1, None]


def test_the_best_value_of_each_run(tmp_path):
    rows = table.make_rows(make_study(tmp_path, value="best"))
    assert [row.mean for row in rows] == [8.0, 7.5, None]
    assert [row.best and row.best.seed for row in rows] == [0, 0, None]


def test_the_tables(tmp_path):
    study = make_study(tmp_path)
    text = table.write_tables(study)
    assert (tmp_path / "sweep.md").read_text() == text
    assert text == (
        "| Adam.learning_rate | Net.layers | runs | failed | BalancedReturn | interval | env steps "
        "| seconds |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| 0.0001234 | (16,) | 1 of 2 | 1 | 7 | runs: 7 to 7 | 200 | 4.0 |\n"
        "| 0.0001234 | (8,) | 2 of 2 | 0 | 4 | runs: 3 to 5 | 200 | 4.0 |\n"
        "| 0.0001234 | (32,) | 0 of 2 | 2 | - | - | - | - |\n"
        "\n"
        "| failed run | error |\n"
        "| --- | --- |\n"
        "| Adam.learning_rate=0.0001234, Net.layers=(16,), seed 1 | KeyError: 'a \\| b' |\n"
        "| Adam.learning_rate=0.0001234, Net.layers=(32,), seed 0 | KeyError: 'a \\| b' |\n"
        "| Adam.learning_rate=0.0001234, Net.layers=(32,), seed 1 | KeyError: 'a \\| b' |\n"
    )
    trials = list(csv.DictReader(io.StringIO((tmp_path / "sweep.csv").read_text())))
    assert [(row["Adam.learning_rate"], row["Net.layers"], row["mean"]) for row in trials] == [
        ("0.00012345", "(16,)", "7.0"),
        ("0.00012345", "(8,)", "4.0"),
        ("0.00012345", "(32,)", ""),
    ]
    runs = list(csv.DictReader(io.StringIO((tmp_path / "runs.csv").read_text())))
    assert [(row["seed"], row["status"], row["objective"]) for row in runs] == [
        *[("0", "finished", "3.0"), ("1", "finished", "5.0"), ("0", "finished", "7.0"), ("1", "failed", "")],
        *[("0", "failed", ""), ("1", "failed", "")],
    ]
    assert runs[3]["error"] == "KeyError: 'a | b'"
    assert (tmp_path / runs[0]["folder"] / "progress.csv").exists()
    assert runs[0]["folder"] == "runs/000_Adam.learning_rate=0.0001234,Net.layers=_8/seed=0"


def test_five_seeds_have_an_interquartile_mean_and_intervals(tmp_path):
    """It is the mean of 5, 5.5 and 6. Two runs have a lowest and a highest one."""
    returns = [[(x, x) for x in (100.0, 5.0, 6.0, 1.0, 5.5)], [(7.0, 7.0), (8.0, 8.0), *3 * [None]]]
    grid = {"a.b": ["1", "2"]}
    study = make_study(tmp_path, grid, returns=returns, seeds=[0, 1, 2, 3, 4])
    lines = table.write_tables(study).splitlines()
    assert lines[0] == (
        "| a.b | runs | failed | BalancedReturn | interval | IQM | interval | env steps | seconds |"
    )
    cells = [line.split(" | ") for line in lines[2:4]]
    assert [cell[3:7] for cell in cells] == [
        ["23.5", cells[0][4], "5.5", cells[0][6]],
        ["7.5", "runs: 7 to 8", "7.5", "runs: 7 to 8"],
    ]
    trial = next(csv.DictReader(io.StringIO((tmp_path / "sweep.csv").read_text())))
    assert (trial["mean"], trial["iqm"]) == ("23.5", "5.5")
    assert cells[0][6] == f"95 %: {float(trial['iqm_low']):g} to {float(trial['iqm_high']):g}"
    assert 1.0 <= float(trial["iqm_low"]) < 5.5 < float(trial["iqm_high"]) <= 100.0


def test_the_picture_has_a_curve_for_each_trial_and_the_target(tmp_path, monkeypatch):
    drawn = []

    def note(*arguments):
        drawn.append(arguments)
        return draw(*arguments)

    draw = table.draw
    monkeypatch.setattr(table, "draw", note)
    assert table.draw_curves(make_study(tmp_path)) == 2
    ((lines, metric, target, title),) = drawn
    assert [(line.label, line.algorithm, len(line.curves)) for line in lines] == [
        ("Adam.learning_rate=0.0001234, Net.layers=(16,)", "PPO", 1),
        ("Adam.learning_rate=0.0001234, Net.layers=(8,)", "PPO", 2),
    ]
    assert (metric, target, title) == ("BalancedReturn", 6.5, "")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_of_many_trials_has_the_best_ones(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(table, "draw", lambda *arguments: drawn.append(arguments))
    monkeypatch.setattr(table, "save_picture", lambda *arguments: None)
    grid = {"a.b": [str(i) for i in range(12)]}
    study = make_study(tmp_path, grid, returns=[[(float(i), 0.0)] * 2 for i in range(12)])
    assert table.draw_curves(study) == 10
    assert [line.label for line in drawn[0][0]] == [f"a.b={i}" for i in range(11, 1, -1)]
    assert drawn[0][3] == "the best 10 of 12"


def test_pruned_trials_come_last(tmp_path):
    study = make_study(tmp_path, returns=[[(3.0, 9.0), (5.0, 6.0)], [(9.0, 9.0), None], [None, None]])
    (run,) = [run for run in study.runs if run.trial == 1 and run.seed == 1]
    study.outcomes[run.path] = study.outcomes[run.path]._replace(status="pruned", error="")
    lines = table.write_tables(study).splitlines()[2:5]
    assert [line.split(" | ")[1:4] for line in lines] == [
        ["(8,)", "2 of 2", "0"],
        ["(32,)", "0 of 2", "2"],
        ["(16,)", "1 of 2, pruned", "0"],
    ]
    trials = list(csv.DictReader(io.StringIO((tmp_path / "sweep.csv").read_text())))
    assert [row["pruned"] for row in trials] == ["0", "0", "1"]


def test_there_is_no_picture_of_nothing(tmp_path):
    study = make_study(tmp_path, returns=[[None, None]] * 3)
    assert table.draw_curves(study) == 0 and not (tmp_path / "curves.png").exists()


def test_seeds_alone_are_one_curve_with_the_name_of_the_algorithm(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(table, "draw", lambda *arguments: drawn.append(arguments))
    monkeypatch.setattr(table, "save_picture", lambda *arguments: None)
    study = make_study(tmp_path, {}, returns=RETURNS[:1])
    assert table.draw_curves(study) == 1
    assert [(line.label, len(line.curves)) for line in drawn[0][0]] == [("PPO", 2)]
    assert table.write_tables(study).splitlines()[2] == "| 2 of 2 | 0 | 4 | runs: 3 to 5 | 200 | 4.0 |"
