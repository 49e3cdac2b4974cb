# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ALF, the Agent Learning Framework: asynchronous off-policy reinforcement learning on TensorFlow."""

import contextlib
import os
import sys

# Makes `tf.keras` Keras 2, which TF-Agents needs; must happen before TensorFlow is imported.
if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() not in ("1", "true"):
    if "tensorflow" in sys.modules:
        raise ImportError(
            "TensorFlow was imported before ALF and uses Keras 3, which TF-Agents cannot work with: "
            "import alf first, or set TF_USE_LEGACY_KERAS=1 in the environment."
        )
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
# Hides TensorFlow's start-up notices about CPU features and absent GPUs; errors still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Empties the notice that Gym prints when TF-Agents imports it. ALF uses Gymnasium.
with contextlib.suppress(ImportError):
    import gym_notices.notices

    gym_notices.notices.notices.clear()

from alf.version import __version__  # noqa: E402

__all__ = ["__version__", "load_agent"]


def __getattr__(name):
    if name == "load_agent":  # TensorFlow is imported only now
        from alf.startup import start_tensorflow

        start_tensorflow()
        from alf.training.saved_run import load_agent

        return load_agent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
