# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Stand-ins of what Ray's actors make: collectors that send what was recorded, evaluations with faults."""

import os
import signal
import sys
import time
import types

import numpy as np


class Recorded:
    """Sends recorded answers in their order, once, those of collector `index`; notes its process in a file.

    Args:
        answers: list by collector of lists of answers.
        folder: where to write the file "pid<index>"; None writes none.
        fault: "hang" or "raise" after 2 answers, and always again when it is asked; None: no fault.
        faulty_starts: how many starts have the fault.
    """

    def __init__(self, answers, folder=None, fault=None, faulty_starts=10**9):
        self._answers, self._folder, self._fault = answers, folder, fault
        self._faulty_starts = faulty_starts

    def __call__(self, index, num_restarts, num_groups, **settings):
        if self._folder is not None:
            with open(os.path.join(self._folder, f"pid{index}"), "w") as file:
                file.write(str(os.getpid()))
        fault = self._fault if num_restarts < self._faulty_starts else None
        return _Collector(self._answers[index], fault)


class _Collector:
    def __init__(self, answers, fault):
        self._answers, self._fault = iter(answers), fault
        self._count = 0

    def collect(self, weights=None):
        self._count += 1
        if self._fault == "hang" and self._count > 2:
            time.sleep(3600)
        if self._fault == "raise":
            raise KeyError("my own bug")
        for answer in self._answers:
            return answer
        time.sleep(3600)  # all are sent


class Endless:
    """Sends the first answer of each collector again and again, its rows counted on, as long as it is asked.

    Args:
        answers: list by collector of the answer to begin with, of `CountingEnvironment`s.
        unroll_length: T.
    """

    def __init__(self, answers, unroll_length):
        self._answers, self._unroll_length = answers, unroll_length
        self._count = 0

    def __call__(self, index, num_restarts, num_groups, **settings):
        self._answer = self._answers[index]
        return self

    def collect(self, weights=None):
        rows = [x.copy() for x in self._answer]
        for observation in rows:
            if observation.shape[-1:] == (3,):  # env id, row and step of the episode
                observation[..., 1] += self._count * self._unroll_length
        self._count += 1
        time.sleep(0.1)
        return rows


def make_obedient():
    """Makes a stand-in of what evaluates, for `RayEvaluator.start`."""
    return _obey


def _obey(order):
    """Does what it is told in place of weights, and tells where.

    Args:
        order: "answer", "die", "hang", "raise" or "exit", and the path of a file in which it notes the fault,
            which it does not repeat then. With None it does.
    """
    fault, path = order
    if fault != "answer" and not (path and os.path.exists(path)):
        if path:
            with open(path, "w") as file:
                file.write(str(os.getpid()))
        _FAULTS[fault]()
    import ray

    return {
        "node": ray.get_runtime_context().get_node_id(),
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "threads": os.environ.get("TF_NUM_INTRAOP_THREADS"),
        "pid": os.getpid(),
    }


def _raise():
    raise KeyError("my own bug")


_FAULTS = {
    "die": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": lambda: time.sleep(3600),
    "raise": _raise,
    "exit": lambda: sys.exit(3),
}


def make_teller(index, num_restarts, num_groups, **settings):
    """Makes a stand-in of a `Collector` that answers with its node's name, for `RayCollectors`."""
    import ray

    return types.SimpleNamespace(collect=lambda weights: [ray.get_runtime_context().get_node_id()])


class OneAnswer:
    """Sends one answer, the number of restarts, and no other one until it was replaced."""

    def __call__(self, index, num_restarts, num_groups, **settings):
        numbers = [num_restarts] if num_restarts == 0 else [num_restarts] * 10**4
        return _Collector([[np.array([number])] for number in numbers], fault=None)
