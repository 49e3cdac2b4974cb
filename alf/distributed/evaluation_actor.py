# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EvaluationActor: evaluates as a Ray actor. Without TensorFlow, which what it makes imports."""

import os

from alf.distributed.ray_process import make_here
from alf.errors import contain


class EvaluationActor:
    """Makes what evaluates when it is asked to, so that an error comes as an answer.

    Args:
        make_evaluate, import_paths: see `make_here`.
    """

    def __init__(self, make_evaluate, import_paths):
        self._make_evaluate, self._import_paths = make_evaluate, import_paths

    def start(self):
        """Makes the environments."""
        os.environ["TF_NUM_INTRAOP_THREADS"] = "1"  # Others have the cores; evaluation is in no hurry.
        self._evaluate = make_here(self._make_evaluate, self._import_paths)

    def evaluate(self, weights):
        """Evaluates a list of arrays, the weights; returns the figures."""
        try:
            return self._evaluate(weights)
        except BaseException as error:  # SystemExit would end this process without a word.
            raise contain(error, "an environment of the evaluation") from None
