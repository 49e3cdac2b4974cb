# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures ALF beside other libraries, in turn: `python -m benchmarks.peers --machine=NAME`.

`make peers` installs the other libraries; what is not there is left out. Each round runs ALF and each peer
once for each workload, and adds a line to the file for each that it does not have yet, so that it may be
stopped and called again. A peer that has variants, such as numbers of threads, tries each for a few seconds.
Prints tables in Markdown: the fastest peer of each workload, and ALF's ratio to it and to each library over
the rounds. --scores measures the seconds from the start of a process to a score instead, see
`benchmarks.peers.scores`.
"""

import pathlib
import sys

from absl import app, flags

from alf.plots.picture import save_picture
from benchmarks.peers import scores
from benchmarks.peers.running import PEERS, best_variant, installed, measure_alf, measure_peer
from benchmarks.peers.setups import SETUPS
from benchmarks.peers.table import draw, format_tables, select_measurements
from benchmarks.series import RESULTS, add_row, read_rows

_FILE = flags.DEFINE_string("file", str(RESULTS / "peers.jsonl"), "File of the results, JSON lines.")
_MACHINE = flags.DEFINE_string("machine", None, "Its name in docs/measured.md.", required=True)
_WORKLOADS = flags.DEFINE_multi_enum("workload", [], list(SETUPS), "What to run; without it all of them.")
_PEERS = flags.DEFINE_multi_enum("peer", [], list(PEERS), "A library; without it all that are installed.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Measurements of each, in turn.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 20.0, "Of each measurement.", lower_bound=1.0)
_SEARCH_SECONDS = flags.DEFINE_float("search_seconds", 4.0, "Of each variant's trial.", lower_bound=0.5)
_PLOT = flags.DEFINE_string("plot", None, "File of a picture, such as FILE.png.")
_SCORES = flags.DEFINE_bool("scores", False, "Measures the time to a score.")
_TASKS = flags.DEFINE_multi_enum("task", [], list(scores.TASKS), "Of --scores; without it all of them.")


def find_variant(path, peer, workload):
    """Returns the arguments of the fastest variant; the file keeps what the search has found."""
    variants = PEERS[peer].variants(workload)
    if len(variants) == 1:
        return variants[0]
    key = {"search": peer, "workload": workload, "machine": _MACHINE.value}
    for row in read_rows(path):
        if key.items() <= row.items():
            return row["arguments"]
    results = [measure_peer(peer, workload, _SEARCH_SECONDS.value, x) for x in variants]
    add_row(path, {**key, "arguments": best_variant(results), "results": results})
    return best_variant(results)


def measure(path, library, workload):
    """Measures a library; returns its figures."""
    if library == "ALF":
        return measure_alf(workload, _SECONDS.value)
    return measure_peer(library, workload, _SECONDS.value, find_variant(path, library, workload))


def measure_all(path, workloads, peers, rounds, machine):
    """Adds the results to the file that it lacks; a peer that fails is named and left out of its workload."""
    done = {
        (row["round"], row["workload"], row["library"])
        for row in select_measurements(read_rows(path))
        if row["machine"] == machine
    }
    failed = set()
    for i in range(rounds):
        for workload in workloads:
            for library in ["ALF", *(x for x in peers if workload in PEERS[x].workloads)]:
                if (i, workload, library) in done or (workload, library) in failed:
                    continue
                try:
                    figures = measure(path, library, workload)
                except Exception as error:
                    if library == "ALF":
                        raise
                    failed.add((workload, library))
                    print(f"{workload} {library} is left out: {error}", file=sys.stderr)
                    continue
                row = {"round": i, "workload": workload, "library": library, **figures}
                add_row(path, {**row, "machine": machine})
                print(
                    f"{workload} {library} round {i}: {figures['steps_per_second']:,.0f} steps/s", flush=True
                )


def main(argv):
    del argv
    path, rounds, machine = pathlib.Path(_FILE.value), _ROUNDS.value, _MACHINE.value
    if _SCORES.value:
        there = [x for x in installed(_PEERS.value or scores.PEER_NAMES) if x in scores.PEER_NAMES]
        scores.train_all(path, _TASKS.value or list(scores.TASKS), there, rounds, machine)
        print(scores.format_tables(read_rows(path)))
        return
    peers = installed(_PEERS.value or list(PEERS))
    measure_all(path, _WORKLOADS.value or list(SETUPS), peers, rounds, machine)
    print(format_tables(read_rows(path)))
    if _PLOT.value:
        mine = [row for row in select_measurements(read_rows(path)) if row["machine"] == machine]
        save_picture(draw(mine), _PLOT.value)


if __name__ == "__main__":
    app.run(main)
