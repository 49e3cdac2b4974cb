# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Groups runs into curves, for example runs that only differ in their seeds, and names the curves."""

import os
import re
from typing import NamedTuple

from alf.config.comparison import find_algorithms, find_default
from alf.config.registry import complete, find, shorten
from alf.config.settings import find_role

_NAMES = {"Impala": "IMPALA", "Dqn": "DQN", "Sac": "SAC"}
# From a column of `progress.csv` to the stop criterion that is its target.
_TARGETS = {
    **dict.fromkeys(("metrics/AverageReturn", "metrics/BalancedReturn"), "target_return"),
    "eval/return_mean": "target_eval_return",
}
_TASK = re.compile(r"(?:.*/)?alf\.environments\.load(?:_\w+)?\.name")  # the binding of an environment's name
_MAX_VALUE = 40  # the length to which labels shorten values


class Group(NamedTuple):
    """The runs of one curve."""

    label: str
    algorithm: str  # such as "PPO"; "" if the configuration names none
    runs: list  # of `Run`s


def group_runs(runs, across_tasks=False):
    """Groups runs, in the order of the first run of each group.

    Runs are in one group if they only differ in settings whose `Role` does not tell experiments apart, such
    as seeds, stop criteria and time-outs. A setting that a run lacks has its default. The label has the name
    of the algorithm, if there are several, and the settings in which the groups of this algorithm differ.

    Args:
        runs: list of `Run`s.
        across_tasks: whether runs with other environments (`find_task`) are in one group, too.

    Returns:
        list of `Group`s.
    """
    found = {}
    for run in runs:
        settings = _select(run.settings, across_tasks)
        others = frozenset((name, x) for name, x in settings.items() if x != find_default(name))
        # Two algorithms with default settings may have no other binding in which they differ.
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
        labels.append(f"{label} ({count + 1})" if count else label)  # shortened values may be equal
    return [
        Group(*parts) for parts in zip(labels, algorithms, (runs for _, runs in found.values()), strict=True)
    ]


def find_algorithm(settings):
    """Returns the name of the algorithm in the settings of a run; all names if there are several."""
    names = [name.removesuffix("Algorithm") for name in find_algorithms(settings)]
    return " + ".join(sorted(_NAMES.get(name, name) for name in names))


def find_task(settings):
    """Returns the name of the environment in the settings of a run, such as "CartPole-v1", or ""."""
    names = [name for name in settings if _TASK.fullmatch(complete(name)) and find_role(name).tells_apart]
    return " + ".join(sorted({_find_value(settings, name).strip("'") for name in names}))


def find_target(all_settings, metric):
    """Returns the target of a metric in the stop criteria of runs, a float; None unless all have the same.

    Args:
        all_settings: list of the settings of the runs.
        metric: text, a column of `progress.csv`, with or without "metrics/".
    """
    name = _TARGETS.get(metric, _TARGETS.get(f"metrics/{metric}"))
    texts = {_find_value(settings, f"StopCriteria.{name}") for settings in all_settings}
    text = texts.pop() if len(texts) == 1 else "None"
    return None if text == "None" else float(text)


def name_folders(groups):
    """Returns a name for each group of runs from the folders where they are, a list of different texts.

    Args:
        groups: list of lists of the paths of runs.
    """
    groups = [[os.path.abspath(path) for path in paths] for paths in groups]
    folders = [os.path.commonpath(paths) for paths in groups]
    # Groups that lie side by side in one folder are named by their first runs.
    folders = [
        paths[0] if folders.count(folder) > 1 else folder
        for paths, folder in zip(groups, folders, strict=True)
    ]
    above = os.path.commonpath([os.path.dirname(folder) for folder in folders])
    return [os.path.relpath(folder, above) for folder in folders]


def _find_value(settings, name):
    """Returns the text of a binding, or of the macro that it names; "None" if there is none."""
    text = settings.get(name, "None")
    return _find_value(settings, text[1:]) if text.startswith("%") else text


def _select(settings, across_tasks):
    """Selects the bindings that tell experiments apart, by their full names, and the macros that they use."""
    found = {
        complete(name): value
        for name, value in settings.items()
        if "." in name.rpartition("/")[2] and find_role(name).tells_apart
    }
    if across_tasks:
        found = {name: value for name, value in found.items() if not _TASK.fullmatch(name)}
    used = set(re.findall(r"%([\w./]+)", " ".join(found.values())))
    return found | {name: value for name, value in settings.items() if name in used}


def _differences(own, all_settings):
    """Returns texts NAME=VALUE of the bindings in `own` that are not equal in all of `all_settings`."""
    values = {name: [settings.get(name, find_default(name)) for settings in all_settings] for name in own}
    names = [name for name in sorted(own, key=_name) if len(set(values[name])) > 1]
    # If bindings that all groups have are enough to tell them apart, the others are left out.
    everywhere = [name for name in names if all(name in settings for settings in all_settings)]
    if len({tuple(settings[name] for name in everywhere) for settings in all_settings}) == len(all_settings):
        names = everywhere
    return [f"{_name(name)}={_shorten(own[name])}" for name in names]


def _name(name):
    """Returns the short name of a setting, with its scope."""
    scope, slash, target = name.rpartition("/")
    owner, dot, parameter = target.rpartition(".")
    return f"{scope}{slash}{shorten(owner) if find(owner) else owner}{dot}{parameter}"


def _shorten(value):
    return value if len(value) <= _MAX_VALUE else f"{value[: _MAX_VALUE - 3]}..."
