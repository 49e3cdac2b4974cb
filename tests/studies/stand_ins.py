# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Programs in place of `alf train` and of a population's members: they write what these write."""

import os
import time

from alf.studies import population_study
from alf.studies.population_study import MemberRun
from alf.studies.settings import Sweep
from alf.studies.sweep_study import SweepStudy

PROGRAM = """
import json, os, signal, sys, time

path, seconds, seed, end = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
together = int(sys.argv[5])
events = os.path.join(path, "..", "..", "..", "events")


def note(text):
    with open(events, "a") as file:
        file.write(f"{text} {path}\\n")


def count_starts():
    with open(events) as file:
        return sum(line.startswith("starts") for line in file)


def finish(status, returned):
    with open(os.path.join(path, "progress.csv"), "w") as file:
        file.write(f"env_steps,seconds,metrics/BalancedReturn\\n100,1,{returned + 5}\\n200,2,{returned}\\n")
    with open(os.path.join(path, "done.json"), "w") as file:
        json.dump({"status": status}, file)
    note("ends")


def save(*_):
    if end == "ignores":
        return
    finish("INTERRUPTED", 0)
    sys.exit(143)


signal.signal(signal.SIGTERM, save)
note("starts")
if end == "is bad":
    with open(os.path.join(path, "progress.csv"), "w") as file:
        file.write("env_steps,seconds,metrics/BalancedReturn\\n")
        file.writelines(f"{100 * i},{i},-9\\n" for i in range(1, 9))
    time.sleep(600)
print("cores", sorted(os.sched_getaffinity(0)), "GPUs", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
time.sleep(seconds)
while count_starts() < together:
    time.sleep(0.02)
if together > 1:
    time.sleep(0.2)  # for those who should not be there
if end == "fails":
    note("ends")
    print("error: the simulator broke\\nand more")
    sys.exit(1)
if end == "dies":
    note("ends")
    os.kill(os.getpid(), signal.SIGKILL)
finish("SUCCESS", 10 * seed)
"""
MEMBER = """
import json, sys

path = sys.argv[1]
with open(f"{path}/order.json") as file:
    turn = json.load(file)["turn"]
report = dict(turn=turn, env_steps=200, objective=10.0 * int(path[-1]), path="ckpt-9", diverged=False)
with open(f"{path}/report.json", "w") as file:
    json.dump({**report, "is_over": True, "reason": "num_env_steps=200 reached"}, file)
"""


def make_arguments(seconds=0.0, ends=None, together=1):
    """A function (run) -> arguments of Python, for `PROGRAM`, which fails or waits as it is told.

    Args:
        seconds: how long each run takes.
        ends: dict from seeds to how their runs end.
        together: each run waits until so many have started.
    """
    ends = ends or {}

    def arguments(run):
        end = ends.get(run.seed, "well")
        return ["-c", PROGRAM, run.path, str(seconds), str(run.seed), end, str(together)]

    return arguments


def replace_members(monkeypatch):
    """Lets `MEMBER` run in place of each member: its objective is ten times its index."""
    make_run = lambda member, path, _: MemberRun(member, path, ("-c", MEMBER, path))  # noqa: E731
    monkeypatch.setattr(population_study, "MemberRun", make_run)


def read_events(folder):
    """The list of (what, path) of all runs in the order of time."""
    path = os.path.join(folder, "events")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [tuple(line.split(" ", 1)) for line in file.read().splitlines()]


def count_most_at_a_time(events):
    """The largest number of runs that went on at the same time."""
    most = now = 0
    for what, _ in events:
        now += 1 if what == "starts" else -1
        most = max(most, now)
    return most


def wait_until(done, seconds=300.0):
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def make_sweep_study(
    folder, grid, seeds=(0, 1), config=None, make_arguments=lambda run: [], announce=print, **settings
):
    """A `SweepStudy`; `settings` are those of `Sweep`."""
    rest = Sweep(**settings), list(seeds), grid, lambda gin_file, run: make_arguments(run)
    return SweepStudy(str(folder), announce, {"a.b": "0"} if config is None else config, *rest)
