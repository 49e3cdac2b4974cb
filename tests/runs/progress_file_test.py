# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""`progress.csv`: its rows are counted; new columns, continued runs, killed runs, full disks."""

import csv
import os
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
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path) + 2, limits[1]))
    try:
        with pytest.raises(OSError):
            file.write(20, 2.0, values)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert read_rows(path) == (before[0], before[1:])
    file.write(30, 3.0, {"a": 3})
    assert read(path) == [*before, ["30", "3.000", "3"]]


FOREIGN = {
    "another table": b"a,b\n1,2\n",
    "NUL bytes": b"env_steps,seconds,a\n10,1.000,1\n" + b"\0" * 9 + b"20,2.000,2\n",
    "no number": b"env_steps,seconds,a\nmany,1.000,1\n",
    "not finite": b"env_steps,seconds,a\nnan,1.000,1\n",
    "a row too short": b"env_steps,seconds,a\n10,1.000\n",
    "not UTF-8": b"env_steps,seconds,\xff\n10,1.000,1\n",
    "an open quote": b'env_steps,seconds,"a\n10,1.000,1\n',
    "a long field": b"env_steps,seconds,a\n10,1.000," + b"1" * 200_000 + b"\n",
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_file_of_something_else_is_an_error_and_is_set_aside_by_a_run(content, path, caplog):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(ValueError, match="is not the file of a run's progress"):
        read_rows(path)
    ProgressFile(path, env_steps=30).write(30, 1.0, {"a": 3})
    assert read(path) == [["env_steps", "seconds", "a"], ["30", "1.000", "3"]]
    with open(f"{path}.damaged", "rb") as file:
        assert file.read() == content
    (line,) = caplog.messages
    assert "progress.csv is not the file of a run's progress: it is now " in line


def remove_first_rows(path):
    columns, *rows = read(path)
    with open(path, "w") as file:
        file.write("".join(",".join(row) + "\n" for row in (columns, *rows[2:])))


# What somebody else does with the file, and the rows of 0 to 2 that it has then.
CHANGES = {
    "removed": (os.remove, []),
    "emptied": (lambda path: os.truncate(path, 0), []),
    "cut within the columns": (lambda path: os.truncate(path, 5), []),
    "cut within a row": (lambda path: os.truncate(path, os.path.getsize(path) - 4), [0, 1]),
    "without its first rows": (remove_first_rows, [2]),
}


@pytest.mark.parametrize("values", [{"a": 3}, {"a": 3, "b": 4}], ids=["a row", "a column"])
@pytest.mark.parametrize("change, kept", CHANGES.values(), ids=CHANGES)
def test_rows_go_on_when_another_program_changes_the_file(change, kept, values, path, caplog):
    file = ProgressFile(path)
    for i in range(3):
        file.write(10 * i, float(i), {"a": i})
    change(path)
    file.write(30, 3.0, values)
    file.write(40, 4.0, values)
    columns, rows = read_rows(path)
    assert columns == ["env_steps", "seconds", *values]
    old = [[str(10 * i), f"{i}.000", str(i), *[""] * (len(values) - 1)] for i in kept]
    fields = [str(value) for value in values.values()]
    assert rows == [*old, ["30", "3.000", *fields], ["40", "4.000", *fields]]
    (line,) = caplog.messages
    assert ("was removed" if change is os.remove else "was changed by another program") in line


def test_another_file_in_its_place_is_set_aside(path, caplog):
    file = ProgressFile(path)
    file.write(10, 1.0, {"a": 1})
    with open(path, "w") as other:
        other.write("mine\n")
    file.write(20, 2.0, {"a": 2})
    assert read(path) == [["env_steps", "seconds", "a"], ["20", "2.000", "2"]]
    assert read(f"{path}.damaged") == [["mine"]]
    assert len(caplog.messages) == 2


def put_folder(path):
    os.mkdir(path)
    open(os.path.join(path, "file"), "w").close()


@pytest.mark.parametrize("put", [put_folder, os.mkfifo, lambda path: os.symlink("/dev/full", path)])
def test_what_is_no_file_is_set_aside_once(put, path, caplog):
    file = ProgressFile(path)
    file.write(10, 1.0, {"a": 1})
    os.remove(path)
    put(path)
    for steps in (20, 30):
        file.write(steps, 2.0, {"a": 2})
    assert read(path) == [["env_steps", "seconds", "a"], ["20", "2.000", "2"], ["30", "2.000", "2"]]
    assert os.path.lexists(f"{path}.damaged") and len(caplog.messages) == 2


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
