# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Each command does its job once, through its `run` in this process; a wrong setting is one line of each.

Stand-ins take the place of a sweep's runs and of the members of a population. They, the videos of
alf play, flags as a user writes them, streams and signals are left to `make test-all`.
"""

import contextlib
import io
import json
import signal
import sys
import types

import pytest
from absl import flags, logging

from alf.bin import benchmark, check, evaluate, export, pbt, play, plot, sweep, train
from alf.bin.command import run as run_command
from alf.config.registry import own_config
from alf.errors import ConfigError, DivergedError, EnvError, LostPeerError, SaveError, StallError
from alf.studies import run_study
from tests.bin.calls import call
from tests.bin.conftest import write_config, write_study
from tests.studies import stand_ins


class Trained:
    """A run of the user's own environment that alf train has made: what it was given, and what it printed."""

    def __init__(self, folder):
        self.gin_file, self.root_dir = str(write_config(folder, "own")), str(folder / "run")
        out = io.StringIO()
        if not flags.FLAGS.is_parsed():
            flags.FLAGS.mark_as_parsed()
        with own_config(), contextlib.redirect_stdout(out):
            self.status = call(train, self.gin_file, output=self.root_dir)
        self.out = out.getvalue()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = list(sys.path)
    yield Trained(tmp_path_factory.mktemp("smoke"))
    sys.path[:] = path  # parse_config adds to it


# --- Each command does its job.


def test_alf_train_trains(trained):
    assert (trained.status, trained.out) == (0, "num_iterations=2 reached\n")


def test_alf_evaluate_prints_the_figures_of_the_episodes(trained, command):
    status, out, errors = command(evaluate, what=trained.root_dir, num_episodes=2, json=True, seed=0)
    assert (status, errors) == (0, [])
    found = json.loads(out)
    assert found["num_episodes"] == 2 and found["checkpoint"].endswith("ckpt-2")
    assert found["return"]["low"] <= found["return"]["mean"] <= found["return"]["high"]


def test_alf_play_shows_the_episodes(trained, command, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    flags = dict(what=trained.root_dir, num_episodes=2, seed=0, settings=["Uneven.longest = 4"])
    status, out, errors = command(play, **flags)
    assert (status, errors) == (0, [])
    checkpoint, *episodes = out.splitlines()
    assert checkpoint.endswith("ckpt-2")
    assert [line.partition(":")[0] for line in episodes] == ["episode 1", "episode 2"]


def test_alf_export_writes_a_saved_model(trained, command, tmp_path):
    status, out, errors = command(export, what=trained.root_dir, output=str(tmp_path / "export"))
    assert (status, errors) == (0, [])
    assert out == f"{trained.root_dir}/checkpoints/ckpt-2 is exported to {tmp_path}/export\n"
    assert (tmp_path / "export" / "saved_model.pb").exists()


def test_alf_benchmark_measures_a_run(trained, command):
    status, out, errors = command(benchmark, what=trained.root_dir, measure_seconds=0.1)
    assert (status, errors) == (0, [])
    found = json.loads(out)
    assert found["sampling"]["env_steps"] > 0 and found["training"]["updates_per_second"] > 0


def test_alf_plot_draws_the_curve_of_a_run(trained, command, tmp_path):
    picture = tmp_path / "curves.png"
    # A run so short may end before an episode does, and has no return then.
    status, out, errors = command(plot, trained.root_dir, output=str(picture), metric="train/value_loss")
    assert (status, out, errors) == (0, f"{picture}, runs: 1, curves: 1\n", [])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_alf_check_env_finds_no_problem(trained, command):
    status, out, errors = command(check, what=trained.gin_file, num_steps=8)
    assert (status, errors) == (0, [])
    assert "problems: none" in out


def test_alf_sweep_makes_the_table_of_its_runs(tmp_path, command, monkeypatch):
    """The return of a stand-in is ten times its seed."""
    monkeypatch.setattr(run_study, "make_arguments", lambda gin_file, run: stand_ins.make_arguments()(run))
    gin_file, root_dir = str(write_config(tmp_path / "config", "cartpole")), tmp_path / "sweep"
    values = dict(output=str(root_dir), seeds=["1", "2"])
    status, out, errors = command(sweep, gin_file, **values, grid=["Adam.learning_rate=[0.1]"])
    assert (status, errors) == (0, [])
    assert (root_dir / "sweep.md").read_text() in out and (root_dir / "curves.png").exists()
    assert "the best is Adam.learning_rate=0.1, seed 2: alf play" in out
    header, row = (root_dir / "sweep.csv").read_text().splitlines()
    figures = dict(zip(header.split(","), row.split(","), strict=True))
    assert (figures["Adam.learning_rate"], float(figures["mean"])) == ("0.1", 15)


def test_alf_pbt_lets_a_population_train(tmp_path, command, monkeypatch):
    stand_ins.replace_members(monkeypatch)
    gin_file, root_dir = str(write_study(tmp_path)), tmp_path / "study"
    status, out, errors = command(pbt, gin_file, output=str(root_dir), population=2)
    assert (status, errors) == (0, [])
    assert f"member 1 is the best, BalancedReturn 10: alf play {root_dir}/members/1\n" in out
    assert "member 0 has ended: num_env_steps=200 reached" in out
    assert out.endswith("all members have ended\n")
    assert len((root_dir / "population.csv").read_text().splitlines()) == 3
    assert (root_dir / "lineage.png").exists()


# --- A wrong setting is one line with the line to write, and nothing is written.

MISSPELT = "Trainr.batches_per_train_iter = 3", "; did you mean --Trainer.batches_per_train_iter=3 ?"
UNREAD = "RMSprop.rho = 0.5", "error: nothing reads the gin binding RMSprop.rho"
OF_ENVS = "alf.environments.load.nam = 'x'", "; did you mean alf.environments.load.name = 'x' ?"
OF_OTHER_PARTS = [
    (param, f"{name}; alf export makes only a policy, no environment or learner")
    for param, name in (UNREAD, (OF_ENVS[0], "error: nothing reads the gin binding environments.load.nam"))
]


def test_a_wrong_setting_is_one_line_of_each_command(trained, command, tmp_path, monkeypatch, subtests):
    """What tests/config/hints_test.py and run_dir_test.py say of the lines is true of all commands."""
    new, video = str(tmp_path / "new"), str(tmp_path / "new.gif")
    of_files = {"what": trained.gin_file}
    of_study, of_run = {"what": str(write_study(tmp_path / "config"))}, {"what": trained.root_dir}
    rows = [
        (train, {**of_files, "output": new}, MISSPELT, UNREAD),
        (pbt, {**of_study, "output": new, "population": 2}, MISSPELT),
        (sweep, {**of_files, "output": new}, MISSPELT),
        (check, {**of_files, "num_steps": 1}, MISSPELT, UNREAD),
        (benchmark, of_files, MISSPELT, UNREAD),
        (benchmark, of_run, MISSPELT, UNREAD),
        (evaluate, of_run, OF_ENVS, UNREAD),
        (play, {**of_run, "output": video}, OF_ENVS, UNREAD),
        (export, {**of_run, "output": new}, *OF_OTHER_PARTS),
    ]
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", types.SimpleNamespace())  # for play alone
    for module, values, *wrong in rows:
        for param, message in wrong:
            with subtests.test(param, command=module.__name__):
                status, out, errors = command(module, **values, settings=[param])
                assert (status, out, len(errors)) == (2, "", 1), errors
                assert errors[0].endswith(message)
    assert sorted(tmp_path.rglob("*")) == before


ENDS = {
    ConfigError("it is 3"): (2, "error: it is 3\n"),
    **{
        kind("it broke\n  In call to configurable 'x'"): (1, "error: it broke\n")
        for kind in (DivergedError, EnvError, LostPeerError, SaveError, StallError)
    },
    SystemExit(0): (1, "error: the user's code called sys.exit(0)\n"),
    KeyboardInterrupt(): (128 + signal.SIGINT, "error: stopped by SIGINT\n"),
}


def make_command(run):
    return types.SimpleNamespace(__name__="alf.bin.train", FLAGS=train.FLAGS, run=run)


def test_the_level_of_the_log_is_info_unless_the_user_asks_for_another_one():
    levels, verbosity = [], flags.FLAGS["verbosity"]
    before = verbosity.value
    module = make_command(lambda arguments: levels.append(logging.get_verbosity()) or 0)
    try:
        for asked in (0, 1):
            verbosity.value, verbosity.present = logging.WARNING, asked
            assert run_command(module, ["alf"]) == 0
    finally:
        verbosity.value, verbosity.present = before, 0
    assert levels == [logging.INFO, logging.WARNING]


def test_an_error_that_a_user_can_mend_is_one_line_and_a_status(capsys, subtests):
    def run(arguments):
        raise error

    module = make_command(run)
    for error, (status, line) in ENDS.items():
        with subtests.test(repr(error)):
            assert run_command(module, ["alf"]) == status
            assert capsys.readouterr() == ("", line)
    error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):  # its traceback is needed
        run_command(module, ["alf"])
