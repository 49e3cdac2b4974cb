# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf replicate, and alf sweep --replicate: a deterministic run is made again, and compared."""

import pytest

from alf.runs.digests import DIGESTS_FILE
from tests.programs import ALF

pytestmark = pytest.mark.programs

SETTINGS = (
    "CartPole-v1",
    "--algorithm=ppo",
    "--unroll_length=16",
    "--num_epochs=1",
    "--num_minibatches=1",
    "--StopCriteria.num_iterations=4",
)
DETERMINISTIC = ("--Experiment.seed=1", "--deterministic=True", "--Checkpoints.interval_steps=500")


@pytest.fixture
def call(forks, tmp_path):
    """Calls a command in a fork; returns its status, its last line of output, and its errors."""

    def call(name, *arguments):
        done = forks.run(ALF, name, *arguments, cwd=tmp_path)
        return done.status, done.out.rstrip().rpartition("\n")[2], done.err

    return call


def test_a_run_is_made_again_and_compared(call, tmp_path):
    done = call("train", *SETTINGS, *DETERMINISTIC, "--output=run")
    assert done[0] == 0, done
    status, said, _ = call("replicate", "run/")
    assert (status, said) == (0, "run-replica has the weights of run, bit for bit, up to iteration 4")
    # Another row: as if the run had other weights from iteration 3 on.
    path = tmp_path / "run" / DIGESTS_FILE
    lines = path.read_text().splitlines()
    others = [f"{line[:-1]}{9 - int(line[-1])}" for line in lines[3:]]
    path.write_text("\n".join([*lines[:3], *others, ""]))
    status, said, _ = call("replicate", "run", "--output=other")
    told = "other differs from run at iteration 3; up to iteration 2 it has the same weights"
    assert (status, said) == (1, told)
    assert len((tmp_path / "other" / DIGESTS_FILE).read_text().splitlines()) == 1 + 3, "it ends there"


def test_wrong_runs(call, tmp_path):
    assert call("train", *SETTINGS, "--output=run")[0] == 0
    status, _, errors = call("replicate", "run")
    assert status == 2 and "run has no digests.csv, as runs with Experiment.deterministic = True" in errors
    assert call("replicate", "nothing")[0] == 2
    status, _, errors = call("replicate")
    assert status == 2 and "name the folder of a run" in errors
    assert not (tmp_path / "run-replica").exists()


def test_a_sweep_replicates_its_first_run(call, tmp_path):
    sweep = ("--output=sweep", "--replicate", "--seeds=3,4")
    config = tmp_path / "run.gin"
    assert call("train", *SETTINGS, *DETERMINISTIC, "--output=run")[0] == 0
    config.write_text((tmp_path / "run" / "operative_config.gin").read_text())
    wrong = call("sweep", str(config), "--Experiment.deterministic=False", *sweep)
    assert wrong[0] == 2 and "--replicate is set: the runs must have" in wrong[2]
    assert not (tmp_path / "sweep").exists()
    # Runs so short that not each environment has ended an episode.
    status, _, errors = call("sweep", str(config), "--Sweep.objective=AverageReturn", *sweep)
    assert status == 0, errors
    assert (tmp_path / "sweep" / "replica" / DIGESTS_FILE).exists()
