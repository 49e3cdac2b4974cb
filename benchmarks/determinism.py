# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains runs with `Experiment.deterministic` several times, also with stops, and compares their weights.

    python -m benchmarks.determinism [--case=NAME ...] [--runs=3] [--stopped_runs=1] [--stops=3]
        [--file=FILE.jsonl]

Each case is trained --runs times without a stop, the last time with another number of worker processes, and
--stopped_runs times with --stops stops: SIGKILL and SIGTERM in turn, at random moments, each followed by the
same command. Prints for each case whether all digests of all runs are equal, and the iterations compared.
"""

import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from absl import app, flags

from alf.runs.digests import find_split, read_digests
from benchmarks.series import add_row

_WORKERS, _OTHER_WORKERS = "--num_workers=1", "--num_workers=2"  # of each group of environments
PPO = ("--algorithm=ppo", "--Checkpoints.interval_steps=10_000")
BUFFER = ("--Checkpoints.replay_buffer=True", "--Checkpoints.interval_steps=1_000")
CASES = {
    "ppo CartPole, lockstep": ("CartPole-v1", _WORKERS, "--steps=60_000", *PPO),
    "ppo CartPole, overlap": ("CartPole-v1", _WORKERS, "--steps=60_000", "--mode=overlap", *PPO),
    "ppo CartPole, overlap, 4 groups, 2 actors": (
        "CartPole-v1",
        _WORKERS,
        "--steps=60_000",
        "--mode=overlap",
        "--num_groups=4",
        "--num_actor_queues=2",
        "--actor_queue_cap=2",
        *PPO,
    ),
    "ppo CartPole, overlap, recurrent": (
        "CartPole-v1",
        _WORKERS,
        "--steps=60_000",
        "--mode=overlap",
        "--ActorCriticNetwork.rnn=@LSTM",
        *PPO,
    ),
    "ppo HalfCheetah, overlap": ("HalfCheetah-v5", _WORKERS, "--steps=60_000", "--mode=overlap", *PPO),
    "sac Pendulum, lockstep": (
        "Pendulum-v1",
        "--algorithm=sac",
        "--mode=lockstep",
        "--steps=5_000",
        *BUFFER,
    ),
    "dqn CartPole, prioritized, overlap": (
        "CartPole-v1",
        _WORKERS,
        "--algorithm=dqn",
        "--mode=overlap",
        "--steps=12_000",
        *BUFFER,
    ),
    "dqn Pong, prioritized, overlap": (
        "ALE/Pong-v5",
        "--algorithm=dqn",
        "--mode=overlap",
        "--steps=2_000",
        "--ReplayLearner.initial_collect_steps=500",
        *BUFFER,
    ),
    "ppo Pong, overlap": (
        "ALE/Pong-v5",
        "--steps=12_000",
        "--mode=overlap",
        *PPO[:1],
        "--Checkpoints.interval_steps=4_000",
    ),
}
_CASES = flags.DEFINE_multi_string("case", [], "Part of the name of a case; without it all of them.")
_RUNS = flags.DEFINE_integer("runs", 3, "Runs without a stop, of each case.", lower_bound=1)
_STOPPED_RUNS = flags.DEFINE_integer("stopped_runs", 1, "Runs with stops, of each case.", lower_bound=0)
_STOPS = flags.DEFINE_integer(
    "stops", 3, "Stops of each of these, as long as it has not ended.", lower_bound=1
)
_FILE = flags.DEFINE_string("file", None, "File to which a line of JSON is added for each case.")
_TIMEOUT = 3600.0  # seconds of a run


def train(folder, arguments, seconds=None, signum=None):
    """Calls alf train; sends it a signal after so many seconds. Returns whether the run has ended."""
    command = [sys.executable, "-m", "alf", "train", *arguments, "--seed=1", f"--output={folder}"]
    process = subprocess.Popen(
        [*command, "--deterministic=True"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        _, errors = process.communicate(timeout=seconds or _TIMEOUT)
    except subprocess.TimeoutExpired:
        process.send_signal(signum or signal.SIGKILL)
        process.communicate(timeout=60.0)
        return False
    if process.returncode:
        raise RuntimeError(errors[-2000:])
    return True


def run_case(name, folder, rng):
    """Trains all runs of a case; returns a dict that says what was compared."""
    arguments, digests, seconds = CASES[name], [], []
    for i in range(_RUNS.value):
        other = [_OTHER_WORKERS] if i and i == _RUNS.value - 1 and _WORKERS in arguments else []
        start = time.monotonic()
        train(folder / str(i), [*arguments, *other])
        seconds.append(time.monotonic() - start)
        digests.append(read_digests(folder / str(i)))
    stops = 0
    for i in range(_STOPPED_RUNS.value):
        stopped = folder / f"stopped{i}"
        for k in range(_STOPS.value):
            signum = (signal.SIGKILL, signal.SIGTERM)[(i + k) % 2]
            if train(stopped, arguments, rng.uniform(0.2, 0.9) * min(seconds), signum):
                break
            stops += 1
        else:
            train(stopped, arguments)
        digests.append(read_digests(stopped))
    first, *others = digests
    splits = [find_split(first, other)[1] for other in others]
    agree = all(set(first) == set(other) for other in others) and splits == [None] * len(others)
    return {
        "case": name,
        "agree": agree,
        "splits": splits,
        "iterations": max(first),
        "runs": _RUNS.value,
        "stopped_runs": _STOPPED_RUNS.value,
        "stops": stops,
        "seconds": round(min(seconds), 1),
    }


def main(argv):
    del argv
    chosen = [name for name in CASES if not _CASES.value or any(part in name for part in _CASES.value)]
    print("| case | iterations | runs | runs with stops | stops | all digests equal |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            row = run_case(name, pathlib.Path(folder), random.Random(name))
        if _FILE.value:
            add_row(pathlib.Path(_FILE.value), row)
        found = "yes" if row["agree"] else f"no: {row['splits']}"
        counts = " | ".join(f"{row[key]:,}" for key in ("iterations", "runs", "stopped_runs", "stops"))
        print(f"| {name} | {counts} | {found} |", flush=True)


if __name__ == "__main__":
    app.run(main)
