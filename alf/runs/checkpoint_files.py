# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The files of checkpoints. Checkpoint N, of train iteration N, is the folder `checkpoints/ckpt-N` with:

    weights.index, weights.data-00000-of-00001: TensorFlow's checkpoint of all variables, which
        `tf.train.load_checkpoint("ckpt-N/weights")` reads. TensorFlow checks its own checksum of each value.
    state.json: the state that Python keeps, with a checksum.
    replay_buffer.npz: the experience (`alf.replay.buffer_archive`), only with `Experiment.deterministic`.
    evaluation.json: the figures of an evaluation, only in `checkpoints/best`.

The folder gets its name when it is whole, and nothing in it changes afterwards. The name `ckpt-N.diverged`
says that these weights led to an update that was not finite. The folders `best` and `evaluated` in
`checkpoints` have one checkpoint each, which the evaluations of a run keep there.
"""

import contextlib
import glob
import json
import math
import os
import re
import shutil
import zlib

import tensorflow as tf
from absl import logging

from alf.core.files import open_regular, remove_folder, replace_folder, without_pattern, write_file
from alf.errors import ConfigError
from alf.runs.checkpoint_variables import list_some, match_variables, read_values

DIVERGED = ".diverged"
_WEIGHTS, _STATE, _EVALUATION = "weights", "state.json", "evaluation.json"


class DamagedError(ConfigError):
    """A checkpoint lacks files, or they are not what was written."""


def path_of(folder, number):
    """Returns the path of checkpoint `number` in a folder."""
    return os.path.join(folder, f"ckpt-{number}")


def is_checkpoint(path):
    """Whether a folder is a checkpoint, which may be damaged."""
    return os.path.exists(os.path.join(path, f"{_WEIGHTS}.index"))


def list_numbers(folder, ending=""):
    """Lists the numbers, ascending, of the checkpoints in a folder whose names have this ending."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = (re.fullmatch(rf"ckpt-(\d+){re.escape(ending)}", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def write_weights(folder, root):
    """Writes all variables below a `tf.train.Checkpoint` into a folder."""
    root.write(os.path.join(folder, _WEIGHTS))


def write_state(folder, state):
    """Writes a dict of JSON into a folder."""
    text = json.dumps(state)
    with open(os.path.join(folder, _STATE), "w", encoding="utf-8") as file:
        file.write(f'{{"crc32": {_checksum(text)},\n"state": {text}}}\n')


def read_state(path):
    """Reads the dict of `write_state` from a checkpoint; raises DamagedError."""
    with _damages(path, _STATE):
        with open_regular(os.path.join(path, _STATE), encoding="utf-8") as file:
            content = json.load(file)
        if _checksum(json.dumps(content["state"])) != content["crc32"]:
            raise ValueError("it has another checksum")
        return content["state"]


def _checksum(text):
    return zlib.crc32(text.encode())


def read_variables(path, root, what):
    """Reads the values of all variables below an object, and assigns none.

    Args:
        path: of the checkpoint.
        root: object; the same attributes lead to the same variables in the checkpoint. The checkpoint may
            have more: a policy is restored from the checkpoint of a whole learner.
        what: text that names the object in errors, for example "policy".

    Returns:
        list of pairs (variable, NumPy array).

    Raises:
        DamagedError: if the files are damaged.
        ConfigError: if they do not fit.
    """
    with open_weights(path) as reader:
        values, misfits = read_values(reader, *match_variables(reader, root))
    if misfits:
        raise ConfigError(f"the checkpoint {path} does not fit this {what}: {list_some(misfits)}")
    return values


@contextlib.contextmanager
def open_weights(path):
    """Context manager that yields `tf.train.load_checkpoint`; errors of the files become a DamagedError."""
    with _damages(path, _WEIGHTS), without_pattern(os.path.abspath(path)) as folder:
        for file in glob.glob(os.path.join(glob.escape(path), f"{_WEIGHTS}.*")):
            open_regular(file).close()  # TensorFlow would wait for a pipe
        yield tf.train.load_checkpoint(os.path.join(folder, _WEIGHTS))


@contextlib.contextmanager
def _damages(path, name):
    try:
        yield
    except ConfigError:
        raise
    # What TensorFlow and `json` raise for files that are missing, cut off or changed.
    except (OSError, tf.errors.OpError, ValueError, TypeError, LookupError) as error:
        raise DamagedError(f"the checkpoint {path} is damaged: {name}: {tell(error)}") from None


def read_first(paths, read):
    """Reads the first of several checkpoints that is not damaged; logs those that are.

    Args:
        paths: list of paths.
        read: callable that takes a path and may raise DamagedError.

    Returns:
        (path, what `read` returned).

    Raises:
        DamagedError: if all are damaged.
    """
    damages = []
    for path in paths:
        try:
            content = read(path)
        except DamagedError as error:
            damages.append(str(error))
            continue
        for damage in damages:
            logging.error("%s; %s is taken in its place", damage, path)
        return path, content
    raise DamagedError("; ".join(damages))


def tell(error):
    """Returns the text of a file's error, without the names of TensorFlow's functions and operations."""
    return re.sub(r"\{\{function_node .*?\}\} | \[Op:\w+\]", "", str(error))


def remove(path):
    """Removes a checkpoint, or logs why it stays: the run can go on with it."""
    try:
        remove_folder(path)
    except OSError as error:
        logging.warning("the checkpoint %s cannot be removed: %s", path, error)


def keep_best(path, folder, evaluation):
    """Keeps a checkpoint in a folder, in place of the checkpoints there; returns its path there.

    The files are links to the same content where the file system can do that, so that they cost no space.

    Args:
        path: of the checkpoint.
        folder: path of the folder.
        evaluation: dict of JSON, the content of `evaluation.json`.
    """
    kept = os.path.join(folder, os.path.basename(path))
    with replace(kept) as new:
        for name in os.listdir(path):
            _link(os.path.join(path, name), os.path.join(new, name))
        write_file(os.path.join(new, _EVALUATION), json.dumps(evaluation, indent=1) + "\n")
    # Afterwards: a kill before leaves both, of which `list_best` says which is the better one.
    remove_others(kept)
    return kept


def list_best(folder, reward_weights=None):
    """Lists (score of its evaluation, path) of each checkpoint in a folder, the best one first.

    Args:
        folder: path.
        reward_weights: list of the present weights of a vector reward; None: those of the evaluation.
    """
    paths = [path_of(folder, number) for number in list_numbers(folder)]
    return sorted(((_read_score(path, reward_weights), path) for path in paths), reverse=True)


def score(figures, reward_weights=None):
    """Returns the mean return in the figures of an evaluation: of a vector reward, with its weights."""
    if reward_weights is None:
        return float(figures["return"]["mean"])
    return float(sum(w * figures[f"return_{i}"]["mean"] for i, w in enumerate(reward_weights)))


def _read_score(path, reward_weights):
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError):
        with open_regular(os.path.join(path, _EVALUATION), encoding="utf-8") as file:
            content = json.load(file)
        value = score(content["figures"], reward_weights or content.get("reward_weights"))
        if math.isfinite(value):
            return value
    logging.warning("%s is damaged: any evaluation is better than it", os.path.join(path, _EVALUATION))
    return -math.inf


def remove_others(path):
    """Removes all other checkpoints in the folder of a checkpoint."""
    folder = os.path.dirname(path)
    for number in list_numbers(folder):
        if path_of(folder, number) != path:
            remove(path_of(folder, number))


@contextlib.contextmanager
def replace(path):
    """Context manager that yields a new folder, which becomes the checkpoint at `path` at the end."""
    # The folder of the checkpoints, but not its parent: if somebody has removed or renamed a root_dir, it
    # stays so.
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.dirname(path))
    with replace_folder(path) as folder:
        yield folder


def _link(source, target):
    try:
        # Safe although two names share the content: files of a checkpoint are never written again.
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)
