# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The folder of a new run has a name that no other run has."""

import concurrent.futures
import contextlib
import os
import threading

import pytest

from alf.core.files import find_path
from alf.errors import ConfigError
from alf.runs.run_dir import RunDir, choose_root_dir, remove_unused


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_names_are_counted(folder):
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(choose_root_dir(None, "ppo", "ALE/Pong-v5")) for _ in range(3)]
    names = ["runs/ppo_ALE-Pong-v5", "runs/ppo_ALE-Pong-v5_2", "runs/ppo_ALE-Pong-v5_3"]
    assert made == [str(folder / name) for name in names]
    with choose_root_dir(None) as path:
        assert path == str(folder / "runs/run") and os.path.isdir(path)
    with choose_root_dir("other", "ppo") as path:
        assert path == str(folder / "other") and not os.path.exists(path)
        os.chdir("/")  # as an environment may
        assert find_path("third") == str(folder / "third")
    assert find_path("third") == "/third"


def test_many_at_once_have_names_of_their_own(monkeypatch):
    """All of them look before any of them makes a folder."""
    barrier, exists, seen = threading.Barrier(8), os.path.exists, threading.local()

    def look(path):
        found = exists(path)
        if not getattr(seen, "has_waited", False):
            seen.has_waited = True
            barrier.wait(60)
        return found

    monkeypatch.setattr(os.path, "exists", look)

    def claim(_):
        with contextlib.suppress(threading.BrokenBarrierError), choose_root_dir(None, "mine") as path:
            return path

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = list(pool.map(claim, range(8)))
    made = sorted(os.path.relpath(path) for path in made)
    assert made == ["runs/mine", *(f"runs/mine_{i}" for i in range(2, 9))]


def test_after_an_error_only_an_empty_folder_goes(folder):
    for is_empty in (True, False):
        with pytest.raises(ZeroDivisionError), choose_root_dir(None, "mine") as path:
            if not is_empty:
                (folder / path / "file").touch()
            raise ZeroDivisionError
        assert os.path.isdir("runs/mine") != is_empty


def test_what_a_process_has_made_goes_if_nothing_is_written(folder):
    (folder / "old").mkdir()
    with choose_root_dir(None, "mine") as mine, choose_root_dir(None, "full") as full:
        made = [RunDir(folder / name) for name in ("old", "new", mine)]
        (folder / full / "file").touch()
        remove_unused()
        assert sorted(os.listdir()) == ["old", "runs"] and os.listdir("runs") == ["full"]
        for run_dir in made:
            run_dir.close()
    RunDir(folder / "new").close()
    with choose_root_dir(None, "mine"):
        pass
    remove_unused()
    assert sorted(os.listdir()) == ["old", "runs"] and sorted(os.listdir("runs")) == ["full", "mine"]


def test_a_folder_that_another_run_uses_stays(folder):
    one, other = RunDir(folder / "new"), RunDir(folder / "new")
    one.lock()
    other.close()
    assert os.path.isdir("new")
    one.close()
    assert not os.path.exists("new")


def test_a_folder_that_cannot_be_made_is_one_line(folder):
    (folder / "runs").touch()
    message = "^root_dir '/.*/runs/mine' cannot be made: .*: choose another root_dir$"
    with pytest.raises(ConfigError, match=message):
        with choose_root_dir(None, "mine"):
            pass
