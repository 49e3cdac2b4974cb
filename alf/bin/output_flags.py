# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The flag of the commands that write a file or a folder which must not exist."""

from absl import flags

OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replaces what an earlier call has written.")
