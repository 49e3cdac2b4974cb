# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures the way from collectors to the learn queue: `python -m benchmarks.collectors [--collectors=1,4]`.

The collectors are stand-ins, processes without TensorFlow: each sends a recorded unroll as often as a batch
of environments would whose step takes `--step_ms`. With `--real` they are collectors with actors, whose
environments sleep for that time. Nothing is learned. Prints a Markdown table. "Ideal" is what environments of
that speed make if actors take no time; "linear" compares the steps of each collector with those of the first
row. The CPU time is that of the learner's process alone; "busy" is the share of the machine's cores that
anything uses: at 1.00 the machine is the limit. The memory is what a collector does not share. The row of 0
collectors has a thread in place of Ray, which hands the same unroll to the same queues.
"""

import functools
import statistics
import time

import psutil
from absl import app, flags

from alf.distributed.cluster import connect
from alf.distributed.collector_settings import CollectorSettings
from alf.distributed.ray_collectors import RayCollectors
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs
from alf.drivers.collector import Collector
from alf.drivers.collector_thread import Collectors
from alf.testing.toy_environments import NullEnvironment
from alf.tools.throughput import sample
from benchmarks.sleeping import make_policy, make_sleeping
from benchmarks.stand_in import StandIn

_COLLECTORS = flags.DEFINE_list("collectors", ["1", "4", "16"], "How many, one row of the table for each.")
_STEP_MS = flags.DEFINE_float("step_ms", 10.0, "Milliseconds of a step of the batch; 0: at full speed.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 16, "Environments of a collector.", lower_bound=1)
_UNROLL_LENGTH = flags.DEFINE_integer("unroll_length", 32, "Steps of an unroll.", lower_bound=1)
_OBSERVATION_DIM = flags.DEFINE_integer(
    "observation_dim", 8, "Floats of an observation; 7056 are as large as 4 frames of Atari.", lower_bound=1
)
_REAL = flags.DEFINE_bool("real", False, "Whether collectors are real, or stand-ins.")
_MAX_JOINED = flags.DEFINE_integer("max_joined_answers", 1, "Of an aggregation actor.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 10.0, "Of each measurement.", lower_bound=1.0)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Measurements of each row.", lower_bound=1)


def record(env, policy):
    """Returns what a collector of this environment sends."""
    collector = Collector([env], policy, unroll_length=_UNROLL_LENGTH.value)
    answer = collector.collect()
    collector.close()
    return answer


class NoWay(Collectors):
    """In place of `RayCollectors`: the answer is there as soon as it is asked for, without any copy."""

    num_collectors = num_groups = num_unrolls = max_requests_in_flight = broadcast_interval = 1
    weights_dtype = "float32"

    def __init__(self, answer, specs):
        self.specs, self._answer, self.attributes = specs, answer, {}

    def start(self, unroll_length):
        pass

    def publish(self, weights):
        pass

    def request(self, index):
        pass

    def receive(self, timeout):
        return [0], self._answer

    def ask(self, method, *args):
        raise NotImplementedError

    def receive_results(self, timeout):
        raise NotImplementedError

    def close(self):
        pass


def make_collectors(answer, specs, num_collectors):
    if num_collectors == 0:
        return NoWay(answer, specs)
    make = StandIn(answer, _UNROLL_LENGTH.value * _STEP_MS.value / 1000)
    if _REAL.value:
        make = functools.partial(
            make_sleeping, _BATCH_SIZE.value, _OBSERVATION_DIM.value, _STEP_MS.value / 1000
        )
    joined = _MAX_JOINED.value
    settings = CollectorSettings(num_cpus=0)
    return RayCollectors(
        make, specs, num_collectors, num_groups=1, max_joined_answers=joined, settings=settings
    )


def make_driver(num_collectors):
    """Makes a driver whose collectors are stand-ins; returns it, and the bytes of an answer."""
    env = NullEnvironment(_BATCH_SIZE.value, _OBSERVATION_DIM.value, episode_length=1000)
    specs = EnvSpecs([env])
    answer = record(env, make_policy(specs))
    collectors = make_collectors(answer, specs, num_collectors)
    policy = make_policy(specs)
    driver = AsyncOffPolicyDriver([], policy, _UNROLL_LENGTH.value, collectors=collectors)
    return driver, sum(x.nbytes for x in answer)


def wait_for_all(driver, num_collectors):
    """Samples until collectors have started: real ones import TensorFlow, each for seconds."""
    envs = set()  # stand-ins, which start at once, all send the same one
    count = 0
    while count < 5 * num_collectors or (_REAL.value and len(envs) < num_collectors):
        for experience in driver.collect():
            envs.update(experience.env_id[:, 0, 0].numpy().tolist())
        count += 1


def measure(driver):
    """Samples for a while; returns, for a second, steps, CPU seconds of this process and of each core."""
    psutil.cpu_percent()
    steps, cpu, start = 0, time.process_time(), time.monotonic()
    while (seconds := time.monotonic() - start) < _SECONDS.value:
        steps += sample(driver)
    return steps / seconds, (time.process_time() - cpu) / seconds, psutil.cpu_percent() / 100


def find_memory():
    """The megabytes that a collector does not share with other processes, the median of all."""
    names = "ray::Collector", "ray::CollectorActor"
    processes = [p for p in psutil.Process().children(recursive=True) if p.name().startswith(names)]
    return statistics.median([p.memory_full_info().uss / 1e6 for p in processes] or [0])


def main(argv):
    del argv
    connect()
    print(
        "| collectors | steps/s | of the ideal | linear | MB/s | CPU, µs a step | busy | MB of a collector |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    first = None
    for num_collectors in map(int, _COLLECTORS.value):
        driver, num_bytes = make_driver(num_collectors)
        driver.start()
        try:
            wait_for_all(driver, max(num_collectors, 1))
            rate, cpu, busy = map(statistics.median, zip(*(measure(driver) for _ in range(_ROUNDS.value))))
            memory = find_memory()
        finally:
            driver.stop()
        of_each = rate / num_collectors if num_collectors else None
        first = first or of_each
        ideal = _BATCH_SIZE.value * 1000 / _STEP_MS.value if _STEP_MS.value else None
        cells = [
            f"{rate:,.0f}",
            f"{of_each / ideal:.2f}" if of_each and ideal else "-",
            f"{of_each / first:.2f}" if of_each else "-",
            f"{rate * num_bytes / (_UNROLL_LENGTH.value * _BATCH_SIZE.value) / 1e6:.1f}",
            f"{1e6 * cpu / rate:.2f}",
            f"{busy:.2f}",
            f"{memory:.0f}",
        ]
        print(f"| {num_collectors} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    app.run(main)
