# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Runs ALF on a machine with a GPU: `python -m benchmarks.gpu [--result=FILE] [--minutes=8] [PART ...]`.

Each part is a process of its own with a time limit, and a JSON line in the file. Parts that are there are
left out, so the same command goes on. PART is the beginning of the names of parts. The most important ones
come first:

    runs      the presets to some thousand steps, placed as "auto" does it, and with the GPU hidden
    updates   milliseconds of an update of the Nature CNN and the ResNet, 32 x 16 and 256 x 20 steps, in
              float32 and bfloat16, on the GPU; beside PyTorch, where it is installed
    pong      steps per second of Pong, 2 x 32 and 2 x 256, beside PyTorch
    suite     the quick tests
    places    the presets with the learner on the GPU, and with learner and actors there

Without a GPU the parts that need one are left out. --scale=0.05 makes small figures, to try the command.
"""

import functools
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

from absl import app, flags

from benchmarks.series import add_row, read_rows

_RESULT = flags.DEFINE_string("result", "gpu.jsonl", "File of the results, which is continued.")
_MINUTES = flags.DEFINE_float("minutes", 8.0, "After that the present part is ended.", lower_bound=0.0)
_SCALE = flags.DEFINE_float("scale", 1.0, "Factor of all steps, updates and seconds.", lower_bound=0.001)
_HERE = flags.DEFINE_string(
    "here", None, "Name of one part, which runs in this process and prints its figures."
)

ROOT = pathlib.Path(__file__).resolve().parents[1]
PEERS = ROOT / "benchmarks" / "peers"
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
RUNS = (
    ("impala", "CartPole-v1", 20_000),
    ("impala", "ALE/Pong-v5", 10_000),
    ("ppo", "CartPole-v1", 20_000),
    ("dqn", "ALE/Pong-v5", 4_000),
    ("sac", "Pendulum-v1", 2_000),
    ("dqn", "CartPole-v1", 4_000),
    ("ppo", "ALE/Pong-v5", 10_000),
)
PLACES = {
    "GPU": {"learner_device": "GPU:0"},
    "GPU, actors too": {"learner_device": "GPU:0", "actor_device": "GPU:0"},
}
BATCHES = ((32, 16), (256, 20))


class Part(NamedTuple):
    """A part of the benchmark.

    Attributes:
        name: text; its first word is the kind of the part.
        seconds: its time limit.
        figures: callable (scale) -> dict, in a process of its own; or a list, a command that prints JSON.
        variables: dict of variables of the environment.
        needs_gpu: bool.
    """

    name: str
    seconds: float
    figures: Callable[[float], dict] | list
    variables: dict = {}
    needs_gpu: bool = True


def list_parts():
    """Lists all parts, the most important first."""
    parts = []
    for run in RUNS:
        name = "{} {}".format(*run)
        train = functools.partial(train_preset, *run, {})
        parts.append(Part(f"runs {name}", 60, train, needs_gpu=False))
        parts.append(Part(f"runs {name} hidden", 60, train, HIDDEN))
    for network in ("nature", "resnet"):
        for batch_size, length in BATCHES:
            for dtype in ("float32", "bfloat16"):
                name = f"{network} {batch_size} x {length} {dtype}"
                update = functools.partial(measure_update, network, batch_size, length, dtype)
                parts.append(Part(f"updates ALF {name}", 60, update, needs_gpu=False))
                shape = f"--network={network}", f"--batch_size={batch_size}", f"--unroll_length={length}"
                command = ["torch_vtrace.py", *shape, f"--dtype={dtype}"]
                parts.append(Part(f"updates PyTorch {name}", 60, command, needs_gpu=False))
    for batch_size in (32, 256):
        measure = functools.partial(measure_pong, batch_size)
        parts.append(Part(f"pong ALF 2 x {batch_size}", 90, measure, needs_gpu=False))
        parts.append(Part(f"pong ALF 2 x {batch_size} hidden", 90, measure, HIDDEN))
        command = ["torch_ppo.py", "--workload=pong", "--vector=vector", "--groups=2"]
        command += [f"--settings={json.dumps({'num_envs': batch_size})}"]
        parts.append(Part(f"pong PyTorch 2 x {batch_size}", 90, command, needs_gpu=False))
    parts.append(Part("suite", 400, run_tests, needs_gpu=False))
    for run in RUNS:
        for place, settings in PLACES.items():
            name = "{} {}, {}".format(*run[:2], place)
            parts.append(Part(f"places {name}", 60, functools.partial(train_preset, *run, settings)))
    return parts


def train_preset(algorithm, env, steps, settings, scale):
    """Trains with a preset; returns its figures and where it was."""
    import alf

    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        _, run = alf.train(env, algorithm, int(steps * scale), f"{folder}/run", **settings)
    return {
        "seconds": time.monotonic() - start,
        "env_steps": run.counters["env_steps"],
        "updates": int(run.learner.progress.updates),
        "learner": run.learner.device,
        "actors": run.driver.actor_device,
        **measure_memory(),
    }


def measure_update(network, batch_size, unroll_length, dtype, scale):
    """Measures updates of IMPALA from experience in main memory; returns the median of milliseconds."""
    import numpy as np
    import tensorflow as tf

    from alf.core.devices import HOST, find_gpus, take_memory_as_needed
    from alf.core.nest_utils import add_leading_dims
    from alf.data_structures import FIRST, MID
    from alf.drivers import EnvSpecs
    from alf.networks import ImpalaResEncoder, NatureEncoder
    from benchmarks.workloads import WORKLOADS, make_impala

    take_memory_as_needed()
    encoder = {"nature": NatureEncoder, "resnet": ImpalaResEncoder}[network]
    agent = make_impala(
        fc_layer_params=(), encoder=functools.partial(encoder, standardize=False), compute_dtype=dtype
    )
    env = WORKLOADS["pong"].env(1, 0)
    specs = EnvSpecs([env])
    env.close()
    specs.batch_size = batch_size
    with tf.device("GPU:0" if find_gpus() else HOST):
        policy = agent.policy(specs.observation, specs.action)
        learner = agent.learner(agent.algorithm(policy))
    rng = np.random.default_rng(0)

    def fill(spec):
        if spec.dtype == tf.uint8:
            return tf.constant(rng.integers(0, 256, spec.shape, np.uint8))
        return tf.zeros(spec.shape, spec.dtype)

    with tf.device(HOST):
        spec = add_leading_dims(specs.unroll_spec(policy, unroll_length), 1)
        experience = tf.nest.map_structure(fill, spec)
        step_type = np.full(experience.step_type.shape, MID)
        step_type[:, 0] = FIRST
        experience = experience._replace(
            step_type=tf.constant(step_type, tf.int32), discount=tf.ones_like(experience.discount)
        )
    times = []
    for _ in range(5 + max(1, int(30 * scale))):
        start = time.perf_counter()
        learner.observe(experience)
        float(learner.train()["loss"])  # waits for the device
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times[5:])
    rate = batch_size * unroll_length / seconds
    return {"ms": 1e3 * seconds, "steps_per_second": rate, "device": learner.device, **measure_memory()}


def measure_pong(batch_size, scale):
    """Measures Pong as `benchmarks.throughput` does, but through `Experiment`, which places it."""
    import alf

    figures = {}

    class Measure(alf.Callback):
        """Measures from the 10th iteration on."""

        def on_train_iter(self, trainer, summary):
            now, steps = trainer.now, trainer.counters["env_steps"]
            if trainer.counters["iterations"] == 10:
                self.began = now, steps
            elif hasattr(self, "began") and now - self.began[0] > 20 * scale:
                seconds = now - self.began[0]
                figures["steps_per_second"] = (steps - self.began[1]) / seconds
                trainer.stop("measured")

    settings = {"num_envs": 2 * batch_size, "num_groups": 2, "unroll_length": 16, "exp_replayer": "one_time"}
    settings |= {"NatureEncoder.standardize": False, "ActorCriticNetwork.compute_dtype": "float32"}
    with tempfile.TemporaryDirectory() as folder:
        run = alf.train(
            "ALE/Pong-v5", "impala", 10**9, f"{folder}/run", callbacks=[Measure()], **settings
        ).run
    return {**figures, "learner": run.learner.device, "actors": run.driver.actor_device, **measure_memory()}


def run_tests(scale):
    """Runs the quick tests; returns the last line of pytest and what failed."""
    chosen = ["tests/devices_test.py"] if scale < 1 else ["tests"]
    workers = len(os.sched_getaffinity(0))
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--dist", "worksteal", *chosen]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=380)
    lines = done.stdout.splitlines()
    failed = [line[:200] for line in lines if line.startswith(("FAILED", "ERROR"))]
    return {"result": lines[-1] if lines else done.stderr[-500:], "failed": failed[:50]}


def measure_memory():
    """Returns the memory of the GPU that TensorFlow has taken at most, in MB; {} without a GPU."""
    import tensorflow as tf

    if not tf.config.list_logical_devices("GPU"):
        return {}
    return {"gpu_peak_mb": tf.config.experimental.get_memory_info("GPU:0")["peak"] / 1e6}


def run_part(part, scale, seconds):
    """Runs a part in a process of its own, no longer than `seconds`; returns its line, a dict."""
    if isinstance(part.figures, list):
        script, *arguments = part.figures
        limits = [f"--updates={max(1, int(30 * scale))}"] if script == "torch_vtrace.py" else []
        device = "cuda" if describe_machine()["gpus"] else "cpu"
        threads = len(os.sched_getaffinity(0))
        limits = limits or [f"--seconds={20 * scale}", f"--threads={threads}", f"--device={device}"]
        command = [sys.executable, str(PEERS / script), *arguments, *limits]
    else:
        command = [sys.executable, "-m", "benchmarks.gpu", f"--here={part.name}", f"--scale={scale}"]
    start, env = time.monotonic(), {**os.environ, **part.variables}
    limit = min(part.seconds, seconds)
    settings = dict(capture_output=True, text=True, env=env, cwd=ROOT, timeout=limit)
    try:
        done = subprocess.run(command, **settings)
        lines = done.stdout.strip().splitlines()
        row = json.loads(lines[-1]) if done.returncode == 0 else {"error": done.stderr[-1500:]}
    except subprocess.TimeoutExpired:
        row = {"error": f"not within {limit:.0f} s"}
    return {"part": part.name, **row, "wall_seconds": time.monotonic() - start}


def describe_machine():
    """Returns the names of the GPUs, of which there may be none, and the number of cores."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        gpus = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.splitlines()
    except OSError:
        gpus = []
    return {"part": "machine", "gpus": gpus, "cores": len(os.sched_getaffinity(0))}


def main(argv):
    parts = list_parts()
    if _HERE.value is not None:
        (part,) = (part for part in parts if part.name == _HERE.value)
        print(json.dumps(part.figures(_SCALE.value)))
        return
    path, end = pathlib.Path(_RESULT.value), time.monotonic() + 60 * _MINUTES.value
    machine = describe_machine()
    if not path.exists():
        add_row(path, machine)
    done = {row["part"] for row in read_rows(path)}
    has_torch = importlib.util.find_spec("torch") is not None
    for part in parts:
        is_wanted = not argv[1:] or part.name.startswith(tuple(argv[1:]))
        is_possible = (machine["gpus"] or not part.needs_gpu) and (has_torch or "PyTorch" not in part.name)
        seconds = end - time.monotonic()
        if is_wanted and is_possible and part.name not in done and seconds > 0:
            row = run_part(part, _SCALE.value, seconds)
            add_row(path, row)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    app.run(main)
