# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The files of checkpoints. Checkpoint N, of train iteration N, has these in the folder `checkpoints`:

    ckpt-N.index, ckpt-N.data-00000-of-00001: TensorFlow's checkpoint; `tf.train.load_checkpoint` reads it.
    ckpt-N.partial: an empty file, which is there while the others are written or removed. Where it stays
        without `ckpt-N.complete`, that was cut off, and the next save removes the checkpoint.
    ckpt-N.complete: JSON; the number of updates, and the CRC-32 of each of TensorFlow's files. It is written
        last. A checkpoint whose files have other checksums, or that has neither of these two files because
        somebody copied only TensorFlow's, is damaged.
    ckpt-N.diverged: `ckpt-N.complete` under another name: these weights led to an update that was not finite.

The folders `best` and `evaluated` in `checkpoints` have one checkpoint each, which the evaluations of a run
keep there. The path of a checkpoint, here and in TensorFlow, ends in "ckpt-N".
"""

import contextlib
import json
import os
import re
import shutil
import zlib

import tensorflow as tf

from alf.core.files import replace_file
from alf.errors import ConfigError
from alf.runs.checkpoint_variables import find_misfits, list_some

PARTIAL, COMPLETE, DIVERGED = ".partial", ".complete", ".diverged"
_CHUNK_BYTES = 1 << 24  # read at once for a checksum: 16 MiB


def path_of(folder, number):
    """Returns the path of checkpoint `number` in a folder."""
    return os.path.join(folder, f"ckpt-{number}")


def list_numbers(folder, ending=COMPLETE):
    """Lists the numbers, ascending, of the checkpoints that have a file with this ending; None: any file."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    pattern = r"[._].*" if ending is None else re.escape(ending)
    found = (re.fullmatch(rf"ckpt-(\d+){pattern}", name) for name in names)
    return sorted({int(match[1]) for match in found if match})


def list_finished(folder):
    """Lists the numbers, ascending, of the checkpoints that were not cut off or set aside.

    Some may be damaged.
    """
    # `.complete` decides, whatever else is there. Without it TensorFlow's index counts, unless a marker says
    # that the write was cut off or that the weights were set aside: somebody has copied only TensorFlow's
    # files, and `find_damage` then names the file that is missing.
    unmarked = {*list_numbers(folder, ".index")} - {*list_numbers(folder, PARTIAL)}
    return sorted({*list_numbers(folder)} | unmarked - {*list_numbers(folder, DIVERGED)})


def list_cut_off(folder):
    """Lists the numbers, ascending, of the checkpoints whose write or removal was cut off."""
    whole = {*list_numbers(folder), *list_numbers(folder, DIVERGED)}
    return sorted({*list_numbers(folder, PARTIAL)} - whole)


def begin(path):
    """Marks a checkpoint as partial, and removes all other files that it has. Then it can be written."""
    folder, start = os.path.split(path)
    make_folder(folder)
    # First: if this process is killed now, the rest counts as cut off, and never as a damaged checkpoint.
    open(path + PARTIAL, "wb").close()
    with contextlib.suppress(OSError):
        # The promise goes before the files that it is about.
        os.remove(path + COMPLETE)
    for name in os.listdir(folder):
        if re.match(rf"{re.escape(start)}[._]", name) and name != start + PARTIAL:
            file = os.path.join(folder, name)  # TensorFlow writes in a temporary folder
            shutil.rmtree(file) if os.path.isdir(file) else os.remove(file)


def mark_complete(path, updates):
    """Writes the file that makes a checkpoint complete; `updates`, an int, counts the updates of its weights.

    Call this last: the checksums put the other files on the disk, and only then is the checkpoint promised.
    """
    folder, start = os.path.dirname(path), os.path.basename(path)
    # Listed before `.complete` exists, which cannot have a checksum of itself.
    names = [n for n in os.listdir(folder) if n.startswith(start + ".") and n != start + PARTIAL]
    checksums = {name: _checksum(os.path.join(folder, name)) for name in names}
    with replace_file(path + COMPLETE) as file:
        file.write(json.dumps({"updates": updates, "crc32": checksums}).encode())
    with contextlib.suppress(OSError):
        os.remove(path + PARTIAL)


def read_complete(path):
    """Reads the dict that `mark_complete` has written; a damaged file may raise nearly any error."""
    with open(path + COMPLETE, "rb") as file:
        return json.loads(file.read())


def find_damage(path):
    """Returns None if a checkpoint is whole, or a text that says how it is damaged."""
    if not os.path.exists(path + COMPLETE):
        return f"{os.path.basename(path)}{COMPLETE} is missing, copy it, too"
    try:
        for name, checksum in read_complete(path)["crc32"].items():
            # All files are read before any variable is assigned: the run can still take the checkpoint
            # before.
            if _checksum(os.path.join(os.path.dirname(path), name)) != checksum:
                return f"{name} has another checksum"
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return repr(error)
    return None


def read_into(checkpoint, path, what):
    """Gives the objects of a `tf.train.Checkpoint` the values of a checkpoint's files.

    Raises:
        ConfigError: if the files do not fit; its text calls the objects `what`, for example "policy".
        OSError, tf.errors.OpError: if the files cannot be read.
    """
    misfits = find_misfits(checkpoint, tf.train.load_checkpoint(path))
    if misfits:  # Checked here because TensorFlow would show the values of all variables, and warn.
        raise ConfigError(f"the checkpoint {path} does not fit this {what}: {list_some(misfits)}")
    # `write` made the files, so `read` and not `restore`, which expects a counter of saves. Parts may
    # stay unused: a policy is restored from the checkpoint of a whole learner.
    checkpoint.read(path).assert_existing_objects_matched().expect_partial()


def tell(error):
    """Returns the text of a file's error, without the names of TensorFlow's functions and operations."""
    return re.sub(r"\{\{function_node .*?\}\} | \[Op:\w+\]", "", str(error))


def remove(path):
    """Removes all files of a checkpoint."""
    with contextlib.suppress(OSError):
        begin(path)
        # The marker goes last: a kill before leaves a checkpoint that counts as cut off, not a damaged one.
        os.remove(path + PARTIAL)


def keep(path, folder):
    """Keeps a checkpoint in another folder, in place of the checkpoint there; returns its path there.

    The files are links to the same content where the file system can do that, so that they cost no space.
    """
    make_folder(folder)
    source, name = os.path.split(path)
    kept = os.path.join(folder, name)
    begin(kept)
    # ".complete" comes last, and old checkpoints go only after that: a kill leaves the old one.
    parts = [part for part in os.listdir(source) if part.startswith(f"{name}.")]
    for part in sorted(parts, key=lambda part: part.endswith(COMPLETE)):  # False before True
        _link(os.path.join(source, part), os.path.join(folder, part))
    os.remove(kept + PARTIAL)
    remove_others(kept)
    return kept


def remove_others(path):
    """Removes all other checkpoints in the folder of a checkpoint."""
    folder = os.path.dirname(path)
    for number in list_numbers(folder, ending=None):
        if path_of(folder, number) != path:
            remove(path_of(folder, number))


def make_folder(folder):
    """Makes a folder, but not its parent: if somebody has removed or renamed a root_dir, it stays so."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)


def _link(source, target):
    try:
        # Safe although two names share the content: files of a checkpoint are never written again.
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)


def _checksum(path):
    """Returns the CRC-32 of a file, after its content has reached the disk."""
    checksum = 0
    with open(path, "rb") as file:
        os.fsync(file.fileno())  # The kernel may else write ".complete" to the disk before this file.
        while chunk := file.read(_CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
    return checksum
