# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What takes long: kill -9 at random moments, and a soak with random faults of the processes of a run."""

import collections
import itertools
import os
import random
import signal
import statistics
import time
from typing import NamedTuple

import psutil

from benchmarks.faults.case import Cases, Expected, Outcome
from benchmarks.faults.training import (
    find_checkpoints,
    last_value,
    number_of,
    read_env_steps,
    read_recorded_steps,
)

_CASES = Cases("long")
CASES = _CASES.cases

_CHECKPOINT_INTERVAL = 0.3  # seconds
_SAVE_SECONDS = 2.0  # of one save, at most, on a machine that is busy with other work


@_CASES.add("kills", "kill -9 at random moments")
def _kill_at_random(lab):
    rng, total = random.Random(0), Outcome(happened="continues from the newest checkpoint", steps_lost=0)
    oldest, num_kills, num_trained = 0.0, lab.options.get("kills", 20), 0
    first = lab.train_until_saved("impala", ["StopCriteria.max_seconds = 60"], warm=True)
    # So that half of the kills come in training, however busy the machine is.
    longest = 2 * (time.time() - first.started)
    first.send(signal.SIGKILL)
    first.wait_for_end()
    for i in range(num_kills):
        before = find_checkpoints(lab.root_dir)
        training = lab.start("impala", ["StopCriteria.max_seconds = 60"], warm=True)
        time.sleep(rng.uniform(0.0, longest))
        killed = training.send(signal.SIGKILL)
        training.wait_for_end()
        after, name = find_checkpoints(lab.root_dir), f"kill {i + 1} of {num_kills}"
        restored, expected = training.find_restored(), before[-1] if before else None
        if training.find_line("tensorboard --logdir"):
            total.expect(restored == expected, f"{name}: continues from {restored} instead of {expected}")
        if before:
            lost = not after or number_of(after[-1]) < number_of(before[-1])
            total.expect(not lost, f"{name}: {before[-1]} was lost, {after} are left")
        if after and (not before or after[-1] != before[-1]):
            age = killed - os.stat(after[-1]).st_mtime
            oldest = max(oldest, age)
            text = f"{name}: the newest checkpoint is {age:.1f} s old"
            total.expect(age <= _CHECKPOINT_INTERVAL + _SAVE_SECONDS, text)
        num_trained += training.num_env_steps() > 0
        total.steps_lost = max(total.steps_lost, training.steps_lost())
    total.expect(num_trained >= num_kills / 4, f"only {num_trained} of {num_kills} kills came in training")
    outcome = Expected(0, saved=True).check(lab.run("impala", ["StopCriteria.max_seconds = 1"]))
    total.problems += outcome.problems
    total.details.update(kills=num_kills, trained=num_trained, oldest_checkpoint_seconds=round(oldest, 2))
    return total


@_CASES.add("kills_at_renames", "kill -9 just before each of the renames of three saves")
def _kill_at_renames(lab):
    """A save has one rename, and one more to remove the oldest checkpoint if there are more than three."""
    total = Outcome(happened="continues from the newest checkpoint", steps_lost=0)
    for i in range(1, 7):
        before = find_checkpoints(lab.root_dir)
        training = lab.start("impala", ["StopCriteria.max_seconds = 60"], process={"kill_at_rename": i})
        status = training.wait_for_end()
        after, name = find_checkpoints(lab.root_dir), f"rename {i}"
        total.expect(status == -signal.SIGKILL, f"{name}: status {status}")
        expected = before[-1] if before else None
        restored = training.find_restored()
        total.expect(restored == expected, f"{name}: continues from {restored} instead of {expected}")
        expected_number = len(before)
        for _ in range(i - 1):
            expected_number += 1 if expected_number <= 3 else -1
        total.expect(len(after) == expected_number, f"{name}: {after} are left of {before}")
        total.steps_lost = max(total.steps_lost, training.steps_lost())
    total.problems += (
        Expected(0, saved=True).check(lab.run("impala", ["StopCriteria.max_seconds = 1"])).problems
    )
    return total


@_CASES.add("soak", "random kill -9, SIGSTOP and slow steps of workers, killed evaluations, and pauses")
def _soak(lab):
    seconds = 60 * lab.options.get("soak_minutes", 15.0)
    params = [
        "WorkerSettings.step_timeout = 2.0",
        "WorkerSettings.max_restarts = 1_000_000",
        f"StopCriteria.max_seconds = {seconds}",
        "Checkpoints.interval = 10.0",
        "alf.environments.load.step_seconds = 0.0005",
        "Trainer.evaluator = @Evaluator",
        "Evaluator.interval_seconds = 10.0",
        "Evaluator.place = 'process'",
        "Evaluator.max_restarts = 1_000_000",
        "eval/alf.environments.load.num_workers = 0",
        "eval/alf.environments.load.step_seconds = 0.01",
        "eval/alf.environments.load.counts_steps = False",
    ]
    fault = {"kind": "sleep_1", "where": "step", "at": 5000, "times": 20}
    training = lab.train_until_saved("workers", params, fault=fault, timeout=seconds + 180)
    rng, owner, samples = random.Random(0), psutil.Process(training.pid), []
    injected = collections.Counter()
    next_fault = time.time() + rng.uniform(5, 15)
    end = training.started + seconds - 5
    while time.time() < end and training.status is None:
        if time.time() >= next_fault:
            kind = rng.choice(list(_SOAK_FAULTS))
            injected[kind] += _SOAK_FAULTS[kind](training, rng)
            next_fault = time.time() + rng.uniform(5, 15)
        samples.append(_Sample.of(owner, training.num_env_steps()))
        time.sleep(1.0)
    training.wait_for_end(120)
    outcome = Expected(0, saved=True, lost=500).check(training, training.started)
    outcome.seconds = None
    _check_soak(outcome, training, samples, injected)
    return outcome


class _Sample(NamedTuple):
    """What a run has at a time, in seconds since 1970."""

    time: float
    megabytes: float
    descriptors: int
    threads: int
    steps: int

    @classmethod
    def of(cls, owner, steps):
        return cls(time.time(), owner.memory_info().rss / 2**20, owner.num_fds(), owner.num_threads(), steps)


def _lose_worker(training, rng):
    """Kills or stops a worker; returns whether there was one."""
    workers = training.workers()
    if workers:
        rng.choice(workers).send_signal(rng.choice([signal.SIGKILL, signal.SIGSTOP]))
    return bool(workers)


def _kill_evaluation(training, rng):
    """Kills the process of the evaluation; returns whether there was one."""
    found = training.evaluations()
    for process in found:
        process.kill()
    return bool(found)


def _pause(training, rng):
    """Stops all processes for longer than `step_timeout`; what was stopped before stays so."""
    processes = [p for p in training.processes() if p.status() != psutil.STATUS_STOPPED]
    for process in processes:
        process.suspend()
    time.sleep(3.0)
    for process in processes:
        process.resume()
    return True


_SOAK_FAULTS = {"worker": _lose_worker, "evaluation": _kill_evaluation, "pause": _pause}


def _check_soak(outcome, training, samples, injected):
    """Checks memory, throughput and the counts of a soak."""
    fifth = max(2, len(samples) // 5)
    growth = _grown(samples, "megabytes", fifth)
    rates = [(y.steps - x.steps) / (y.time - x.time) for x, y in itertools.pairwise(samples)]
    first, last = statistics.median(rates[:fifth]), statistics.median(rates[-fifth:])
    restarts = last_value(training.root_dir, "environments/worker_restarts")
    checkpoint, taken = find_checkpoints(training.root_dir)[-1], training.num_env_steps()
    recorded, trained = read_recorded_steps(checkpoint), read_env_steps(checkpoint)
    # Two batches of 2 and unrolls of 4 steps: what waits in queues, and what each lost worker was doing.
    num_lost = injected["worker"]
    in_flight = 2 * 2 * 4 * 3 + 2 * 4 * num_lost
    outcome.expect(growth < 20, f"memory grew by {growth:.1f} MB")
    for name in ("descriptors", "threads"):
        grown = _grown(samples, name, fifth)
        outcome.expect(grown <= 5, f"{grown:.0f} more {name}")
    outcome.expect(abs(last / first - 1) <= 0.05, f"{last:.0f} steps/s at the end, {first:.0f} at the start")
    outcome.expect(abs(restarts - num_lost) <= 1, f"{restarts:.0f} restarts for {num_lost} lost workers")
    replaced = sum("process of the evaluation has ended" in line for _, line in training.lines)
    outcome.expect(replaced >= 1, f"no evaluation was replaced, of {injected['evaluation']} killed")
    outcome.expect(0 <= taken - recorded <= in_flight, f"{recorded:.0f} of {taken} steps were recorded")
    outcome.expect(0 <= taken - trained <= in_flight, f"{trained} of {taken} steps were trained on")
    outcome.happened = f"{num_lost} workers restarted, {last / first:.1%} of the throughput, {growth:+.1f} MB"
    outcome.details.update(growth_mb=growth, first=first, last=last, restarts=restarts, recorded=recorded)
    outcome.details.update(
        trained=trained, taken=taken, injected=dict(injected), replaced_evaluations=replaced
    )
    outcome.details.update(samples=[sample._asdict() for sample in samples[::60]])


def _grown(samples, name, fifth):
    """The growth of a figure from the second fifth of the samples to the last."""
    values = [getattr(sample, name) for sample in samples]
    return statistics.median(values[-fifth:]) - statistics.median(values[fifth : 2 * fifth])
