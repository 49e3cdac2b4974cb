# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Each code block of README.md and docs/ is run: the blocks of a page in their order, in one folder.

| language | what happens |
| --- | --- |
| a title | the block is written to the file of that name, before all others |
| python | is executed in this process, with the names of the page's blocks before it |
| gin | a run is built of it, with what `page_setup` adds; a block that is not run is read |
| bash | commands of ALF are run, with what `page_setup` adds to end them soon, and so is `python FILE`.
Of `pip`, `make` and benchmarks the names are checked |
| text, cpp | nothing; tests/evaluation/exporter_program_test.py compiles a program |
"""

import collections
import functools
import importlib
import importlib.util
import re
import shutil
import subprocess
import sys

import gin
import pytest

from alf.config.listing import list_settings
from alf.config.parsing import parse_config
from alf.config.registry import import_settings
from alf.config.translations import find_translations
from alf.runs.presets import make_parts
from alf.training import Trainer
from tests.docs import page_setup
from tests.docs.blocks import PAGES, ROOT, read_blocks, read_commands
from tests.programs import ALF, environment, run_program

pytestmark = pytest.mark.programs

import_settings()

NUM_NOT_RUN = 34  # blocks that say why they are not run
LANGUAGES = {"python", "gin", "bash", "text", "cpp"}
NO_SETTINGS = "plot", "replicate", "settings"
BLOCKS = {path: read_blocks(path) for path in PAGES}
ALL_BLOCKS = [block for blocks in BLOCKS.values() for block in blocks]
RUNNABLE = [path for path, blocks in BLOCKS.items() if any(x.language != "text" for x in blocks)]


def name_of(x):
    return f"{x.page}:{x.line}" if hasattr(x, "page") else x.relative_to(ROOT).as_posix()


def test_each_block_has_a_language_and_few_are_not_run():
    assert not [name_of(x) for x in ALL_BLOCKS if x.language not in LANGUAGES]
    fences = sum(len(re.findall(r"^\s*```", path.read_text(), re.MULTILINE)) for path in PAGES)
    assert fences == 2 * len(ALL_BLOCKS), "an indented block is not found"
    assert sum(x.reason is not None for x in ALL_BLOCKS) == NUM_NOT_RUN
    assert sum(path.read_text().count("<!-- not run") for path in PAGES) == NUM_NOT_RUN


def test_what_is_set_up_is_there():
    """Nothing is left of a block that has changed."""
    known = {(x.page, x.first_line) for x in ALL_BLOCKS}
    assert not [key for key in page_setup.RESTS if key not in known]
    pages = {x.page for x in ALL_BLOCKS}
    assert not [page for page in [*page_setup.PYTHON, *page_setup.RUNS] if page not in pages]


@pytest.fixture(scope="module")
def run_example(tmp_path_factory):
    """A function that runs a command with a file of examples/, once for all pages that have it.

    It takes the subcommand and its arguments but for -o, and returns the folder that it writes.
    """

    @functools.cache
    def run(name, *arguments):
        folder = tmp_path_factory.mktemp("example")
        copy_examples(folder)
        run_command([name, *arguments, *(["-o", "run"] if name == "train" else [])], folder)
        return folder / "run"

    return run


def copy_examples(folder):
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_page(page, tmp_path, monkeypatch, run_example):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(ROOT / "tests" / "docs"), *sys.path])
    copy_examples(tmp_path)
    monkeypatch.syspath_prepend("examples")
    for name in page_setup.RUNS.get(name_of(page), ()):
        shutil.copytree(run_example("train", "examples/impala_cartpole.gin"), name)
    blocks = BLOCKS[page]
    for block in blocks:
        if block.title:
            (tmp_path / block.title).write_text(block.text)
    names = {"__name__": "page"}
    exec(page_setup.PYTHON.get(name_of(page), ""), names)
    for block in blocks:
        if block.title is None:
            RUNNERS[block.language](block, names=names, folder=tmp_path, run_example=run_example)
    for env in names.get("envs", ()):
        env.close()


def run_python(block, names, **_):
    text = re.sub(r"\bsteps=[\d_]+", f"steps={page_setup.NUM_STEPS}", block.text)
    code = compile("\n" * block.line + text, ROOT / block.page, "exec")
    if block.reason is None:
        gin.clear_config()  # a run that was built has locked it
        exec(code, names)


def run_gin(block, folder, **_):
    rest = page_setup.RESTS.get((block.page, block.first_line), page_setup.Rest())
    kinds = "ReplayLearner", "DqnAlgorithm", "SacAlgorithm", "Td3Algorithm"
    replays = any(x in rest.before + block.text for x in kinds)
    run = page_setup.RUN.replace("UnrollLearner", "ReplayLearner") if replays else page_setup.RUN
    gin.clear_config()
    for text in (rest.envs, run, rest.before, block.text, rest.after):  # no text may set a name twice
        parse_config([], [text])  # not as files: something must read each binding
    if block.reason is None:
        root_dir = folder / f"block_{block.line}"
        Trainer(str(root_dir), *make_parts()).close()  # refuses bindings that nothing reads


def run_bash(block, folder, run_example, **_):
    for command in read_commands(block):
        if command.program == "alf":
            check_arguments(*command.arguments)
            if block.reason is None:
                run_alf(command.arguments, folder, run_example)
        elif command.program == "python" and command.arguments[0] == "-m":
            check_benchmark(command.arguments[1:])
        elif command.program == "python" and block.reason is None:
            run_script(command.arguments, folder)
        elif command.program in CHECKS:
            CHECKS[command.program](command.arguments)
        else:
            assert block.reason is not None, f"{name_of(block)}: what is {command.program}?"


def run_alf(arguments, folder, run_example):
    if not any(argument.startswith("examples/") for argument in arguments):
        run_command(arguments, folder)
        return
    at = arguments.index("-o") if "-o" in arguments else len(arguments)
    made = run_example(*arguments[:at], *arguments[at + 2 :])
    for root_dir in arguments[at + 1 : at + 2]:
        shutil.copytree(made, folder / root_dir)


def run_command(arguments, folder):
    done = run_program(ALF, *arguments, *page_setup.SHORTER.get(arguments[0], []), cwd=folder)
    assert done.status == 0, (arguments, done.err)
    assert "Traceback" not in done.err


def check_arguments(name, *arguments):
    """Asserts that a subcommand has the flags, or settings of this name, and the repository its gin files."""
    if name.startswith("-"):
        return
    known = importlib.import_module(f"alf.bin.{name}").FLAGS
    for argument in arguments:
        if argument.startswith("-"):
            flag = argument.lstrip("-").partition("=")[0]
            assert flag in known or (name not in NO_SETTINGS and is_name_of_setting(flag)), argument
        if argument.startswith("examples/"):
            assert (ROOT / argument).is_file(), argument


def is_name_of_setting(name):
    """Whether it is one of a setting, or what another library calls a setting that means the same."""
    names = {p.name for x in list_settings() for p in x.parameters}
    name = name.rpartition("/")[2]
    return name.rpartition(".")[2] in names or any(x.setting and not x.text for x in find_translations(name))


def run_script(arguments, folder):
    env = environment(PYTHONPATH=str(ROOT), CUDA_VISIBLE_DEVICES="-1")
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def check_benchmark(arguments):
    """Asserts that the module exists, and that its package or the module of its workloads names each flag."""
    module, *flags = arguments
    assert importlib.util.find_spec(module) is not None, module
    text = "\n".join(path.read_text() for path in (ROOT / "benchmarks").rglob("*.py"))
    for flag in flags:
        if flag.startswith("--"):
            name = flag[2:].partition("=")[0]
            assert f'"{name}"' in text or f'"--{name}"' in text, f"{module} {flag}"


def check_pip(arguments):
    """Asserts that the extras and files exist, and that the versions are those of setup.py."""
    setup = (ROOT / "setup.py").read_text()
    assert arguments[0] == "install"
    if arguments[1] == "--no-deps":
        option, path = arguments[2:]
        assert option == "-r" and (ROOT / path).is_file()
        return
    for requirement in arguments[1:]:
        package, extras, version = re.fullmatch(r"([\w.-]+)(?:\[([\w,-]+)\])?(.*)", requirement).groups()
        if package == "tensorboard-plugin-profile":
            continue
        if package == "tensorflow":
            assert extras == "and-cuda" and f'"tensorflow{version}"' in setup
            continue
        assert package in (".", "alf-tf") and not version, requirement
        assert all(f'"{extra}": [' in setup for extra in (extras or "").split(",") if extra)


def check_make(arguments):
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert all(target in targets for target in arguments if "=" not in target), arguments


CHECKS = {"pip": check_pip, "make": check_make}
RUNNERS = {
    "python": run_python,
    "gin": run_gin,
    "bash": run_bash,
    "text": lambda block, **_: None,
    "cpp": lambda block, **_: None,
}


def test_titles_of_a_page_are_different():
    for blocks in BLOCKS.values():
        titles = collections.Counter(x.title for x in blocks if x.title)
        assert not [title for title, count in titles.items() if count > 1]
