# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf train in two learner processes: they end together, go on together, and notice when one is killed."""

import contextlib
import signal

import numpy as np
import pytest
import tensorflow as tf

from tests.bin.conftest import write_config
from tests.peer_processes import find_free_ports, tf_config

pytestmark = pytest.mark.programs

FOREVER = 10**9
SETTINGS = {
    "Experiment.strategy": "@MultiWorkerMirroredStrategy",
    "MultiWorkerMirroredStrategy.start_timeout": 200.0,
    "Checkpoints.interval": 0.0,
}


@contextlib.contextmanager
def running(forks, gin_file, root_dirs, iterations=(FOREVER, FOREVER)):
    """Context of two `Fork`s, which train together."""
    ports = find_free_ports(2)
    with contextlib.ExitStack() as stack:
        started = []
        for index, (root_dir, num_iterations) in enumerate(zip(root_dirs, iterations, strict=True)):
            params = {**SETTINGS, "StopCriteria.num_iterations": num_iterations}
            flags = [f"--{name}={value}" for name, value in params.items()]
            args = tf_config(ports, index), "train", gin_file, f"--output={root_dir}", *flags
            fork = forks.start("tests.bin.fork_jobs:train_with_peers", *args, cwd=root_dir.parent)
            started.append(stack.enter_context(fork))
        yield started


def newest(root_dir):
    """The number of the newest checkpoint; 0 without one."""
    return max((int(path.name[5:]) for path in root_dir.glob("checkpoints/ckpt-*")), default=0)


def wait_for_checkpoints(started, root_dirs, after):
    """Waits until each process has written a checkpoint of a number above `after`."""
    for fork in started:
        fork.wait_until(lambda: all(newest(root_dir) > after for root_dir in root_dirs))


def check_equal_checkpoints(root_dirs):
    """Checks that the newest checkpoints have one number and equal variables; returns the number."""
    number, other = map(newest, root_dirs)
    assert number == other > 0
    paths = [str(root_dir / f"checkpoints/ckpt-{number}/weights") for root_dir in root_dirs]
    first, second = map(tf.train.load_checkpoint, paths)
    names = [name for name in first.get_variable_to_shape_map() if "VARIABLE_VALUE" in name]
    assert len(names) > 5
    for name in names:
        np.testing.assert_array_equal(first.get_tensor(name), second.get_tensor(name), name)
    return number


@pytest.fixture
def run(tmp_path):
    """A gin file, and the directories of the two processes."""
    return write_config(tmp_path, "cartpole"), [tmp_path / "run0", tmp_path / "run1"]


def test_all_end_when_one_ends_and_go_on_together(run, forks):
    gin_file, root_dirs = run
    # One reaches its stop criterion.
    with running(forks, gin_file, root_dirs, (5, FOREVER)) as started:
        results = [fork.finish() for fork in started]
    assert [done.status for done in results] == [0, 0], results
    assert "num_iterations=5 reached" in results[0].out
    assert "another learner process has ended the run" in results[1].out
    assert check_equal_checkpoints(root_dirs) == 5
    # One gets a signal.
    with running(forks, gin_file, root_dirs) as started:
        wait_for_checkpoints(started, root_dirs, after=5)
        started[1].send_signal(signal.SIGTERM)
        results = [fork.finish() for fork in started]
    assert [done.status for done in results] == [128 + signal.SIGTERM] * 2, results
    assert all("ckpt-5: " in done.err for done in results), "it did not continue"
    assert check_equal_checkpoints(root_dirs) > 5


@pytest.mark.parametrize("killed", [0, 1])
def test_one_is_killed_and_the_other_ends(run, forks, killed):
    gin_file, root_dirs = run
    with running(forks, gin_file, root_dirs) as started:
        wait_for_checkpoints(started, root_dirs, after=0)
        started[killed].send_signal(signal.SIGKILL)
        # TensorFlow's heartbeat finds it within 10 s, long before Peers.timeout.
        done = started[1 - killed].finish()
    assert done.status == 1, done
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert errors[0].startswith(f"error: learner process {1 - killed} of 2 cannot go on"), errors
