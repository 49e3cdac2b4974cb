# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The commands. Their modules define flags, and import TensorFlow, or modules that need it, only in `run`."""

from alf.bin.signals import end_at_interrupts

# Here, because this package is imported before the modules of the commands, whose imports take seconds.
end_at_interrupts()
