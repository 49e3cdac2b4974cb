# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""`progress.csv`: its rows are counted; new columns, continued runs, killed runs, full disks."""

import csv
import resource
import signal

import numpy as np
import pytest

from alf.runs.progress_file import PROGRESS_FILE, ProgressFile, read_rows
from tests.training.event_files import read_events
from tests.training.trainer_test import make_counting_trainer


def read(path):
    with open(path, newline="") as file:
        return [*csv.reader(file)]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "progress.csv")


def test_a_row_for_each_write(path):
    file = ProgressFile(path)
    for i in range(3):
        file.write(100 * i, 0.5 * i, {"train/loss": -0.25 * i - 1, 'info/"a", b': 2**40 + i})
    assert read(path) == [
        ["env_steps", "seconds", "train/loss", 'info/"a", b'],
        ["0", "0.000", "-1", "1099511627776"],
        ["100", "0.500", "-1.25", "1099511627777"],
        ["200", "1.000", "-1.5", "1099511627778"],
    ]


def test_a_name_that_comes_later_is_a_column_of_all_rows(path):
    file = ProgressFile(path)
    file.write(1, 0.0, {"a": 1})
    file.write(2, 0.0, {"a": 2, "b": 3})
    file.write(3, 0.0, {"b": 4})
    rows = [["1", "0.000", "1", ""], ["2", "0.000", "2", "3"], ["3", "0.000", "", "4"]]
    assert read(path) == [["env_steps", "seconds", "a", "b"], *rows]


@pytest.mark.parametrize("number", [0.1, 1 / 3, 1e-30, 123456.789, float("inf")], ids=str)
def test_a_float32_is_exact(number, path):
    ProgressFile(path).write(0, 0.0, {"x": np.float32(number)})
    assert np.float32(read(path)[1][2]) == np.float32(number)


def test_a_continued_run_drops_what_is_newer_than_its_checkpoint(path):
    first = ProgressFile(path)
    for steps in (10, 20, 30, 40):
        first.write(steps, steps / 10, {"a": steps})
    first.write(15, 4.5, {"eval": 1})  # an evaluation of a checkpoint from before, which ended later
    second = ProgressFile(path, env_steps=20)
    second.write(25, 0.5, {"a": 25})
    columns, rows = read_rows(path)
    assert columns == ["env_steps", "seconds", "a", "eval"]
    assert rows == [["10", "1.000", "10", ""], ["20", "2.000", "20", ""], ["25", "2.500", "25", ""]]


def test_a_new_run_drops_all_rows(path):
    ProgressFile(path).write(0, 1.0, {"a": 1})
    ProgressFile(path).write(5, 1.0, {"b": 2})
    assert read(path) == [["env_steps", "seconds", "b"], ["5", "1.000", "2"]]


def test_a_row_that_a_kill_has_cut_off_is_no_row(path):
    ProgressFile(path).write(10, 1.0, {"a": 1})
    with open(path, "a") as file:
        file.write("20,2.0")
    assert read_rows(path)[1] == [["10", "1.000", "1"]]
    ProgressFile(path, env_steps=30).write(30, 1.0, {"a": 3})
    assert read(path)[1:] == [["10", "1.000", "1"], ["30", "2.000", "3"]]


@pytest.mark.parametrize("values", [{"a": 1 / 3}, {"a": 1, "b": 1 / 3}], ids=["a row", "a column"])
def test_a_row_that_a_full_disk_has_cut_off_is_overwritten(values, path):
    """The file must not grow beyond what it has and 2 bytes: the write fails as on a full disk."""
    file = ProgressFile(path)
    file.write(10, 1.0, {"a": 1})
    before, handler = read(path), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file._size + 2, limits[1]))
    try:
        with pytest.raises(OSError):
            file.write(20, 2.0, values)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert read_rows(path) == (before[0], before[1:])
    file.write(30, 3.0, {"a": 3})
    assert read(path) == [*before, ["30", "3.000", "3"]]


def test_a_file_of_something_else_is_an_error(path):
    with open(path, "w") as file:
        file.write("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is not the file of a run's progress"):
        read_rows(path)


def test_a_run_has_a_row_for_each_summary(tmp_path):
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 20}, summary_interval=0.0)
    trainer.train()
    columns, rows = read_rows(tmp_path / "progress.csv")
    events = read_events(tmp_path / "train")
    events = {name: points for name, points in events.items() if not name.startswith("Overview/")}
    assert len(rows) == 20
    in_table_alone, in_events_alone = (
        {"train/iterations", "metrics/EnvironmentSteps"},
        {"time/bottleneck", "config/operative_config"},
    )
    assert columns[:2] == ["env_steps", "seconds"]
    assert set(columns[2:]) == events.keys() - in_events_alone | in_table_alone
    loss, iterations = columns.index("train/loss"), columns.index("train/iterations")
    shown = [(int(row[0]), float(row[loss])) for row in rows]
    assert shown == [(x, pytest.approx(y)) for x, y in events["train/loss"]]
    assert [int(row[iterations]) for row in rows] == [*range(1, 21)]
    seconds = [float(row[1]) for row in rows]
    assert seconds == sorted(seconds) and seconds[0] >= 0 < seconds[-1]


def test_a_continued_run_goes_on_in_its_file(tmp_path):
    make_counting_trainer(tmp_path, stop={"num_iterations": 5}, summary_interval=0.0).train()
    before = read_rows(tmp_path / "progress.csv")[1]
    make_counting_trainer(tmp_path, stop={"num_iterations": 8}, summary_interval=0.0).train()
    columns, rows = read_rows(tmp_path / "progress.csv")
    assert [row[: len(before[0])] for row in rows[:5]] == before
    iterations = columns.index("train/iterations")
    assert [int(row[iterations]) for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [float(row[1]) for row in rows] == sorted(float(row[1]) for row in rows)


def test_the_return_is_the_first_column_after_steps_and_seconds(tmp_path):
    file = ProgressFile(str(tmp_path / PROGRESS_FILE))
    file.write(1, 0.5, {"train/loss": 2.0, "metrics/NumberOfEpisodes": 0})
    file.write(2, 1.0, {"train/loss": 3.0, "metrics/NumberOfEpisodes": 1, "metrics/AverageReturn": 7.0})
    columns, rows = read_rows(str(tmp_path / PROGRESS_FILE))
    assert columns == [
        "env_steps",
        "seconds",
        "metrics/AverageReturn",
        "train/loss",
        "metrics/NumberOfEpisodes",
    ]
    assert rows == [["1", "0.500", "", "2", "0"], ["2", "1.000", "7", "3", "1"]]
