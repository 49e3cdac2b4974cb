# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The command `alf`: a module for each of its subcommands.

A subcommand has flags, `FLAGS`, a function `run(arguments)` that returns the exit status, and a docstring,
which is its help. It imports TensorFlow, or modules that need it, only in `run`.
"""
