# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf-train with a standard output to which nothing can be written: functions for a `ForkServer`."""

import os

from alf.bin import train


def closed_pipe():
    """The reader of the output has gone, as after `| true`."""
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 1)
    train.console_main()


def full_disk():
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    train.console_main()
