# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ALF, the Agent Learning Framework: asynchronous off-policy reinforcement learning on TensorFlow.

The way of the data: a driver (`alf.drivers`) steps environments (`alf.environments`) with a policy
(`alf.policies`). A learner (`alf.learner`) keeps the experience in a replayer (`alf.replay`), computes the
loss of an algorithm (`alf.algorithms`) and updates the weights. `alf.training` repeats this, `alf.runs` makes
the parts and keeps them on disk, and `alf.bin` has the commands. docs/architecture.md shows all parts.
"""

import importlib
import re
from pathlib import Path

from alf.core.startup import import_tensorflow

# What a program calls that knows nothing of TensorFlow, which then starts as in ALF's commands.
_QUIET = {"benchmark", "check", "evaluate", "export", "load_agent", "pbt", "play", "plot", "replicate"}
_QUIET |= {"settings", "sweep", "train"}
# One line for each name: "from MODULE import NAME as NAME".
_LINES = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_MODULES = {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", _LINES, re.MULTILINE)}

__all__ = sorted(_MODULES)


def __getattr__(name):
    """Imports what is asked for, and with it TensorFlow: `import alf` alone imports nothing of it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULES[name] == __name__:
        return importlib.import_module(f"alf.{name}")
    if name in _QUIET:
        import_tensorflow()
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value  # the next time nobody asks here
    return value


def __dir__():
    return sorted({*globals(), *__all__})
