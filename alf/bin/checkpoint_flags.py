# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The flag of the commands that read a checkpoint."""

from absl import flags

CHECKPOINT = flags.DEFINE_string("checkpoint", "newest", "newest, best, a train iteration, or a path.")
