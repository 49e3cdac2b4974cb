# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The file `digests.csv` of a run with `Experiment.deterministic`: checksums by which runs are compared.

It has the columns of a `ProgressFile`, `iterations`, and `digest`: the CRC-32 of all learned variables after
so many train iterations.
"""

import os
import zlib

from alf.runs.progress_file import read_rows

DIGESTS_FILE = "digests.csv"


def is_noted(iterations):
    """Returns whether the file has a row for this iteration: up to 1,000 each, up to 10,000 each tenth, ...

    This does not depend on the clock, so two runs have rows for the same iterations.
    """
    return iterations % 10 ** max(0, len(str(iterations)) - 3) == 0


def compute_digest(variables):
    """Returns the CRC-32, an int, of a list of variables in their order."""
    digest = 0
    for variable in variables:
        digest = zlib.crc32(variable.numpy().tobytes(), digest)
    return digest


def read_digests(root_dir):
    """Returns the digests of a run, a dict from iteration to text; FileNotFoundError without a file."""
    columns, rows = read_rows(os.path.join(root_dir, DIGESTS_FILE))
    rows = [dict(zip(columns, row, strict=True)) for row in rows]
    return {int(row["iterations"]): row["digest"] for row in rows}


def find_split(digests, others):
    """Compares two dicts of `read_digests`.

    Returns:
        the last iteration up to which they agree, and the first one at which they differ, ints. The former is
        None if they differ from the beginning or have no iteration in common, the latter if they do not
        differ.
    """
    agree = None
    for iteration in sorted({*digests} & {*others}):
        if digests[iteration] != others[iteration]:
            return agree, iteration
        agree = iteration
    return agree, None
