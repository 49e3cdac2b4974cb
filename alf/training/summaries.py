# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a run writes for TensorBoard."""

import math

import tensorflow as tf


def write_summaries(writer, driver, summary, rates, iterations):
    """Writes scalars; the x axis is the environment steps learned from.

    Args:
        writer: `tf.summary.SummaryWriter`.
        driver: `Driver`.
        summary: dict of what `Learner.train` returned last.
        rates: dict of environment steps per second, by window.
        iterations: int; train iterations.
    """
    values = {f"metrics/{metric.name}": metric.result() for metric in driver.get_metrics()}
    values |= {f"train/{name}": value for name, value in summary.items()}
    values |= {f"throughput/steps_per_second_{window}": rate for window, rate in rates.items()}
    values |= {f"queues/{name}": size for name, size in driver.queue_sizes().items()}
    values["environments/worker_restarts"] = driver.num_restarts
    values["train/iterations"] = iterations
    with writer.as_default(step=driver.learner.progress.env_steps.read_value()):
        for name, value in values.items():
            # The averages of episodes have no value before the first episode has ended.
            if not (name.startswith("metrics/") and math.isnan(value)):
                tf.summary.scalar(name, value)
