# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Standard streams that are closed, full, or that nobody reads."""

import os
import subprocess
import sys

import pytest

from alf.bin import streams
from alf.bin.streams import make_lasting
from tests.bin.conftest import CARTPOLE, COMMON
from tests.bin.forks import SECONDS

# Without the package, which would start TensorFlow. It prints which of the streams are the null device.
OPEN_ALL = f"""
import os, runpy, sys
runpy.run_path({streams.__file__!r})["open_closed_streams"]()
assert sys.stdin.read() == ""
null = [os.path.samefile(f"/proc/self/fd/{{fd}}", os.devnull) for fd in range(3)]
print(null, file=open(sys.argv[1], "w"))
print("out")
print("err", file=sys.stderr)
"""


@pytest.mark.parametrize(
    "closed, null, out, err",
    [
        ("", [False, False, False], "out\n", "err\n"),
        ("<&-", [True, False, False], "out\n", "err\n"),
        (">&-", [False, True, False], "", "err\n"),
        ("2>&-", [False, False, True], "out\n", ""),
        ("<&- >&- 2>&-", [True, True, True], "", ""),
    ],
)
def test_what_is_closed_becomes_the_null_device(tmp_path, closed, null, out, err):
    shell = ["sh", "-c", f'exec "$0" -c "$1" "$2" {closed}', sys.executable, OPEN_ALL, tmp_path / "null"]
    done = subprocess.run(shell, input="", capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, out, err)
    assert (tmp_path / "null").read_text() == f"{null}\n"


def write_to(fd):
    """Writes more than the buffer of a stream holds to a lasting one; returns its `Output`."""
    with open(fd, "w", encoding="utf-8") as stream:
        lasting, output = make_lasting(stream)
        print("a" * 20_000, file=lasting)
        print("\udcff", file=lasting)
        lasting.close()
    return output


def test_what_can_be_written_is(tmp_path):
    output = write_to(os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT))
    assert output.find_fault() is None
    assert (tmp_path / "out").read_text() == "a" * 20_000 + "\n\\udcff\n"


def test_a_full_disk_is_a_fault_and_no_error():
    assert write_to(os.open("/dev/full", os.O_WRONLY)).find_fault() == "No space left on device"


def test_a_reader_that_wants_no_more_is_no_fault():
    reader, writer = os.pipe()
    os.close(reader)
    output = write_to(writer)
    assert isinstance(output.error, BrokenPipeError) and output.find_fault() is None


@pytest.fixture
def run(forks, tmp_path):
    """Runs a function of `tests.bin.fork_jobs` with arguments of alf-train in a process; returns `Done`."""
    return lambda name, *args: forks.run(f"tests.bin.fork_jobs:{name}", *args, cwd=tmp_path)


def test_a_command_whose_output_cannot_be_written(run, subtests):
    fault = "error: the output cannot be written: No space left on device\n"
    for flag in ("--help", "--version", "--list_settings"):
        with subtests.test(flag):
            assert run("closed_pipe", flag) == (0, "", "")
            assert run("full_disk", flag) == (1, "", fault)
    assert run("full_disk", "--nope").err.startswith("error: Unknown command line flag 'nope'")


def test_a_run_goes_on_without_its_output(run, tmp_path):
    (tmp_path / "run.gin").write_text(COMMON + CARTPOLE)
    for i, (name, status) in enumerate({"closed_pipe": 0, "full_disk": 1}.items()):
        root_dir = tmp_path / f"run{i}"
        done = run(name, f"--gin_file={tmp_path / 'run.gin'}", f"--root_dir={root_dir}")
        assert done.status == status and "Traceback" not in done.err
        assert (root_dir / "checkpoints" / "ckpt-2.index").exists()
