# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The standard streams of a command: neither a closed one nor a full disk ends it.

What a command writes to a file, the checkpoints of a run for instance, matters more than what it prints.
"""

import errno
import io
import os
import sys


def open_closed_streams():
    """Opens the null device in the place of each standard stream that is closed, as after `2>&-`.

    Else the next file, such as a checkpoint, would get its number, and what C++ writes to stderr would be in
    that file. Call it before anything opens a file.
    """
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(fd, True)
            setattr(sys, name, open(fd, mode))  # noqa: SIM115  (it stays open)


class Output(io.FileIO):
    """The bytes of a text stream. After the first error of a write it takes all bytes and writes none.

    Args:
        fd: the number of the stream.

    Attributes:
        error: OSError that a write has raised, or None.
    """

    def __init__(self, fd):
        super().__init__(fd, "w", closefd=False)
        self.error = None

    def write(self, data):
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
        return memoryview(data).nbytes

    def find_fault(self):
        """Says why something is not written; None if all is, or if a pipe's reader wants no more."""
        if self.error is None or self.error.errno == errno.EPIPE:
            return None
        return self.error.strerror


def make_lasting(stream):
    """Returns a text stream like one of `sys`, but no write raises an error; and its `Output`."""
    output = Output(stream.fileno())
    buffer = output if stream.write_through else io.BufferedWriter(output)
    modes = dict(line_buffering=stream.line_buffering, write_through=stream.write_through)
    # A path may have bytes that are no text.
    return io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", **modes), output
