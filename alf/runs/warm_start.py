# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Warm start: gives a new run the weights of a checkpoint of another run.

`alf.runs.checkpoint_variables` defines the names of variables.
"""

import functools
import os

from alf.algorithms.algorithm import TargetUpdater
from alf.core.files import find_path
from alf.errors import ConfigError
from alf.runs import checkpoint_files as files
from alf.runs.checkpoint_variables import (
    assign_values,
    list_saved,
    list_some,
    list_variables,
    read_values,
)
from alf.runs.saved_run import SavedRun


def warm_start(learner, initial_checkpoint):
    """Gives a learner's algorithm and policy the weights that `Trainer.initial_checkpoint` names.

    Each of several policies gets the weights of the policy with its name, or all get the weights of the only
    one. The counters of environment steps and updates stay as they are, and so do optimizers.

    Args:
        learner: `Learner` or `LearnerGroup`.
        initial_checkpoint: "DIR", a run's directory, whose newest checkpoint is taken, or a checkpoint's path
            (".../ckpt-N"): all variables of the algorithm and its policy. "PART@DIR": the variables of the
            policy whose name contains PART, one or more attributes like "encoder" or "network/head". Target
            networks then become copies of the networks they follow.

    Returns:
        a text for the log.

    Raises:
        ConfigError: if the checkpoint is missing, or the names or shapes of variables differ.
    """
    try:
        part, place = _split(initial_checkpoint)
        algorithms = {name: one.algorithm for name, one in learner.learners.items()}
        read = functools.partial(_read, algorithms, part)
        if files.is_checkpoint(place):
            path, values = place, read(place)
        else:
            path, values = SavedRun(place).read(read)
    except ConfigError as error:
        text = " ".join(str(error).split())
        raise ConfigError(f"Trainer.initial_checkpoint is {initial_checkpoint!r}: {text}") from None
    assign_values(values)
    # Without PART the target networks have come from the checkpoint, like all variables of the algorithm.
    if part:
        for submodule in (x for algorithm in algorithms.values() for x in algorithm.submodules):
            if isinstance(submodule, TargetUpdater):  # Else the target would follow slowly from new weights.
                submodule.copy()
    return f"starts with {len(values)} variables of {path}"


def _split(text):
    """Returns PART, which is "" if all variables are meant, and the path of the run or checkpoint."""
    if not isinstance(text, str) or not text:
        raise ConfigError("it must be a path, or 'PART@PATH'")
    part, at, place = text.partition("@")
    if not at or os.path.isdir(os.path.expanduser(text)):  # A path may have an @ of its own.
        part, place = "", text
    elif not part.strip("/"):
        raise ConfigError("there is no name before the @")
    place = find_path(place)
    if not os.path.isdir(place):
        raise ConfigError(f"{place} is neither a run nor a checkpoint: there is no such folder")
    return part, place


def _read(algorithms, part, path):
    """Reads the values of the variables of all algorithms, which are a dict by their policies' names."""
    values = []
    with files.open_weights(path) as reader:
        # By name: the counters stay out, and a part of the variables can be picked.
        for name, algorithm in algorithms.items():
            values += _read_one(reader, algorithm, name, part, path)
    return values


def _read_one(reader, algorithm, name, part, path):
    module = "policy" if part else "algorithm"
    # The checkpoint of several policies, or of one.
    ways = ["learner", "learners", name, module], ["learner", module]
    keys = next(filter(None, (list_saved(reader, way) for way in ways)), None)
    if keys is None:
        if list_saved(reader, ["learner", "policy"]):
            raise ConfigError(
                f"{path} has only a policy, and not all variables: name a part of it, PART@PATH"
            )
        raise ConfigError(f"{path} is of a run with several policies, of which none has the name {name!r}")
    variables = list_variables(algorithm.policy if part else algorithm)
    if part:
        keys, variables = _select(part, keys, "of the checkpoint"), _select(part, variables, "of this run")
    values, misfits = read_values(reader, keys, variables)
    misfits += [f"{name} is only in the checkpoint" for name in keys.keys() - variables.keys()]
    if misfits:
        raise ConfigError(f"{path} does not fit: {list_some(misfits)}")
    return values


def _select(part, names, place):
    """Selects the entries of a dict whose names contain all attributes of `part` one after another."""
    part = part.strip("/")
    selected = {name: x for name, x in names.items() if f"/{part}/" in f"/{name}/"}
    if not selected:
        known = dict.fromkeys(x for name in names for x in name.split("/")[:-1] if not x.isdecimal())
        raise ConfigError(f"no variable {place} has {part!r} in its name; names have {', '.join(known)}")
    return selected
