# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures steps per second: `python -m benchmarks.throughput --workload=NAME --seconds=N [--result=FILE]`.

Prints one JSON object. `--sync` runs the synchronous driver instead. `alf benchmark` measures any gin file in
the same way, `benchmarks.limits` presets beside the leanest programs.
"""

import dataclasses
import json
import os
import platform
import resource
import statistics

import psutil
import tensorflow as tf
from absl import app, flags

from alf import __version__
from alf.core.tf_runtime import SPARE_THREADS, share_heaps
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver, reserve_threads
from alf.tools import throughput as speed
from benchmarks.peers.meter import process_seconds
from benchmarks.workloads import DRIVER_SETTINGS, WORKLOADS

_WORKLOAD = flags.DEFINE_enum("workload", "cartpole_vector", sorted(WORKLOADS), "What to run.")
_SECONDS = flags.DEFINE_float("seconds", 20.0, "Seconds of training that are measured.", lower_bound=1.0)
_RESULT = flags.DEFINE_string("result", None, "File to write the result to.")
_SETTINGS = {
    name: flags.DEFINE_integer(
        name, None, f"Overrides the workload's {name}.", lower_bound=name != "num_actor_queues"
    )
    for name in (
        "num_groups",
        "batch_size",
        "unroll_length",
        "num_env_threads",
        "num_actor_queues",
        "actor_queue_cap",
        "learn_queue_cap",
        "num_workers",
        "intra_op_threads",
    )
}

_REPLAY_RATIO = flags.DEFINE_float("replay_ratio", None, "Overrides the workload's replay_ratio.")
_SYNC = flags.DEFINE_bool("sync", False, "Uses the synchronous driver, with unroll_length alone.")
_MODE = flags.DEFINE_enum("mode", "async", ["async", "lockstep", "overlap"], "Mode of the driver.")


def measure(workload, seconds, sync=False, mode="async"):
    """Runs a workload; returns the result as a dict."""
    num_threads = workload.num_groups + workload.num_actor_queues + SPARE_THREADS
    reserve_threads(num_threads, workload.intra_op_threads)
    envs = workload.make_envs()
    learner = workload.make_learner(envs)
    if sync:
        driver = SyncOffPolicyDriver(envs, learner.policy, unroll_length=workload.unroll_length)
    else:
        settings = dataclasses.replace(workload.driver_settings(), mode=mode)
        driver = AsyncOffPolicyDriver(envs, learner.policy, workload.unroll_length, settings)
    driver.start()
    try:
        train_iteration, trained = speed.TrainIteration(driver, learner), {}
        while not trained:
            _, trained = train_iteration()
        to_first_step = process_seconds()
        result = _trained(train_iteration, learner, seconds)
        sampling = speed.measure(learner, lambda: speed.sample(driver), max(1.0, seconds / 4)).describe()
    finally:
        driver.stop()
    return {
        **result,
        "rollout_only_steps_per_second": sampling["env_steps_per_second"],
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "seconds_to_first_train_step": to_first_step,
    }


def _trained(train_iteration, learner, seconds):
    """Steps and updates per second of training, CPU use, and growth of memory, after a warm-up of a fifth."""
    process, memory = psutil.Process(), []

    def iterate():
        steps, _ = train_iteration()
        memory.append(process.memory_info().rss / 2**20)
        return steps

    speed.measure(learner, iterate, seconds / 5)
    memory.clear()
    workers = process.children()
    trained = speed.measure(learner, iterate, seconds).describe()
    return {
        "trained_steps_per_second": trained["env_steps_per_second"],
        "updates_per_second": trained["updates_per_second"],
        "cpu_cores_used": trained["cpu_cores_used"],
        "memory_growth_mb": _growth(memory),
        "worker_processes": len(workers),
        "memory_of_workers_mb": sum(worker.memory_full_info().uss for worker in workers) / 2**20,
    }


def _growth(memory):
    """By how much the last tenth's median exceeds the first's: each batch that is in flight counts."""
    tenth = max(1, len(memory) // 10)
    return statistics.median(memory[-tenth:]) - statistics.median(memory[:tenth])


def main(argv):
    del argv
    share_heaps()
    settings = {**_SETTINGS, "replay_ratio": _REPLAY_RATIO}
    changes = {name: flag.value for name, flag in settings.items() if flag.value is not None}
    workload = dataclasses.replace(WORKLOADS[_WORKLOAD.value], **changes)
    result = {
        "workload": _WORKLOAD.value,
        "num_groups": workload.num_groups,
        "batch_size": workload.batch_size,
        "unroll_length": workload.unroll_length,
        **{name: getattr(workload, name) for name in (*DRIVER_SETTINGS, "intra_op_threads")},
        "exp_replayer": workload.exp_replayer,
        "replay_ratio": workload.replay_ratio,
        "sync": _SYNC.value,
        "mode": _MODE.value,
        **measure(workload, _SECONDS.value, _SYNC.value, _MODE.value),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "alf": __version__,
        "tensorflow": tf.__version__,
    }
    text = json.dumps(result, indent=2)
    print(text)
    if _RESULT.value:
        with open(_RESULT.value, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    app.run(main)
