# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Compares runs: learning curves, intervals and scores, as pictures and tables."""
