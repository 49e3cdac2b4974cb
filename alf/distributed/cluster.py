# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Connects this process to a Ray cluster."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time

from alf.distributed.ray_process import first_line
from alf.errors import ConfigError, EnvError, import_extra

_ANSWER_SECONDS = 10.0  # for a connection to the address
# Ray ends the processes of its cluster 60 s after the global control service (GCS) has stopped answering. A
# service that is restarted answers again within a few seconds.
_LOST_SECONDS = 20.0
_LOOK_SECONDS = 1.0


def connect(address=None, log_to_driver=True):
    """Connects to a Ray cluster, or starts Ray on this machine; does nothing after a call of `ray.init`.

    Ray that is started here has no dashboard. It listens only on the loopback address, so that other machines
    cannot reach it, unless the program has imported Ray before. Its processes are in sessions of their own:
    what a terminal or `timeout` sends to all processes of a run reaches only the run, which saves and ends
    them. If this process is killed, the kernel kills them.

    Args:
        address: text, the address of a cluster, such as "auto" or "10.0.0.1:6379". None takes the address in
            the environment variable RAY_ADDRESS, and starts Ray if that is not set.
        log_to_driver: whether the output of Ray's processes is shown here.

    Returns:
        the module `ray`.

    Raises:
        ConfigError: if Ray is not installed, no cluster answers, or Ray does not start on this machine.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    settings = {}
    if address == "local":
        settings = {"include_dashboard": False}
        # Must come before the import: Ray reads it there and takes the loopback address. `_node_ip_address`
        # does not do that.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        # Ray's processes inherit it. Else Ray gives its actors a nice value of 15, so that on full cores
        # the learner gets about 28 times as much as a collector.
        os.environ.setdefault("RAY_worker_niceness", "0")
    ray = import_extra("ray", "ray")
    if ray.is_initialized():
        return ray
    _check_answer(address)
    handler = signal.getsignal(signal.SIGTERM)  # `ray.init` replaces it.
    try:
        with _own_sessions():
            ray.init(address, logging_level="warning", log_to_driver=log_to_driver, **settings)
    except Exception as error:  # Ray raises many types, and `Exception` itself if its processes do not start.
        if address != "local":
            raise ConfigError(f"no Ray cluster answers at {address!r}: {error}") from None
        folder = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
        raise ConfigError(
            f"Ray did not start on this machine: {first_line(error)}: it needs memory, processes, open files "
            f"(ulimit) and room in {folder} (RAY_TMPDIR names another folder, whose path must be short); its "
            f"logs are in {folder}/ray/session_latest/logs"
        ) from None
    finally:
        # Ray's own handler would end the process before the run is saved. Only the main thread may install
        # handlers, and only there does Ray do so.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
    return ray


@contextlib.contextmanager
def _own_sessions():
    """Context manager in which `subprocess` puts each process that it starts into a session of its own."""
    # Ray has no setting for that, and once a process has started it is too late.
    start = subprocess.Popen.__init__

    def start_in_session(self, *args, **kwargs):
        start(self, *args, **{"start_new_session": True, **kwargs})

    subprocess.Popen.__init__ = start_in_session
    try:
        yield
    finally:
        subprocess.Popen.__init__ = start


def _check_answer(address):
    """Raises ConfigError if nothing listens at HOST:PORT. Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
        except OSError as error:
            raise ConfigError(f"no Ray cluster answers at {address!r}: {error}") from None


class RayWatch:
    """Notices that Ray's own processes have ended, before Ray ends this process without a word.

    Ray does so at the next object that this process puts into, or takes from, the object store after the
    node's raylet was killed, and a minute after the cluster's control service was.

    Args:
        ray: the module, connected.
    """

    def __init__(self, ray):
        context = ray.get_runtime_context()
        self._gcs, self._failing_since, self._looked_at = context.gcs_address, None, time.monotonic()
        node = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
        # The kernel closes this connection when the raylet ends, so that asking costs a microsecond.
        self._raylet = socket.socket(socket.AF_UNIX)
        self._raylet.connect(node["ObjectStoreSocketName"])

    def check(self):
        """Raises EnvError if one of the processes has ended."""
        if not self.is_alive():
            raise EnvError("Ray has ended on this machine: start it again, and the run goes on")

    def is_alive(self):
        """Returns whether Ray can still be called, and `close` was not; for any thread."""
        with contextlib.suppress(BlockingIOError):  # nothing to read: the connection is open
            if self._raylet.fileno() < 0 or not self._raylet.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK):
                return False
        now = time.monotonic()
        if now - self._looked_at > _LOOK_SECONDS:
            self._looked_at = now
            try:
                _check_answer(self._gcs)
                self._failing_since = None
            except ConfigError:
                self._failing_since = self._failing_since or now
        return self._failing_since is None or now - self._failing_since < _LOST_SECONDS

    def close(self):
        self._raylet.close()
