# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The file `progress.csv` of a run: the numbers that TensorBoard shows, one row for each summary."""

import contextlib
import csv
import io
import math
import os

from absl import logging

from alf.core.files import open_regular, replace_file

PROGRESS_FILE = "progress.csv"
ENV_STEPS, SECONDS = "env_steps", "seconds"
_DAMAGED = ".damaged"
_FIRST = [ENV_STEPS, SECONDS, "metrics/AverageReturn"]  # the columns that people look for


class ProgressFile:
    """Writes rows into a CSV file; a run that continues appends to the rows that are there.

    A name that appears later becomes a new column: the file is written anew, and earlier rows have an empty
    field there. If another program removes or changes the file, rows go on in a new one, or after the rows
    that it has then. What is no such file is kept under another name. The log says so.

    Args:
        path: of the file.
        env_steps: int, the environment steps of the checkpoint that the run continues from. The first row
            with more of them, and all rows after it, are dropped at the first `write`. None: the run is new,
            and all rows are dropped.
    """

    def __init__(self, path, env_steps=None):
        self._path = path
        self._begins_at = env_steps
        self._columns = None  # a list; None before the first `write`
        self._seconds_before = 0.0  # of the processes before
        self._left = None  # size and time of the file as the last `write` has left it

    def write(self, env_steps, seconds, values):
        """Appends a row; raises OSError if it cannot be written.

        Args:
            env_steps: int, environment steps learned from.
            seconds: number, since the first train step of this process.
            values: dict of numbers by name.
        """
        if self._columns is None:
            # Not in the constructor: a run that ends before its first summary leaves all rows as they were.
            self._open()
        elif (found := self._look()) != self._left or found is None:
            self._write_all(*self._read())
            logging.warning(
                "%s was %s by another program: %s",
                self._path,
                "removed" if found is None else "changed",
                "a new one begins" if found is None else "the next row follows the rows that it has now",
            )
        row = {ENV_STEPS: env_steps, SECONDS: f"{self._seconds_before + seconds:.3f}"}
        row |= {name: _format(value) for name, value in values.items()}
        new = [name for name in row if name not in self._columns]
        if new:
            self._add_columns(new)
        text, size = _to_csv([[row.get(name, "") for name in self._columns]]), self._left[0]
        try:
            with open(self._path, "r+b") as file:
                file.seek(size)
                file.write(text)
        except OSError:  # a full disk has cut the row off
            with contextlib.suppress(OSError):
                os.truncate(self._path, size)
            raise
        finally:
            self._left = self._look()

    def _open(self):
        """Keeps the rows that are not newer than the checkpoint from which the run continues."""
        columns, rows = [ENV_STEPS, SECONDS], []
        if self._begins_at is not None:
            columns, rows = self._read()
            # The steps after the checkpoint are made again, so their rows would be there twice.
            newer = [i for i, row in enumerate(rows) if float(row[0]) > self._begins_at]
            rows = rows[: newer[0]] if newer else rows
        self._write_all(columns, rows)
        # Seconds go on where the last row that is kept ended: the time between two processes does not count.
        self._seconds_before = float(rows[-1][1]) if rows else 0.0

    def _read(self):
        """Returns what `read_rows` does; sets aside a file that is not of a run's progress."""
        try:
            return read_rows(self._path)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and os.path.isfile(self._path):  # the disk fails, for example
                raise
            os.replace(self._path, self._path + _DAMAGED)
            logging.warning("%s: it is now %s, and a new file begins", error, self._path + _DAMAGED)
        return [ENV_STEPS, SECONDS], []

    def _look(self):
        """Returns the size and the time of the file, by which a change shows; None if there is no file."""
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(self._path)
            return found.st_size, found.st_mtime_ns
        return None

    def _add_columns(self, names):
        old, rows = self._read()
        columns = [*old, *names]
        columns.sort(key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
        rows = [dict(zip(old, row, strict=True)) for row in rows]
        self._write_all(columns, [[row.get(name, "") for name in columns] for row in rows])

    def _write_all(self, columns, rows):
        text = _to_csv([columns, *rows])
        with replace_file(self._path) as file:
            file.write(text)
        self._columns, self._left = columns, self._look()


def read_rows(path):
    """Reads the file: the columns, a list of texts, and the rows, lists of texts.

    A last row without a line end, which a killed run or a full disk leaves, is left out. OSError is raised if
    there is no such file, ValueError if it is not the file of a run's progress.
    """
    with open_regular(path, "rb") as file:
        text = file.read()
    try:
        text = text[: text.rfind(b"\n") + 1].decode()
        columns, *rows = [*csv.reader(io.StringIO(text, newline=""), strict=True)] or [[ENV_STEPS, SECONDS]]
        is_right = columns[:2] == [ENV_STEPS, SECONDS] and all(len(row) == len(columns) for row in rows)
        is_right = is_right and all(math.isfinite(float(field)) for row in rows for field in row[:2])
    except (ValueError, csv.Error):
        is_right = False
    if not is_right:
        raise ValueError(f"{path} is not the file of a run's progress")
    return columns, rows


def _to_csv(rows):
    lines = io.StringIO(newline="")
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return lines.getvalue().encode()


def _format(value):
    """Returns a number as text: integers in full, others with the nine digits that tell float32s apart."""
    # Above 2^53 a float64 does not hold every integer: all of its digits would claim too much.
    number = float(value)
    return f"{number:.0f}" if number.is_integer() and abs(number) < 2**53 else f"{number:.9g}"
