# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The Ray cluster of this process: what starts it, who can reach it, what is wrong."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from alf.distributed.cluster import connect
from alf.errors import ConfigError
from tests.workers.pool_test import alive

pytestmark = pytest.mark.programs

ray = pytest.importorskip("ray")

# Starts Ray and an actor.
START = """
import psutil
from alf.distributed.cluster import connect

ray = connect()

@ray.remote(num_cpus=0)
class Actor:
    def answer(self):
        return 1

actor = Actor.remote()
ray.get(actor.answer.remote())
"""
# Prints where the processes that Ray starts listen.
LISTEN = f"""{START}
for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
    for connection in process.net_connections():
        if connection.status == psutil.CONN_LISTEN:
            print(process.name(), connection.laddr.ip)
"""


def test_no_other_machine_can_reach_what_starts_here(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    done = subprocess.run([sys.executable, "-c", LISTEN], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    names, addresses = {words[0] for words in found}, {words[-1] for words in found}
    assert {"gcs_server", "raylet"} <= names and not any("dashboard" in name.lower() for name in names)
    assert all(address.removeprefix("::ffff:").startswith("127.") for address in addresses), found


SLEEP = f"""{START}
import time
print(*[process.pid for process in psutil.Process().children(recursive=True)], flush=True)
time.sleep(3600)
"""


def test_the_processes_of_ray_are_in_no_group_of_ours_and_end_with_us(monkeypatch):
    """So a signal to all processes of a run reaches only the run, which saves and ends them."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    command = [sys.executable, "-c", SLEEP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            pids = [int(pid) for pid in process.stdout.readline().split()]
            assert len(pids) >= 3  # gcs_server, raylet and the actor
            assert all(process.pid not in (os.getsid(pid), os.getpgid(pid)) for pid in pids)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 120
    while any(map(alive, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_handler_of_sigterm_stays(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert connect() is ray
        assert signal.getsignal(signal.SIGTERM) is handler
        assert connect("10.0.0.1:6379") is ray  # it is there already
    finally:
        ray.shutdown()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense"])
def test_no_cluster_answers(address):
    with pytest.raises(ConfigError, match=f"^no Ray cluster answers at '{address}': "):
        connect(address)


def test_a_local_ray_that_does_not_start_is_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    logs = re.escape(f"; its logs are in {folder}/ray/session_latest/logs")
    with pytest.raises(ConfigError, match=f"^Ray did not start on this machine: .*107 bytes.*{logs}$"):
        connect()

    def fail(*args, **kwargs):
        raise Exception("The current node timed out during startup.\nAnd more.")

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(
        ConfigError, match=r"^Ray did not start on this machine: The current node timed out.*$"
    ):
        connect()
    assert not ray.is_initialized()


def test_actors_have_no_nice_value_unless_it_is_asked_for():
    program = """
import os
from alf.distributed.cluster import connect
ray = connect()
class Actor:
    def answer(self):
        return os.getpriority(os.PRIO_PROCESS, 0)
print(ray.get(ray.remote(num_cpus=0)(Actor).remote().answer.remote()))
"""
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("RAY_ADDRESS", "RAY_worker_niceness")
    }
    for asked, nice in ((None, "0"), ("7", "7")):
        own = {} if asked is None else {"RAY_worker_niceness": asked}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env={**env, **own}, capture_output=True, text=True, timeout=300)
        assert done.stdout.split()[-1] == nice, done.stderr


def test_a_token_that_is_missing_is_one_line(tmp_path):
    program = """
from alf.distributed.cluster import connect
from alf.errors import ConfigError
try:
    connect("127.0.0.1:%d")
except ConfigError as error:
    print(error)
"""
    env = {**os.environ, "RAY_AUTH_MODE": "token", "HOME": str(tmp_path)}
    env = {name: value for name, value in env.items() if not name.startswith("RAY_AUTH_TOKEN")}
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", program % server.getsockname()[1]]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert re.match(r"no Ray cluster answers at '[\d.:]+': .*no authentication token was found", done.stdout)
