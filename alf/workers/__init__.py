# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Python environments that step as a batch: `EnvBatch` in this process, `WorkerPool` in worker processes.

Nothing here imports TensorFlow, because worker processes import this package: they start in 0.2 s with 40 MiB
each, and would need 4 s and 590 MiB with TensorFlow.
"""

from alf.workers.env_batch import EnvBatch
from alf.workers.env_calls import make_limited, make_rendered, takes_argument
from alf.workers.pool import WorkerPool
from alf.workers.restarted_batch import RestartedBatch
from alf.workers.worker import WorkerError
from alf.workers.worker_settings import WorkerSettings

__all__ = [
    "EnvBatch",
    "RestartedBatch",
    "WorkerError",
    "WorkerPool",
    "WorkerSettings",
    "make_limited",
    "make_rendered",
    "takes_argument",
]
