# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures ALF beside the leanest programs that compute its numbers: `python -m benchmarks.limits [ROW ...]`.

The programs of this package know nothing of ALF. Each makes all updates of a call in one XLA program, from
variables without a framework; tests/benchmarks/limits_test.py proves that their weights are those of ALF's
presets. Prints a table in Markdown: microseconds of ALF and of the lean program, medians of measurements in
turn, and ALF's speed as a fraction of the lean program's. A row is one of

* updates: what `Learner.train` does, with `Learner.observe` of an algorithm that needs fresh experience. The
  lean programs of replay get the batches that were drawn; ALF draws them.
* sampling: a step of all B environments, CartPole-v1; the lean loop has its policy in TensorFlow or NumPy.
* loop: sampling and updates in turn, a step of one environment.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from absl import app, flags

from benchmarks.limits.rows import ROWS, measure

_SECONDS = flags.DEFINE_float("seconds", 2.0, "Of each measurement.", lower_bound=0.1)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Measurements of each, in turn.", lower_bound=1)


def format_row(name, alf, lean):
    """Returns a line of the table."""
    return f"| {name} | {alf:,.1f} | {lean:,.1f} | {lean / alf:.2f} |"


def main(argv):
    if unknown := [name for name in argv[1:] if name not in ROWS]:
        raise app.UsageError(f"no row {unknown[0]!r}: there are {', '.join(ROWS)}")
    print("| row | ALF, us | lean program, us | ALF of the limit |\n| --- | --- | --- | --- |")
    # A process for each: presets have different numbers of threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        for name in argv[1:] or ROWS:
            times = pool.submit(measure, name, _SECONDS.value, _ROUNDS.value).result()
            print(format_row(name, *times), flush=True)


if __name__ == "__main__":
    app.run(main)
