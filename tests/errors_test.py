# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A wrong setting is one error that names it; a right one passes."""

import pickle

import pytest

from alf.errors import (
    ConfigError,
    EnvError,
    FolderError,
    check_type,
    contain,
)


def test_an_object_of_another_class():
    assert check_type("x", 3, int) == 3
    with pytest.raises(ConfigError, match="^x is an object of str: it must be one of int$"):
        check_type("x", "3", int)


def test_a_folder_is_root_dir_in_python_and_a_flag_of_a_command():
    error = pickle.loads(pickle.dumps(FolderError("runs/a", "holds a sweep: choose another root_dir")))
    assert str(error) == "root_dir 'runs/a' holds a sweep: choose another root_dir"
    assert error.describe_flag() == "'runs/a' holds a sweep: choose another folder, -o DIR"


def test_contain_replaces_what_means_something_to_other_code(subtests):
    for error in (SystemExit(0), StopIteration(), StopAsyncIteration(), KeyboardInterrupt()):
        with subtests.test(error=repr(error)):
            contained = contain(error, "environment 3")
            assert isinstance(contained, EnvError)
            assert str(contained) == f"environment 3 raised {error!r}"
            assert contained.__cause__ is error


def test_contain_keeps_every_other_exception():
    error = ValueError("x")
    assert contain(error, "environment 3") is error
