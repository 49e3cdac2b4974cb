# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf plot: what its flags and arguments do, its exit status, what it prints."""

import os
import sys

import pytest

from alf.bin import plot as command_of_plot
from alf.plots import plot
from tests.bin import calls

pytestmark = pytest.mark.programs
PPO, DQN = "PPOAlgorithm.discount = 0.99", "DqnAlgorithm.discount = 0.99"


def write_run(path, returns, seed=0, algorithm=PPO, learning_rate=0.1, target=None, env="A-v1"):
    """Writes what a run leaves: a row each 100 steps and 2 seconds."""
    os.makedirs(path)
    settings = [f"Experiment.seed = {seed}", f"Adam.learning_rate = {learning_rate}", algorithm]
    settings += [f"StopCriteria.target_return = {target}", f"alf.environments.load.name = '{env}'"]
    (path / "operative_config.gin").write_text("\n".join(settings) + "\n")
    rows = [f"{100 * i},{2 * i},{value},{-value}\n" for i, value in enumerate(returns, 1)]
    header = "env_steps,seconds,metrics/AverageReturn,train/loss\n"
    (path / "progress.csv").write_text(header + "".join(rows))


@pytest.fixture
def call(folder, capsys, monkeypatch):
    """A function that calls the command in `folder`; returns its status, its lines, and what it draws."""
    monkeypatch.chdir(folder)
    draw, drawn = plot.draw, []

    def note(lines, metric, target, title):
        curves = [[line.label, line.algorithm, [c.values.tolist() for c in line.curves]] for line in lines]
        drawn.append((curves, metric, target, title))
        return draw(lines, metric, target, title)

    def run(*args):
        drawn.clear()
        status = calls.call(command_of_plot, *args)
        out, err = capsys.readouterr()
        return status, (err + out).splitlines(), drawn[0] if drawn else None

    monkeypatch.setattr(plot, "draw", note)
    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("plot")
    write_run(path / "runs" / "a", [1, 2, 3], target=4.0)
    write_run(path / "runs" / "deep" / "b", [3, 4, 5, 6], seed=1, target=4.0)
    write_run(path / "dqn", [7, 8], algorithm=DQN, target=4.0, env="B-v1")
    write_run(path / "other", [7, 6], target=4.0, env="B-v1")
    write_run(path / "lr=0.2", [9], learning_rate=0.2, target=5.0)
    write_run(path / "empty" / "new", [])
    (path / "old" / "run").mkdir(parents=True)
    (path / "old" / "run" / "operative_config.gin").write_text(PPO)
    (path / "none").mkdir()
    (path / "damaged").mkdir()
    (path / "damaged" / "progress.csv").write_text("env_steps,seconds,x\n1,2\n")
    return path


def test_what_is_drawn(call, subtests):
    a, b = [1, 2, 3], [3, 4, 5, 6]
    output = "--output=x.png"
    one = [["PPO", "PPO", [a, b]]]
    cases = {
        # A folder of runs: seeds of one curve. The target is that of the runs.
        ("runs", output): (one, "AverageReturn", 4, ""),
        # A run that is named twice counts once.
        ("runs", "runs/a", "runs/deep/../a", output): (one, "AverageReturn", 4, ""),
        # Each environment has its own target.
        ("runs", "dqn", output): (
            [*one, ["DQN", "DQN", [[7, 8]]]],
            "AverageReturn",
            {"A-v1": 4, "B-v1": 4},
            "",
        ),
        # The targets differ.
        ("lr=0.2", "runs/a", output): (
            [["Adam.learning_rate=0.2", "PPO", [[9]]], ["Adam.learning_rate=0.1", "PPO", [a]]],
            "AverageReturn",
            None,
            "",
        ),
        ("mine=runs/a", "mine=lr=0.2", output): ([["mine", "PPO", [a, [9]]]], "AverageReturn", None, ""),
        ("runs/a", output, "--metric=train/loss"): ([["PPO", "PPO", [[-1, -2, -3]]]], "train/loss", None, ""),
        ("runs/a", output, "--smoothing=200"): ([["PPO", "PPO", [[1, 1.5, 2.5]]]], "AverageReturn", 4, ""),
        ("runs/a", output, "--target=2.5"): ([["PPO", "PPO", [a]]], "AverageReturn", 2.5, ""),
        ("runs/a", output, "--title=Some text"): ([["PPO", "PPO", [a]]], "AverageReturn", 4, "Some text"),
        ("runs/a", output, "--metric=metrics/AverageReturn"): (
            [["PPO", "PPO", [a]]],
            "metrics/AverageReturn",
            4,
            "",
        ),
    }
    for args, expected in cases.items():
        with subtests.test(ascii(" ".join(args))):
            status, lines, drawn = call(*args)
            assert status == 0 and drawn == expected
            runs = sum(len(curves) for _, _, curves in expected[0])
            assert lines == [f"x.png, runs: {runs}, curves: {len(expected[0])}"]


def test_the_table_of_scores(call, subtests):
    """Few runs have no interval, but the lowest and the highest."""
    a_and_b, smoothed = "4.5, runs from 3 to 6 | 4.5 | 4.5", "4, runs from 2.5 to 5.5 | 4 | 4"
    ranges = "--score_range=A-v1=0,3", "--score_range=B*=5,7"
    cases = {
        ("runs", "--scores=last"): [f"PPO | 1 | 2 | {a_and_b}"],
        ("runs", "--scores=last", "--smoothing=200"): [f"PPO | 1 | 2 | {smoothed}"],
        ("runs", "--scores=best", "--metric=train/loss"): ["PPO | 1 | 2 | -2, runs from -3 to -1 | -2 | -2"],
        ("other", "dqn", "--scores=best"): [
            "PPO | 1 | 1 | 7 | 7 | 7",
            "DQN | 1 | 1 | 8 | 8 | 8",
            "PPO | DQN | 0.00",
        ],
        # Scores of different environments are not compared.
        ("x=other", "y=runs", "--scores=last"): ["x | 1 | 1 | 6 | 6 | 6", f"y | 1 | 2 | {a_and_b}"],
        # With ranges they are of one group: 1 and 2, and 0.5 of the other environment.
        ("runs", "other", "--scores=last", *ranges): ["PPO | 2 | 3 | 1, runs from 0.5 to 2 | 1 | 1.16667"],
    }
    for args, expected in cases.items():
        with subtests.test(" ".join(args)):
            status, lines, drawn = call(*args)
            assert (status, drawn) == (0, None)
            metric = "train/loss" if "--metric=train/loss" in args else "AverageReturn"
            assert lines[0].startswith(f"| {'best' if '--scores=best' in args else 'last'} {metric} | env")
            others = [line for line in lines if line and not line.startswith(("| ---", "| X |", lines[0]))]
            assert others == [f"| {line} |" for line in expected]


def test_a_picture_and_a_table(call, folder):
    """The picture has a curve for each environment; ranges make them one group of the table."""
    args = "--scores=last", "--score_range=*=0,1", "--output=both.png"
    status, lines, (curves, *_) = call("runs", "other", *args)
    assert (status, lines[-1]) == (0, "both.png, runs: 3, curves: 2") and (folder / "both.png").exists()
    assert [label for label, _, _ in curves] == ["PPO", "PPO"]
    assert lines[2].startswith("| PPO | 2 | 3 | ")


def test_the_file_has_the_format_of_its_name_and_replaces_what_was_there(call, folder):
    (folder / "c.png").write_text("before")
    names = {"c.png": b"\x89PNG", "c.svg": b"<?xml", "c.PDF": b"%PDF"}
    for name, start in names.items():
        assert call("runs", f"--output={name}")[0] == 0
        assert (folder / name).read_bytes().startswith(start)
    assert not list(folder.glob("*.tmp"))


def test_a_home_directory(call, folder, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    for argument, name, label in (("~/dqn", "home", "DQN"), ("mine=~/dqn", "mine", "mine")):
        status, lines, drawn = call(argument, f"--output=~/{name}.png")
        assert (status, drawn[0]) == (0, [[label, "DQN", [[7, 8]]]])
        assert lines == [f"{folder}/{name}.png, runs: 1, curves: 1"] and (folder / f"{name}.png").exists()


def test_what_is_wrong_is_one_line(call, folder, subtests):
    output = "--output=wrong.png"
    columns = "env_steps, metrics/AverageReturn, seconds, train/loss"
    cases = {
        ("runs",): (2, "-o is missing: name the file of the picture, or ask for --scores"),
        ("runs", output, "--score_range=*=0,1"): (2, "--score_range=*=0,1: it needs --scores, the table"),
        ("runs", "--scores=last", "--score_range=*=1"): (2, "--score_range=*=1: it must be ENVIRONMENT=LOW,"),
        ("all=runs", "all=dqn", "--scores=last", output): (2, "'all' has runs of A-v1, B-v1: give each"),
        (output,): (2, "no run is named: alf plot DIR... -o FILE.png"),
        ("runs", "--output=x.doc"): (2, "-o is x.doc: it must end in .pdf, .png, .svg"),
        ("runs", "--output=x"): (2, "-o is x: it must end in .pdf, .png, .svg"),
        ("runs", "--output=nowhere/x.png"): (1, "nowhere/x.png cannot be written: No such file or directory"),
        ("runs", output, "--smoothing=0"): (2, "--smoothing is 0.0: it must be a number at least 1"),
        ("runs", output, "--smoothing=1e-300"): (2, "--smoothing is 1e-300: it must be a number at least 1"),
        ("runs", output, "--smoothing=nan"): (2, "--smoothing is nan: it must be a number at least 1"),
        ("runs", output, "--target=nan"): (2, "--target is nan: it must be a number"),
        ("runs", output, "--target=-inf"): (2, "--target is -inf: it must be a number"),
        ("\udcff=runs", output): (2, "the label is '\\udcff': it must be UTF-8"),
        ("runs", output, "--title=\udcff"): (2, "--title is '\\udcff': it must be UTF-8"),
        ("there_is_none", output): (2, "there is no folder 'there_is_none': name the folder of a run"),
        ("none", output): (2, "there is no run in 'none': no progress.csv there, nor in its folders"),
        ("runs", output, "--metric=Return"): (2, f"--metric is 'Return': no run has it; there are {columns}"),
        ("empty", output): (2, f"--metric is 'AverageReturn': no run has it; there are {columns}"),
        ("damaged", output): (2, "the run 'damaged' cannot be read: damaged/progress.csv is not the file of"),
    }
    for args, (expected, text) in cases.items():
        with subtests.test(ascii(" ".join(args))):
            status, lines, _ = call(*args)
            assert status == expected and lines[-1].startswith(f"error: {text}")
            assert all(line.startswith("warning: ") for line in lines[:-1])
    assert not (folder / "wrong.png").exists()


def test_runs_that_are_left_out_are_named(call):
    _, lines, drawn = call("runs/a", "empty", "--output=y.png")
    assert lines[0] == "warning: empty/new is left out: it has no AverageReturn"
    assert drawn[0] == [["PPO", "PPO", [[1, 2, 3]]]]
    _, lines, _ = call("old", "--output=y.png")
    assert lines[0] == "warning: old/run is left out: it has no progress.csv"
    assert lines[1].startswith("error: there is no run in 'old'")


def test_without_matplotlib_the_extra_is_named(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, lines, _ = call("runs", "--output=x.png")
    assert status == 2
    assert lines == ['error: the package matplotlib is not installed: pip install "alf-tf[plot]"']
    assert call("runs", "--scores=last")[0] == 0  # the table does not need it
