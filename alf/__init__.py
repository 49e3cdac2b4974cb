# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ALF, the Agent Learning Framework: asynchronous off-policy reinforcement learning on TensorFlow."""

import contextlib
import os
import sys

_KERAS_SWITCH = "TF_USE_LEGACY_KERAS"


def _use_legacy_keras():
    """Makes `tf.keras` Keras 2, which TF-Agents needs; must happen before TensorFlow is imported."""
    if os.environ.get(_KERAS_SWITCH, "").lower() in ("1", "true"):
        return
    if "tensorflow" in sys.modules:
        raise ImportError(
            "TensorFlow was imported before ALF and uses Keras 3, which TF-Agents cannot work with: "
            f"import alf first, or set {_KERAS_SWITCH}=1 in the environment."
        )
    os.environ[_KERAS_SWITCH] = "1"


def _silence_gym():
    """Empties the notice that Gym prints when TF-Agents imports it. ALF uses Gymnasium."""
    with contextlib.suppress(ImportError):
        from gym_notices import notices

        notices.notices.clear()


_use_legacy_keras()
_silence_gym()
# Hides TensorFlow's start-up notices about CPU features and absent GPUs; errors still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from alf.version import __version__  # noqa: E402

__all__ = ["__version__"]
