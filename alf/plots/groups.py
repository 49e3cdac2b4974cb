# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Which runs are one curve: those that differ in their seeds alone; and the names of the curves."""

import re
from typing import NamedTuple

# Settings that leave open which experiment a run is: seeds, when it ends, what it writes.
_NO_DIFFERENCE = re.compile(
    r"(.*\.)?seed|StopCriteria\..*|(eval/.*|Evaluator\..*|RayEvaluator\..*)"
    r"|Trainer\.(root_dir|summary_interval|checkpoint_interval|max_to_keep|evaluator_ctor|save_git_state)"
)
_ALGORITHM = re.compile(r"(?:.*[./])?(\w+)Algorithm\.\w+")
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

    Runs are in one group if no binding but those of seeds, stop criteria, evaluation and intervals of writing
    differs. The label has the algorithm, if there are several, and the bindings that differ between the
    groups of that algorithm. A binding that a group does not have is left out.

    Args:
        runs: list of `Run`s.
    """
    found = {}
    for run in runs:
        found.setdefault(frozenset(_select(run.settings).items()), []).append(run)
    settings = [dict(key) for key in found]
    algorithms = [find_algorithm(each) for each in settings]
    labels = []
    for own, algorithm in zip(settings, algorithms, strict=True):
        rivals = [s for s, other in zip(settings, algorithms, strict=True) if other == algorithm]
        parts = [algorithm] if len(set(algorithms)) > 1 and algorithm else []
        label = ", ".join(parts + _differences(own, rivals)) or algorithm
        count = sum(re.sub(r" \(\d+\)$", "", other) == label for other in labels)
        labels.append(f"{label} ({count + 1})" if count else label)  # long values may be cut off alike
    return [Group(*parts) for parts in zip(labels, algorithms, found.values(), strict=True)]


def find_algorithm(settings):
    """The name of the algorithm in the settings of a run; with several policies all their names."""
    names = {match[1] for name in settings if (match := _ALGORITHM.fullmatch(name))}
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
    """The bindings that say which experiment a run is, and the macros that these use."""
    found = {name: value for name, value in settings.items() if not _NO_DIFFERENCE.fullmatch(name)}
    used = set(re.findall(r"%([\w./]+)", " ".join(found.values())))
    return {name: value for name, value in found.items() if "." in name.rpartition("/")[2] or name in used}


def _differences(own, all_settings):
    """Texts NAME=VALUE of the bindings in `own` that are not the same in all of the dicts."""
    names = [name for name in sorted(own) if len({settings.get(name) for settings in all_settings}) > 1]
    # Where every group has the binding, its value says more than that another one lacks it.
    everywhere = [name for name in names if all(name in settings for settings in all_settings)]
    if len({tuple(settings[name] for name in everywhere) for settings in all_settings}) == len(all_settings):
        names = everywhere
    return [f"{name}={_shorten(own[name])}" for name in names]


def _shorten(value):
    return value if len(value) <= _MAX_VALUE else f"{value[: _MAX_VALUE - 3]}..."
