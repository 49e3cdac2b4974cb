# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the training thread calls: a callback, a summary and a loss that do what the variable says (`envs`).

Here `where` of a fault is the name of a method of a callback, "summary" or "loss".
"""

import gin
import tensorflow as tf

import alf
from alf.algorithms import ImpalaAlgorithm
from benchmarks.faults.envs import Fault


@gin.configurable
class FaultyCallback(alf.training.Callback):
    """Does what the variable says in one of its methods."""

    def __init__(self):
        self._fault = Fault()

    def on_train_iter(self, trainer, summary):
        self._fault.act("on_train_iter")

    def get_state(self):
        return self._fault.act("get_state")

    def on_end(self, trainer, reason):
        self._fault.act("on_end")

    def on_close(self, trainer):
        self._fault.act("on_close")


@gin.configurable
class FaultySummary:
    """Does so in a summary."""

    def __init__(self):
        self._fault = Fault()

    def __call__(self, trainer):
        self._fault.act("summary")


@gin.configurable
class FaultyImpala(ImpalaAlgorithm):
    """Does so in its loss, in Python code that its graph calls."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._fault = Fault()

    def calc_loss(self, experience, train_info):
        tf.py_function(self._act, [self.progress.updates], [])
        return super().calc_loss(experience, train_info)

    def _act(self, updates):
        self._fault.act("loss")
