# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A trace of some train iterations: where it is, what it holds, and what happens if there is none."""

import functools

import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.training import summaries
from tests.training.counting_parts import logged
from tests.training.small_runs import make_trainer


def make_profiled(root_dir, profile, num_iterations):
    return make_trainer(
        root_dir,
        stop={"num_iterations": num_iterations},
        summaries=functools.partial(summaries.Summaries, profile=profile),
    )


def list_traces(root_dir):
    """The traces in the run's folder, where TensorBoard looks for them."""
    return sorted((root_dir / "train" / "plugins" / "profile").glob("*/*.xplane.pb"))


@pytest.mark.parametrize(("profile", "expected"), [("2:4", (2, 3, 4)), ("5:100", (5, 6))], ids=str)
def test_the_trace_has_the_iterations(tmp_path, profile, expected):
    """Also of a run that ends before the last of them."""
    make_profiled(tmp_path, profile, num_iterations=6).train()
    (trace,) = list_traces(tmp_path)
    events = _list_events(trace.read_bytes())
    assert sum("train iteration" in name for name in events) == len(expected)
    assert len(set(events)) > 5, "what is done in them"


def _list_events(content):
    """The names of the events in a trace, an XSpace of TensorFlow."""
    xplane_pb2 = pytest.importorskip("tensorflow.tsl.profiler.protobuf.xplane_pb2")
    return [
        plane.event_metadata[event.metadata_id].name
        for plane in xplane_pb2.XSpace.FromString(content).planes
        for line in plane.lines
        for event in line.events
    ]


def test_another_trace_is_possible_afterwards(tmp_path):
    make_profiled(tmp_path / "a", "1:2", num_iterations=3).train()
    make_profiled(tmp_path / "b", "1:1", num_iterations=3).train()
    assert len(list_traces(tmp_path / "a")) == len(list_traces(tmp_path / "b")) == 1


def test_a_run_that_has_none_of_the_iterations_says_so(tmp_path):
    with logged() as lines:
        make_profiled(tmp_path, "5:6", num_iterations=3).train()
    assert any("begins with train iteration 5, and the run has ended after 3" in line for line in lines)
    assert not list_traces(tmp_path)


def test_a_second_profiler_is_a_warning(tmp_path):
    tf.profiler.experimental.start(str(tmp_path / "mine"))
    try:
        with logged() as lines:
            make_profiled(tmp_path / "run", "1:2", num_iterations=3).train()
    finally:
        tf.profiler.experimental.stop()
    assert any("no profile is written" in line for line in lines)
    assert list((tmp_path / "mine").rglob("*.xplane.pb"))


@pytest.mark.parametrize("profile", ["5", "0:3", "4:3", "a:b", 5])
def test_wrong_iterations(profile):
    with pytest.raises(ConfigError, match="Summaries.profile is "):
        summaries.Summaries(profile=profile)
