# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""OfflineDriver: a replay buffer in the place of environments."""

from alf.drivers.metrics import AverageEpisodeLength, AverageReturn, EnvironmentSteps, NumberOfEpisodes


class OfflineDriver:
    """Lets an algorithm learn from a buffer alone; for what calls a driver, there is nothing to collect.

    Args:
        replayer: a buffer that is full, see `alf.replay.load_replayer`.
        algorithm: an `Algorithm`.

    Raises:
        ConfigError: if the buffer does not hold what the algorithm needs.
    """

    def __init__(self, replayer, algorithm):
        algorithm.set_exp_replayer(replayer)
        self._step_metrics = [EnvironmentSteps(), NumberOfEpisodes()]
        self._metrics = [*self._step_metrics, AverageReturn(), AverageEpisodeLength()]

    def start(self):
        """There is nothing to start."""

    def run(self):
        """Collects nothing."""
        return 0

    def stop(self):
        """There is nothing to stop."""

    def interrupt(self):
        """Nothing waits."""

    def get_step_metrics(self):
        return self._step_metrics

    def get_metrics(self):
        return self._metrics

    def queue_sizes(self):
        return {}

    def summarize_metrics(self):
        """There are no episodes."""
