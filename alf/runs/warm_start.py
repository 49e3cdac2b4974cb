# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Warm start: gives a new run the weights of a checkpoint of another run.

`alf.runs.checkpoint_variables` defines the names of variables.
"""

import os

import tensorflow as tf

from alf.algorithms.algorithm import TargetUpdater
from alf.core.files import find_path
from alf.errors import ConfigError
from alf.runs import checkpoint_files as files
from alf.runs.checkpoint_variables import find_differences, list_saved, list_some, list_variables
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
        part, path = _find_checkpoint(initial_checkpoint)
        num_variables = sum(
            _restore(one.algorithm, name, part, path) for name, one in learner.learners.items()
        )
    except (ConfigError, OSError, tf.errors.OpError) as error:
        text = " ".join(str(error).split())
        raise ConfigError(f"Trainer.initial_checkpoint is {initial_checkpoint!r}: {text}") from None
    return f"starts with {num_variables} variables of {path}"


def _find_checkpoint(text):
    """Returns PART, which is "" if all variables are meant, and the path of the checkpoint."""
    if not isinstance(text, str) or not text:
        raise ConfigError("it must be a path, or 'PART@PATH'")
    part, at, place = text.partition("@")
    if not at or _exists(text):  # A path may have an @ of its own.
        part, place = "", text
    elif not part.strip("/"):
        raise ConfigError("there is no name before the @")
    place = find_path(place)
    if os.path.isdir(place):
        return part, SavedRun(place).find_checkpoint()
    damage = files.find_damage(place)
    if damage is not None:
        raise ConfigError(f"{place} is neither a run nor a whole checkpoint: {damage}")
    return part, place


def _exists(path):
    path = os.path.expanduser(path)
    return os.path.isdir(path) or os.path.exists(path + files.COMPLETE)


def _restore(algorithm, name, part, path):
    """Restores the variables of one algorithm, whose policy is called `name`; returns their number."""
    reader, module = tf.train.load_checkpoint(path), "policy" if part else "algorithm"
    # The checkpoint of several policies, or of one.
    ways = ["learner", "learners", name, module], ["learner", module]
    # By name, and not by TensorFlow's own restore: that would take the counters of the other run, too, and
    # cannot pick a part.
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
    wrong = [f"{name} is only in the checkpoint" for name in keys.keys() - variables.keys()]
    wrong += find_differences(reader, keys, variables)
    if wrong:  # Before the first assignment: a run must not begin with half of the weights.
        raise ConfigError(f"{path} does not fit: {list_some(wrong)}")
    for key, variable in variables.items():
        variable.assign(reader.get_tensor(keys[key]))
    # Without PART the target networks have come from the checkpoint, like all variables of the algorithm.
    if part:
        for submodule in algorithm.submodules:
            if isinstance(submodule, TargetUpdater):  # Else the target would follow slowly from new weights.
                submodule.copy()
    return len(variables)


def _select(part, names, place):
    """Selects the entries of a dict whose names contain all attributes of `part` one after another."""
    part = part.strip("/")
    selected = {name: x for name, x in names.items() if f"/{part}/" in f"/{name}/"}
    if not selected:
        known = dict.fromkeys(x for name in names for x in name.split("/")[:-1] if not x.isdecimal())
        raise ConfigError(f"no variable {place} has {part!r} in its name; names have {', '.join(known)}")
    return selected
