# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Gin files that include others: from the current directory, or else from beside the file that includes."""

import builtins
import re
import sys

import gin
import pytest

import alf.studies.settings  # noqa: F401  (gin files name it)
from alf.config import gin_files
from alf.config.parsing import parse_config
from alf.errors import ConfigError
from tests.example_runs import EXAMPLES


@gin.configurable
def settings(**values):
    return values


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """The current directory is an empty one, not that of any gin file."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # parse_config adds to it
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    yield
    assert gin_files._files == []


def read(*paths):
    gin.clear_config()
    parse_config([str(path) for path in paths], [])
    return settings()


def test_each_file_is_looked_for_beside_the_one_that_includes_it(tmp_path):
    top = write(tmp_path / "runs" / "top.gin", "include 'parts/a.gin'", "include 'c.gin'", "settings.top = 1")
    write(tmp_path / "runs" / "parts" / "a.gin", "include 'b.gin'", "settings.a = 2")
    write(tmp_path / "runs" / "parts" / "b.gin", "include '../c.gin'", "settings.b = 3")
    write(tmp_path / "runs" / "c.gin", "settings.c = 4")
    other = write(tmp_path / "others" / "other.gin", "include 'c.gin'")
    write(tmp_path / "others" / "c.gin", "settings.other = 5")
    assert read(top) == dict(top=1, a=2, b=3, c=4)
    assert read(top, other) == dict(top=1, a=2, b=3, c=4, other=5)
    assert read("../runs/top.gin") == dict(top=1, a=2, b=3, c=4)


def test_the_current_directory_comes_first(tmp_path):
    top = write(tmp_path / "runs" / "top.gin", "include 'a.gin'", f"include '{tmp_path}/runs/b.gin'")
    write(tmp_path / "runs" / "a.gin", "settings.where = 'beside'")
    write(tmp_path / "runs" / "b.gin", "settings.absolute = True")
    assert read(top) == dict(where="beside", absolute=True)
    write(tmp_path / "elsewhere" / "a.gin", "include 'parts/of_a.gin'", "settings.where = 'current'")
    write(tmp_path / "elsewhere" / "parts" / "of_a.gin", "include 'more.gin'")
    write(tmp_path / "elsewhere" / "parts" / "more.gin", "settings.more = 6")
    assert read(top) == dict(where="current", absolute=True, more=6)


def test_macros_of_what_an_including_file_replaces_need_no_use(tmp_path):
    write(
        tmp_path / "base.gin",
        "size = 3",
        "sizes = (%size,)",
        "rate = 1",
        "settings.sizes = %sizes",
        "settings.rate = %rate",
    )
    write(tmp_path / "middle.gin", f"include '{tmp_path}/base.gin'", "settings.rate = 2")
    top = write(tmp_path / "top.gin", "include 'middle.gin'", "settings.sizes = 4", "settings.rate = 5")
    assert read(top) == dict(sizes=4, rate=5)
    assert "%" not in gin.config_str() and gin.config_str().count(" = ") == 2  # They are gone.
    parse_config([], [gin.config_str()])
    assert read(write(tmp_path / "other.gin", "include 'base.gin'", "rate = 6")) == dict(sizes=(3,), rate=6)


def test_a_macro_that_no_file_has_used_is_an_error(tmp_path):
    write(tmp_path / "base.gin", "rat = 1", "settings.rate = 2")
    top = write(tmp_path / "top.gin", "include 'base.gin'", "settings.rate = 3")
    with pytest.raises(ConfigError, match="rat = 1 is a macro, which nothing uses"):
        read(top)


def test_a_binding_of_before_may_be_replaced(tmp_path):
    """As that of a member of a population: its macro came with another configuration."""
    read(write(tmp_path / "base.gin", "rate = 1", "settings.rate = %rate"))
    parse_config([], ["settings.rate = 2"])
    assert settings() == dict(rate=2) and "macro" not in gin.config_str()


LOAD = "alf.environments.load.name"
# The lines of top.gin, and what its error says after the name of the source.
WRONG = {
    ("settings.x = 1", "include 'nope.gin'"): (
        r".*there is no file 'nope.gin' in the current directory or '.*/runs' "
        r"In file .*top.gin\", line 2 include 'nope.gin'$"
    ),
    ("include 'wrong.gin'",): r".*wrong.gin, line 1\): settings.x = = 1",
    ("settings.x = 1", "settings.y = = 1"): r".*\(top.gin, line 2\): settings.y = = 1$",
    ("settings.x = (1,",): r"a bracket or a quotation mark is not closed$",
    (
        "settings.x = ('a',",
        "settings.y = 2",
    ): (r".*\(top.gin, line 2\): a bracket above this line is not closed$"),
    (f'{LOAD} = "CartPole-v1', "settings.y = 2"): (  # Python 3.12 and later do not tell the line
        rf'(.*\(top.gin, line 1\): {LOAD} = "CartPole-v1'
        r"|a bracket or a quotation mark is not closed)$"
    ),
    ("settings.x = '\udcff\udcfe'",): r".*'utf-8' codec can't decode byte",
    ("import no_such_module",): r".*No module named 'no_such_module'",
    ("import refuses",): r"error: mine In file",
}


def test_what_is_wrong_is_one_line_and_the_next_file_is_read(tmp_path, subtests):
    runs = tmp_path / "runs"
    write(runs / "wrong.gin", "settings.x = = 1")
    write(runs / "refuses.py", "from alf.errors import ConfigError", "raise ConfigError('error: mine')")
    top, right = runs / "top.gin", write(runs / "c.gin", "settings.c = 4")
    for lines, message in WRONG.items():
        top.write_text("\n".join(lines) + "\n", errors="surrogateescape")
        with subtests.test(ascii(lines)):  # not all of them can be sent to another process
            with pytest.raises(ConfigError) as caught:
                read(top)
            expected = f"{re.escape(str(top))}: {message.replace('{top}', re.escape(str(top)))}"
            assert re.match(expected, str(caught.value)), caught.value
            # Not beside the file of before.
            with pytest.raises(ConfigError, match="c.gin"):
                read(write(tmp_path / "others" / "top.gin", "include 'c.gin'"))
            assert read(right) == dict(c=4)
    with pytest.raises(ConfigError, match="^there is no file 'nope.gin'$"):
        read("nope.gin")


def test_a_home_directory_and_the_mark_of_some_editors(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    top = write(tmp_path / "top.gin", "include '~/runs/a.gin'", "settings.top = 1")
    write(tmp_path / "runs" / "a.gin", "settings.a = 2")
    for path in (top, tmp_path / "runs" / "a.gin"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read("~/top.gin") == dict(top=1, a=2)


ERRORS = {
    "ValueError": "raise ValueError('mine')",
    "KeyError": "{}['mine']",
    "FileNotFoundError": "open('/nope/mine')",
    "ImportError": "from alf import mine",
    "RecursionError": "def mine(): mine()\nmine()",
}


def test_an_error_of_a_module_keeps_its_traceback(tmp_path, subtests):
    for error, code in ERRORS.items():
        write(tmp_path / "runs" / f"raises_{error}.py", code)
        top = write(tmp_path / "runs" / "top.gin", f"import raises_{error}")
        with subtests.test(error):
            with pytest.raises(getattr(builtins, error)) as caught:
                read(top)
            assert not isinstance(caught.value, ConfigError)
            assert any(f"raises_{error}.py" in str(entry.path) for entry in caught.traceback)


def test_an_example_with_includes_is_read_from_any_directory(subtests):
    paths = [path for path in EXAMPLES.glob("**/*.gin") if "\ninclude " in path.read_text()]
    assert paths
    for path in paths:
        with subtests.test(path.stem):
            gin.clear_config()
            parse_config([str(path)], [])
            assert gin.query_parameter("alf.environments.load.name")


def test_a_file_that_includes_itself_is_one_line(tmp_path):
    itself = write(tmp_path / "runs" / "itself.gin", "include 'itself.gin'")
    first = write(tmp_path / "runs" / "first.gin", "include 'second.gin'")
    write(tmp_path / "runs" / "second.gin", "include 'first.gin'")
    for path, by in ((itself, "itself.gin"), (first, "second.gin")):
        with pytest.raises(ConfigError, match=f"^.*{path.name}' includes itself, by '.*/{by}'") as caught:
            read(path)
        assert len(str(caught.value)) < 500
