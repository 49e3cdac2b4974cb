# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Collection: starts and stops the driver where the settings say that a run collects."""

from typing import NamedTuple

from absl import logging

from alf.drivers import Driver, OfflineDriver
from alf.drivers.driver_settings import split_unroll_length
from alf.errors import ConfigError
from alf.learner import Learner
from alf.replay import OneTimeReplayer
from alf.training.stop_criteria import Position

_NO_ENVIRONMENTS = "there are no environments, so nothing collects"


class Phase(NamedTuple):
    """A part of a run, before, during or after collection.

    Attributes:
        collects: whether the driver collects.
        end: `Position` of limits. The phase ends at the first limit that is reached; None: no limit.
        what_ends: text shown after the remaining time, such as "until collection begins".
    """

    collects: bool
    end: Position
    what_ends: str = ""


class Collection:
    """Starts a driver when collection begins, and stops it when collection ends.

    Before and after collection the learner trains from a replay buffer. The environments are made with the
    run, reset when collection begins, and closed when it ends.

    Args:
        driver: `Driver`, not started.
        learner: `Learner` or `LearnerGroup`.
        stop_criteria: `StopCriteria` of the run.
        from_iteration, until_env_steps: `collect_from_iteration` and `collect_until_env_steps` of `Trainer`.

    Attributes:
        phase: `Phase` of the run; None before the first `advance`.

    Raises:
        ConfigError: if the learner cannot train without collection, or if no stop criterion can be reached.
    """

    def __init__(self, driver, learner, stop_criteria, from_iteration=0, until_env_steps=None):
        if isinstance(driver, OfflineDriver) and learner.needs_fresh_experience:
            raise ConfigError(f"{_NO_ENVIRONMENTS}; this learner needs fresh experience, see ReplayLearner")
        self.phase = None
        self._driver, self._learner = driver, learner
        self._from, self._until = from_iteration, until_env_steps
        no_limit = Position(None, None, None)
        before = no_limit._replace(num_iterations=from_iteration)
        self._before = Phase(False, before, "until collection begins")
        during = no_limit._replace(num_env_steps=until_env_steps)
        self._during = Phase(True, during, "until collection ends")
        self._after = Phase(False, no_limit)
        if from_iteration > 0:
            _check_learner("Trainer.collect_from_iteration", driver, learner)
            _check_offline_part(learner)
        if until_env_steps is not None:
            _check_learner("Trainer.collect_until_env_steps", driver, learner)
            _check_stop_criteria(until_env_steps, stop_criteria)

    def check_buffer(self, iterations, env_steps):
        """Raises ConfigError if a run continues after its collection, but the replay buffer is lost.

        Args:
            iterations, env_steps: ints, train iterations so far and environment steps learned from.
        """
        is_over = self._find_phase(iterations, env_steps) is self._after
        learners = self._learner.learners.values()
        if self._until is not None and is_over and not all(one.replayer.num_steps() for one in learners):
            raise ConfigError(
                f"Trainer.collect_until_env_steps is {self._until}: collection has ended, and the replay "
                "buffer is empty. Checkpoints.replay_buffer = True would have kept it; a higher "
                "collect_until_env_steps collects again"
            )

    def advance(self, iterations, env_steps):
        """Enters the phase that begins at a number of train iterations or environment steps, if any."""
        phase = self._find_phase(iterations, env_steps)
        if phase is self.phase:
            return
        # Not at the beginning of a run, which is in some phase from the start.
        if self.phase is not None:
            logging.info("collection %s", "begins" if phase is self._during else "ends")
        self.phase = phase
        if phase is self._during:
            self._learner.synchronize()  # all learner processes begin with the same weights
            self._driver.start()
        elif phase is self._after:
            # The experience is in the buffer, so an environment that does not close must not end the run.
            try:
                self._driver.stop()
            except Exception as error:
                logging.error("collection has ended, but the driver did not stop as it should: %s", error)

    def _find_phase(self, iterations, env_steps):
        # The end is asked for first: a run that is continued after its collection must not start the driver
        # again.
        if isinstance(self._driver, OfflineDriver) or (self._until is not None and env_steps >= self._until):
            return self._after
        return self._before if iterations < self._from else self._during


def check_parts(driver: Driver, learner: Learner, batches_per_train_iter: int) -> None:
    """Raises ConfigError unless a learner can learn from what a driver collects."""
    if driver.policy is not learner.policy:
        raise ConfigError("the driver has another policy than the learner: give it learner.policy")
    for policy in driver.policy.policies.values():
        policy.check_envs()
    is_poll, length = driver.settings.mode == "poll", driver.unroll_length
    if learner.needs_fresh_experience and (is_poll or split_unroll_length(length)[1] != 1):
        setting = "DriverSettings.mode is 'poll'" if is_poll else f"unroll_length is {length:g}"
        raise ConfigError(
            f"{setting}{'' if is_poll else ', not an integer above 0'}: exp_replayer must be one to sample "
            "from then, such as 'uniform', and clear_replay_buffer False"
        )
    if driver.overwrites_actions and learner.needs_own_actions:
        raise ConfigError(
            "the learner's algorithm, such as IMPALA and PPO, learns only from the actions of its own "
            "policy: Experiment.behavior must be None, and overwrite_policy_output False"
        )
    # A replay buffer, and the sequences of several policies, are in main memory: a batch would come back.
    if driver.settings.prefetch and not isinstance(getattr(learner, "replayer", None), OneTimeReplayer):
        raise ConfigError(
            "DriverSettings.prefetch is True: exp_replayer must be 'one_time', 'mix_in' or 'multi_pass' "
            "then, and Experiment.policies None"
        )
    if driver.batch_shape is not None:
        driver.specs.unroll_spec(driver.policy, 1, with_env_info=learner.uses_env_info)
        num_unrolls, unroll_length, batch_size = driver.batch_shape
        learner.check_batch(batches_per_train_iter * num_unrolls, unroll_length, batch_size)


def _check_learner(setting, driver, learner):
    """Raises ConfigError unless the driver has environments, and the learner can train without them."""
    if isinstance(driver, OfflineDriver):
        raise ConfigError(f"{setting} is set: {_NO_ENVIRONMENTS}")
    for one in learner.learners.values():
        if one.needs_fresh_experience:
            raise ConfigError(
                f"{setting} is set: exp_replayer must be one to sample from then, such as 'uniform', not "
                f"{one.replayer.name!r}, and ReplayLearner.clear_replay_buffer False"
            )


def _check_offline_part(learner):
    """Raises ConfigError unless an offline buffer allows training before collection begins."""
    if any(one.replayer.offline is None for one in learner.learners.values()):
        raise ConfigError(
            "Trainer.collect_from_iteration is set: there is nothing to train on before collection begins; "
            "set Experiment.offline_buffer"
        )
    if any(one.policy.data_transformer.has_statistics for one in learner.learners.values()):
        raise ConfigError(
            "Trainer.collect_from_iteration is set: data transformers that learn from fresh experience, such "
            "as ObservationNormalizer, would have learned nothing before collection begins"
        )


def _check_stop_criteria(until_env_steps, criteria):
    """Raises ConfigError if there are stop criteria, but possibly none of them is ever reached."""
    steps = criteria.num_env_steps
    if steps is not None and steps > until_env_steps:
        raise ConfigError(
            f"StopCriteria.num_env_steps is {steps}: collection ends at Trainer.collect_until_env_steps = "
            f"{until_env_steps}, so it is never reached; set num_iterations or max_seconds in its place"
        )
    ends = steps, criteria.num_iterations, criteria.max_seconds, criteria.target_eval_return
    for name in ("target_return", "num_env_steps_of_each"):
        if getattr(criteria, name) is not None and all(limit is None for limit in ends):
            raise ConfigError(
                f"Trainer.collect_until_env_steps is set: StopCriteria.{name} cannot be reached after the "
                "end of collection; set num_iterations, max_seconds or target_eval_return, too"
            )
