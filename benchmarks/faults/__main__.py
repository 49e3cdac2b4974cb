# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Injects faults into training: `python -m benchmarks.faults [--only=NAME ...] [--output=FILE] [--table]`.

Each case trains in processes of its own, on small networks, and states what it expects. Prints a line
for each case; the exit status is 1 if one is not as expected.
"""

import collections
import dataclasses
import functools
import json
import pathlib
import re
import signal
import sys
import tempfile
import traceback

from absl import app, flags

from benchmarks.faults.call_cases import CASES as CALLS
from benchmarks.faults.case import Lab, Outcome
from benchmarks.faults.checkpoint_cases import CASES as CHECKPOINTS
from benchmarks.faults.config_cases import CASES as CONFIG
from benchmarks.faults.data_cases import CASES as DATA
from benchmarks.faults.end_cases import CASES as ENDS
from benchmarks.faults.file_cases import CASES as FILES
from benchmarks.faults.long_cases import CASES as LONG
from benchmarks.faults.training import Server
from benchmarks.faults.worker_cases import CASES as WORKERS

CASES = [*CHECKPOINTS, *ENDS, *CALLS, *FILES, *DATA, *WORKERS, *CONFIG, *LONG]

_ONLY = flags.DEFINE_multi_string("only", [], "Regular expression: cases or groups to run; may be repeated.")
_OUTPUT = flags.DEFINE_string("output", None, "File to write the outcomes to, as JSON.")
_TABLE = flags.DEFINE_bool("table", False, "Prints a Markdown table at the end.")
_LIST = flags.DEFINE_bool("list", False, "Lists the cases and runs none.")
_KEEP = flags.DEFINE_string("keep", None, "Folder for what the cases write; without it they leave nothing.")
_KILLS = flags.DEFINE_integer("kills", 20, "Kills at random moments.", lower_bound=1)
_SIGNALS = flags.DEFINE_integer("signals", 9, "Signals at random moments.", lower_bound=1)
_SOAK_MINUTES = flags.DEFINE_float("soak_minutes", 15.0, "Of the soak, which only --only=soak runs.")

_NOT_BY_DEFAULT = ("soak",)


def choose(cases, patterns):
    """The cases whose whole name or group one of the patterns matches; without patterns, the short ones."""
    if not patterns:
        return [case for case in cases if case.name not in _NOT_BY_DEFAULT]
    chosen = [c for c in cases if any(re.fullmatch(p, name) for p in patterns for name in (c.name, c.group))]
    return chosen


def run_case(case, folder, make_server, options):
    """Runs a case; an exception of the case itself is a problem, too."""
    with Lab(pathlib.Path(folder) / case.name, make_server, options) as lab:
        try:
            return case.outcome(lab)
        except Exception:
            return Outcome(happened="the case failed", problems=[traceback.format_exc()])


def format_line(case, outcome):
    """The line that is printed for a case."""
    verdict = "as expected" if not outcome.problems else "NOT AS EXPECTED: " + "; ".join(outcome.problems)
    figures = [outcome.happened]
    if outcome.seconds is not None:
        figures.append(f"{outcome.seconds:.2f} s")
    if outcome.steps_lost is not None:
        figures.append(f"{outcome.steps_lost} steps lost")
    return f"{case.name}: {', '.join(figures)}: {verdict}"


def format_table(results):
    """The Markdown table of (case, outcome)."""
    lines = ["| fault | what happens | noticed after | steps lost |", "| --- | --- | --- | --- |"]
    for case, outcome in results:
        happens = outcome.happened
        if outcome.last_line:
            happens += f": `{_shorten(outcome.last_line)}`"
        if outcome.problems:
            happens += " (**not as expected**)"
        seconds = "" if outcome.seconds is None else f"{outcome.seconds:.1f} s"
        lost = "" if outcome.steps_lost is None else f"{outcome.steps_lost:,}"
        cells = [text.replace("|", "\\|") for text in (case.title, happens, seconds, lost)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _shorten(line, size=160):
    """A line without the log's prefix and without folders of temporary files."""
    line = re.sub(r"^[IWE]\d{4} \S+ +\d+ \S+\] ", "", line)
    line = re.sub(r"/[\w./-]+/", "", line).replace("`", "'")
    return line if len(line) <= size else line[: size - 3] + "..."


def main(argv):
    del argv
    chosen = choose(CASES, _ONLY.value)
    if not chosen:
        raise app.UsageError(f"--only={_ONLY.value} matches no case: see --list")
    if _LIST.value:
        print("\n".join(f"{case.group:12} {case.name:45} {case.title}" for case in chosen))
        return 0
    # A process that is started by nohup, or in the background, ignores signals; so would the trainings.
    for signum in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)
    options = {"kills": _KILLS.value, "signals": _SIGNALS.value, "soak_minutes": _SOAK_MINUTES.value}
    make_server = functools.cache(Server)
    results = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for case in chosen:
            outcome = run_case(case, _KEEP.value or folder, make_server, options)
            results.append((case, outcome))
            print(format_line(case, outcome), flush=True)
    if make_server.cache_info().currsize:
        make_server().close()
    if _OUTPUT.value:
        rows = [
            {"group": case.group, "name": case.name, "fault": case.title, **dataclasses.asdict(outcome)}
            for case, outcome in results
        ]
        pathlib.Path(_OUTPUT.value).write_text(json.dumps(rows, indent=1) + "\n")
    if _TABLE.value:
        print(format_table(results))
    counts = collections.Counter(bool(outcome.problems) for _, outcome in results)
    print(f"{counts[False]} of {len(results)} cases as expected", file=sys.stderr)
    return 1 if counts[True] else 0


if __name__ == "__main__":
    app.run(main)
