# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Python environments that step as a batch: `EnvBatch` in this process, `WorkerPool` in worker processes.

This package is not part of `alf.environments`, because that imports TensorFlow. A worker process starts in
0.2 s with 40 MiB; with TensorFlow it would need 4 s and 590 MiB.
"""

from alf.workers.env_batch import EnvBatch, make_rendered, takes_argument
from alf.workers.pool import WorkerPool
from alf.workers.process import can_pickle
from alf.workers.worker import WorkerError, WorkerSettings

__all__ = [
    "EnvBatch",
    "WorkerError",
    "WorkerPool",
    "WorkerSettings",
    "can_pickle",
    "make_rendered",
    "takes_argument",
]
