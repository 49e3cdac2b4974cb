# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Prints what a command says."""

import os
import sys


def show(text):
    """Prints a text. Its reader may close the pipe early, for example `alf train --help | head -1`."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # At exit Python writes the rest of its buffer, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
