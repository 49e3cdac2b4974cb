# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""replace_file: a file is replaced as a whole or stays as it was."""

import os

import pytest

from alf.files import replace_file


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "file"
    with replace_file(str(path)) as file:
        file.write(b"new")
        file.flush()
        assert os.listdir(tmp_path) == ["file.tmp"]
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_an_error_leaves_the_file_as_it_was(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(type(error)), replace_file(str(path)) as file:
        file.write(b"half of")
        raise error
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_is_removed_and_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "file.tmp").symlink_to(victim)
    with replace_file(str(tmp_path / "file")) as file:
        file.write(b"new")
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "file").read_bytes() == b"new" and not (tmp_path / "file").is_symlink()


def test_what_an_interrupted_run_left_is_replaced(tmp_path):
    (tmp_path / "file.tmp").write_bytes(b"half of something longer")
    with replace_file(str(tmp_path / "file")) as file:
        file.write(b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_link_that_appears_at_the_last_moment_is_not_followed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "file.tmp").symlink_to(victim)
    monkeypatch.setattr(os, "remove", lambda _: None)  # as if the link was made after it
    with pytest.raises(FileExistsError), replace_file(str(tmp_path / "file")):
        pass
    assert victim.read_bytes() == b"precious"
