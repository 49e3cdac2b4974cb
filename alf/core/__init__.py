# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Tools without reinforcement learning: nests, files, random numbers, TensorFlow's threads."""
