# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The leanest programs that compute the numbers of ALF's updates, see `benchmarks.limits.__main__`."""
