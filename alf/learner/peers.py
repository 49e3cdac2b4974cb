# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Peers: learner processes, on several machines, that make each update together. An experiment.

Each process collects its own experience and has its own copy of the weights. The copies are always equal,
because all processes start with the weights of the first one and apply the same averaged gradients.
"""

import contextlib
import faulthandler
import re
import signal
import socket
import threading
import time
from typing import Annotated, Any

import tensorflow as tf

from alf.config.kinds import PositiveFloat
from alf.config.settings import PASSED, Role, configurable
from alf.core.tf_private import abort_exchanges
from alf.errors import ConfigError, LostPeerError
from alf.ops.reductions import sum_over_peers

_EXAMPLE = (
    '{"cluster": {"worker": ["10.0.0.1:4321", "10.0.0.2:4321"]}, "task": {"type": "worker", "index": 0}}'
)
_CONNECT_SECONDS = 60.0  # the time for TensorFlow to connect, once all processes have met


@configurable("alf.learner", "MultiWorkerMirroredStrategy", role=Role.EXECUTION)
def make_multi_worker_strategy(start_timeout: PositiveFloat = 600.0) -> Any:
    """Makes a `tf.distribute.MultiWorkerMirroredStrategy` of the processes that TF_CONFIG names.

    It starts TensorFlow, and a server at this process's port, so it must be called before any operation of
    TensorFlow: by `Experiment.strategy`.

    Args:
        start_timeout: seconds within which all other processes must start.

    Raises:
        ConfigError: if TF_CONFIG is wrong, its port is taken, or TensorFlow has started.
        LostPeerError: if another process does not start in time, or ends meanwhile.
    """
    addresses, index = _read_tf_config()
    _meet(addresses, index, start_timeout)
    # TensorFlow waits for the others without an end, and it holds the GIL, so no Python thread can watch it.
    # The timer of faulthandler is a thread in C: it prints the stacks and ends the process.
    faulthandler.dump_traceback_later(_CONNECT_SECONDS, exit=True)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise ConfigError(
            "MultiWorkerMirroredStrategy must be made before TensorFlow starts, as Experiment.strategy does, "
            f"and this program has started it ({error})"
        ) from None
    except tf.errors.OpError as error:
        raise LostPeerError(f"TensorFlow could not connect the learner processes: {error}") from None
    finally:
        faulthandler.cancel_dump_traceback_later()
        _take_signal_back(signal.SIGTERM)


def _read_tf_config():
    """Returns the addresses "host:port" of all processes, a list, and the index of this process."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    try:
        addresses, index = resolver.cluster_spec().as_dict()["worker"], resolver.task_id
        if resolver.task_type != "worker" or len(resolver.cluster_spec().jobs) > 1:
            raise ValueError("all tasks must be of the type 'worker'")
        int(addresses[index].rpartition(":")[2])
    except (ValueError, TypeError, LookupError) as error:
        raise ConfigError(
            f"MultiWorkerMirroredStrategy: the environment variable TF_CONFIG is wrong ({error!r}); for the "
            f"first of two processes it could be {_EXAMPLE}"
        ) from None
    return addresses, index


def _meet(addresses, index, timeout):
    """Waits until a process listens at every address. It listens itself at the address of this process."""
    deadline, port = time.monotonic() + timeout, int(addresses[index].rpartition(":")[2])
    try:
        server = socket.create_server(("", port))
    except OSError as error:
        raise ConfigError(f"MultiWorkerMirroredStrategy: TF_CONFIG has port {port} here: {error}") from None
    # The socket of this process lets the others find it until it has found them all. Then the port is closed
    # for a moment, until TensorFlow's server listens there: whoever still looks for this process finds the
    # server.
    with server:
        for other, address in enumerate(addresses):
            while other != index and not _listens(address):
                if time.monotonic() > deadline:
                    raise LostPeerError(
                        f"after MultiWorkerMirroredStrategy.start_timeout = {timeout:g} s nothing listens at "
                        f"{address}, where TF_CONFIG has learner process {other}"
                    )
                time.sleep(0.1)


def _listens(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
    except OSError:
        return False
    return True


def _take_signal_back(signum):
    """Installs Python's handler of a signal again, which TensorFlow's server has replaced."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signum, signal.getsignal(signum) or signal.SIG_DFL)


@configurable("alf.learner", role=Role.EXECUTION)
class Peers:
    """The learner processes of a strategy, and exchanges between them.

    All processes must make the same calls of `sum` and `copy_from_first` in the same order. With a strategy
    of one process, or None, there is only this process, and nothing is exchanged.

    Args:
        strategy: `tf.distribute.Strategy` or None.
        timeout: seconds for which a call such as `Learner.train` waits for processes that run, but do not
            make the same call. It must be more than the longest time between two updates, with checkpoints
            and slow environments. A process that has ended is noticed within seconds.

    Attributes:
        index, count: ints, the number of this process, from 0, and the number of processes.
    """

    def __init__(self, strategy: Annotated[Any, PASSED] = None, timeout: PositiveFloat = 1800.0) -> None:
        self._timeout = timeout
        self.index, self.count, self._strategy = 0, 1, None
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            self.count = strategy.num_replicas_in_sync // len(strategy.extended.worker_devices)
        if self.count > 1:
            self.index, self._strategy = strategy.cluster_resolver.task_id, strategy
            self._traced_sum = tf.function(self._sum, autograph=False)

    def scope(self):
        """Returns the context in which `alf.ops.reductions.sum_over_peers` sums over all processes."""
        return contextlib.nullcontext() if self._strategy is None else self._strategy.scope()

    def sum(self, x):
        """Sums a number or tensor over all processes; with one process it returns `x`."""
        if self._strategy is None:
            return x
        # Not a function in a graph: TensorFlow would take two calls of it for the same exchange.
        x = tf.convert_to_tensor(x)
        return self._traced_sum(x) if tf.executing_eagerly() else self._sum(x)

    def copy_from_first(self, variables):
        """Sets a list of variables to the values that they have in the first process."""

        def copy():
            for variable in variables:
                # A sum in which all but the first process add zeros, so it needs no other exchange.
                value = variable.read_value()
                variable.assign(self._sum(value if self.index == 0 else tf.zeros_like(value)))

        if self._strategy is not None:
            tf.function(copy, autograph=False)()

    def _sum(self, x):
        with self.scope():
            return sum_over_peers(x)

    @contextlib.contextmanager
    def watch(self):
        """Context of a wait for other processes; raises LostPeerError if one ends or does not answer."""
        if self._strategy is None:
            yield
            return
        # A timeout of TensorFlow's own would leave a thread behind, of each exchange, until it is over.
        reason = f"it waited for Peers.timeout = {self._timeout:g} s"
        # A timer of Python can fire during an exchange, which waits without the GIL, unlike the connection in
        # `make_multi_worker_strategy`.
        timer = threading.Timer(self._timeout, abort_exchanges, [reason])
        # A process that ends meanwhile must not wait for the timer.
        timer.daemon = True
        timer.start()
        try:
            yield
        except tf.errors.OpError as error:
            found = re.search("Collective .*(?:\n/job:.*)?", str(error))
            if not found:
                raise
            raise LostPeerError(
                f"learner process {self.index} of {self.count} cannot go on, because another one has ended, "
                f"does not answer or makes other updates: {' '.join(found[0].split())}"
            ) from None
        finally:
            timer.cancel()
