# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Starts learner processes that TF_CONFIG names, on this machine."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def find_free_ports(count):
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def tf_config(ports, index):
    """The text of the environment variable TF_CONFIG of the process `index`."""
    addresses = [f"localhost:{port}" for port in ports]
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})


@contextlib.contextmanager
def running_peers(commands):
    """Context of processes `python -m *command`, a list of `subprocess.Popen`; it kills them in the end.

    `commands` is a list of lists of texts, one for each process.
    """
    ports, processes = find_free_ports(len(commands)), []
    try:
        for index, command in enumerate(commands):
            env, pipe = {**os.environ, "TF_CONFIG": tf_config(ports, index)}, subprocess.PIPE
            command = [sys.executable, "-m", *command]
            processes.append(
                subprocess.Popen(command, env=env, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)
            )
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def finish(processes, timeout):
    """Waits until all processes have ended; returns (status, stdout, stderr) of each."""
    outputs = [process.communicate(timeout=timeout) for process in processes]
    return [(process.returncode, *texts) for process, texts in zip(processes, outputs, strict=True)]
