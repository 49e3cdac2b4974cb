# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The structure that docs/architecture.md promises: its files exist, and imports go only down."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "alf").rglob("*.py"))

# From the lowest to the highest; modules of one entry may import each other.
LAYERS = [
    {"version", "errors", "startup", "annotations", "configurable"},
    {"nest_utils", "seeds", "credit", "tf_patches", "files", "folders", "restart_limit", "extras"},
    {"spec_json"},
    {"data_structures", "schedules", "tf_runtime", "workers"},
    {"ops"},
    {"networks", "replay", "environments"},
    {"policies"},
    {"algorithms"},
    {"learner"},
    {"drivers"},
    {"distributed"},
    {"training"},
    {"plots"},
    {"population"},
    {"sweep"},
    {"bin"},
]
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def room_of(path):
    """The part of ALF to which a file belongs: "drivers", "errors", ..."""
    return path.relative_to(ROOT / "alf").parts[0].removesuffix(".py")


def imports_of(path):
    """The parts of ALF that a file imports, anywhere in it."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        assert getattr(node, "level", 0) == 0, "a relative import"
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("alf.")}
    return rooms & {*RANKS, "testing"}


def test_the_files_that_the_page_names_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"alf/[\w/]+(?:\.py)?", text))
    assert len(paths) > 30
    missing = sorted(path for path in paths if not (ROOT / path).exists())
    assert not missing
    names = set(re.findall(r"(?<![\w/])\w+\.py", text))
    files = {path.name for path in MODULES}
    assert names <= files


def test_every_part_is_on_the_page():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = {path.name for path in (ROOT / "alf").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert not sorted(part for part in parts if f"alf/{part}" not in text)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_only_down(path):
    room = room_of(path)
    if room in ("testing", "__init__"):
        return
    imported = imports_of(path) - {room}
    assert "testing" not in imported
    assert not sorted(other for other in imported if RANKS[other] >= RANKS[room])
