# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures sampling from environments whose steps wait: `python -m benchmarks.waiting`.

Each environment sleeps in a step, as if a simulator computed elsewhere. The settings are those of IMPALA's
preset, so ALF chooses the worker processes. Prints a table in Markdown: steps per second; their fraction of
what the environments would make if nothing but their sleep took time; and the CPU time of this process alone,
without the workers, for each step of an environment and of a batch.
"""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

from absl import app, flags

from alf.config.registry import own_config
from alf.runs.presets import make_parts, read_what
from alf.runs.what import find_what
from alf.tools.throughput import sample

_SECONDS = flags.DEFINE_float("seconds", 5.0, "Of each measurement.", lower_bound=0.1)
_SLEEPS = flags.DEFINE_list("sleeps", ["1", "5", "20"], "Milliseconds of a step.")
_NUM_ENVS = flags.DEFINE_list("num_envs", ["8", "64", "256"], "Environments, in two groups.")
_NUM_WORKERS = flags.DEFINE_string("num_workers", "auto", "Worker processes of each group.")

_HEADER = """| sleep, ms | environments | steps/s | of the limit | CPU of a step, us | of a batch, us |
| --- | --- | --- | --- | --- | --- |"""


def measure(sleep, num_envs, num_workers, seconds):
    """Measures one row; returns steps per second, and the CPU seconds of a step."""
    settings = {"num_envs": num_envs, "load.sleep": sleep, "num_workers": num_workers}
    with own_config():
        read_what(find_what("benchmarks.waiting_env:Waits"), "impala", None, settings)
        driver, learner = make_parts()
    try:
        learner.synchronize()
        driver.start()
        for _ in range(4):  # graphs are traced, queues fill
            sample(driver)
        start, cpu, steps = time.perf_counter(), time.process_time(), 0
        while (passed := time.perf_counter() - start) < seconds:
            steps += sample(driver)
        return steps / passed, (time.process_time() - cpu) / steps
    finally:
        driver.stop()


def format_row(milliseconds, num_envs, rate, cpu):
    """Returns a line of the table."""
    limit = num_envs / milliseconds * 1e3
    figures = f"{rate:,.0f} | {rate / limit:.2f} | {cpu * 1e6:.1f} | {cpu * num_envs / 2 * 1e6:,.0f} |"
    return f"| {milliseconds:g} | {num_envs} | {figures}"


def main(argv):
    del argv
    workers = int(_NUM_WORKERS.value) if _NUM_WORKERS.value.isdigit() else "auto"
    print(_HEADER)
    # A process for each, which starts TensorFlow with its threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        for milliseconds in map(float, _SLEEPS.value):
            for num_envs in map(int, _NUM_ENVS.value):
                row = pool.submit(measure, milliseconds / 1e3, num_envs, workers, _SECONDS.value).result()
                print(format_row(milliseconds, num_envs, *row), flush=True)


if __name__ == "__main__":
    app.run(main)
