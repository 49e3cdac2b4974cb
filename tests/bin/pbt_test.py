# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf pbt: a member is killed, the study dies and goes on, a signal ends it; wrong settings are one line.

Members are processes of this machine, or of a Ray cluster that was there before.
"""

import csv
import json
import math
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from alf.bin import evaluate, pbt
from alf.studies import population_study
from alf.studies.population_study import MemberRun
from tests.bin.conftest import STUDY, write_study
from tests.bin.forks import SECONDS
from tests.example_runs import EXAMPLES
from tests.programs import ALF, ROOT, environment

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster of two nodes, which knows nothing of what the command sets for itself."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    nodes = cluster_utils.Cluster(
        initialize_head=True, head_node_args=dict(num_cpus=1, include_dashboard=False)
    )
    nodes.add_node(num_cpus=1)
    yield nodes.address
    nodes.shutdown()


def make_arguments(gin_file, root_dir, population=2, ray_address=None, **params):
    args = ["pbt", str(gin_file), f"--output={root_dir}", f"--population={population}"]
    args += [f"--ray_address={ray_address}"] * (ray_address is not None)
    return [*args, *(f"--{k}={v}" for k, v in params.items())]


def run(forks, *args, **kwargs):
    """Runs the command to its end, from another folder than that of the gin file; returns `Done`."""
    arguments = make_arguments(*args, **kwargs)
    with forks.start(ALF, *arguments, cwd=args[1].parent) as fork:
        return fork.finish()


def read_table(root_dir):
    path = root_dir / "population.csv"
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def count_rows(root_dir):
    """The number of intervals of each of two members."""
    members = [row["member"] for row in read_table(root_dir)]
    return [members.count("0"), members.count("1")]


def check_table(root_dir):
    """Each member's environment steps grow from interval to interval; nothing is told twice."""
    rows = read_table(root_dir)
    for member in "01":
        steps = [int(row["env_steps"]) for row in rows if row["member"] == member]
        assert steps == sorted(set(steps))
    for row in rows:
        assert 1e-4 <= float(row["Adam.learning_rate"]) <= 1e-2
        assert 0.0 <= float(row["ImpalaAlgorithm.entropy_weight"]) <= 0.1
    return rows


def wait_for_rows(fork, root_dir):
    """Waits until each member has had two more intervals."""
    before = count_rows(root_dir)
    fork.wait_until(lambda: all(n > m + 1 for n, m in zip(count_rows(root_dir), before, strict=True)))


@pytest.mark.timeout(1200)  # six time-outs of its own
def test_a_member_and_the_study_are_killed_and_all_goes_on(tmp_path, forks):
    root_dir = tmp_path / "study"
    arguments = make_arguments(write_study(tmp_path), root_dir)
    with forks.start(ALF, *arguments, cwd=tmp_path) as fork:
        fork.wait_until(lambda: min(count_rows(root_dir)) >= 2)
        children = psutil.Process(fork.pid).children(recursive=True)
        members = [child for child in children if "run_member" in child.cmdline()]
        assert len(members) == 2
        members[0].kill()
        wait_for_rows(fork, root_dir)
        logs = "".join(path.read_text() for path in root_dir.glob("members/*/log.txt"))
        assert logs.count("continues from") == 1
        members = psutil.Process(fork.pid).children(recursive=True)
        fork.send_signal(signal.SIGKILL)
        out = fork.finish().out
    assert out.count("is started again: its process was ended by SIGKILL") == 1 and "lost" not in out
    assert not psutil.wait_procs(members, SECONDS)[1], "something outlives the study"
    rows = check_table(root_dir)
    state = json.loads((root_dir / "population.json").read_text())
    assert [row["env_steps"] for row in state["rows"]] == [int(row["env_steps"]) for row in rows]
    with forks.start(ALF, *arguments, cwd=tmp_path) as fork:
        wait_for_rows(fork, root_dir)
        members = psutil.Process(fork.pid).children(recursive=True)
        fork.send_signal(signal.SIGTERM)
        done = fork.finish()
    assert done.status == 128 + signal.SIGTERM and "stopped by SIGTERM" in done.out, done
    assert not psutil.wait_procs(members, SECONDS)[1]
    assert check_table(root_dir)[: len(rows)] == rows
    for path in root_dir.glob("members/*"):
        assert json.loads((path / "done.json").read_text())["status"] == "INTERRUPTED"
    assert len(list(root_dir.glob("members/*"))) == 2 and (root_dir / "lineage.png").stat().st_size > 10_000
    assert f"alf play {root_dir}/members/" in done.out and "Traceback" not in done.err


def test_all_members_of_the_example_end_and_can_be_used(tmp_path, forks, command):
    """With room for one member at a time: they take turns."""
    params = {
        "Population.interval": 2000,
        "StopCriteria.num_env_steps": 3000,
        "run_cores": len(os.sched_getaffinity(0)),
        "ActorCriticNetwork.fc_layer_params": "(8,)",
    }
    done = run(forks, EXAMPLES / "pbt_cartpole.gin", tmp_path / "study", **params)
    assert done.status == 0 and "all members have ended" in done.out, done
    rows = read_table(tmp_path / "study")
    assert {row["member"] for row in rows if int(row["env_steps"]) >= 3000} == {"0", "1"}
    status, shown, _ = command(evaluate, what=str(tmp_path / "study" / "members" / "1"), num_episodes=2)
    assert status == 0 and "return" in shown


# Which raises in its 150th step for member 0: so the seed draws.
BROKEN = """
import gin, gymnasium

@gin.configurable
class Broken(gymnasium.Wrapper):
    def __init__(self, steps_left):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.steps_left = steps_left

    def step(self, action):
        self.steps_left -= 1
        if not self.steps_left:
            raise ValueError("the simulator broke")
        return super().step(action)
"""
SOON = """
Population.settings = {"Adam.learning_rate": @rate/LogUniform(), "Broken.steps_left": @Choice()}
Choice.values = (150, 1000000)
rate/LogUniform.low = 1e-4
rate/LogUniform.high = 1e-2
Population.seed = 0
Population.interval = 200
Population.max_failures = 1
Replacement.quantile = 0.0
Experiment.intra_op_threads = 1
StopCriteria.num_iterations = None
StopCriteria.num_env_steps = 2000
"""


def test_a_study_goes_on_without_a_member_that_crashes_too_often(tmp_path, forks, cluster):
    gin_file = write_study(tmp_path, SOON)
    gin_file.with_name("broken_env.py").write_text(BROKEN)
    gin_file.write_text("import broken_env\n" + gin_file.read_text().replace('"CartPole-v1"', "@Broken"))
    done = run(forks, gin_file, tmp_path / "study", ray_address=cluster)
    assert done.status == 0 and "Traceback" not in done.err, done
    assert done.out.count("member 0 is started again: ValueError: the simulator broke") == 1, done.out
    assert done.out.count("member 0 is lost: ValueError: the simulator broke") == 1
    assert done.out.count("member 1 has ended: num_env_steps=2000 reached") == 1


def test_a_wrong_setting_that_only_a_member_can_see_is_one_line(tmp_path, forks, cluster):
    wrong = "Population.settings = {'Adam.epsilon': @rate/LogUniform(), 'SGD.momentum': @entropy/Uniform()}"
    gin_file = tmp_path / "changed.gin"
    gin_file.write_text(f'include "{write_study(tmp_path)}"\n{wrong}\n')
    done = run(forks, gin_file, tmp_path / "study", ray_address=cluster)
    errors = [line for line in (done.out + done.err).splitlines() if line.startswith("error: ")]
    assert done.status == 2 and "Traceback" not in done.err, done
    assert errors == ["error: nothing reads the gin binding SGD.momentum"]


def test_members_are_evaluated_in_processes_of_their_own(tmp_path, forks, cluster):
    """There is room for the evaluations, because `--run_cores` leaves it."""
    more = f"""
{STUDY.strip().replace("interval = 200", "interval = 1000")}
Trainer.evaluator = @Evaluator
Evaluator.place = "cluster"
Evaluator.interval_steps = 1000
Evaluator.num_episodes = 2
RayEvaluator.num_cpus = 0.25
Population.objective = "eval"
StopCriteria.num_env_steps = 3000
"""
    room = dict(ray_address=cluster, run_cores=0.75)
    done = run(forks, write_study(tmp_path, more), tmp_path / "study", **room)
    assert done.status == 0 and "all members have ended" in done.out, done
    judged = {row["member"] for row in read_table(tmp_path / "study") if row["objective"]}
    assert judged == {"0", "1"}


# --- Without processes.


@pytest.fixture
def study(tmp_path, command):
    """A function that runs the command on a gin file of two members; returns the status and the errors."""
    gin_file = str(write_study(tmp_path / "config"))

    def run(**values):
        given = dict(what=[gin_file], output=str(tmp_path / "study"), population=2) | values
        status, _, errors = command(pbt, **given)
        return status, errors

    return run


OTHERS = "Population.settings = {%r: @rate/LogUniform(), 'Adam.epsilon': @entropy/Uniform()}"
WRONG = [
    (dict(population=1), "--population is 1: it must be an integer, at least 2"),
    (dict(population=None), "--population is None: it must be an integer, at least 2"),
    (dict(output=None), "-o is missing"),
    (dict(settings=["Population.interval = 0"]), "Population.interval is 0: it must be an integer"),
    (dict(settings=["Population.intervall = 5"]), "--Population.intervall: "),
    (dict(settings=["Population.objective = ''"]), "Population.objective is ''"),
    (dict(settings=["Population.max_failures = -1"]), "Population.max_failures is -1"),
    (dict(settings=["Population.seed = -1"]), "Population.seed is -1"),
    (dict(settings=["Population.settings = {}"]), "Population.settings is empty"),
    (dict(settings=["Population.settings = {'lr': @rate/LogUniform()}"]), "Population.settings has 'lr'"),
    (
        dict(settings=["Population.settings = {'Adam.beta_1': 3}"]),
        r"Population.settings\['Adam.beta_1'\] is 3: it must be a Range",
    ),
    (
        dict(settings=[OTHERS % "ImpalaAlgorithm.discont"]),
        "Population.settings: .*discont",
    ),
    (
        dict(settings=[OTHERS % "Nothing.rate"]),
        "Population.settings: .*Nothing",
    ),
    (dict(settings=["other/LogUniform.low = 3.0"]), "nothing reads the gin binding other/LogUniform.low"),
    (dict(settings=["rate/LogUniform.low = -1"]), "rate/LogUniform.low is -1: .* above 0"),
    (dict(settings=["Replacement.quantile = 1"]), "Replacement.quantile is 1: .* at most 0.5"),
    (dict(settings=["Mutation.rate = 2"]), "Mutation.rate is 2: .* at most 1"),
    (
        dict(settings=["Experiment.deterministic = True", "Experiment.seed = 1"]),
        "Experiment.deterministic is True: members of alf pbt copy each other",
    ),
    (
        dict(settings=["Experiment.policies = @Policies()", "Policies.names = ('a', 'b')"]),
        r"Experiment.policies is @Policies\(\): alf pbt does not know several policies; .*@PolicyPopulation",
    ),
    (
        dict(settings=[OTHERS % "alf.optimizers.Adam.epsilon"]),
        "Population.settings has alf.optimizers.Adam.epsilon and Adam.epsilon, which are the same: name it",
    ),
]


def test_a_wrong_setting_is_one_line(study, subtests):
    for values, message in WRONG:
        with subtests.test(message):
            status, errors = study(**values)
            assert status == 2 and len(errors) == 1
            assert re.search(f"^error: {message}", errors[0]), errors


def test_a_study_whose_members_are_all_lost_fails(study, monkeypatch):
    make_run = lambda member, path, _: MemberRun(member, path, ("-c", "raise ValueError('it broke')"))  # noqa: E731
    monkeypatch.setattr(population_study, "MemberRun", make_run)
    line = "error: all members are lost; the first one: ValueError: it broke"
    assert study(settings=["Population.max_failures = 1"]) == (1, [line])


def test_a_folder_that_another_study_uses_is_one_line(tmp_path, run_in_used_folder):
    given = dict(what=[str(write_study(tmp_path))], population=2)
    status, _, errors = run_in_used_folder(pbt, tmp_path / "study", **given)
    assert status == 2 and len(errors) == 1 and "is in use" in errors[0]
    assert not (tmp_path / "study").exists(), "the other process has written nothing, and removes it"


@pytest.mark.parametrize("name, kind", [("operative_config.gin", "a run"), ("sweep.json", "a sweep")])
def test_the_folder_of_something_else_is_refused(tmp_path, study, name, kind):
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / name).touch()
    line = f"error: '{folder}' holds {kind}: choose another folder, -o DIR"
    assert study(output=str(folder)) == (2, [line])
    assert os.listdir(folder) == [name]


@pytest.mark.parametrize("module, address", [("ray", "auto"), ("matplotlib", None)])
def test_a_missing_extra_is_one_line(study, monkeypatch, module, address):
    monkeypatch.setitem(sys.modules, module, None)
    status, (error,) = study(ray_address=address)
    assert status == 2 and f"package {module} is not installed" in error and "pip install" in error


def find_best(root_dir, **params):
    """Runs the example with four members for some minutes; returns the best objective of each."""
    command = [sys.executable, "-m", "alf"]
    arguments = make_arguments(EXAMPLES / "pbt_cartpole.gin", root_dir, 4, **params)
    settings = dict(env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True, timeout=800)
    done = subprocess.run([*command, *arguments], **settings)
    assert done.returncode == 0 and "all members have ended" in done.stdout, done
    best = {}
    for row in read_table(root_dir):
        if row["objective"]:
            best[row["member"]] = max(best.get(row["member"], -math.inf), float(row["objective"]))
    return list(best.values())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_population_solves_what_three_of_four_fixed_members_do_not(tmp_path):
    """Learning rates from 1e-6 to 1e-1; one of the four first ones is good."""
    params = {"StopCriteria.num_env_steps": 200_000, "StopCriteria.target_return": None}
    fixed = find_best(tmp_path / "fixed", **params, **{"Replacement.quantile": 0.0})
    assert sum(objective >= 475.0 for objective in fixed) == 1, fixed
    tuned = find_best(tmp_path / "tuned", **params)
    assert sum(objective >= 475.0 for objective in tuned) == 4, tuned
