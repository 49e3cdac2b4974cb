# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Injects faults into real training, and checks what happens: `python -m benchmarks.faults --table`."""
