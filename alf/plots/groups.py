# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Which runs are one curve: those that differ in their seeds alone; and the names of the curves."""

import re
from typing import NamedTuple

from alf.config.comparison import find_algorithms, find_default
from alf.config.registry import complete, find, shorten
from alf.config.settings import find_role

_NAMES = {"Impala": "IMPALA", "Dqn": "DQN", "Sac": "SAC"}
# Which stop criterion is the target of a column.
_TARGETS = {"metrics/AverageReturn": "target_return", "eval/return_mean": "target_eval_return"}
_MAX_VALUE = 40  # characters that a label shows of a value


class Group(NamedTuple):
    """Runs that are one curve."""

    label: str
    algorithm: str  # "PPO", for example; "" if the configuration names none
    runs: list


def group_runs(runs):
    """Makes `Group`s of runs, in the order of their first runs.

    Runs are in one group if they differ only in settings whose `Role` does not tell experiments apart, such
    as seeds, stop criteria and time-outs. A setting that a run does not have has its default. The label has
    the algorithm, if there are several, and the settings that differ between the groups of that algorithm.

    Args:
        runs: list of `Run`s.
    """
    found = {}
    for run in runs:
        settings = _select(run.settings)
        others = frozenset((name, x) for name, x in settings.items() if x != find_default(name))
        key = find_algorithm(settings), others
        found.setdefault(key, (settings, []))[1].append(run)
    settings = [settings for settings, _ in found.values()]
    algorithms = [find_algorithm(each) for each in settings]
    labels = []
    for own, algorithm in zip(settings, algorithms, strict=True):
        rivals = [s for s, other in zip(settings, algorithms, strict=True) if other == algorithm]
        parts = [algorithm] if len(set(algorithms)) > 1 and algorithm else []
        label = ", ".join(parts + _differences(own, rivals)) or algorithm
        count = sum(re.sub(r" \(\d+\)$", "", other) == label for other in labels)
        labels.append(f"{label} ({count + 1})" if count else label)  # long values may be cut off alike
    return [
        Group(*parts) for parts in zip(labels, algorithms, (runs for _, runs in found.values()), strict=True)
    ]


def find_algorithm(settings):
    """The name of the algorithm in the settings of a run; with several policies all their names."""
    names = [name.removesuffix("Algorithm") for name in find_algorithms(settings)]
    return " + ".join(sorted(_NAMES.get(name, name) for name in names))


def find_target(all_settings, metric):
    """The target of a metric in the stop criteria of runs, a float; None unless all have the same one.

    Args:
        all_settings: list of the runs' settings.
        metric: column of `progress.csv`, with or without "metrics/".
    """
    name = _TARGETS.get(metric, _TARGETS.get(f"metrics/{metric}"))
    texts = {_find_value(settings, f"StopCriteria.{name}") for settings in all_settings}
    text = texts.pop() if len(texts) == 1 else "None"
    return None if text == "None" else float(text)


def _find_value(settings, name):
    """The text of a binding, "None" if there is none; of a macro, what it stands for."""
    text = settings.get(name, "None")
    return _find_value(settings, text[1:]) if text.startswith("%") else text


def _select(settings):
    """The bindings that say which experiment a run is, by their full names, and the macros that these use."""
    found = {
        complete(name): value
        for name, value in settings.items()
        if "." in name.rpartition("/")[2] and find_role(name).tells_apart
    }
    used = set(re.findall(r"%([\w./]+)", " ".join(found.values())))
    return found | {name: value for name, value in settings.items() if name in used}


def _differences(own, all_settings):
    """Texts NAME=VALUE of the bindings in `own` that are not the same in all of the dicts."""
    values = {name: [settings.get(name, find_default(name)) for settings in all_settings] for name in own}
    names = [name for name in sorted(own, key=_name) if len(set(values[name])) > 1]
    # Where every group has the binding, its value says more than that another one lacks it.
    everywhere = [name for name in names if all(name in settings for settings in all_settings)]
    if len({tuple(settings[name] for name in everywhere) for settings in all_settings}) == len(all_settings):
        names = everywhere
    return [f"{_name(name)}={_shorten(own[name])}" for name in names]


def _name(name):
    """The short name of a setting, with its scope."""
    scope, slash, target = name.rpartition("/")
    owner, dot, parameter = target.rpartition(".")
    return f"{scope}{slash}{shorten(owner) if find(owner) else owner}{dot}{parameter}"


def _shorten(value):
    return value if len(value) <= _MAX_VALUE else f"{value[: _MAX_VALUE - 3]}..."
