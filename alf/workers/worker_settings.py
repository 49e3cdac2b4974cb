# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WorkerSettings: the settings of worker processes."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from alf.config.kinds import Above, AtMost, NonNegativeInt, PositiveInt
from alf.config.settings import Role, Timeout, configurable

# Python counts the nanoseconds of a time-out in 64 bits, which overflow at 9.2e9 seconds.
_MAX_SECONDS = 10**9

WorkerTimeout = Annotated[float, Above(0), AtMost(_MAX_SECONDS), Role.EXECUTION]  # seconds


@configurable("alf.workers", role=Role.EXECUTION)
@dataclasses.dataclass(frozen=True)
class WorkerSettings:
    """Settings of worker processes: time limits, restarts, cores and starts.

    Args:
        start_timeout: seconds in which a worker must make its environments.
        step_timeout: seconds in which a worker must reset or step its environments.
        close_timeout: seconds in which all workers must close their environments at the end. Workers that
            have not are killed, with a warning and their stacks. At most `Monitoring.stop_timeout`, or the
            driver complains first.
        max_restarts: how many restarts of workers, together, are allowed within `restart_period`; the next
            one ends the run. A worker that cannot make its environments counts, too.
        restart_on_error: whether an environment that raises, in a step or a reset, is made again, and begins
            a new episode. It counts as a restart, and the others go on with their episodes. Such a step may
            take `start_timeout` more. False ends the run with the exception.
        restart_period: seconds, the length of the sliding window in which restarts count.
        pin_workers: whether each worker stays on one core.
        gpus: numbers of GPUs, counted among those that this process may use (CUDA_VISIBLE_DEVICES). Each
            worker sees one of them: the first worker the first one, and so on in turn. Without any, workers
            see no GPU.
        single_threaded: whether the numerical libraries of workers use one thread.
        worker_nice: added to the niceness of the owner. The operating system prefers processes with a lower
            niceness.
        max_concurrent_starts: how many workers may start and make environments at the same time; None for
            all.
        heartbeat_interval: seconds. The log names workers that have not answered for this long, in one line,
            and again after each further interval.
    """

    start_timeout: WorkerTimeout = 120.0
    step_timeout: WorkerTimeout = 60.0
    close_timeout: WorkerTimeout = 3.0
    max_restarts: NonNegativeInt = 3
    restart_period: Timeout = 600.0
    restart_on_error: bool = False
    pin_workers: bool = False
    gpus: Sequence[NonNegativeInt] = ()
    single_threaded: bool = True
    worker_nice: NonNegativeInt = 0
    max_concurrent_starts: PositiveInt | None = None
    heartbeat_interval: WorkerTimeout = 20.0
