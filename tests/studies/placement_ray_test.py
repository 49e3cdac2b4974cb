# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The runs of a sweep as processes of a Ray cluster on this machine."""

import os
from unittest import mock

import psutil
import pytest

from alf.distributed.cluster import connect
from alf.errors import ConfigError
from alf.studies.placement import LOST, Cluster, ClusterProcess
from alf.studies.resources import Resources, find_place
from tests.studies.runner_test import Sweeping, read_logs, stop_when
from tests.studies.stand_ins import count_most_at_a_time, read_events, wait_until

pytestmark = pytest.mark.programs

pytest.importorskip("ray")
CPUS = 3


@pytest.fixture(scope="module")
def ray():
    """Ray with three CPUs and two GPUs, as it says itself, on any machine."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    nodes = dict(num_cpus=CPUS, num_gpus=2, include_dashboard=False, memory=4_000_000_000)
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=nodes)
    module = connect(cluster.address, log_to_driver=False)
    yield module
    module.shutdown()
    cluster.shutdown()


def make_cluster(ray, run_cores, max_cores=None, run_memory=0, max_memory=None, run_gpus=0):
    needs = {"CPU": run_cores, "memory": run_memory * 1e9, "GPU": run_gpus}
    return Cluster(ray, needs, {"CPU": max_cores, "memory": max_memory and max_memory * 1e9})


# By what limits them: the limits, and how many runs have room at a time.
LIMITS = {
    "cores": ((1,), 3),
    "two cores each": ((2,), 1),
    "max_cores": ((1, 2), 2),
    "memory of the node": ((1, None, 2.0), 2),
    "max_memory": ((1, None, 1.0, 1.5), 1),
    "half a core each": ((0.5,), 6),
    "a GPU each": ((1, None, 0, None, 1), 2),
}


def test_as_many_runs_have_room_as_the_limits_allow(ray, subtests):
    for name, (limits, most) in LIMITS.items():
        with subtests.test(name):
            assert make_cluster(ray, *limits).capacity == most


def test_each_run_is_made_once_and_as_many_at_a_time_as_have_room(ray, tmp_path):
    sweeping = Sweeping(tmp_path, seeds=(0, 1), place=make_cluster(ray, 1, 2), together=2)
    sweeping.runner.run()
    events = read_events(tmp_path)
    assert {status for _, _, status in sweeping.statuses()} == {"finished"}
    assert len(events) == 8 and count_most_at_a_time(events) == 2


def test_each_run_has_gpus_of_its_own(ray, tmp_path):
    Sweeping(tmp_path, seeds=(0,), place=make_cluster(ray, 1, run_gpus=1), together=2).runner.run()
    assert sorted(log.split("GPUs ")[1] for log in read_logs(tmp_path)) == ["0\n", "1\n"]


def test_runs_that_fail_are_one_line(ray, tmp_path):
    sweeping = Sweeping(tmp_path, (1, 2), make_cluster(ray, 1), ends={1: "fails", 2: "dies"})
    sweeping.runner.run()
    errors = ["the simulator broke", "its process was ended by SIGKILL"]
    assert [outcome.error for outcome in sweeping.study.outcomes.values()] == errors * 2


def test_a_run_ends_and_is_reported_as_lost_when_its_actor_dies(ray, tmp_path):
    sweeping = Sweeping(tmp_path, seeds=(0,), seconds=600.0)
    run = sweeping.study.next_run()
    place = make_cluster(ray, 1)
    process = place.start(run.arguments, os.path.join(run.path, "log.txt"))
    wait_until(lambda: len(read_events(tmp_path)) == 1)
    assert process.poll() is None and any(run.path in command for command in list_commands())
    ray.kill(process._actor)
    wait_until(lambda: process.poll() is not None)
    assert process.poll() == LOST
    wait_until(lambda: not any(run.path in command for command in list_commands()))


@pytest.mark.parametrize("method", ["interrupt", "kill"])
def test_only_an_actor_that_has_answered_is_asked_to_end_its_run(method, subtests):
    """Any other may have no room yet, and would never answer."""
    for has_answered in (False, True):
        ray, actor = mock.Mock(), mock.Mock()
        answer = [actor.wait.remote()]
        ray.wait.return_value = (answer, []) if has_answered else ([], answer)
        ray.get.return_value = None  # the run goes on
        process = ClusterProcess(ray, actor)
        assert process.poll() is None
        getattr(process, method)()
        with subtests.test(has_answered=has_answered):
            assert ray.kill.mock_calls == ([] if has_answered else [mock.call(actor)])
            assert getattr(actor, method).remote.call_count == has_answered


@pytest.mark.parametrize("method", ["interrupt", "kill"])
def test_a_run_that_waits_for_room_ends_at_once(ray, tmp_path, method):
    place = make_cluster(ray, CPUS)
    arguments = ["-c", "import time; time.sleep(600)"]
    first, second = (place.start(arguments, str(tmp_path / f"{i}.txt")) for i in range(2))
    try:
        getattr(second, method)()
        wait_until(lambda: second.poll() is not None, seconds=60.0)
        assert second.poll() == LOST and first.poll() is None
    finally:
        for process in (first, second):
            place.release(process)


def list_commands():
    """The command lines of all processes."""
    return [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]


def test_a_stop_saves_the_runs(ray, tmp_path):
    sweeping = Sweeping(tmp_path, place=make_cluster(ray, 1, 2), seconds=600.0)
    stop_when(sweeping, lambda: len(read_events(tmp_path)) == 2)
    sweeping.runner.run()
    assert [status for _, _, status in sweeping.statuses()] == ["interrupted"] * 2 + ["waiting"]


def test_a_run_that_has_no_room_on_any_node_is_one_line(ray):
    for limits in ((CPUS + 1,), (1, None, 5.0), (1, None, 0, None, 3)):
        assert make_cluster(ray, *limits).capacity == 0
    address = ray.get_runtime_context().gcs_address
    with pytest.raises(ConfigError, match="no node of the cluster has so much"):
        find_place(Resources(run_cores=CPUS + 1, ray_address=address))
