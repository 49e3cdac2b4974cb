# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Python environments, in this process or in worker processes. Nothing in here imports TensorFlow.

EnvBatch steps environments one after another into arrays; WorkerPool does the same through processes
that share the arrays.
"""

from alf.workers.env_batch import EnvBatch
from alf.workers.pool import WorkerError, WorkerPool

__all__ = ["EnvBatch", "WorkerError", "WorkerPool"]
