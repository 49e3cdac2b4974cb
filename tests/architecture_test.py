# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The structure that docs/architecture.md promises: its files exist, and imports go only down."""

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "alf").rglob("*.py"))

# From the lowest to the highest; modules of one entry may import each other.
LAYERS = [
    {"version", "errors"},
    {"core"},
    {"config"},
    {"workers"},
    {"data_structures", "schedules", "callback"},
    {"ops"},
    {"networks", "replay", "environments"},
    {"policies"},
    {"adapters"},
    {"algorithms"},
    {"learner"},
    {"drivers"},
    {"distributed"},
    {"games"},
    {"runs"},
    {"evaluation"},
    {"training"},
    {"tools"},
    {"plots"},
    {"studies"},
    {"examples"},
    {"bin"},
    {"__main__"},
]
# Classes of other libraries that the page names.
OTHERS = {"TFEnvironment"}
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def room_of(path):
    """The part of ALF to which a file belongs: "drivers", "errors", ..."""
    return path.relative_to(ROOT / "alf").parts[0].removesuffix(".py")


def imports_of(path):
    """The parts of ALF that a file imports, anywhere in it; "." for a relative import."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            rooms |= {"."} if node.level else set()
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("alf.")}
    return rooms & {*RANKS, "testing", "."}


def test_only_the_adapters_import_tf_agents():
    wrong = [path for path in MODULES if room_of(path) != "adapters" and imports_package(path, "tf_agents")]
    assert not wrong


def imports_package(path, package):
    """Whether a file imports a package, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if package in [name.partition(".")[0] for name in names]:
            return True
    return False


def test_the_files_that_the_page_names_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"alf/[\w/]+(?:\.py)?", text))
    assert len(paths) > 30
    missing = sorted(path for path in paths if not (ROOT / path).exists())
    assert not missing
    names = set(re.findall(r"(?<![\w/])\w+\.py", text))
    files = {path.name for path in MODULES}
    assert names <= files


def test_the_calls_of_a_step_are_in_the_files_that_the_page_says():
    """The rows of the table: a number and a function of a class, or a function, and its file."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) `(?:(\w+)\.)?(\w+)` \| `([\w/.]+)` \|", text, re.MULTILINE)
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1)) and len(rows) > 10
    wrong = []
    for _, owner, function, name in rows:
        path = ROOT / name if "/" in name else ROOT / "alf" / "drivers" / name
        source = path.read_text(encoding="utf-8")
        if f"def {function}(" not in source or (owner and not re.search(rf"^class {owner}\b", source, re.M)):
            wrong.append((owner, function, name))
    assert not wrong


def test_the_classes_and_methods_that_the_page_names_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    sources = "\n".join(path.read_text(encoding="utf-8") for path in MODULES)
    classes = set(re.findall(r"^class (\w+)", sources, re.MULTILINE))
    members = set(re.findall(r"def (\w+)\(|^ +(\w+): |self\.(\w+) = ", sources, re.MULTILINE))
    members = {name for names in members for name in names}
    wrong = []
    for owner, member in re.findall(r"`([A-Z]\w+)(?:\.(\w+))?`", text):
        if owner not in classes | OTHERS or (member and owner in classes and member not in members):
            wrong.append(f"{owner}.{member}")
    assert not wrong


def test_every_part_is_on_the_page():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = {path.name for path in (ROOT / "alf").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert not sorted(part for part in parts if f"alf/{part}" not in text)


def test_imports_go_only_down_and_are_absolute():
    """The tools of tests may import everything, and the package itself does."""
    wrong = []
    for path in MODULES:
        room = room_of(path)
        if room not in ("testing", "__init__"):
            ranks = {**RANKS, "testing": len(RANKS), ".": len(RANKS)}
            found = sorted(other for other in imports_of(path) - {room} if ranks[other] >= ranks[room])
            wrong += [f"{path.relative_to(ROOT)} imports alf.{other}" for other in found]
    assert not wrong
    assert {room_of(path) for path in MODULES} == {*RANKS, "testing", "__init__"}
