# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.compare_rllib: ALF is measured; a script stands in for RLlib, which is not installed here."""

import sys

import pytest

from tests.benchmarks.conftest import import_program, parsed_flags
from tests.programs import ROOT

pytestmark = pytest.mark.programs

pytest.importorskip("ray")


def test_a_row_has_both_and_their_ratio(tmp_path, monkeypatch, capsys, forks_python):
    rllib = tmp_path / "python"
    rllib.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/arguments\necho \'{{"steps_per_second": 50}}\'\n')
    rllib.chmod(0o700)
    settings = ["--workers=1", "--envs=3", "--unroll_length=4", "--seconds=0.5", "--rounds=1"]
    program = import_program("benchmarks.compare_rllib")
    monkeypatch.chdir(ROOT)
    with parsed_flags(program, f"--rllib_python={rllib}", *settings):
        program.main([])
    _, _, row = capsys.readouterr().out.splitlines()
    workers, alf, rllib, ratio = (float(x.split()[0].replace(",", "")) for x in row.strip("| ").split(" | "))
    assert (workers, rllib) == (1, 50)
    assert alf > 0 and ratio == pytest.approx(alf / 50, abs=0.1)
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments == ["benchmarks/peers/rllib.py", "--workload=cartpole_vector", *settings[:4]]


def test_the_ratio_is_that_of_each_round():
    program = import_program("benchmarks.compare_rllib")
    assert program.row(2, [30.0, 80.0, 50.0], [10.0, 20.0, 10.0]) == "| 2 | 50 | 10 | 4.0 (3.0 to 5.0) |"


def test_a_command_that_fails_is_named():
    program = import_program("benchmarks.compare_rllib")
    with pytest.raises(RuntimeError, match="failed: my own bug"):
        program.run([sys.executable, "-c", "import sys; sys.exit('my own bug')"], 300)
