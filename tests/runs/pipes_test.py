# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""No reader of a run waits for a pipe that stands in the place of a file."""

import math
import os
import re
import shutil
import threading

import gin
import pytest

from alf.config.imports import read_import_paths
from alf.core.files import open_regular
from alf.errors import ConfigError
from alf.plots.runs import read_run
from alf.runs import checkpoint_files as files
from alf.runs.progress_file import read_rows
from alf.runs.run_dir import has_succeeded, has_trained
from alf.runs.saved_run import SavedRun
from alf.studies.state import read_json
from tests.training.trainer_test import make_counting_trainer

CHECKPOINT = "checkpoints/ckpt-2"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run"
    make_counting_trainer(path, stop={"num_iterations": 2}).train()
    return path


def in_time(function, *args):
    """Calls a function in a thread, which may hang; returns its result, or the exception that it raised."""
    found = []

    def call():
        try:
            found.append(function(*args))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(60.0)
    assert found, "it waits for the pipe"
    return found[0]


def read_config(root):
    try:
        SavedRun(root).read_config()
    finally:
        gin.clear_config()


def continue_run(root):
    make_counting_trainer(root, stop={"num_iterations": 3}).close()


READERS = [
    ("run.json", SavedRun, ConfigError),
    ("run.json", read_import_paths, ConfigError),
    ("operative_config.gin", read_config, Exception),
    ("operative_config.gin", continue_run, ConfigError),
    ("operative_config.gin", lambda root: read_run(str(root)), ConfigError),
    ("progress.csv", lambda root: read_run(str(root)), ConfigError),
    ("progress.csv", lambda root: read_rows(str(root / "progress.csv")), OSError),
    ("progress.csv", has_trained, False),
    ("done.json", has_succeeded, False),
    ("done.json", lambda root: read_json(root / "done.json"), OSError),
    (f"{CHECKPOINT}/state.json", continue_run, ConfigError),
    (f"{CHECKPOINT}/weights.index", continue_run, ConfigError),
    (f"{CHECKPOINT}/weights.data-00000-of-00001", continue_run, ConfigError),
    (
        f"{CHECKPOINT}/evaluation.json",
        lambda root: files.list_best(root / "checkpoints")[0][0],
        -math.inf,
    ),
]


@pytest.mark.parametrize("name, read, expected", READERS)
def test_a_pipe_in_place_of_a_file_is_refused(saved, tmp_path, name, read, expected):
    root = tmp_path / "run"
    shutil.copytree(saved, root)
    (root / name).unlink(missing_ok=True)
    os.mkfifo(root / name)
    found = in_time(read, root)
    if isinstance(expected, type):
        assert isinstance(found, expected) and re.search("no (regular )?file", str(found)), repr(found)
    else:
        assert found == expected


def test_only_regular_files_are_opened(tmp_path):
    (tmp_path / "file").write_text("text")
    with open_regular(tmp_path / "file") as file:
        assert file.read() == "text"
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "other")
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(OSError, match="no regular file"):
        open_regular("/dev/zero")
