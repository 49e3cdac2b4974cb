# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains tasks and packs their agents into alf/agents, for a release: `make agents ARGS="TASK ..."`.

A run is kept in build/agents: a second call continues it, or only packs its agent. `benchmarks.tasks` keeps
its runs with the seed 0 there, so that the agent has a score of the table.
"""

import importlib.util
import pathlib
import subprocess
import sys

from absl import app

from alf.config.gin_files import find_gin_file
from alf.runs.packed_agent import pack_agent

_ROOT = pathlib.Path(__file__).resolve().parents[1]
RUNS = _ROOT / "build" / "agents"
_SMALL = ["CartPole-v1", "Acrobot-v1", "FrozenLake-v1", "CliffWalking-v1", "Taxi-v4", "Pendulum-v1"]
if importlib.util.find_spec("Box2D"):
    _SMALL.append("LunarLander-v3")


def main(argv, runs=RUNS, agents=_ROOT / "alf" / "agents"):
    tasks = argv[1:] or _SMALL
    names = [pathlib.Path(find_gin_file(f"alf:{task}")).stem for task in tasks]  # before the first is trained
    for task, name in zip(tasks, names, strict=True):
        run, folder = runs / name, agents / name
        command = [sys.executable, "-m", "alf", "train", f"alf:{task}", "--seed=0", f"--output={run}"]
        subprocess.run(command, check=True, cwd=_ROOT)
        pack_agent(run, folder)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{folder}: {size / 1024:.0f} KiB", flush=True)


if __name__ == "__main__":
    app.run(main)
