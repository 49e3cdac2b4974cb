# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Member: a run of a population. It trains for an interval at a time and carries out orders."""

import contextlib
import fcntl
import math
import os
import time

import gin
from absl import logging

from alf.callback import Callback
from alf.config.gin_files import CONFIG_FILE
from alf.config.parsing import bind, parse_config, wrong_calls_are_config_errors
from alf.core.randomness import spawn_seeds
from alf.drivers.metrics import read_number
from alf.errors import ConfigError, DivergedError, FolderError
from alf.runs.checkpoint_files import DamagedError
from alf.runs.presets import make_parts
from alf.runs.saved_run import SavedRun
from alf.schedules import assign_tunables, find_tunables
from alf.studies.population_study import DONE_ORDER_FILE, ORDER_FILE, REPORT_FILE
from alf.studies.state import read_json, write_json
from alf.studies.tunables import make_bindings
from alf.training.trainer import Trainer

_POLL_SECONDS = 0.05  # between two looks at the order, or at the lock
_LOCK_SECONDS = 120.0  # for an earlier process of the member to save and end


class Member(Callback):
    """Follows the orders of `PopulationStudy`: trains for an interval at a time, and reports at its end.

    At the end of an interval it waits for an order with a later `turn` and goes on. It makes another
    `Trainer` only if a setting changes that is built into the graphs.

    Args:
        gin_file: path of the gin configuration of all members.
        root_dir: path of the member's folder.
    """

    def __init__(self, gin_file, root_dir):
        self._gin_file, self._root_dir = gin_file, root_dir
        # The study has written it before it started this process.
        self._order = read_json(os.path.join(root_dir, ORDER_FILE))
        self._trainer = self._end = None
        self._stop_reason = None
        self._eval_return = math.nan  # the mean return of the last evaluation

    @property
    def is_training(self):
        """Whether a `Trainer` exists, which `stop` would save."""
        return self._trainer is not None

    def stop(self, reason, signum=None):
        """Makes the training save and end, as `Trainer.interrupt`; any thread may call this."""
        # The mark comes first: the trainer may not exist yet, or may be replaced by another one just now.
        # `train` and `on_train_iter` look at the mark, whichever trainer calls them.
        self._stop_reason = reason
        if self._trainer is not None:
            self._trainer.interrupt(reason, signum)

    def train(self):
        """Trains until the run has ended or `stop` was called; returns whether it has ended.

        Raises:
            ConfigError: if a binding is wrong.
            Exception: an error of the training. A DivergedError is reported instead.
        """
        while self._stop_reason is None:
            # Before the checkpoint is read, which the earlier process may yet replace.
            self._wait_until_free()
            if self._stop_reason is not None:
                break
            self._build()
            try:
                # An order is given again after a crash or a kill. To copy the parent again would lose what
                # this member has learned since. Without the number, a kill came before the copy was saved.
                done = read_json(os.path.join(self._root_dir, DONE_ORDER_FILE))
                if done is None or done["number"] != self._order["number"]:
                    self._carry_out()
                finished, reason = self._trainer.train()
            except DivergedError as error:
                logging.error("%s", error)
                # The weights are lost: whatever the order says, a new `Trainer` begins at the last
                # checkpoint.
                self._report(diverged=True, reason=str(error))
                self._order = self._wait_for_order() or self._order
                continue
            # Otherwise `stop` was called, or a setting has changed that is built into the graphs: then the
            # loop goes on with another trainer.
            if finished:
                # The trainer has saved at its end: whoever copies this member gets its last weights.
                path = SavedRun(self._root_dir).find_checkpoint()
                self._report(path, is_over=True, reason=reason)
                return True
        return False

    def on_train_iter(self, trainer, summary):
        """Ends the interval, if it is over: reports, waits for the next order and carries it out."""
        if self._stop_reason is not None:  # `stop` may have come before the trainer existed.
            trainer.interrupt(self._stop_reason)
            return
        if trainer.counters["env_steps"] < self._end:
            return
        self._set_end()
        # The checkpoint first: as soon as the study has the report, others may copy it.
        self._report(trainer.save())
        order, before = self._wait_for_order(), self._order
        if order is None:
            return
        self._order = order
        if order["graph"] != before["graph"]:
            # The trainer saves and ends; `train` makes another one, which first carries the order out.
            trainer.interrupt("its settings change")
        elif order["number"] != before["number"]:
            self._carry_out()

    def on_evaluation(self, trainer, figures):
        self._eval_return = figures["eval/return_mean"]

    def _build(self):
        """Makes the `Trainer` with the order's settings, which continues from the member's own checkpoint."""
        gin.clear_config()
        # The order has the study's seed and the member's index: another seed for each member.
        (seed,) = spawn_seeds(self._order["seed"], 1)
        parse_config([self._gin_file])
        settings = self._order["tunables"] | self._order["graph"]
        bind(make_bindings(settings, self._order["limits"]) | {"Experiment.seed": seed})
        # The file has the settings from before, which `Trainer` would refuse as another configuration. The
        # study has checked all other settings.
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(self._root_dir, CONFIG_FILE))
        with wrong_calls_are_config_errors():
            self._trainer = Trainer(self._root_dir, *make_parts())
        try:
            # Only now do the metrics and the `Tunable`s exist.
            self._check()
        except ConfigError:
            self._trainer.close()
            raise
        self._trainer.add_callback(self)
        self._set_end()
        # Also if the order was carried out before: a study that goes on fits the settings of its orders into
        # its present ranges, and the checkpoint still has the values from before.
        assign_tunables(self._trainer.learner, self._order["tunables"])

    def _wait_until_free(self):
        """Waits until an earlier process of this member, of a study that was killed, has saved and ended."""
        folder, deadline = os.open(self._root_dir, os.O_RDONLY), time.monotonic() + _LOCK_SECONDS
        try:
            while self._stop_reason is None:
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise FolderError(self._root_dir, "is in use: another process trains there") from None
                    time.sleep(_POLL_SECONDS)
                    continue
                except OSError:  # Some file systems have no locks.
                    pass
                return
        finally:
            os.close(folder)  # This frees the lock, which `Trainer` takes for itself.

    def _check(self):
        """Raises ConfigError if no metric is the objective, or the learner does not read a `Tunable`."""
        trainer, objective = self._trainer, self._order["objective"]
        if objective == "eval" and not trainer.evaluates:
            raise ConfigError("Population.objective is 'eval': set Trainer.evaluator")
        if objective != "eval" and objective not in trainer.metrics:
            raise ConfigError(
                f"Population.objective is {objective!r}: it must be 'eval' or one of "
                f"{', '.join(trainer.metrics)}"
            )
        for name in self._order["tunables"].keys() - find_tunables(trainer.learner).keys():
            raise ConfigError(f"Population.settings has {name!r}: nothing in the learner reads it")

    def _set_end(self):
        # The next multiple: an interval that ends late, within an iteration, does not shift the later ones.
        interval = self._order["interval"]
        self._end = (self._trainer.counters["env_steps"] // interval + 1) * interval

    def _carry_out(self):
        """Copies the parent, sets the settings and saves; in the training thread, or before it trains."""
        if self._order["parent"] is not None:
            self._copy(self._order["parent"])
        # Afterwards, because the copy includes the values of the parent's `Tunable`s.
        assign_tunables(self._trainer.learner, self._order["tunables"])
        # Saved before the number is written: a kill in between makes the member carry out the order again,
        # which is harmless. The other way round the copy would be lost.
        self._trainer.save()
        write_json(os.path.join(self._root_dir, DONE_ORDER_FILE), {"number": self._order["number"]})

    def _copy(self, parent):
        """Copies the order's checkpoint, or a newer one if the parent has removed that meanwhile."""
        try:
            self._trainer.copy_from(parent["path"])
        except DamagedError:
            run = SavedRun(os.path.join(os.path.dirname(self._root_dir), str(parent["member"])))
            run.read(self._trainer.copy_from)
        self._eval_return = parent["objective"]  # The member's own one belongs to other weights.

    def _wait_for_order(self):
        """Waits for an order with a later turn and returns it; returns None after `stop`."""
        # A poll and no notification: the study may run on another machine, and only the folder is shared.
        # Files are replaced as a whole, so a look never finds half an order.
        while self._stop_reason is None:
            order = read_json(os.path.join(self._root_dir, ORDER_FILE))
            if order is not None and order["turn"] > self._order["turn"]:
                return order
            time.sleep(_POLL_SECONDS)
        return None

    def _report(self, path=None, diverged=False, is_over=False, reason=""):
        name, trainer = self._order["objective"], self._trainer
        objective = self._eval_return if name == "eval" else read_number(trainer.metrics[name])
        # The turn of the order under which it has trained: the study takes each turn's report once.
        report = dict(turn=self._order["turn"], env_steps=trainer.counters["env_steps"], path=path)
        report |= dict(objective=float(objective), diverged=diverged, is_over=is_over, reason=reason)
        write_json(os.path.join(self._root_dir, REPORT_FILE), report)
