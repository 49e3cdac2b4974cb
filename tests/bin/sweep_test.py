# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf sweep: short runs from the command line, a signal and the same command again, wrong settings.

Runs are programs where that is the subject; the others train in this process.
"""

import contextlib
import csv
import errno
import json
import os
import re
import signal
import sys
import traceback
from fractions import Fraction

import gin
import psutil
import pytest

from alf.bin import sweep, train
from alf.config.comparison import parse_settings
from alf.config.parsing import parse_config, take_bindings
from alf.config.registry import own_config
from alf.errors import ConfigError
from alf.runs.digests import DIGESTS_FILE
from alf.studies import resources, run_study
from alf.studies.placement import Machine
from alf.studies.ranges import Choice
from alf.studies.settings import Sweep
from alf.studies.trials import Trials
from tests.bin.calls import call
from tests.bin.conftest import write_config
from tests.bin.forks import SECONDS
from tests.example_runs import EXAMPLES
from tests.programs import ALF
from tests.studies import stand_ins

pytestmark = pytest.mark.programs

RATES = "Adam.learning_rate=[0.01, 0.001]"


class Here(Machine):
    """Trains each run in this process when it starts, in place of a process of its own."""

    def start(self, arguments, log, import_paths=()):
        assert [*arguments[:3]] == ["-m", "alf", "train"]
        os.makedirs(os.path.dirname(log), exist_ok=True)
        with open(log, "a") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
            try:
                with own_config():
                    return Ended(call(train, *arguments[3:]))
            except Exception:
                traceback.print_exc()
                return Ended(1)

    def release(self, process):
        """It had no room."""


class Ended:
    """A process that has ended."""

    def __init__(self, status):
        self.poll = lambda: status


@pytest.fixture
def runs_are_here(monkeypatch):
    monkeypatch.setattr(resources, "Machine", Here)


def read_table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def read_iterations(root_dir):
    return {
        path.parent.name: json.loads(path.read_text())["iterations"]
        for path in root_dir.glob("runs/*/*/done.json")
    }


def test_a_grid_with_a_run_that_fails_and_the_same_command_again(tmp_path, command, monkeypatch):
    """The user's own module is beside the gin file, and is found by the runs."""
    root_dir = tmp_path / "sweep"
    flags = dict(what=[str(write_config(tmp_path / "config", "own"))], output=str(root_dir))
    flags["grid"] = ["Uneven.longest=[8, 'none']"]
    status, out, _ = command(sweep, **flags)
    assert status == 1, out
    good, bad = read_table(root_dir / "runs.csv")
    assert (good["Uneven.longest"], good["seed"], good["status"], good["error"]) == ("8", "0", "finished", "")
    assert float(good["objective"]) > 0 and int(good["env_steps"]) > 0
    assert bad["status"] == "failed" and re.search("ValueError|TypeError", bad["error"]), bad
    assert (root_dir / "sweep.md").read_text() in out
    assert out.count(f"| Uneven.longest='none', seed 0 | {bad['error']} |") == 1
    assert "1 of 2 runs have failed; the same command tries them again" in out
    assert f"the best is Uneven.longest=8, seed 0: alf play {root_dir / good['folder']}\n" in out
    assert (root_dir / "curves.png").stat().st_size > 10_000
    assert "Uneven.longest = 8" in (root_dir / good["folder"] / "operative_config.gin").read_text()
    log = root_dir / good["folder"] / "log.txt"
    before = log.read_text()
    monkeypatch.setattr(resources, "Machine", Here)
    status, out, _ = command(sweep, **flags)
    assert status == 1 and out.count("starts ") == out.count("starts Uneven.longest='none'") == 1
    assert log.read_text() == before


def test_a_signal_saves_the_runs_and_the_same_command_goes_on(tmp_path, forks):
    gin_file, root_dir = write_config(tmp_path / "config", "cartpole"), tmp_path / "sweep"
    program = ALF, "sweep", gin_file, f"--output={root_dir}"
    progress = root_dir / "runs" / "000" / "seed=0" / "progress.csv"
    params = ["--StopCriteria.num_iterations=1000000"]
    with forks.start(*program, *params, cwd=tmp_path) as fork:
        fork.wait_until(progress.exists)
        children = psutil.Process(fork.pid).children(recursive=True)
        fork.send_signal(signal.SIGTERM)
        done = fork.finish()
    assert done.status == 128 + signal.SIGTERM, done
    assert done.out.splitlines()[-1] == "stopped by SIGTERM; the same command goes on"
    assert "failed;" not in done.out
    assert children and not psutil.wait_procs(children, SECONDS)[1]
    (first,) = read_table(root_dir / "runs.csv")
    assert first["status"] == "interrupted" and int(first["env_steps"]) > 0
    iterations = read_iterations(root_dir)["seed=0"]
    assert iterations > 0
    # As if the runs were nearly over. A sweep itself does not let its stop criteria change.
    state = (root_dir / "sweep.json").read_text()
    (root_dir / "sweep.json").write_text(state.replace("1000000", str(iterations + 2)))
    params = [f"--StopCriteria.num_iterations={iterations + 2}"]
    done = forks.run(*program, *params, cwd=tmp_path)
    assert done.status == 0, done
    assert read_iterations(root_dir) == {"seed=0": iterations + 2}
    assert (root_dir / "runs" / "000" / "seed=0" / "log.txt").read_text().count("continues from") == 1
    assert {row["status"] for row in read_table(root_dir / "runs.csv")} == {"finished"}
    (row,) = read_table(root_dir / "sweep.csv")
    assert (row["finished"], row["failed"]) == ("1", "0")


def test_samples_of_ranges(tmp_path, command, runs_are_here):
    params = [
        "Sweep.settings = {'Adam.learning_rate': @r/LogUniform(), 'Experiment.unroll_length': @Integers()}",
        *("r/LogUniform.low = 1e-4", "r/LogUniform.high = 1e-2", "Integers.low = 2", "Integers.high = 9"),
        *("Sweep.search = 'optuna'", "Sweep.value = 'best'", "Sweep.objective = 'train/loss'"),
        "Sweep.num_samples = 2",
    ]
    gin_file, root_dir = str(write_config(tmp_path / "config", "cartpole")), tmp_path / "sweep"
    status, out, _ = command(sweep, what=[gin_file], output=str(root_dir), settings=params)
    assert status == 0, out
    rows = read_table(root_dir / "sweep.csv")
    assert len(rows) == 2 and len({row["Adam.learning_rate"] for row in rows}) == 2
    for row in rows:
        assert 1e-4 <= float(row["Adam.learning_rate"]) <= 1e-2
        assert 2 <= int(row["Experiment.unroll_length"]) <= 9
        rate = f"{float(row['Adam.learning_rate']):.4g}"
        (run,) = root_dir.glob(f"runs/*_Adam.learning_rate={rate},*/seed=0")
        config = (run / "operative_config.gin").read_text()
        assert f"Adam.learning_rate = {row['Adam.learning_rate']}\n" in config and "Sweep" not in config
        progress = [float(line["train/loss"]) for line in read_table(run / "progress.csv")]
        assert float(row["mean"]) == pytest.approx(max(progress))
    progress = {path: path.read_bytes() for path in root_dir.glob("runs/*/seed=0/progress.csv")}
    params[-1] = "Sweep.num_samples = 3"
    status, out, _ = command(sweep, what=[gin_file], output=str(root_dir), settings=params)
    assert status == 0 and out.count("starts ") == 1 and len(read_table(root_dir / "sweep.csv")) == 3
    assert {path: path.read_bytes() for path in progress} == progress


def test_the_example(tmp_path, command, runs_are_here):
    params = ["StopCriteria.num_env_steps = 2000", "Sweep.num_samples = 1"]
    params.append("ActorCriticNetwork.fc_layer_params = (4,)")
    flags = dict(what=[str(EXAMPLES / "sweep_cartpole.gin")], output=str(tmp_path / "sweep"))
    status, out, _ = command(sweep, settings=params, seeds=["0", "1"], **flags)
    assert status == 0, out
    rows = read_table(tmp_path / "sweep" / "runs.csv")
    assert [(row["seed"], row["status"]) for row in rows] == [("0", "finished"), ("1", "finished")]
    assert len({(row["Adam.learning_rate"], row["PPOAlgorithm.clip_range"]) for row in rows}) == 1
    assert all(int(row["env_steps"]) >= 2000 for row in rows)


def test_it_names_what_to_train_as_alf_train_does(tmp_path, command, monkeypatch):
    """Stand-ins take the place of the runs."""
    make, given = run_study.make_arguments, {}

    def replace(gin_file, run):
        given[run.seed] = make(gin_file, run)
        return stand_ins.make_arguments()(run)

    monkeypatch.setattr(run_study, "make_arguments", replace)
    flags = dict(what="CartPole-v1", algorithm="ppo", steps=5000, seeds=["0", "1"])
    settings = ["--num_envs=8", "--num_groups=4", "--gamma=0.9"]
    status, out, errors = command(sweep, *settings, output=str(tmp_path / "sweep"), **flags)
    assert (status, errors) == (0, []), out
    expected = {"environments.load.name": "'CartPole-v1'", "Experiment.algorithm": "'ppo'"}
    expected |= {"StopCriteria.num_env_steps": "5000", "PPOAlgorithm.discount": "0.9"}
    expected |= {"Experiment.num_envs": "8", "Experiment.num_groups": "4"}
    assert sorted(given) == [0, 1]
    for seed, arguments in given.items():
        gin_file, _, *settings = arguments[3:]
        bindings = read_bindings({"what": [gin_file], "settings": [x.removeprefix("--") for x in settings]})
        del bindings["given_bindings.names"]
        assert bindings == expected | {"Experiment.seed": str(seed)}


def test_an_objective_that_no_run_has_is_one_line(tmp_path, command):
    """The sweep has been made already: nothing trains."""
    flags = dict(what=[str(write_config(tmp_path / "config", "cartpole"))], output=str(tmp_path / "sweep"))
    flags["settings"] = ["Sweep.objective = 'AverageJoy'"]
    run = tmp_path / "sweep" / "runs" / "000" / "seed=0"
    run.mkdir(parents=True)
    (run / "done.json").write_text('{"status": "SUCCESS"}')
    (run / "progress.csv").write_text("env_steps,seconds,metrics/BalancedReturn\n100,1,50\n")
    state = {"config": read_bindings(flags), "seeds": [0]}
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(state))
    Trials(str(tmp_path / "sweep"), Sweep(), {}).ask()
    status, out, errors = command(sweep, **flags)
    assert status == 2 and "starts" not in out
    assert errors[0].startswith(
        "error: Sweep.objective is 'AverageJoy': no run has it; there are env_steps, "
    )


def read_bindings(flags):
    with own_config():
        parse_config(flags["what"], flags["settings"])
        return parse_settings(gin.config_str())


def test_a_macro_may_be_tried():
    run_study.check_trials("Adam.learning_rate = %rate\nrate = 0.1", {"rate": ["0.2", "0.3"]}, {})


def test_every_number_of_a_choice_must_be_readable():
    with pytest.raises(ConfigError, match="^Sweep.settings: .*Fraction"):
        run_study.check_trials("", {}, {"Adam.learning_rate": Choice([0.1, Fraction(1, 3), 0.5])})


def test_the_first_run_of_a_folder_with_the_name_of_a_pattern_is_replicated(tmp_path, monkeypatch, capfd):
    """Another program takes the place of alf replicate, and prints its arguments."""
    run = tmp_path / "sweep[1]" / "runs" / "000" / "seed=0"
    run.mkdir(parents=True)
    (run / DIGESTS_FILE).touch()
    monkeypatch.setattr(sys, "executable", "echo")
    assert run_study.replicate_first(str(tmp_path / "sweep[1]"), lambda: False) == 0
    assert capfd.readouterr().out == f"-m alf replicate {run} --output={tmp_path}/sweep[1]/replica\n"


PBT = ["Experiment.policies = @PolicyPopulation()", "PolicyPopulation.num_policies = 2"]
RANGE = ["Sweep.num_samples = 2", "rate/LogUniform.low = 1e-4", "rate/LogUniform.high = 1e-2"]
SETTINGS = "Sweep.settings = {%r: @rate/LogUniform()}"
WRONG = {
    "output": (dict(output=None), "-o is missing"),
    "no seeds": (dict(seeds=[]), "--seeds is '': it must be integers"),
    "a text as seed": (dict(seeds=["0", "x"]), "--seeds is '0,x': it must be integers, at least 0"),
    "a negative seed": (dict(seeds=["-1"]), "--seeds is '-1': it must be integers"),
    "a seed twice": (dict(seeds=["0", "1", "0"]), "--seeds is 0,1,0: 0 is there twice"),
    "an empty grid": (
        dict(grid=["Adam.learning_rate=[]"]),
        r"--grid Adam.learning_rate=\[\]: it must be a list",
    ),
    "no configurable": (dict(grid=["Adan.learning_rate=[1.0]"]), "--grid Adan.*: --Adan.learning_rate: "),
    "no parameter": (dict(grid=["Adam.learning_rat=[1.0]"]), "--grid Adam.*--Adam.learning_rate="),
    "no macro": (dict(grid=["ratte=[1.0]"]), "--grid ratte=.*: --ratte: there is no such setting"),
    "a reference": (dict(grid=["activation=[@Nothing]"]), "--grid=activation=.@Nothing.: No configurable"),
    "a word": (dict(grid=["num_envs=[many]"]), "--grid: Experiment.num_envs is 'many': it must be an int"),
    "a bracket": (
        dict(grid=["Adam.learning_rate=[0.1"]),
        r"--grid=Adam.learning_rate=\[0.1: it must be a list",
    ),
    "the seed": (dict(grid=["Experiment.seed=[1]"]), "Experiment.seed is set by --seeds"),
    "no gin file": (dict(what=["nowhere.gin"]), "there is no file 'nowhere.gin'"),
    "sweep": (
        dict(settings=["Sweep.num_samples = 2"]),
        "Sweep.settings is None, but Sweep.num_samples is set",
    ),
    "scope": (dict(settings=["x/Sweep.seed = 2"]), "nothing reads the gin binding x/Sweep.seed"),
    "range": (
        dict(settings=[*RANGE, SETTINGS % "Adam.learning_rat"]),
        "Sweep.settings: .*Adam.learning_rate",
    ),
    "drawn twice": (
        dict(settings=[*RANGE, SETTINGS % "Adam.learning_rate"], grid=[RATES]),
        "--grid has Adam.learning_rate, and so has Sweep.settings",
    ),
    "drawn twice by two names": (
        dict(
            settings=[*RANGE, SETTINGS % "Adam.learning_rate"],
            grid=["alf.optimizers.Adam.learning_rate=[0.1]"],
        ),
        "--grid has alf.optimizers.Adam.learning_rate, and so has Sweep.settings: name it once",
    ),
    "two names": (
        dict(grid=[RATES, "alf.optimizers.Adam.learning_rate=[0.1]"]),
        "--grid has Adam.learning_rate and alf.optimizers.Adam.learning_rate, which are the same: name it",
    ),
    "pruner": (
        dict(settings=["Sweep.pruner = 'MedianPruner'"]),
        "Sweep.pruner_interval is None, but Sweep.pruner is set: both, or none",
    ),
    "pruner's arguments": (
        dict(
            settings=[
                "Sweep.pruner = 'MedianPruner'",
                "Sweep.pruner_interval = 10",
                "Sweep.pruner_arguments = {'n_startups': 3}",
            ]
        ),
        "Sweep.pruner_arguments is {'n_startups': 3}: .*n_startups",
    ),
    "optuna and grid": (
        dict(settings=[*RANGE, SETTINGS % "Adam.epsilon", "Sweep.search = 'optuna'"], grid=[RATES]),
        "--grid is set, but Sweep.search is 'optuna'",
    ),
    "no evaluation": (
        dict(settings=["Sweep.objective = 'eval/return_mean'"]),
        "Sweep.objective is 'eval/return_mean': set Trainer.evaluator",
    ),
}


def test_a_wrong_setting_is_one_line_before_anything_is_written(tmp_path, command, subtests):
    gin_file = str(write_config(tmp_path / "config", "cartpole"))
    for name, (values, message) in WRONG.items():
        with subtests.test(name):
            given = dict(what=[gin_file], output=str(tmp_path / "sweep")) | values
            status, _, errors = command(sweep, **given)
            assert status == 2 and len(errors) == 1
            assert re.search(f"^error: {message}", errors[0]), errors
            assert not (tmp_path / "sweep").exists()


def test_a_folder_that_another_sweep_uses_is_refused(tmp_path, run_in_used_folder):
    gin_file = str(write_config(tmp_path / "config", "cartpole"))
    status, _, errors = run_in_used_folder(sweep, tmp_path / "sweep", what=[gin_file])
    assert status == 2 and len(errors) == 1 and "is in use" in errors[0]
    assert not (tmp_path / "sweep").exists(), "the other process has written nothing, and removes it"


@pytest.mark.parametrize(
    "name, kind", [("operative_config.gin", "a run"), ("population.json", "a population")]
)
def test_the_folder_of_something_else_is_refused(tmp_path, command, monkeypatch, name, kind):
    monkeypatch.setenv("HOME", str(tmp_path))
    gin_file, folder = str(write_config(tmp_path / "config", "cartpole")), tmp_path / "other"
    folder.mkdir()
    (folder / name).touch()
    for path in (str(folder), "~/other"):
        status, _, errors = command(sweep, what=[gin_file], output=path)
        assert status == 2
        assert errors == [f"error: '{folder}' holds {kind}: choose another folder, -o DIR"]
    assert os.listdir(folder) == [name]


def test_a_full_disk_is_one_line(tmp_path, command, monkeypatch, subtests):
    def fsync(file):
        if os.readlink(f"/proc/self/fd/{file}").endswith(f"/{name}.tmp"):
            raise OSError(errno.ENOSPC, "No space left on device")

    gin_file = str(write_config(tmp_path / "config", "cartpole"))
    monkeypatch.setattr(os, "fsync", fsync)
    for name in ("config.gin", "sweep.json"):
        with subtests.test(name):
            status, out, errors = command(sweep, what=[gin_file], output=str(tmp_path / "sweep"))
            assert status == 1 and "starts" not in out
            assert errors == [f"error: {tmp_path}/sweep/{name} cannot be written: No space left on device"]


def test_a_wrong_first_attempt_does_not_stand_in_the_way(tmp_path, command, runs_are_here):
    gin_file, root_dir = str(write_config(tmp_path / "config", "cartpole")), tmp_path / "sweep"
    given = dict(what=[gin_file], output=str(root_dir))
    params = ["Sweep.objective = 'train/loss'", "alf.environments.load.name = 'CartPole-v7'"]
    status, out, _ = command(sweep, settings=params, **given)
    assert status == 1 and "1 of 1 runs have failed" in out
    status, out, errors = command(sweep, settings=params[:1], grid=["Adam.learning_rate=[0.1]"], **given)
    assert (status, errors) == (0, []), out
    (row,) = read_table(root_dir / "runs.csv")
    assert (row["Adam.learning_rate"], row["status"]) == ("0.1", "finished")


@pytest.mark.parametrize(
    "module, values, message",
    [
        ("optuna", {}, r'package optuna is not installed: pip install "alf-tf\[sweep\]"'),
        ("matplotlib", {}, r'package matplotlib is not installed: pip install "alf-tf\[sweep\]"'),
        ("ray", {"ray_address": "local"}, r'package ray is not installed: pip install "alf-tf\[ray\]"'),
    ],
    ids=["optuna", "matplotlib", "ray"],
)
def test_a_missing_extra_is_one_line(tmp_path, command, monkeypatch, module, values, message):
    monkeypatch.setitem(sys.modules, module, None)
    given = dict(what=[str(write_config(tmp_path / "config", "cartpole"))], output=str(tmp_path / "sweep"))
    status, _, errors = command(sweep, **given, **values)
    assert status == 2 and len(errors) == 1 and re.search(message, errors[0])


def test_a_policy_population_keeps_its_own_ranges(tmp_path):
    """Both have ranges. Those of the sweep are not for its runs."""
    params = [
        *PBT,
        *RANGE,
        SETTINGS % "Adam.epsilon",
        "PolicyPopulation.settings = {'Adam.learning_rate': @Uniform()}",
    ]
    with own_config():
        parse_config([], [*params, "Uniform.low = 0.1", "Uniform.high = 0.2"])
        Sweep()
        taken = take_bindings("alf.sweep") | take_bindings("alf.population", only_read=True)
        left = parse_settings(gin.config_str())
    assert sorted(taken) == [
        "Sweep.num_samples",
        "Sweep.settings",
        "rate/LogUniform.high",
        "rate/LogUniform.low",
    ]
    assert {"Uniform.low", "Uniform.high", "PolicyPopulation.num_policies"} <= left.keys()
    # Nor do its runs look for what would read them.
    assert "Population.settings" in left["given_bindings.names"] and "alf.sweep" not in str(left)
