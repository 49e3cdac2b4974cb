# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Collectors and evaluation in processes that Ray starts, on this machine or others."""
