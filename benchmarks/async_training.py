# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Compares drivers on the same task: `python -m benchmarks.async_training [--seeds=3] [GIN_FILE ...]`.

Trains every gin file with the synchronous driver and with the asynchronous one under several settings, each
run a process of its own, with the same batch: all environments once. Prints a Markdown table: steps trained
per second, wall time and environment steps to the target return, policy lag; medians over the seeds.
"""

import statistics

from absl import app, flags

from benchmarks.one_run import train

_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each, with the seeds 0, 1, ...", lower_bound=1)
_MAX_SECONDS = flags.DEFINE_integer("max_seconds", 600, "Gives up a run after that many seconds.")
_TARGET = flags.DEFINE_float("target_return", None, "In place of the gin files' own.")

_GIN_FILES = ("examples/appo_cartpole.gin", "examples/appo_halfcheetah.gin")
_ASYNC = ("Experiment.driver = @AsyncOffPolicyDriver",)
DRIVERS = {
    "sync": ("Experiment.driver = @SyncOffPolicyDriver",),
    "async, collects while it waits": (*_ASYNC, "DriverSettings.mode = 'lockstep'"),
    "async": _ASYNC,
    "async, 4 batches may wait": (*_ASYNC, "DriverSettings.max_waiting_batches = 4"),
    "async, weights every 16 updates": (*_ASYNC, "DriverSettings.parameter_update_period = 16"),
}


def make_config(text, driver, num_groups=2):
    """A gin file's text with another driver whose batch is one unroll of every environment."""
    lines = text.splitlines()
    lines = [x for x in lines if not x.startswith(("DriverSettings.", "Experiment.num_groups"))]
    lines += [*DRIVERS[driver], f"Experiment.num_groups = {num_groups}"]
    lines += [f"DriverSettings.learn_queue_cap = {num_groups}"]
    return "\n".join(lines) + "\n"


def row(driver, runs):
    """A line of the table."""

    def median(name, text):
        values = [getattr(run, name) for run in runs if getattr(run, name) is not None]
        missing = f" ({len(values)} of {len(runs)})" if len(values) < len(runs) else ""
        return (text.format(statistics.median(values)) if values else "-") + missing

    figures = [
        median("steps_per_second", "{:,.0f}"),
        median("seconds", "{:.1f}"),
        median("env_steps", "{:,.0f}"),
        median("lag", "{:.1f}"),
    ]
    return f"| {driver} | " + " | ".join(figures) + " |"


def main(argv):
    for gin_file in argv[1:] or _GIN_FILES:
        with open(gin_file) as file:
            text = file.read()
        runs = {driver: [] for driver in DRIVERS}
        for seed in range(_SEEDS.value):  # in turn, so that what else the machine does hits all alike
            for driver in DRIVERS:
                config = make_config(text, driver)
                runs[driver].append(train(config, seed, _MAX_SECONDS.value, _TARGET.value))
        print(f"\n{gin_file}\n")
        print("| driver | steps/s | seconds to score | steps to score | mean policy lag |")
        print("| --- | --- | --- | --- | --- |")
        for driver, results in runs.items():
            print(row(driver, results), flush=True)


if __name__ == "__main__":
    app.run(main)
