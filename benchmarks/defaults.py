# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains with nothing but an environment, an algorithm and a number of steps, beside other libraries.

    python -m benchmarks.defaults --machine=NAME [--task=ALGORITHM:ENV:STEPS ...] [--seeds=3]
        [--peer=NAME ...]

Adds a line to the file for each run that it does not have yet, so that it may be stopped and called again.
The others are Stable-Baselines3 and SBX with their defaults (`benchmarks/sb3.py`), and for PPO a loop of one
file in PyTorch with CleanRL's settings (`benchmarks/peers/torch_ppo.py`), each if `make peers` has installed
it. Prints the table of all runs in the file: the average return of the last 100 episodes and the seconds of
the whole process; and the steps and the seconds of training after which ALF had the best mean return of the
others.
"""

import json
import pathlib
import tempfile
import time

from absl import app, flags

from benchmarks.defaults_table import NAMES, TASKS, format_tables
from benchmarks.peers.running import PEERS, ROOT, SCRIPTS, installed, read_line, run
from benchmarks.series import RESULTS, TIMEOUT, add_row, read_rows, train_once

_FILE = flags.DEFINE_string("file", str(RESULTS / "defaults.jsonl"), "File of the runs, JSON lines.")
_PEERS = [x for x in NAMES if x != "ALF"]
_TASK = flags.DEFINE_multi_string("task", TASKS, "ALGORITHM:ENV:STEPS; may be repeated.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each task, with the seeds 0, 1, ...", lower_bound=0)
_PEER = flags.DEFINE_multi_enum("peer", None, _PEERS, "May be repeated; all by default.")
_MACHINE = flags.DEFINE_string("machine", None, "Its name in docs/measured.md.", required=True)

# The defaults of ppo.py and ppo_continuous_action.py of https://github.com/vwxyzjn/cleanrl, without the
# clipping of the value loss, which the loop does not have.
_CLEANRL = dict(num_envs=4, unroll_length=128, epochs=4, minibatches=4, learning_rate=2.5e-4, entropy=0.01)
_CLEANRL |= dict(anneals=True, shares_layers=False)
_CLEANRL_CONTINUOUS = {**_CLEANRL, "num_envs": 1, "unroll_length": 2048, "epochs": 10, "minibatches": 32}
_CLEANRL_CONTINUOUS |= dict(learning_rate=3e-4, entropy=0.0, normalizes=True)
_CONTINUOUS = ("Pendulum-v1", "HalfCheetah-v5", "Hopper-v5")


def train(library, task, seed):
    """Trains once; returns the curve, a list of (steps, seconds, average return of 100 episodes)."""
    algorithm, env, steps = task.split(":")
    if library == "ALF":
        with tempfile.TemporaryDirectory() as folder:
            arguments = [env, f"--algorithm={algorithm}", f"--steps={steps}", f"--seed={seed}"]
            return train_once(f"{folder}/run", *arguments)
    arguments = [f"--env={env}", f"--steps={steps}", f"--seed={seed}"]
    if library == "torch":
        settings = _CLEANRL_CONTINUOUS if env in _CONTINUOUS else _CLEANRL
        arguments = [SCRIPTS / "torch_ppo.py", *arguments, f"--settings={json.dumps(settings)}"]
    else:
        name = "sbx" if library == "sbx" else "stable_baselines3"
        script = ROOT / "benchmarks" / "sb3.py"
        arguments = [script, *arguments, f"--algorithm={algorithm}", f"--library={name}"]
    return read_line(run([PEERS[library].python(), *arguments], TIMEOUT)[0])["curve"]


def train_all(path, tasks, seeds, libraries, machine):
    """Adds the runs to the file that it lacks."""
    done = {
        (row["library"], row["task"], row["seed"]) for row in read_rows(path) if row["machine"] == machine
    }
    for seed in range(seeds):
        for task in tasks:
            for library in libraries:
                if (library, task, seed) in done or (library == "torch" and not task.startswith("ppo:")):
                    continue
                start = time.monotonic()
                curve = train(library, task, seed)
                seconds = round(time.monotonic() - start, 1)
                row = {"library": library, "task": task, "seed": seed, "seconds": seconds, "curve": curve}
                add_row(path, {**row, "machine": machine})
                print(f"{library} {task} seed {seed}: {curve[-1][-1]:.1f} in {seconds} s", flush=True)


def main(argv):
    del argv
    path = pathlib.Path(_FILE.value)
    libraries = ["ALF", *installed(_PEER.value or _PEERS)]
    train_all(path, _TASK.value, _SEEDS.value, libraries, _MACHINE.value)
    print(format_tables(read_rows(path)))


if __name__ == "__main__":
    app.run(main)
