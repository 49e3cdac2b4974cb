"""The Makefile and setup.py, without installing anything: fake interpreters stand in for Python."""

import ast
import contextlib
import importlib.metadata
import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from alf.bin.main import COMMANDS

pytestmark = pytest.mark.programs

ROOT = Path(__file__).resolve().parent.parent
NEEDS_MAKE = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

# Answers the probe if its version is right, makes a .venv that holds itself, logs and fakes pip.
FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
  "-c "*) case "{version}" in 3.1[0-3].*) echo "$0";; esac;;
  "-m venv") rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python;;
  "-m pip") echo "$*" >> pip.log; exit {pip_status};;
  *) exit 1;;
esac
"""
# As a pyenv shim for a version that is not selected.
BROKEN_SHIM = "#!/bin/sh\necho 'command not found' >&2\nexit 127\n"
# Where `make install` looks for Python, in this order.
NAMES = ("python3.13", "python3.12", "python3.11", "python3.10", "python3", "python")
TF_AGENTS = "-m pip install --no-deps -r alf/tf_agents.txt"


def write_script(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def fake_python(path, version, pip_status=0):
    return write_script(path, FAKE_PYTHON.format(version=version, pip_status=pip_status))


@pytest.fixture
def tree(tmp_path):
    for name in ("Makefile", "setup.py", "pyproject.toml", "alf/tf_agents.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in NAMES:
        write_script(tmp_path / "bin" / name, BROKEN_SHIM)
    return tmp_path


def installs(tree):
    """The calls of pip that install ALF or TF-Agents."""
    lines = (tree / "pip.log").read_text().splitlines()
    return [line for line in lines if {"-e", "--no-deps"} & set(line.split())]


def make(tree, *args):
    # Nothing of a make that runs this test: its options and variables would come along.
    env = {"PATH": f"{tree / 'bin'}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C"}
    command = ["make", "-C", str(tree), "--no-print-directory", *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def assert_one_clear_line(result, looked_for):
    assert result.returncode != 0
    lines = (result.stdout + result.stderr).strip().splitlines()
    assert len(lines) == 1, lines
    assert f"ALF needs Python 3.10 to 3.13 with venv, and {looked_for} is none: install one" in lines[0]
    assert lines[0].endswith("or set PYTHON=/path/to/python.  Stop.")


# A real Python that says it is another version, or as Debian's without the package python3-venv.
PRETENDER = """#!/bin/sh
exec {python} -c 'import sys
sys.version_info = {version}
{more}
exec(sys.argv[1])' "$2"
"""


def pretender(path, version, more=""):
    real = os.path.realpath(sys.executable)
    return write_script(path, PRETENDER.format(python=real, version=version, more=more))


@NEEDS_MAKE
def test_wrong_python_is_one_clear_line(tree, subtests):
    for name in NAMES:  # PYTHON is not silently passed over
        fake_python(tree / "bin" / name, "3.11.7")
    for version in ((3, 14, 0), (3, 9, 18), (3, 1, 5), (2, 7, 18)):
        with subtests.test(version):
            python = pretender(tree / "other" / "python", version)
            assert_one_clear_line(make(tree, "install", f"PYTHON={python}"), python)
            assert not (tree / ".venv").exists()
    for version in ((3, 10, 0), (3, 13, 9)):
        python = pretender(tree / "other" / "python", version)
        result = make(tree, "install", "--dry-run", f"PYTHON={python}")
        assert f'"{os.path.realpath(sys.executable)}" -m venv --clear .venv' in result.stdout


@NEEDS_MAKE
def test_no_python_is_one_clear_line(tree):
    assert_one_clear_line(make(tree, "install"), " ".join(NAMES))
    pretender(tree / "bin" / "python", (3, 11, 2), 'sys.modules["ensurepip"] = None')
    assert_one_clear_line(make(tree, "install"), " ".join(NAMES))


@NEEDS_MAKE
def test_the_newest_python_is_taken(tree):
    for minor in (10, 12, 11):  # a name that is found later is older
        fake_python(tree / "bin" / f"python3.{minor}", f"3.{minor}.1")
    fake_python(tree / "bin" / "python3", "3.13.1")
    assert make(tree, "install").returncode == 0
    assert "3.12.1" in (tree / ".venv" / "bin" / "python").read_text()


RUN = ".venv/bin/python"
EXAMPLE = "examples/impala_cartpole.gin"
RECIPES = {
    "train": [f'{RUN} -m alf train {EXAMPLE} --output="runs/impala_cartpole" A=B'],
    "test": [f"{RUN} -m pytest -q -n 2 --dist worksteal A=B"],
    "test-all": [f"{RUN} -m pytest -q -n 2 --dist worksteal --tier=all A=B"],
    "test-slow": [f"{RUN} -m pytest -q --tier=slow --timeout=1800 A=B"],
    "lint": [f"{RUN} -m ruff check .", f"{RUN} -m ruff format --check .", f"{RUN} -m mypy"],
    "format": [f"{RUN} -m ruff check --fix-only .", f"{RUN} -m ruff format ."],
    "benchmark": [f"{RUN} -m benchmarks.throughput --workload=cartpole_vector --seconds=20 A=B"],
    "docs": [f"NO_MKDOCS_2_WARNING=1 {RUN} -m mkdocs build --strict A=B"],
    "docs-settings": [f"{RUN} docs/make_settings.py"],
}


@NEEDS_MAKE
@pytest.mark.parametrize("target", RECIPES)
def test_what_a_target_runs(tree, target):
    fake_python(tree / "bin" / "python3.11", "3.11.7")
    assert make(tree, "install-all").returncode == 0
    result = make(tree, target, "--dry-run", "ARGS=A=B")
    assert result.stdout.splitlines() == RECIPES[target], result.stderr


def test_what_the_targets_name_exists():
    words = " ".join(line for lines in RECIPES.values() for line in lines).split()
    modules = [word for i, word in enumerate(words) if i and words[i - 1] == "-m"]
    assert len(modules) == 11 and all(importlib.util.find_spec(name) for name in modules)
    assert (ROOT / EXAMPLE).is_file() and (ROOT / "docs/make_settings.py").is_file()


@NEEDS_MAKE
def test_clean_removes_what_was_made_and_keeps_the_runs(tree):
    kept = {tree / "runs" / "x" / "progress.csv", tree / "alf" / "version.py"}
    gone = {
        tree / name / "x"
        for name in (".venv", ".venv-3.12", "build", "dist", "alf_tf.egg-info", "alf/__pycache__")
    }
    for path in kept | gone:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert make(tree, "clean").returncode == 0
    assert all(path.exists() for path in kept) and not any(path.parent.exists() for path in gone)


@NEEDS_MAKE
def test_a_shim_that_fails_is_passed_over(tree):
    fake_python(tree / "bin" / "python3.10", "3.10.13")
    fake_python(tree / "bin" / "python3", "3.11.7")
    result = make(tree, "install")
    assert result.returncode == 0, result.stderr
    assert "3.10.13" in (tree / ".venv" / "bin" / "python").read_text()


@NEEDS_MAKE
def test_an_activated_venv_is_not_made_from_itself(tree):
    # Links as those of .venv/bin, first on PATH; answered by a real Python.
    real = os.path.realpath(sys.executable)
    for link in (tree / "bin").iterdir():
        link.unlink()
        link.symlink_to(real)
    result = make(tree, "install", "--dry-run")
    assert result.returncode == 0, result.stderr
    assert f'"{real}" -m venv --clear .venv' in result.stdout


@NEEDS_MAKE
def test_install_is_done_once_and_again_when_a_list_of_packages_changes(tree):
    fake_python(tree / "bin" / "python3.11", "3.11.7")
    assert make(tree, "install").returncode == 0
    once = ["-m pip install -e .[dev]", TF_AGENTS]
    assert installs(tree) == once

    again = make(tree, "install")
    assert again.returncode == 0
    assert "Nothing to be done" in again.stdout
    assert installs(tree) == once

    for times, name in enumerate(("setup.py", "alf/tf_agents.txt"), 2):
        stamp = (tree / ".venv" / ".installed").stat().st_mtime
        os.utime(tree / name, (stamp + 5, stamp + 5))
        assert make(tree, "install").returncode == 0
        assert installs(tree) == once * times
        os.utime(tree / name, (stamp, stamp))


@NEEDS_MAKE
def test_another_python_makes_the_environment_anew(tree):
    fake_python(tree / "bin" / "python3.11", "3.11.7")
    other = fake_python(tree / "other" / "python", "3.12.1")
    assert make(tree, "install").returncode == 0
    for _ in range(2):
        assert make(tree, "install", f"PYTHON={other}").returncode == 0
        assert "3.12.1" in (tree / ".venv" / "bin" / "python").read_text()
        assert len(installs(tree)) == 4
    # Without PYTHON the environment that is there is taken.
    assert make(tree, "install").returncode == 0 and len(installs(tree)) == 4


@NEEDS_MAKE
def test_further_packages_are_installed_together_with_alf(tree):
    fake_python(tree / "bin" / "python3.11", "3.11.7")
    assert make(tree, "install-all", "PACKAGES=numpy<2 scipy").returncode == 0
    first, _, last = installs(tree)
    assert first == "-m pip install -e .[dev] numpy<2 scipy"
    assert last == "-m pip install -e .[dev,all] numpy<2 scipy"


@NEEDS_MAKE
def test_a_failed_install_does_not_look_finished(tree):
    fake_python(tree / "bin" / "python3.11", "3.11.7", pip_status=1)
    assert make(tree, "install").returncode != 0
    assert not (tree / ".venv" / ".installed").exists()

    fake_python(tree / "bin" / "python3.11", "3.11.7")
    assert make(tree, "install").returncode == 0
    assert (tree / ".venv" / ".installed").exists()


@NEEDS_MAKE
def test_help_is_the_default_and_names_every_target(tree):
    result = make(tree)
    assert result.returncode == 0, result.stderr
    phony = next(line for line in (tree / "Makefile").read_text().splitlines() if line.startswith(".PHONY:"))
    listed = [line.split()[1] for line in result.stdout.splitlines()]
    assert listed == phony.split()[1:]


@pytest.fixture
def setup_kwargs(monkeypatch):
    captured = {}
    fake = types.ModuleType("setuptools")
    fake.setup = captured.update
    fake.find_packages = lambda **kwargs: kwargs
    command = types.ModuleType("setuptools.command.build_py")
    command.build_py = object
    monkeypatch.setitem(sys.modules, "setuptools", fake)
    monkeypatch.setitem(sys.modules, "setuptools.command", types.ModuleType("setuptools.command"))
    monkeypatch.setitem(sys.modules, "setuptools.command.build_py", command)
    runpy.run_path(str(ROOT / "setup.py"))
    return captured


def test_version_is_that_of_alf(setup_kwargs):
    version = runpy.run_path(str(ROOT / "alf" / "version.py"))["__version__"]
    assert setup_kwargs["version"] == version


def test_all_files_name_the_same_versions_of_python(setup_kwargs):
    text = (ROOT / "pyproject.toml").read_text()
    assert 'requires-python = ">=3.10,<3.14"' in text and "python_requires" not in setup_kwargs
    makefile = (ROOT / "Makefile").read_text()
    assert "(3, 10) <= sys.version_info < (3, 14)" in makefile and f",{' '.join(NAMES)})" in makefile
    minors = [int(x) for x in re.findall(r"Python :: 3\.(\d+)", "\n".join(setup_kwargs["classifiers"]))]
    assert minors == [10, 11, 12, 13]
    for name in ("README.md", "CONTRIBUTING.md", "docs/install.md"):
        assert "Python 3.10 to 3.13" in (ROOT / name).read_text(), name


def read_tf_agents():
    """The requirements in alf/tf_agents.txt."""
    lines = (ROOT / "alf" / "tf_agents.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def test_tf_agents_is_installed_from_one_list(setup_kwargs):
    """Whoever installs TF-Agents names the list; no other file says what is in it, and no extra brings it."""
    known = {canonical(requirement.name) for requirement in read_tf_agents()} - {"tf-keras"}
    extras = setup_kwargs["extras_require"].values()
    own = [*setup_kwargs["install_requires"], *(x for packages in extras for x in packages)]
    assert not known & {canonical(Requirement(x).name) for x in own}
    for name in ("Makefile", "docs/install.md", "alf/tf_agents.txt"):
        assert "pip install --no-deps -r alf/tf_agents.txt\n" in (ROOT / name).read_text(), name
    suffixes = (".md", ".py", ".toml", ".yaml", ".txt", "Makefile", "Dockerfile", "run")
    for path in [ROOT / "README.md", *ROOT.glob("*file"), *ROOT.glob("*.toml"), *ROOT.glob("setup.py")] + [
        path for folder in ("alf", "docs", ".ci") for path in (ROOT / folder).rglob("*")
    ]:
        if path.name.endswith(suffixes) and path.name != "tf_agents.txt":
            assert "tf-agents==" not in path.read_text(encoding="utf-8"), path


def test_the_list_of_tf_agents_and_alf_bring_what_it_needs(setup_kwargs):
    """All that the packages of the list require, but for what they import only for some, or not at all."""
    listed = {canonical(requirement.name) for requirement in read_tf_agents()}
    assert all(requirement.specifier.contains(version_of(requirement)) for requirement in read_tf_agents())
    needed = close({"tf-agents"})
    brought = close({canonical(Requirement(x).name) for x in setup_kwargs["install_requires"]})
    # pygame draws, gym-notices prints, attrs is for nests of its objects. TensorFlow Probability has tf-keras
    # in an extra.
    assert needed - brought - listed == {"pygame", "gym-notices", "attrs"}
    assert listed - {"tf-keras"} <= needed - brought


def canonical(name):
    return name.lower().replace("_", "-")


def version_of(requirement):
    return importlib.metadata.version(requirement.name)


def close(names):
    """The names of packages and of all that they require, as far as these are installed."""
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            requirements = map(Requirement, importlib.metadata.requires(name) or ())
            waiting += [
                canonical(x.name) for x in requirements if not x.marker or x.marker.evaluate({"extra": ""})
            ]
    return found


def test_entry_points_exist(setup_kwargs):
    for entry in setup_kwargs["entry_points"]["console_scripts"]:
        module, function = entry.split("=")[1].strip().split(":")
        source = (ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
        names = {n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)}
        assert function in names, f"{module} has no function {function}"


# The requirement of setup.py that brings a module whose name is another one.
REQUIREMENT_OF = {
    "absl": "absl-py",
    "ale_py": "ale-py",
    "gin": "gin-config",
    "imageio_ffmpeg": "imageio-ffmpeg",
    "keras": "tensorflow",  # TensorFlow requires it
    "minari": "minari[hdf5]",
    "mlflow": "mlflow-skinny",
    "mujoco": "gymnasium[mujoco]",
    "PIL": "pillow",
    "pygame": "gymnasium[classic-control]",
    "tf_agents": "tf-agents",
}


def name_of(requirement):
    return re.match(r"[\w.-]+(\[[\w-]+\])?", requirement)[0]


def read_imports():
    """Pairs of a third-party module that a file of ALF imports, and whether it does so on import."""
    for path in (ROOT / "alf").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in walk_run(tree):
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in {name.partition(".")[0] for name in names} - {"alf", *sys.stdlib_module_names}:
                yield name, node in tree.body and room_of(path) != "adapters"


def walk_run(node):
    """The nodes of a tree, but for what only type checkers read."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and getattr(child.test, "id", None) == "TYPE_CHECKING"):
            yield from walk_run(child)


def room_of(path):
    return path.relative_to(ROOT / "alf").parts[0]


def test_what_alf_imports_is_installed_with_it(setup_kwargs):
    """And nothing else is. An extra, or the list of TF-Agents, brings what is imported when it is used."""
    required = {name_of(x) for x in setup_kwargs["install_requires"]}
    extras = {name_of(x) for packages in setup_kwargs["extras_require"].values() for x in packages}
    extras.add("tf-agents")
    imported = {(REQUIREMENT_OF.get(name, name), is_always) for name, is_always in read_imports()}
    assert ("psutil", True) in imported and ("tf-agents", False) in imported and len(imported) > 15
    for package, is_always in imported:
        assert package in required or (not is_always and package in extras), (package, is_always)
    assert required == {package for package, is_always in imported if is_always}


def test_an_extra_has_the_package_for_whose_sake_it_is_named(setup_kwargs):
    extras = setup_kwargs["extras_require"]
    named = set()
    for path in (ROOT / "alf").rglob("*.py"):
        named |= set(re.findall(r'import_extra\("(\w+)[\w.]*", "(\w+)"\)', path.read_text(encoding="utf-8")))
    assert len(named) >= 9
    for module, extra in named:
        package = REQUIREMENT_OF.get(module, module)
        assert package in {name_of(x) for x in extras[extra]}, (module, extra)


def test_the_page_has_each_extra(setup_kwargs):
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    table = page.partition("| extra | installs |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(setup_kwargs["extras_require"])


def test_every_folder_of_alf_is_a_package():
    # find_packages() leaves out a folder without __init__.py, and says nothing.
    folders = {path.parent for path in (ROOT / "alf").rglob("*.py")}
    assert not [str(f.relative_to(ROOT)) for f in folders if not (f / "__init__.py").is_file()]


def test_the_extra_all_has_each_extra_but_cuda(setup_kwargs):
    extras = setup_kwargs["extras_require"]
    others = {x for name, packages in extras.items() if name not in ("all", "cuda", "dev") for x in packages}
    assert others <= set(extras["all"]) and not set(extras["cuda"]) & set(extras["all"])


@NEEDS_MAKE
def test_all_extras_come_on_top_and_leave_with_the_rest(tree):
    fake_python(tree / "bin" / "python3.11", "3.11.7")
    for _ in range(2):
        assert make(tree, "install-all").returncode == 0
    once = [
        "-m pip install -e .[dev]",
        TF_AGENTS,
        "-m pip install -e .[dev,all]",
    ]
    assert installs(tree) == once
    stamp = (tree / ".venv" / ".installed").stat().st_mtime
    os.utime(tree / "setup.py", (stamp + 5, stamp + 5))
    assert make(tree, "install").returncode == 0  # makes .venv anew
    assert not (tree / ".venv" / ".installed-all").exists()


# Stands in for make: notes what it is called with.
FAKE_MAKE = """#!/bin/sh
echo "$*" >> make.log
case "$*" in *fail*|"$FAIL") exit 3;; esac
mkdir -p .venv/bin
cp {python} .venv/bin/python
"""


def run_ci(tree, failing=""):
    """Runs .ci/run in a folder with a stand-in for make; returns its exit status and how it called make."""
    (tree / ".ci").mkdir(exist_ok=True)
    shutil.copy(ROOT / ".ci" / "run", tree / ".ci" / "run")
    own = write_script(tree / "own", "#!/bin/sh\necho 3.11\n")
    write_script(tree / "bin" / "make", FAKE_MAKE.format(python=own))
    for minor in (10, 12, 13):
        write_script(tree / "bin" / f"python3.{minor}", "#!/bin/sh\nexit 0\n")
    env = {"PATH": f"{tree / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOME": str(tree), "FAIL": failing}
    log = tree / "make.log"
    log.unlink(missing_ok=True)
    done = subprocess.run(["bash", ".ci/run"], cwd=tree, env=env, capture_output=True, text=True, timeout=300)
    return done.returncode, log.read_text().splitlines()


OLDEST = "numpy<2 tensorflow==2.18.*"
OTHERS = [f"python3.10 PACKAGES={OLDEST}", f"python3.12 PACKAGES={OLDEST}", "python3.13 PACKAGES="]


@pytest.mark.parametrize("failing", ["", "lint", "test-all"])
def test_what_ci_runs(tree, failing):
    """Lint, all tests, a third of the slow ones, and half of the quick ones with another Python."""
    expected = ["install-all", "lint", "test-all", "test-slow ARGS=--part=0/3"]
    expected.append(f"test VENV=.venv-other PYTHON={OTHERS[0]} ARGS=--part=0/2")
    status, calls = run_ci(tree, failing)
    if failing:
        assert (status, calls) == (3, expected[: expected.index(failing) + 1])
    else:
        assert (status, calls) == (0, expected)


def test_what_ci_chooses_follows_from_the_files_of_the_commit(tree):
    git = ["git", "-C", str(tree), "-c", "user.name=A", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], check=True, timeout=60)
    chosen = set()
    for i in range(8):
        (tree / "file").write_text(str(i))
        subprocess.run([*git, "add", "file"], check=True, timeout=60)
        subprocess.run([*git, "commit", "-q", "-m", "A"], check=True, timeout=60)
        find_tree = [*git, "rev-parse", "HEAD^{tree}"]
        choice = int(subprocess.run(find_tree, check=True, capture_output=True, timeout=60).stdout[:7], 16)
        part, other, half = choice % 3, choice // 3 % 3, choice // 9 % 2
        status, calls = run_ci(tree)
        assert (status, calls[-2]) == (0, f"test-slow ARGS=--part={part}/3")
        assert calls[-1] == f"test VENV=.venv-other PYTHON={OTHERS[other]} ARGS=--part={half}/2"
        chosen |= {("part", part), ("Python", other), ("half", half)}
    assert len(chosen) == 8  # all of them come in turn


def test_what_the_dockerfile_says(setup_kwargs):
    """What it copies, calls and names exists; tests/wheel_test.py builds the wheel from the same files."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copies = [line.split() for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE)]
    copied = [name for *sources, _ in copies for name in sources]
    assert all(target == "./" or sources == [target] for *sources, target in copies)
    let_in = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert "alf" in copied and sorted(copied) == sorted(let_in)
    assert all((ROOT / name).exists() for name in copied)
    extras = setup_kwargs["extras_require"]
    named = {x for names in re.findall(r"EXTRAS=([\w,]+)", text) for x in names.split(",")}
    assert named and named | {"cuda"} <= set(extras)
    assert setup_kwargs["entry_points"]["console_scripts"] == ["alf = alf.bin.main:console_main"]
    called = re.findall(r":/runs alf(?:-gpu)? (\w+)", text)
    assert called == ["train", "evaluate", "train"] and {*called} <= {*COMMANDS}
    assert '    pip install --no-cache-dir "$(echo /wheels/*.whl)${EXTRAS:+[$EXTRAS]}"\n' in text
    assert "RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels .\n" in text
    assert re.search(r'^ENTRYPOINT \["alf"\]$', text, re.MULTILINE)
    for example in re.findall(r"alf:([\w.]+)", text):
        assert (ROOT / "alf" / "examples" / example).is_file()
    # The user is set before what runs, and may write where it runs.
    assert re.search(r"chown alf /runs\nUSER alf\nWORKDIR /runs\nENTRYPOINT", text)
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["python:3.13-slim"] * 2


def test_copyleft_packages_are_named(setup_kwargs):
    """Of all packages that are installed here, the page names those under the GPL and the LGPL."""
    page = (ROOT / "docs" / "packaging.md").read_text(encoding="utf-8")
    found = set()
    for package in importlib.metadata.distributions():
        metadata = package.metadata
        fields = ("License", "License-Expression")
        texts = [metadata.get(field) or "" for field in fields]
        texts += [x for x in metadata.get_all("Classifier") or () if x.startswith("License ::")]
        # A field may hold the whole text of a licence, and other ones in it.
        if any(re.search(r"\bL?GPL|General Public License", text[:200]) for text in texts):
            found.add(metadata["Name"].lower())
    assert found
    assert not sorted(name for name in found if f"| {name} |" not in page)
