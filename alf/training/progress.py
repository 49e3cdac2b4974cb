# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Progress: the callback that shows the progress of a run, and makes the table at its end."""

from typing import Any

from absl import logging

from alf.callback import Callback
from alf.training.progress_bar import ProgressBar, Throughput
from alf.training.run_report import EpisodeFigures, RunReport

NO_UPDATE = (
    "no update was made %s: there was not enough experience for one, see "
    "ReplayLearner.initial_collect_steps, mini_batch_length and num_sequences of Policies or League"
)
_IDLE_SECONDS = 60.0  # without an update, after which the log says so


class Progress(Callback):
    """Shows the progress as a bar on a terminal or as lines in the log, and reports on the run at its end.

    If no update is made for a minute, the log says so.

    Args:
        stop_criteria: `StopCriteria` of the run.

    Attributes:
        trained, collected: `Throughput`s of the steps learned from, and of the steps of the environments.
        policies: dict from each of several policies that learn to two `Throughput`s of its own steps: those
            learned from, and those collected.
    """

    def __init__(self, stop_criteria):
        self._stop_criteria = stop_criteria
        self.trained: Any = None
        self.collected: Any = None
        self.policies: dict[str, tuple[Throughput, Throughput]] = {}
        self._bar: Any = None
        self._report: Any = None
        self._has_trained = False
        self._updated_at: Any = None  # time of the training loop of the last update, or of the last warning

    def on_begin(self, trainer):
        self._updated_at = trainer.now
        policies = count_policy_steps(trainer.learner)
        episodes = EpisodeFigures(trainer.metrics, policies=tuple(policies))
        self._report = RunReport(lambda: _count(trainer, episodes), episodes, trainer.driver.clocks)
        self.trained, self.collected = Throughput(), Throughput()
        self.policies = {name: (Throughput(), Throughput()) for name in policies}
        self._count_steps(trainer)
        rates = self.trained, self.collected
        self._bar = ProgressBar(*rates, self._stop_criteria, episodes, trainer.summaries.stages)

    def on_train_iter(self, trainer, summary):
        if summary and not self._has_trained:
            self._has_trained = True
            self._report.note_first_train_step()
            trainer.summaries.stages.restart()  # without the time to compile
        if summary:
            self._updated_at = trainer.now
        elif trainer.now - self._updated_at > _IDLE_SECONDS:
            self._updated_at = trainer.now
            logging.warning(NO_UPDATE, f"for {_IDLE_SECONDS:g} s")
        self._count_steps(trainer)
        self._bar.update(trainer.position, summary, trainer.phase)

    def on_end(self, trainer, reason):
        self._report.note_last_train_step(trainer.collects)
        self._bar.close()  # later lines of the log come below it
        if self._has_trained:
            logging.info("%.2f s since the first train step", trainer.position.max_seconds)

    def on_close(self, trainer):
        # After an error nobody has called `on_end`, and the text of the error would go on in the line of the
        # bar.
        if self._bar is not None:
            self._bar.close()

    def format_report(self):
        """Makes the table of counts and times, a text of several lines."""
        return self._report.format()

    def _count_steps(self, trainer):
        self.trained.count_up_to(trainer.position.num_env_steps)
        self.collected.count_up_to(trainer.metrics["EnvironmentSteps"].result())
        for name, steps in count_policy_steps(trainer.learner).items():
            trained, collected = self.policies[name]
            trained.count_up_to(steps)
            collected.count_up_to(trainer.metrics[f"policies/{name}/EnvironmentSteps"].result())


def count_policy_steps(learner):
    """Returns the environment steps that each of several policies has learned from, a dict of ints."""
    learners = {name: one for name, one in learner.learners.items() if one is not learner}
    return {name: int(one.progress.env_steps) for name, one in learners.items()}


def _count(trainer, episodes):
    """Returns the counts in the table, a dict of ints by name."""
    progress = trainer.learner.progress
    return {
        "train iterations": trainer.counters["iterations"],
        "updates": int(progress.updates),
        "env steps": int(progress.env_steps),
        "env steps collected": int(trainer.metrics["EnvironmentSteps"].result()),
        "episodes": episodes.count(),
        **{name.replace("_", " "): n for name, n in trainer.learner.replay_counts().items()},
    }
