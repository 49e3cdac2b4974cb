# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.determinism: which runs of a case it compares, what it prints of them, and its file."""

import json
import signal

import pytest

from tests.benchmarks.conftest import import_program, parsed_flags

pytestmark = pytest.mark.programs

program = import_program("benchmarks.determinism")


@pytest.mark.parametrize(
    ("odd", "found"),
    [(None, "yes"), ("1", "no: [2, None]"), ("stopped0", "no: [None, 2]")],
)
def test_all_runs_of_a_case_are_compared(tmp_path, monkeypatch, capsys, odd, found):
    calls = []

    def train(folder, arguments, seconds=None, signum=None):
        calls.append((folder.name, "--num_workers=2" in arguments, signum))
        return signum is None

    monkeypatch.setattr(program, "train", train)
    monkeypatch.setattr(program, "read_digests", lambda x: {1: "a", 2: "b" if x.name == odd else "c"})
    path = tmp_path / "determinism.jsonl"
    arguments = ["--case=ppo CartPole, lockstep", "--runs=2", "--stops=2", f"--file={path}"]
    with parsed_flags(program, *arguments):
        program.main([])
    assert calls == [
        ("0", False, None),
        ("1", True, None),
        ("stopped0", False, signal.SIGKILL),
        ("stopped0", False, signal.SIGTERM),
        ("stopped0", False, None),
    ]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"| ppo CartPole, lockstep | 2 | 2 | 1 | 2 | {found} |"
    row = json.loads(path.read_text())
    assert (row["agree"], row["stops"]) == (odd is None, 2) and "date" in row
