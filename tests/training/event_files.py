# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reads TensorBoard's event files."""

import glob
import os

import tensorflow as tf
from tensorboard.compat.proto.event_pb2 import Event


def read_summaries(folder):
    """Returns a dict by name of lists of (step, `Summary.Value`)."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*tfevents*"))):
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
            event = Event.FromString(record)
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value))
    return found


def read_kinds(folder):
    """Returns a dict from each name to the part of TensorBoard that shows it, "scalars" for example."""
    return {
        tag: values[0][1].metadata.plugin_data.plugin_name for tag, values in read_summaries(folder).items()
    }


def read_events(folder):
    """Returns {tag: [(step, value), ...]} of the scalars and texts."""
    read = {"scalars": float, "text": lambda array: array.item().decode()}
    found = {}
    for tag, values in read_summaries(folder).items():
        kind = values[0][1].metadata.plugin_data.plugin_name
        if kind in read:
            found[tag] = [(step, read[kind](tf.make_ndarray(value.tensor))) for step, value in values]
    return found
