# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The paths that users name, and files that are replaced as a whole or stay as they were."""

import errno
import os

import pytest

from alf.core.files import (
    clear_unfinished,
    find_path,
    remove_folder,
    replace_file,
    replace_own_folder,
    without_pattern,
    write_file,
)
from alf.errors import ConfigError, SaveError
from alf.replay import find_files


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


def write_folder(path, text):
    with replace_own_folder("output", str(path), {"a", "b"}) as new:
        assert os.path.dirname(os.path.dirname(new)) == str(path.parent)
        with open(os.path.join(new, "a"), "w") as file:
            file.write(text)


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "parent" / "folder"
    write_folder(path, "old")
    (path / "b").write_text("goes")
    write_folder(path, "new")
    assert [(x.name, x.read_text()) for x in path.iterdir()] == [("a", "new")]
    assert os.listdir(path.parent) == ["folder"]


def test_a_folder_stays_after_an_error(tmp_path):
    write_folder(tmp_path / "folder", "old")
    with pytest.raises(KeyboardInterrupt), replace_own_folder("output", str(tmp_path / "folder"), {"a"}):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["folder"] and (tmp_path / "folder" / "a").read_text() == "old"


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    write_folder(tmp_path / "folder", "old")
    rename = os.rename

    def fail(source, target):
        if os.path.basename(source) == "new":
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(ConfigError, match="cannot be written: Input/output error"):
        write_folder(tmp_path / "folder", "new")
    assert os.listdir(tmp_path) == ["folder"] and (tmp_path / "folder" / "a").read_text() == "old"


def test_nobody_sees_a_part_of_a_folder_that_is_removed(tmp_path, monkeypatch):
    write_folder(tmp_path / "folder", "old")
    remove, seen = os.unlink, []
    monkeypatch.setattr(os, "unlink", lambda *x, **y: (seen.append(os.listdir(tmp_path)), remove(*x, **y)))
    remove_folder(str(tmp_path / "folder"))
    assert len(seen) == 1 and seen[0][0].startswith(".folder.") and not os.listdir(tmp_path)


def test_what_a_kill_has_left_is_removed(tmp_path):
    for name in ("a", "b.1"):
        (tmp_path / f".{name}.abc_1234" / "old").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    (tmp_path / "file.tmp").write_text("half of")
    (tmp_path / "folder.tmp").mkdir()
    (tmp_path / ".nfs0001").write_text("a file that is open elsewhere")
    clear_unfinished(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == [".nfs0001", "a", "b.1", "folder.tmp"]


def test_what_is_not_alfs_is_not_replaced(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "c").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    reasons = {"file": "is no folder", "link": "is no folder", "folder": "has 'c', which ALF has not written"}
    for name, reason in reasons.items():
        with pytest.raises(ConfigError, match=f"^output '.*/{name}' {reason}: it is not replaced$"):
            write_folder(tmp_path / name, "new")
    write_folder(tmp_path / "empty", "new")
    assert sorted(os.listdir(tmp_path)) == ["empty", "file", "folder", "link"]
    assert (tmp_path / "folder" / "c").read_text() == "mine"


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


def test_a_whole_file_is_written_or_one_line_says_why_not(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "file"
    for content in ("é\n", b"\xff"):
        write_file(str(path), content)
    assert path.read_bytes() == b"\xff"
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SaveError, match="^.*/file cannot be written: No space left on device$"):
        write_file(str(path), "new")
    assert path.read_bytes() == b"\xff" and os.listdir(tmp_path) == ["file"]


def test_a_path_is_absolute_and_has_no_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert find_path("~/a") == find_path("a") == find_path(tmp_path / "a") == str(tmp_path / "a")


def test_a_path_that_is_not_utf_8_is_refused():
    with pytest.raises(ConfigError, match=r"^the path '/x\\udcff' is not UTF-8: choose another one$"):
        find_path(os.fsdecode(b"/x\xff"))


@pytest.mark.parametrize(
    "encoding, path", [("ascii", "/\udcc3\udca9"), ("ascii", "/\u00e9"), ("latin-1", "/\u00e9")]
)
def test_a_path_to_which_python_would_give_another_name_is_refused(monkeypatch, encoding, path):
    """TensorFlow writes files under the UTF-8 name."""
    monkeypatch.setattr(os, "fsencode", lambda x: x.encode(encoding, "surrogateescape"))
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: encoding)
    with pytest.raises(ConfigError, match=f": Python takes names of files as {encoding}; set PYTHONUTF8=1$"):
        find_path(path)
    assert find_path("/a") == "/a"


def test_no_path_stays_that_could_be_a_pattern(tmp_path):
    with without_pattern(str(tmp_path)) as path:
        assert path == str(tmp_path)
    for name in ("a[1]", "a*", "b?", "c\\"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        with without_pattern(str(tmp_path / name)) as path:
            assert not set(path) & set("[]*?\\")
            with open(os.path.join(path, "file")) as file:
                assert file.read() == name
        assert not os.path.lexists(path) and (tmp_path / name / "file").exists()


def test_an_offline_buffer_in_a_folder_with_brackets(tmp_path):
    (tmp_path / "a[1]" / "b").mkdir(parents=True)
    path = tmp_path / "a[1]" / "b" / "buffer.npz"
    path.touch()
    for pattern in ("b/buffer.npz", "b/*.npz", "*/buffer.npz", "**/buffer.npz"):
        assert find_files(str(tmp_path / "a[1]" / pattern)) == [str(path)]
    assert find_files(str(tmp_path / "[a]*" / "b" / "*.npz")) == [str(path)]


def test_an_offline_buffer_in_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "buffer.npz").touch()
    assert find_files("~/buffer.npz") == find_files("~/*.npz") == [str(tmp_path / "buffer.npz")]
