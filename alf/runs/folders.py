# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the folder of a run, a sweep or a population holds, and how its state is read. Without TensorFlow."""

import json
import os

from alf.config.gin_files import CONFIG_FILE
from alf.errors import ConfigError

SWEEP_FILE, POPULATION_FILE = "sweep.json", "population.json"
_KINDS = {CONFIG_FILE: "a run", SWEEP_FILE: "a sweep", POPULATION_FILE: "a population"}


def check_kind(path, own_file):
    """Raises ConfigError if a folder holds another kind of work than the one whose file is `own_file`."""
    for name, kind in _KINDS.items():
        if name != own_file and os.path.exists(os.path.join(path, name)):
            raise ConfigError(f"root_dir {path!r} holds {kind}: choose another root_dir")


def checkpoints_of(path):
    """The directory of the checkpoints of the run in `path`."""
    return os.path.join(path, "checkpoints")


def has_checkpoints(path):
    """Whether the run in `path` has saved a checkpoint; without one it has nothing to lose."""
    folder = checkpoints_of(path)
    return os.path.isdir(folder) and bool(os.listdir(folder))


def read_state(path, shape):
    """Reads the JSON file in which a sweep or a population keeps its state.

    Args:
        path: of the file.
        shape: what the file holds. A dict by names has at least these; `{str: x}` has any names, and `[x]` is
            a list of any length. A tuple is one of several. `int` is at least 0, and `float` may be an
            integer.

    Returns:
        the content; None if there is no file.

    Raises:
        ConfigError: if the file cannot be read, or holds something else.
    """
    try:
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise damaged(path, error.strerror or error) from None
    except (RecursionError, ValueError) as error:
        raise damaged(path, error) from None
    fault = _find_fault(state, shape, "its content")
    if fault is not None:
        raise damaged(path, f"{fault} is wrong")
    return state


def damaged(path, reason):
    """Returns the ConfigError of a state that cannot be gone on with."""
    return ConfigError(
        f"{path} cannot be read: {reason}; put a good copy of it there, or choose another root_dir"
    )


def _find_fault(value, shape, name):
    """Returns the name of a part of a value that is not as its shape says; None if all are."""
    if isinstance(shape, tuple):
        return name if all(_find_fault(value, x, name) for x in shape) else None
    if isinstance(shape, list) and isinstance(value, list):
        parts = [(x, shape[0], f"{name}[{i}]") for i, x in enumerate(value)]
    elif isinstance(shape, dict) and isinstance(value, dict):
        shapes = dict.fromkeys(value, shape[str]) if str in shape else shape
        parts = [(value.get(x, ...), shapes[x], f"{name}[{x!r}]") for x in shapes]
    else:
        return None if _is_of_kind(value, shape) else name
    return next((fault for part in parts if (fault := _find_fault(*part))), None)


def _is_of_kind(value, kind):
    if kind is None or value is None:
        return value is kind
    if isinstance(value, bool):
        return kind is bool
    if kind is int:
        return isinstance(value, int) and value >= 0
    return isinstance(kind, type) and isinstance(value, (int, float) if kind is float else kind)
