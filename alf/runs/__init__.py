# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Runs: `Experiment` makes the parts of a run. The other modules read and write the run's directory."""
