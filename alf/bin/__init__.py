# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The commands. Their modules have the flags, and import TensorFlow, or what needs it, only in `run`."""

from alf.bin.signals import end_at_interrupts

end_at_interrupts()
