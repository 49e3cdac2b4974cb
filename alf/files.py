# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Files that are there as a whole or not at all."""

import contextlib
import os


@contextlib.contextmanager
def replace_file(path):
    """Gives a binary file to write, which becomes `path` when the block ends without an error.

    Until then its name ends in ".tmp". What has that name before, a link for instance, is removed and not
    followed. OSError is raised if the file cannot be written.
    """
    unfinished = f"{path}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.remove(unfinished)
    try:
        with open(unfinished, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(unfinished)
        raise
