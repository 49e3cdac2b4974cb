# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The templates in examples/cluster: they parse, and what they call and name exists."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import gin
import pytest

from alf.bin import train
from alf.config.parsing import parse_config

pytestmark = pytest.mark.programs

ray = pytest.importorskip("ray")
yaml = pytest.importorskip("yaml")  # Ray brings both
jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "alf" / "examples" / "cluster"
TEMPLATES = ("kuberay.yaml", "ray_cluster.yaml", "slurm.sh")

# `pip install -e` reads them.
NEEDED_TO_INSTALL = ("setup.py", "pyproject.toml", "README.md", "alf")
# Of KubeRay's API, ray.io/v1.
RAY_JOB = {"entrypoint", "shutdownAfterJobFinishes", "backoffLimit", "rayClusterSpec"}
RAY_CLUSTER = {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"}
HEAD_GROUP = {"rayStartParams", "template"}
WORKER_GROUP = HEAD_GROUP | {"groupName", "replicas", "minReplicas", "maxReplicas"}


def read(name):
    return (FOLDER / name).read_text()


def calls(text, command):
    """The flags of each call of a command, a pattern, without comment marks and line breaks."""
    joined = re.sub(r"\\?\n(# )? +(?=--)|\\\n# +(?=~/)", " ", text)
    found = [re.split(f"{command} +(?=--)", line, maxsplit=1) for line in joined.splitlines()]
    return [parts[1] for parts in found if len(parts) > 1]


def flags_of(call):
    return re.findall(r"--([\w-]+)", call)


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_flags_of_alf_train_exist(name):
    (call,) = calls(read(name), r"alf train \S+")
    assert {"ray_address", "output"} == set(flags_of(call)) & set(train.FLAGS)
    (path,) = re.findall(r"alf train (\S+\.gin)", read(name))
    params = dict(re.findall(r"--(num_\w+)=(\S+?)\"?(?= |$)", call))
    params = [f"Experiment.{key}={re.sub(r'.*[(]{2}.*', '3', value)}" for key, value in params.items()]
    assert len(params) == 2
    parse_config([path if path.startswith("alf:") else str(ROOT / path)], params)
    assert gin.query_parameter("Experiment.num_collectors") >= 3


def test_the_flags_of_ray_start_exist():
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--help"]
    known = flags_of(subprocess.run(command, capture_output=True, text=True, timeout=300).stdout)
    assert "head" in known
    for name in ("ray_cluster.yaml", "slurm.sh"):
        found = calls(read(name), "ray start")
        assert len(found) == 2 and {flag for call in found for flag in flags_of(call)} <= set(known)


def test_the_cluster_launcher_takes_its_file():
    path = Path(ray.__file__).parent / "autoscaler" / "ray-schema.json"
    schema, config = json.loads(path.read_text()), yaml.safe_load(read("ray_cluster.yaml"))
    jsonschema.validate(config, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**config, "setup_comands": []}, schema)
    mounted = {local for local in config["file_mounts"].values() if not local.startswith("~/.ray/")}
    assert mounted == {*NEEDED_TO_INSTALL}
    assert all(config["file_mounts"][f"~/alf/{name}"] == name for name in mounted)


@pytest.mark.parametrize("name", ["ray_cluster.yaml", "Dockerfile"])
def test_the_extra_that_is_installed_exists(name):
    assert re.findall(r"(?:/alf|\.)\[(\w+)\]", read(name)) == ["ray"]
    assert '"ray": [' in (ROOT / "setup.py").read_text()


def test_what_is_mounted_is_enough_to_install(tmp_path):
    for name in NEEDED_TO_INSTALL:
        (tmp_path / name).symlink_to(ROOT / name)
    command = [sys.executable, "setup.py", "--name"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["alf-tf"], done.stderr


def test_the_fields_of_kuberay():
    job = yaml.safe_load(read("kuberay.yaml"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    head, (workers,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    for part, known in (
        (job["spec"], RAY_JOB),
        (cluster, RAY_CLUSTER),
        (head, HEAD_GROUP),
        (workers, WORKER_GROUP),
    ):
        assert set(part) == known
    assert all(isinstance(x, str) for x in head["rayStartParams"].values())
    images = {group["template"]["spec"]["containers"][0]["image"] for group in (head, workers)}
    assert images == set(re.findall(r"--tag (\S+)", read("Dockerfile")))
    assert f"ray[default]=={cluster['rayVersion']}" in read("Dockerfile")
    # Each collector takes a CPU.
    cpus = int(workers["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    assert f"num_collectors={cpus * workers['replicas']}" in job["spec"]["entrypoint"]


def test_the_image_has_what_it_copies():
    copies = [line.split() for line in re.findall(r"^COPY (.+)$", read("Dockerfile"), re.MULTILINE)]
    names = [name for *sources, _ in copies for name in sources]
    assert {*NEEDED_TO_INSTALL} <= {*names} and all((ROOT / name).exists() for name in names)
    assert all(target == "./" or sources == [target] for *sources, target in copies)


STAND_INS = {
    "scontrol": "printf 'node%s\\n' 0 1 2",
    "hostname": "echo 10.0.0.1 10.0.0.2",
    "srun": 'echo "srun $@" >>$CALLS; while [ "${1#-}" != "$1" ]; do shift; done; "$@"',
    "ray": 'echo "ray $@" >>$CALLS; case "$*" in *--block*) sleep 600;; esac',
    # Ends with STATUS as soon as Ray has started, or goes on until SIGTERM, and takes a while to save then.
    "alf": """trap 'trap "" TERM; sleep 1; echo saved >>$CALLS; exit 143' TERM
echo "alf $@" >>$CALLS
until grep -q "^ray .*--head" $CALLS && grep -q "^ray .*--num-cpus=4" $CALLS; do sleep 0.05; done
test -z "$STATUS" || exit $STATUS
sleep 600 & wait""",
}


@pytest.fixture
def slurm(tmp_path):
    """Starts the script of Slurm as a job of 3 nodes, with stand-ins of all commands; returns the process."""
    bin_dir = tmp_path / ".venv" / "bin"
    bin_dir.mkdir(parents=True)
    for name, text in STAND_INS.items():
        (bin_dir / name).write_text(f"#!/bin/bash\n{text}\n")
        (bin_dir / name).chmod(0o700)
    (bin_dir / "activate").write_text(f'PATH="{bin_dir}:$PATH"\n')
    job = {"SLURM_JOB_NODELIST": "node[0-2]", "SLURM_JOB_NUM_NODES": "3", "SLURM_CPUS_PER_TASK": "4"}
    env = {**os.environ, **job, "CALLS": str(tmp_path / "calls")}
    started = []

    def start(**variables):
        command = ["bash", FOLDER / "slurm.sh"]
        started.append(
            subprocess.Popen(command, cwd=tmp_path, env={**env, **variables}, start_new_session=True)
        )
        return started[0]

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):  # nothing is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_slurm_starts_ray_on_all_nodes_and_trains(slurm, tmp_path):
    assert slurm(STATUS="7").wait(300) == 7
    found = (tmp_path / "calls").read_text().splitlines()
    assert "ray start --head --port=6379 --num-cpus=0 --include-dashboard=false --block" in found
    worker = "ray start --address=10.0.0.1:6379 --num-cpus=4 --block"
    assert {f"srun --nodes=2 --ntasks=2 --exclude=node0 {worker}", worker} <= set(found)
    (train,) = [line for line in found if line.startswith("alf train")]
    assert "--ray_address=10.0.0.1:6379" in train and "--num_collectors=8" in train


def test_slurm_lets_the_run_save_when_the_time_is_over(slurm, tmp_path):
    process, calls, deadline = slurm(), tmp_path / "calls", time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if calls.exists() and "alf train" in calls.read_text():
            process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    assert process.wait(0) == 143
    assert "saved" in calls.read_text()
