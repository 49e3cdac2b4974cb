# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EvaluationActor: evaluates as a Ray actor. Only the function that it makes imports TensorFlow."""

import os

from alf.distributed.ray_process import make_here
from alf.errors import contain


class EvaluationActor:
    """Makes the function that evaluates in `start`, not before, so that an error comes as an answer.

    Args:
        make_evaluate, import_paths: arguments of `make_here`.
    """

    def __init__(self, make_evaluate, import_paths):
        self._make_evaluate, self._import_paths = make_evaluate, import_paths

    def start(self):
        """Makes the environments and the function that evaluates."""
        # Other processes need the cores, and evaluation may be slow. TensorFlow reads it when it starts.
        os.environ["TF_NUM_INTRAOP_THREADS"] = "1"
        self._evaluate = make_here(self._make_evaluate, self._import_paths)

    def evaluate(self, weights):
        """Evaluates a list of arrays, the weights; returns the result."""
        try:
            return self._evaluate(weights)
        except BaseException as error:  # Also SystemExit, which would end this process without a message.
            raise contain(error, "an environment of the evaluation") from None
