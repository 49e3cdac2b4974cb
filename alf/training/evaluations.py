# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluations: the callback that starts evaluations while a run trains, and shows their results."""

import functools

from absl import logging

from alf.callback import Callback
from alf.errors import ConfigError, SaveError, make_part
from alf.evaluation.evaluator import Evaluator
from alf.training.summary_writer import write_gif

_LAST_SECONDS = 60.0  # the time for the last evaluation to end when a stop criterion holds, unless it hangs


class Evaluations(Callback):
    """Starts evaluations at their interval, shows the results, and keeps the best checkpoint.

    Args:
        evaluator: `Evaluator`, not opened.
    """

    def __init__(self, evaluator):
        self.evaluator = evaluator
        # One number is enough: an evaluation begins only when the one before has been taken.
        self._step = None  # the x axis of the present evaluation in TensorBoard

    def on_check(self, trainer):
        # Makes the environments, although the thread starts later: a setting that does not fit them is told
        # before anything is written.
        self.evaluator.open(trainer.learner.policy)

    def on_begin(self, trainer):
        # Only now, with the counters of the checkpoint: the intervals begin there.
        self.evaluator.run(trainer.root_dir, trainer.counters["env_steps"])

    def on_train_iter(self, trainer, summary):
        # A thread or process evaluates a checkpoint while training goes on. The result belongs to the step at
        # which the evaluation began.
        with trainer.driver.clocks.learner.stage("evaluation"):
            env_steps = trainer.position.num_env_steps
            if self.evaluator.is_due(env_steps):
                try:
                    # A copy of a checkpoint, because `max_to_keep` may remove the checkpoint itself before
                    # the evaluation has read it. The copy stays until the next evaluation begins, which is
                    # after this one has ended.
                    path = trainer.checkpoints.checkpointer.save_for_evaluation()
                    self.evaluator.start(path, env_steps)
                    self._step = trainer.summary_step
                except SaveError as error:
                    logging.error("%s", error)
            self._take(trainer)

    def on_end(self, trainer, reason):
        # An interrupted run should end soon, and the evaluation is lost. A finished one has nothing else to
        # do, and its last weights may be the best.
        if trainer.finished:
            with trainer.driver.clocks.learner.stage("evaluation"):
                self._take(trainer, _LAST_SECONDS)

    def on_close(self, trainer):
        self.evaluator.close()

    def _take(self, trainer, timeout=0.0):
        """Shows an `Evaluation` that has ended; waits for one for at most `timeout` seconds."""
        evaluation = self.evaluator.poll(timeout)
        if evaluation is None:
            return
        learners = list(trainer.learner.learners.values())
        if len(learners) == 1 and learners[0].algorithm.has_multidim_reward:
            weights = learners[0].algorithm.reward_weights.numpy().tolist()
            evaluation = evaluation._replace(reward_weights=weights)
        trainer.summaries.show(trainer, self._step, evaluation.env_steps, evaluation.scalars())
        if evaluation.video is not None:
            trainer.summaries.writer.show(
                self._step, functools.partial(write_gif, "eval/video", evaluation.video)
            )
        figures, is_best = evaluation.figures["return"], False
        trainer.eval_return = figures["mean"]
        try:
            is_best = trainer.checkpoints.checkpointer.keep_best(evaluation)
        except SaveError as error:
            logging.error("%s", error)
        logging.info(
            "evaluation at %s env steps: return %.5g (95 %% interval %.5g to %.5g)%s%s",
            f"{evaluation.env_steps:,}",
            *(figures[name] for name in ("mean", "low", "high")),
            "" if evaluation.reward_weights is None else f", weighted {evaluation.score:.5g}",
            ", the best so far" if is_best else "",
        )
        trainer.call_back("on_evaluation", evaluation.scalars())


def make_evaluations(evaluator, stop_criteria):
    """Makes a list with the `Evaluations` of a run; [] if nothing evaluates."""
    if evaluator is not None:
        return [Evaluations(make_part("Trainer.evaluator", evaluator, Evaluator))]
    if stop_criteria.target_eval_return is not None:
        raise ConfigError(
            "StopCriteria.target_eval_return is set, but nothing evaluates: set Trainer.evaluator"
        )
    return []
