# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Benchmarks; each module is a command."""
