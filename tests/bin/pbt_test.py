# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf-pbt: a member is killed, the study dies and goes on, a signal ends it; wrong settings are one line."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from alf.bin import evaluate, pbt
from tests.bin.conftest import write_config
from tests.example_runs import EXAMPLES

pytest.importorskip("ray")
pytest.importorskip("pandas")

SECONDS = 240  # for what takes a few, on a machine that others use, too
SETTINGS = """
Population.settings = {
    "Adam.learning_rate": @rate/LogUniform(),
    "ImpalaAlgorithm.entropy_weight": @entropy/Uniform(),
}
rate/LogUniform.low = 1e-4
rate/LogUniform.high = 1e-2
entropy/Uniform.low = 0.0
entropy/Uniform.high = 0.1
Population.seed = 0
Population.interval = 200
Experiment.intra_op_threads = 1
StopCriteria.num_iterations = None
"""


def write_study(folder, settings=SETTINGS):
    path = write_config(folder, "cartpole")
    replaced = {line.partition(" = ")[0] for line in settings.splitlines()} - {""}
    kept = [line for line in path.read_text().splitlines() if line.partition(" = ")[0] not in replaced]
    path.write_text("\n".join(kept) + settings)
    return path


def start(gin_file, root_dir, population=2, ray_address=None, **params):
    command = [sys.executable, "-m", "alf.bin.pbt", f"--gin_file={gin_file}", f"--root_dir={root_dir}"]
    command += [] if ray_address is None else [f"--ray_address={ray_address}"]
    command += [f"--population={population}", *(f"--gin_param={k}={v}" for k, v in params.items())]
    env = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    env["PYTHONPATH"] = str(EXAMPLES.parent)
    # Not in the folder of the examples' folder: gin files are found from anywhere.
    settings = dict(env=env, cwd=root_dir.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return subprocess.Popen(command, text=True, **settings)


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


def wait_until(done, process):
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)


def find_members(process):
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if "Trainable" in child.name()]


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


def test_a_member_and_the_study_are_killed_and_all_goes_on(tmp_path):
    gin_file, root_dir = write_study(tmp_path), tmp_path / "study"
    process = start(gin_file, root_dir)
    try:
        wait_until(lambda: min(count_rows(root_dir)) >= 3, process)
        members = find_members(process)
        assert len(members) == 2
        members[0].kill()
        before = count_rows(root_dir)
        wait_until(lambda: all(n > m + 3 for n, m in zip(count_rows(root_dir), before, strict=True)), process)
        logs = "".join(path.read_text() for path in root_dir.glob("members/*/log.txt"))
        assert logs.count("continues from") == 1
        members = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.kill()
        out, _ = process.communicate()
    assert out.count("is started again: its process has died") == 1 and "lost" not in out
    assert not psutil.wait_procs(members, SECONDS)[1], "something outlives the study"
    rows = check_table(root_dir)
    state = json.loads((root_dir / "population.json").read_text())
    assert [row["env_steps"] for row in state["rows"]] == [int(row["env_steps"]) for row in rows]
    process = start(gin_file, root_dir)
    try:
        before = count_rows(root_dir)
        wait_until(lambda: all(n > m + 3 for n, m in zip(count_rows(root_dir), before, strict=True)), process)
        members = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM and "stopped by SIGTERM" in out, out
    assert not psutil.wait_procs(members, SECONDS)[1]
    assert check_table(root_dir)[: len(rows)] == rows
    for path in root_dir.glob("members/*"):
        assert json.loads((path / "done.json").read_text())["status"] == "INTERRUPTED"
    assert len(list(root_dir.glob("members/*"))) == 2 and (root_dir / "lineage.png").stat().st_size > 10_000
    assert f"alf-play --root_dir={root_dir}/members/" in out and "Traceback" not in out


def test_all_members_end_and_can_be_used(tmp_path, command):
    """With room for one member at a time, which Tune lets take turns, and a setting that needs new graphs."""
    more = """
Population.settings = {"Experiment.unroll_length": @Integers(), "Adam.learning_rate": @rate/LogUniform()}
Integers.low = 2
Integers.high = 9
rate/LogUniform.low = 1e-4
rate/LogUniform.high = 1e-2
Population.interval = 100
Population.num_cpus = 2
Replacement.quantile = 0.5
Mutation.rate = 1.0
StopCriteria.num_iterations = None
StopCriteria.num_env_steps = 300
"""
    gin_file, root_dir = write_study(tmp_path, more), tmp_path / "study"
    process = start(gin_file, root_dir)
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0 and "all members have ended" in out, out
    rows = read_table(root_dir)
    assert {row["member"] for row in rows if int(row["env_steps"]) >= 300} == {"0", "1"}
    for row in rows:
        assert 2 <= int(row["Experiment.unroll_length"]) <= 9
    status, shown, _ = command(evaluate, root_dir=str(root_dir / "members" / "1"), num_episodes=2)
    assert status == 0 and "return" in shown


BROKEN = """
import gin, gymnasium

@gin.configurable
class Broken(gymnasium.Wrapper):
    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.steps_left = 150

    def step(self, action):
        self.steps_left -= 1
        if not self.steps_left:
            raise ValueError("the simulator broke")
        return super().step(action)
"""


def test_members_that_crash_too_often_are_lost(tmp_path):
    gin_file = write_study(tmp_path)
    gin_file.with_name("broken_env.py").write_text(BROKEN)
    gin_file.write_text("import broken_env\n" + gin_file.read_text().replace('"CartPole-v1"', "@Broken"))
    process = start(gin_file, tmp_path / "study", **{"Population.max_failures": 1})
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 1 and "Traceback" not in out, out
    for member in (0, 1):
        assert out.count(f"member {member} is started again: ValueError: the simulator broke") == 1
        assert out.count(f"member {member} is lost: ValueError: the simulator broke") == 1
    assert out.splitlines()[-1] == (
        "error: all members are lost; the first one: ValueError: the simulator broke"
    )


def test_a_study_goes_on_without_a_member_that_is_lost(tmp_path):
    settings = {"Population.max_failures": 0, "StopCriteria.num_env_steps": 2000}
    process = start(write_study(tmp_path), tmp_path / "study", **settings)
    try:
        wait_until(lambda: min(count_rows(tmp_path / "study")) >= 2, process)
        find_members(process)[0].kill()
        out, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0 and out.count("is lost: its process has died") == 1, out
    assert out.count("has ended: num_env_steps=2000 reached") == 1


OTHERS = "Population.settings = {%r: @rate/LogUniform(), 'Adam.epsilon': @entropy/Uniform()}"
WRONG = [
    (dict(population=1), "--population is 1: it must be an integer, at least 2"),
    (dict(population=None), "--population is None: it must be an integer, at least 2"),
    (dict(root_dir=None), "--root_dir is missing"),
    (dict(gin_param=["Population.interval = 0"]), "Population.interval is 0: it must be an integer"),
    (dict(gin_param=["Population.intervall = 5"]), "--gin_param: .*intervall"),
    (dict(gin_param=["Population.objective = ''"]), "Population.objective is ''"),
    (dict(gin_param=["Population.max_failures = -1"]), "Population.max_failures is -1"),
    (dict(gin_param=["Population.num_cpus = 0"]), "Population.num_cpus is 0: it must be a number above 0"),
    (dict(gin_param=["Population.num_gpus = -1"]), "Population.num_gpus is -1"),
    (dict(gin_param=["Population.resources = 3"]), "Population.resources is 3: it must be a dict"),
    (dict(gin_param=["Population.seed = -1"]), "Population.seed is -1"),
    (dict(gin_param=["Population.settings = {}"]), "Population.settings is {}: it must be a dict"),
    (dict(gin_param=["Population.settings = {'lr': @rate/LogUniform()}"]), "Population.settings has 'lr'"),
    (
        dict(gin_param=["Population.settings = {'Adam.beta_1': 3}"]),
        r"Population.settings\['Adam.beta_1'\] is 3",
    ),
    (
        dict(gin_param=[OTHERS % "ImpalaAlgorithm.discont"]),
        "Population.settings: .*discont",
    ),
    (
        dict(gin_param=[OTHERS % "Nothing.rate"]),
        "Population.settings: .*Nothing",
    ),
    (dict(gin_param=["other/LogUniform.low = 3.0"]), "nothing reads the gin binding other/LogUniform.low"),
    (dict(gin_param=["rate/LogUniform.low = -1"]), "LogUniform.low is -1: it must be a number above 0"),
    (dict(gin_param=["Replacement.quantile = 1"]), "Replacement.quantile is 1: .* at most 0.5"),
    (dict(gin_param=["Mutation.rate = 2"]), "Mutation.rate is 2: .* at most 1"),
    (
        dict(gin_param=["Experiment.policies = @Policies()", "Policies.names = ('a', 'b')"]),
        r"Experiment.policies is @Policies\(\): alf-pbt does not know several policies; .*@PolicyPopulation",
    ),
    (
        dict(gin_param=[OTHERS % "alf.optimizers.Adam.epsilon"]),
        "Population.settings has alf.optimizers.Adam.epsilon and Adam.epsilon, which are the same: name it",
    ),
    (dict(ray_address="127.0.0.1:1"), "no Ray cluster answers at '127.0.0.1:1'"),
]


@pytest.mark.parametrize("values, message", WRONG, ids=lambda x: str(x)[:40])
def test_a_wrong_setting_is_one_line(tmp_path, command, values, message):
    gin_file = write_study(tmp_path)
    given = dict(gin_file=[str(gin_file)], root_dir=str(tmp_path / "study"), population=2) | values
    status, _, errors = command(pbt, **given)
    assert status == 2 and len(errors) == 1
    assert re.search(f"^error: {message}", errors[0]), errors


def test_a_folder_that_another_study_uses_is_one_line(tmp_path, run_in_used_folder):
    given = dict(gin_file=[str(write_study(tmp_path))], population=2)
    status, _, errors = run_in_used_folder(pbt, tmp_path / "study", **given)
    assert status == 2 and len(errors) == 1 and "is in use" in errors[0]
    assert not list((tmp_path / "study").iterdir())


@pytest.mark.parametrize("name, kind", [("operative_config.gin", "a run"), ("sweep.json", "a sweep")])
def test_the_folder_of_something_else_is_refused(tmp_path, command, name, kind):
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / name).touch()
    status, _, errors = command(
        pbt, gin_file=[str(write_study(tmp_path))], root_dir=str(folder), population=2
    )
    assert status == 2
    assert errors == [f"error: root_dir '{folder}' holds {kind}: choose another root_dir"]
    assert os.listdir(folder) == [name]


@pytest.mark.parametrize(
    "module, message", [("ray", "package ray is not installed"), ("matplotlib", "package matplotlib is not")]
)
def test_a_missing_extra_is_one_line(tmp_path, command, monkeypatch, module, message):
    monkeypatch.setitem(sys.modules, module, None)
    given = dict(gin_file=[str(write_study(tmp_path))], root_dir=str(tmp_path / "study"), population=2)
    status, _, errors = command(pbt, **given)
    assert status == 2 and len(errors) == 1 and message in errors[0] and "pip install" in errors[0]


@pytest.mark.parametrize(
    "settings, message",
    [
        ("Population.objective = 'AverageJoy'", "Population.objective is 'AverageJoy': .*AverageReturn"),
        ("Population.objective = 'eval'", "Population.objective is 'eval': set Trainer.evaluator_ctor"),
        (
            "Population.settings = {'Adam.epsilon': @rate/LogUniform(), 'SGD.momentum': @entropy/Uniform()}",
            "nothing reads the gin binding SGD.momentum",
        ),
        (
            "Experiment.num_collectors = 999",
            "Experiment.num_collectors, Evaluator.place: the cluster has not .* of each of 2 members",
        ),
        (
            "Population.settings = {'Experiment.num_collectors': @Integers(), "
            "'Adam.learning_rate': @rate/LogUniform(), 'Adam.epsilon': @entropy/Uniform()}\n"
            "Integers.low = 0\nIntegers.high = 999",
            "Experiment.num_collectors, Evaluator.place: the cluster has not .*999",
        ),
    ],
    ids=["metric", "eval", "binding", "collectors", "tuned"],
)
def test_what_only_the_cluster_or_a_member_can_see_is_one_line_too(tmp_path, settings, message):
    gin_file = tmp_path / "changed.gin"
    gin_file.write_text(f'include "{write_study(tmp_path)}"\n{settings}\n')
    process = start(gin_file, tmp_path / "study")
    out, _ = process.communicate(timeout=SECONDS)
    errors = [line for line in out.splitlines() if line.startswith("error: ")]
    assert process.returncode == 2 and len(errors) == 1, out
    assert re.search(message, errors[0]) and "Traceback" not in out


def test_members_are_evaluated_in_processes_of_their_own(tmp_path):
    """There is room for the evaluations, because members leave it."""
    more = f"""
{SETTINGS.strip().replace("interval = 200", "interval = 1000")}
Trainer.evaluator_ctor = @Evaluator
Evaluator.place = "cluster"
Evaluator.interval_steps = 1000
Evaluator.num_episodes = 2
RayEvaluator.num_cpus = %share
share = 0.25
Population.objective = "eval"
StopCriteria.num_env_steps = 3000
"""
    process = start(write_study(tmp_path, more), tmp_path / "study")
    try:
        out, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0 and "all members have ended" in out, out
    judged = {row["member"] for row in read_table(tmp_path / "study") if row["objective"]}
    assert judged == {"0", "1"}


def test_a_cluster_that_was_there_before(tmp_path):
    """Its processes have none of the environment variables that this command sets for itself."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    nodes = dict(num_cpus=1, include_dashboard=False)
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=nodes)
    try:
        cluster.add_node(num_cpus=1)
        params = {"StopCriteria.num_env_steps": 500}
        process = start(write_study(tmp_path), tmp_path / "study", ray_address=cluster.address, **params)
        out, _ = process.communicate(timeout=SECONDS)
    finally:
        cluster.shutdown()
    assert process.returncode == 0 and "all members have ended" in out, out


def run_example(root_dir, seconds, **params):
    """Runs examples/pbt_cartpole.gin with four members; returns the best objective that each one has had."""
    process = start(EXAMPLES / "pbt_cartpole.gin", root_dir, population=4, **params)
    try:
        out, _ = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0 and "all members have ended" in out, out
    rows = [row for row in read_table(root_dir) if row["objective"]]
    best = {row["member"]: [] for row in rows}
    for row in rows:
        best[row["member"]].append(float(row["objective"]))
    return [max(objectives) for objectives in best.values()]


def test_the_example_runs(tmp_path):
    params = {"Population.interval": 2000, "StopCriteria.num_env_steps": 3000}
    assert len(run_example(tmp_path, SECONDS, **params)) == 4


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_population_solves_what_three_of_four_fixed_members_do_not(tmp_path):
    """Learning rates from 1e-6 to 1e-1; one of the four first ones is good."""
    params = {"StopCriteria.num_env_steps": 200_000, "StopCriteria.target_return": None}
    fixed = run_example(tmp_path / "fixed", 800, **params, **{"Replacement.quantile": 0.0})
    assert sum(objective >= 475.0 for objective in fixed) == 1, fixed
    tuned = run_example(tmp_path / "tuned", 800, **params)
    assert sum(objective >= 475.0 for objective in tuned) == 4, tuned
