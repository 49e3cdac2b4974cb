# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Seconds from the start of a process to a score: ALF's presets beside PyTorch, Stable-Baselines3 and SBX.

The others have the settings for PPO of RL Baselines3 Zoo, without gSDE; PyTorch does not normalize.
A run has reached a score when 100 episodes have that average return.
"""

import json
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

from benchmarks.peers.running import PEERS, ROOT, SCRIPTS, read_line, run
from benchmarks.peers.table import LIBRARIES
from benchmarks.series import add_row, format_caption, read_rows, split_by_machine

PEER_NAMES = ("torch", "sb3", "sbx")
COMMAND = "python -m benchmarks.peers --scores --machine=NAME"
_LIMIT = 7200.0  # seconds of a run


class Task(NamedTuple):
    """A score to reach, within a number of steps, and published settings.

    Attributes:
        settings: for `torch_ppo.py`; `sb3_settings` translates them.
        normalizes: whether Stable-Baselines3 and SBX normalize observations and rewards.
        sb3: settings that only these two have.
        peers: the libraries that the settings are for.
    """

    target: float
    max_steps: int
    settings: dict
    normalizes: bool = False
    sb3: dict = {}
    peers: tuple = PEER_NAMES


# https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/hyperparams/ppo.yml
TASKS = {
    "CartPole-v1": Task(
        475.0,
        100_000,
        dict(num_envs=8, unroll_length=32, minibatches=1, epochs=20, gamma=0.98, gae_lambda=0.8)
        | dict(learning_rate=1e-3, anneals=True),
    ),
    "Acrobot-v1": Task(
        -100.0,
        1_000_000,
        dict(num_envs=16, unroll_length=256, minibatches=64, epochs=4, gae_lambda=0.94),
        normalizes=True,
    ),
    "Pendulum-v1": Task(
        -200.0,
        1_000_000,
        dict(num_envs=4, unroll_length=1024, minibatches=64, epochs=10, gamma=0.9, learning_rate=1e-3),
    ),
    "LunarLander-v3": Task(
        200.0,
        1_000_000,
        dict(num_envs=16, unroll_length=1024, minibatches=256, epochs=4, gamma=0.999, gae_lambda=0.98)
        | dict(entropy=0.01),
    ),
    "HalfCheetah-v5": Task(
        5000.0,
        1_000_000,
        dict(num_envs=1, unroll_length=512, minibatches=8, epochs=20, gamma=0.98, gae_lambda=0.92)
        | dict(learning_rate=2.0633e-5, entropy=0.000401762, clip=0.1, max_grad_norm=0.8),
        normalizes=True,
        sb3=dict(vf_coef=0.58096)
        | dict(
            policy_kwargs=dict(log_std_init=-2, ortho_init=False, activation_fn="ReLU", net_arch=[256, 256])
        ),
        peers=("sb3", "sbx"),
    ),
}
_SB3_NAMES = {
    "unroll_length": "n_steps",
    "epochs": "n_epochs",
    "entropy": "ent_coef",
    "gamma": "gamma",
    "gae_lambda": "gae_lambda",
    "learning_rate": "learning_rate",
    "clip": "clip_range",
    "max_grad_norm": "max_grad_norm",
}


def sb3_settings(settings):
    """Translates settings of `torch_ppo.py` to those of Stable-Baselines3."""
    translated = {_SB3_NAMES[name]: value for name, value in settings.items() if name in _SB3_NAMES}
    rows = settings["num_envs"] * settings["unroll_length"]
    return {**translated, "batch_size": rows // settings["minibatches"]}


def command(library, env, seed, folder):
    """Makes the command of a run; ALF writes into a folder."""
    task = TASKS[env]
    if library == "ALF":
        flags = [env, "--algorithm=ppo", f"--steps={task.max_steps}", f"--seed={seed}"]
        flags += [f"--StopCriteria.target_return={task.target}", f"--output={folder}/run"]
        return [sys.executable, "-m", "alf", "train", *flags]
    flags = [f"--env={env}", f"--target_return={task.target}", f"--seed={seed}"]
    flags.append(f"--steps={task.max_steps}")
    if library == "torch":
        flags.append(f"--settings={json.dumps(task.settings)}")
        return [PEERS["torch"].python(), SCRIPTS / "torch_ppo.py", *flags]
    flags.append(f"--num_envs={task.settings['num_envs']}")
    flags += [f"--settings={json.dumps({**sb3_settings(task.settings), **task.sb3})}"]
    flags += ["--normalize"] * task.normalizes + ["--anneal"] * task.settings.get("anneals", False)
    flags += ["--library=sbx"] * (library == "sbx")
    return [PEERS[library].python(), ROOT / "benchmarks" / "sb3.py", *flags]


def train(library, env, seed):
    """Trains once; returns a dict of whether the score was reached, and the seconds of the whole process."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        output, memory = run(command(library, env, seed, folder), _LIMIT)
        seconds = time.monotonic() - start
    reached = "target_return" in output if library == "ALF" else read_line(output)["reached"]
    return {"reached": reached, "seconds": round(seconds, 1), "peak_memory_mb": memory}


def train_all(path, tasks, peers, seeds, machine):
    """Adds the runs to the file that it lacks, in turn."""
    done = {
        (row["score_of"], row["seed"], row["library"])
        for row in select_scores(read_rows(path))
        if row["machine"] == machine
    }
    for seed in range(seeds):
        for env in tasks:
            for library in ["ALF", *(x for x in peers if x in TASKS[env].peers)]:
                if (env, seed, library) not in done:
                    row = {"score_of": env, "seed": seed, "library": library, **train(library, env, seed)}
                    add_row(path, {**row, "machine": machine})
                    print(f"{env} {library} seed {seed}: {row['seconds']} s, {row['reached']}", flush=True)


def select_scores(rows):
    """Returns the runs to a score in a file's rows."""
    return [row for row in rows if "score_of" in row]


def format_tables(rows):
    """Returns a table for each machine, in Markdown, of the seconds of the runs that got there.

    A cell has their median and range, and how many runs got there.
    """
    by_machine = split_by_machine(select_scores(rows))
    return "\n\n".join(f"{format_caption(x, COMMAND)}:\n\n{format_table(x)}" for x in by_machine.values())


def format_table(rows):
    """Returns the table of the runs of one machine."""
    libraries = ["ALF", *PEER_NAMES]
    names = [LIBRARIES.get(x, x).partition(" (")[0] for x in libraries]
    lines = [f"| environment | score | {' | '.join(names)} |", "| --- " * (2 + len(libraries)) + "|"]
    for env, task in TASKS.items():
        mine = [row for row in rows if row["score_of"] == env]
        cells = [_describe([row for row in mine if row["library"] == x]) for x in libraries]
        if mine:
            lines.append(f"| {env} | {task.target:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _describe(runs):
    seconds = [row["seconds"] for row in runs if row["reached"]]
    count = f"{len(seconds)} of {len(runs)}"
    if not seconds:
        return count if runs else ""
    return f"{statistics.median(seconds):.0f} s ({min(seconds):.0f} to {max(seconds):.0f}), {count}"
