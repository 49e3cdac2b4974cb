# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A sweep and a population of an earlier version go on."""

import csv
import json
from pathlib import Path

from tests.older_runs.copies import GIN_FILES, copy_older
from tests.programs import run_module


def test_a_sweep_goes_on_with_more_seeds(tmp_path):
    root = Path(copy_older("sweep", tmp_path))
    before = {path: path.stat().st_mtime_ns for path in root.glob("runs/*/seed=*/progress.csv")}
    flags = [f"--gin_file={GIN_FILES['sweep']}", f"--root_dir={root}", "--seeds=0,1,2"]
    done = run_module("alf.bin.sweep", *flags, "--gin_param=Monitoring.stall_timeout = 200.0")
    assert done.status == 0, done.err
    after = {path: path.stat().st_mtime_ns for path in root.glob("runs/*/seed=*/progress.csv")}
    assert len(after) == 6 and before.items() <= after.items()  # those that were over are left alone
    assert done.out.count("3 of 3") == 2


def test_a_population_goes_on_to_more_steps(tmp_path):
    root = Path(copy_older("population", tmp_path))
    flags = [f"--gin_file={GIN_FILES['population']}", f"--root_dir={root}", "--population=2"]
    done = run_module("alf.bin.pbt", *flags, "--gin_param=StopCriteria.num_env_steps = 2000")
    assert done.status == 0, done.out + done.err
    rows = json.loads((root / "population.json").read_text())["rows"]
    assert max(row["env_steps"] for row in rows) >= 1600
    for member in "01":
        with open(root / "members" / member / "progress.csv") as file:
            steps = [float(row["env_steps"]) for row in csv.DictReader(file)]
        assert steps == sorted(steps) and steps[0] < 1000 and steps[-1] >= 2000
