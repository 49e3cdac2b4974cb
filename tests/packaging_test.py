"""The Makefile and setup.py, without installing anything: fake interpreters stand in for Python."""

import ast
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

ROOT = Path(__file__).resolve().parent.parent
NEEDS_MAKE = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

# Reports a version to the probe, makes a .venv that holds itself, logs and fakes pip.
FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
  "-c "*) echo "{version}:$0";;
  "-m venv") rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python;;
  "-m pip") echo "$*" >> pip.log; exit {pip_status};;
  *) exit 1;;
esac
"""
# As a pyenv shim for a version that is not selected.
BROKEN_SHIM = "#!/bin/sh\necho 'command not found' >&2\nexit 127\n"


def write_script(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def fake_python(path, version, pip_status=0):
    return write_script(path, FAKE_PYTHON.format(version=version, pip_status=pip_status))


@pytest.fixture
def tree(tmp_path):
    for name in ("Makefile", "setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("python3.11", "python3.10", "python3", "python"):
        write_script(tmp_path / "bin" / name, BROKEN_SHIM)
    return tmp_path


def make(tree, *args):
    # Nothing of a make that runs this test: its options and variables would come along.
    env = {"PATH": f"{tree / 'bin'}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C"}
    command = ["make", "-C", str(tree), "--no-print-directory", *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def assert_one_clear_line(result, found):
    assert result.returncode != 0
    lines = (result.stdout + result.stderr).strip().splitlines()
    assert len(lines) == 1, lines
    expected = f"ALF needs Python 3.10 or 3.11; found {found}: install one or set PYTHON=/path/to"
    assert expected in lines[0]


@NEEDS_MAKE
@pytest.mark.parametrize("version", ["3.12.1", "3.9.18", "3.1.5", "2.7.18"])
def test_wrong_python_is_one_clear_line(tree, version):
    python = fake_python(tree / "other" / "python", version)
    for name in ("python3.11", "python3.10"):  # PYTHON is not silently passed over
        fake_python(tree / "bin" / name, "3.11.7")
    result = make(tree, "install", f"PYTHON={python}")
    assert_one_clear_line(result, f"{python} ({version})")
    assert not (tree / ".venv").exists()


@NEEDS_MAKE
def test_no_python_is_one_clear_line(tree):
    assert_one_clear_line(make(tree, "install"), "none that runs")
    fake_python(tree / "bin" / "python3", "3.12.1")
    fake_python(tree / "bin" / "python", "3.11.2 without ensurepip")
    assert_one_clear_line(make(tree, "install"), "python3 (3.12.1), python (3.11.2 without ensurepip)")


# As Debian's Python without the package python3-venv; it runs the Makefile's own question.
WITHOUT_ENSUREPIP = """#!/bin/sh
exec {python} -c 'import importlib.util as u, sys
find = u.find_spec
u.find_spec = lambda name, *args: None if name == "ensurepip" else find(name, *args)
sys.version_info = (3, 11, 2)
exec(sys.argv[1])' "$2"
"""


@NEEDS_MAKE
def test_a_python_that_can_make_no_venv_is_passed_over(tree):
    write_script(tree / "bin" / "python", WITHOUT_ENSUREPIP.format(python=sys.executable))
    assert_one_clear_line(make(tree, "install"), "python (3.11.2 without ensurepip)")


RUN = ".venv/bin/python"
EXAMPLE = "examples/impala_cartpole.gin"
RECIPES = {
    "train": [f'{RUN} -m alf.bin.train --gin_file={EXAMPLE} --root_dir="runs/impala_cartpole" A=B'],
    "test": [f"{RUN} -m pytest -q -n 2 --dist worksteal A=B"],
    "test-slow": [f"{RUN} -m pytest -q -m slow --timeout=1800 A=B"],
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
    assert make(tree, "install").returncode == 0
    result = make(tree, target, "--dry-run", "ARGS=A=B")
    assert result.stdout.splitlines() == RECIPES[target], result.stderr


def test_what_the_targets_name_exists():
    words = " ".join(line for lines in RECIPES.values() for line in lines).split()
    modules = [word for i, word in enumerate(words) if i and words[i - 1] == "-m" and word != "slow"]
    assert len(modules) == 10 and all(importlib.util.find_spec(name) for name in modules)
    assert (ROOT / EXAMPLE).is_file() and (ROOT / "docs/make_settings.py").is_file()
    ci = (ROOT / ".ci" / "run").read_text().splitlines()
    assert [line.split(" #")[0].strip() for line in ci if line.startswith(("make", "set"))] == [
        "set -euo pipefail",
        "make install-envpool",
        "make lint",
        "make test",
    ]


@NEEDS_MAKE
def test_clean_removes_what_was_made_and_keeps_the_runs(tree):
    kept = {tree / "runs" / "x" / "progress.csv", tree / "alf" / "version.py"}
    gone = {tree / name / "x" for name in (".venv", "build", "dist", "alf_tf.egg-info", "alf/__pycache__")}
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
@pytest.mark.skipif(sys.version_info[:2] not in ((3, 10), (3, 11)), reason="ALF does not run here")
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
def test_install_is_done_once_and_again_when_setup_py_changes(tree):
    def installs():
        return [x for x in (tree / "pip.log").read_text().splitlines() if "-e" in x.split()]

    fake_python(tree / "bin" / "python3.11", "3.11.7")
    assert make(tree, "install").returncode == 0
    assert installs() == ["-m pip install -e .[dev]"]

    again = make(tree, "install")
    assert again.returncode == 0
    assert "Nothing to be done" in again.stdout
    assert len(installs()) == 1

    stamp = (tree / ".venv" / ".installed").stat().st_mtime
    os.utime(tree / "setup.py", (stamp + 5, stamp + 5))
    assert make(tree, "install").returncode == 0
    assert len(installs()) == 2


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


def test_python_requires_agrees_with_the_makefile(setup_kwargs):
    assert setup_kwargs["python_requires"] == ">=3.10,<3.12"
    assert "3.10.*|3.11.*)" in (ROOT / "Makefile").read_text()


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
    "gym_notices": "tf-agents",
    "imageio_ffmpeg": "imageio-ffmpeg",
    "mujoco": "gymnasium[mujoco]",
    "PIL": "tf-agents",
    "pygame": "tf-agents",
    "tf_agents": "tf-agents",
    "typing_extensions": "tf-agents",
}


def name_of(requirement):
    return re.match(r"[\w.-]+(\[[\w-]+\])?", requirement)[0]


def read_imports():
    """Pairs of a third-party module that a file of ALF imports, and whether it does so on import."""
    for path in (ROOT / "alf").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in {name.partition(".")[0] for name in names} - {"alf", *sys.stdlib_module_names}:
                yield name, node in tree.body


def test_what_alf_imports_is_installed_with_it(setup_kwargs):
    required = {name_of(x) for x in setup_kwargs["install_requires"]}
    extras = {name_of(x) for packages in setup_kwargs["extras_require"].values() for x in packages}
    imported = set(read_imports())
    assert ("psutil", True) in imported and len(imported) > 15
    for module, is_always in imported:
        package = REQUIREMENT_OF.get(module, module)
        assert package in required or (not is_always and package in extras), (module, is_always)


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
    table = page.partition("| extra | what |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(setup_kwargs["extras_require"])


def test_every_folder_of_alf_is_a_package():
    # find_packages() leaves out a folder without __init__.py, and says nothing.
    folders = {path.parent for path in (ROOT / "alf").rglob("*.py")}
    assert not [str(f.relative_to(ROOT)) for f in folders if not (f / "__init__.py").is_file()]


def test_make_install_leaves_envpool_out(setup_kwargs):
    extras = setup_kwargs["extras_require"]
    left_out = [*extras["envpool"], *extras["cuda"]]
    assert len(left_out) == 2 and not set(left_out) & set(extras["dev"])
    others = {x for name, packages in extras.items() if name not in ("envpool", "cuda") for x in packages}
    assert others == set(extras["dev"])


@NEEDS_MAKE
def test_envpool_comes_on_top_and_leaves_with_the_rest(tree):
    fake_python(tree / "bin" / "python3.11", "3.11.7")
    for _ in range(2):
        assert make(tree, "install-envpool").returncode == 0
    installs = [x for x in (tree / "pip.log").read_text().splitlines() if "-e" in x.split()]
    assert installs == ["-m pip install -e .[dev]", "-m pip install -e .[dev,envpool]"]
    stamp = (tree / ".venv" / ".installed").stat().st_mtime
    os.utime(tree / "setup.py", (stamp + 5, stamp + 5))
    assert make(tree, "install").returncode == 0  # makes .venv anew
    assert not (tree / ".venv" / ".envpool").exists()


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
    commands = {x.split(" = ")[0] for x in setup_kwargs["entry_points"]["console_scripts"]}
    assert {*re.findall(r"--entrypoint=(\S+)", text)} == {"alf-evaluate"} <= commands
    assert '    pip install --no-cache-dir "$(echo /wheels/*.whl)${EXTRAS:+[$EXTRAS]}"\n' in text
    assert "RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels .\n" in text
    assert re.search(r'^ENTRYPOINT \["alf-train"\]$', text, re.MULTILINE)
    for example in re.findall(r"alf:([\w.]+)", text):
        assert (ROOT / "examples" / example).is_file()
    # The user is set before what runs, and may write where it runs.
    assert re.search(r"chown alf /runs\nUSER alf\nWORKDIR /runs\nENTRYPOINT", text)
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["python:3.11-slim"] * 2


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
