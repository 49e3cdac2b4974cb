# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Member: a run of a population. It trains for an interval at a time and does what orders say."""

import concurrent.futures
import contextlib
import json
import math
import os
import queue
import threading
import time

import gin
import tensorflow as tf
from absl import logging

from alf.callback import Callback
from alf.config.gin_files import CONFIG_FILE
from alf.config.parsing import parse_config, wrong_calls_are_config_errors
from alf.core.files import replace_file
from alf.core.randomness import spawn_seeds
from alf.errors import ConfigError, DivergedError
from alf.population.bindings import is_tunable, make_bindings
from alf.runs.experiment import Experiment
from alf.runs.saved_run import SavedRun
from alf.schedules import assign_tunables, find_tunables
from alf.training.trainer import Trainer

ORDER_FILE = "population_order.json"  # in a member's directory: the number of its last order that is done
_POLL_SECONDS = 1.0  # between two looks at whether the other thread lives
_CLOSE_SECONDS = 120.0  # for the train iteration that goes on, and for the last checkpoint
_MAX_TRIES = 5  # to read the checkpoint of a member that trains on and removes its old ones


class Member:
    """Trains in a thread of its own, which pauses between two train iterations at the end of an interval.

    Args:
        config: text; the gin configuration of all members.
        folder: of the members' directories.
        index: int; of this one.
        ranges: dict from names of settings to `Range`.
        interval, objective: as in `Population`.
        seed: int, of the study.
    """

    def __init__(self, config, folder, index, ranges, interval, objective, seed):
        self._config = config
        self.root_dir = os.path.join(folder, str(index))
        self._ranges = ranges
        self._interval = interval
        self._objective = objective
        (self._seed,) = spawn_seeds([seed, index], 1)
        self._trainer = self._session = None
        self._settings = None  # of the `Trainer`
        self._number = None  # of the last order that is done
        self._eval_return = math.nan  # the mean return of the last evaluation

    def follow(self, order, timeout):
        """Trains as an order says, see `Study`, to the end of the interval; returns the report for `Study`.

        It returns None if the interval is not over after `timeout` seconds: the training goes on meanwhile.

        Raises:
            ConfigError: if a binding is wrong.
            Exception: what training raised, but for DivergedError, which is in the report.
        """
        try:
            if self._session is None or self._needs_other_graph(order["settings"]):
                self.close("its settings change")
                self._build(order)
            if self._number != order["number"]:
                self._session.run(lambda: self._carry_out(order))
            if not self._session.reach_end(timeout):
                return None
            self._eval_return = self._session.gate.eval_return
            if self._session.reason is not None:
                path = SavedRun(self.root_dir).find_checkpoint()
                return self._describe(order, path, is_over=True, reason=self._session.reason)
            return self._describe(order, self._session.run(self._trainer.save))
        except DivergedError as error:
            logging.error("%s", error)
            with contextlib.suppress(DivergedError):  # the last checkpoint would have what is not finite
                self.close("it has diverged")
            return self._describe(order, diverged=True, reason=str(error))

    def close(self, reason):
        """Ends the training that goes on, and saves it; may be repeated."""
        session, self._session = self._session, None
        if session is not None:
            session.close(reason)

    def _needs_other_graph(self, settings):
        return any(
            settings[name] != value and not is_tunable(name, self._ranges[name])
            for name, value in self._settings.items()
        )

    def _build(self, order):
        """Makes the `Trainer` of an order's settings, which continues from the member's own checkpoint."""
        gin.clear_config()
        bindings = [*make_bindings(order["settings"], self._ranges), f"Experiment.seed = {self._seed}"]
        parse_config([], [self._config])
        parse_config([], bindings)
        os.makedirs(self.root_dir, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # that of other settings; the study has checked all else
            os.remove(os.path.join(self.root_dir, CONFIG_FILE))
        with wrong_calls_are_config_errors():
            self._trainer = Trainer(self.root_dir, Experiment().make_driver())
        try:
            self._check(order["settings"])
        except ConfigError:
            self._trainer.close()
            raise
        self._session = _Session(self._trainer, self._interval, self._eval_return)
        self._number = self._read_number()
        self._set_tunables(order["settings"])

    def _check(self, settings):
        """Raises ConfigError if there is no such objective, or a setting's `Tunable` is nowhere."""
        trainer = self._trainer
        if self._objective == "eval" and not trainer.evaluates:
            raise ConfigError("Population.objective is 'eval': set Trainer.evaluator_ctor")
        if self._objective != "eval" and self._objective not in trainer.metrics:
            raise ConfigError(
                f"Population.objective is {self._objective!r}: it must be 'eval' or one of "
                f"{', '.join(trainer.metrics)}"
            )
        tunables = find_tunables(trainer.learner)
        for name in settings:
            if is_tunable(name, self._ranges[name]) and name not in tunables:
                raise ConfigError(f"Population.settings has {name!r}: nothing in the learner reads it")

    def _carry_out(self, order):
        """Copies the parent, sets the settings and saves that; in the thread that trains, or before."""
        trainer, parent = self._trainer, order["parent"]
        if parent is not None:
            self._copy(parent)
        self._set_tunables(order["settings"])
        trainer.save()
        self._number = order["number"]
        with replace_file(os.path.join(self.root_dir, ORDER_FILE)) as file:
            file.write(json.dumps({"number": self._number}).encode())

    def _set_tunables(self, settings):
        self._settings = settings
        assign_tunables(self._trainer.learner, settings)

    def _copy(self, parent):
        """Copies the checkpoint of the order, or a newer one of that member, which may have removed it."""
        path = parent["path"]
        run = SavedRun(os.path.join(os.path.dirname(self.root_dir), str(parent["member"])))
        for i in range(_MAX_TRIES):
            try:
                self._trainer.copy_from(path)
                break
            except (OSError, tf.errors.OpError):
                if i == _MAX_TRIES - 1:
                    raise
                path = run.find_checkpoint()
        self._session.gate.eval_return = parent["objective"]  # its own one was of other weights

    def _read_number(self):
        """The number of the order that this member has carried out; None before the first one."""
        try:
            with open(os.path.join(self.root_dir, ORDER_FILE), encoding="utf-8") as file:
                return json.load(file)["number"]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _describe(self, order, path=None, diverged=False, is_over=False, reason=""):
        trainer = self._trainer
        if diverged:
            objective = math.nan
        elif self._objective == "eval":
            objective = self._eval_return
        else:
            objective = trainer.metrics[self._objective].result()
        return dict(
            member=order["member"],
            env_steps=trainer.counters["env_steps"],
            objective=float(objective),
            path=path,
            diverged=diverged,
            is_over=is_over,
            reason=reason,
        )


class _Session:
    """The training of one `Trainer`, from its start to its end, in a thread.

    Its methods are for the thread that owns it. They raise what the training raised.

    Args:
        trainer: `Trainer`.
        interval: environment steps.
        eval_return: the mean return of the last evaluation; NaN before.

    Attributes:
        gate: `_Gate`.
        reason: text, why the training has ended; None before.
    """

    def __init__(self, trainer, interval, eval_return):
        self.reason = self._error = None
        self._is_under_way = False  # to an end of an interval that `reach_end` has not reported
        self.gate = _Gate(trainer.counters["env_steps"], interval, eval_return)
        trainer.add_callback(self.gate)
        self._trainer = trainer
        self._thread = threading.Thread(target=self._train, name="MemberThread", daemon=True)

    def run(self, function):
        """Calls a function in the thread that trains, which is paused, or here before that begins."""
        if self._thread.ident is None:
            return function()
        future = concurrent.futures.Future()
        self.gate.orders.put((function, future))
        while not future.done() and self._thread.is_alive():
            concurrent.futures.wait([future], _POLL_SECONDS)
        if not future.done():
            raise self._error or RuntimeError("the training has ended")
        return future.result()

    def reach_end(self, timeout):
        """Lets the training go on to the end of an interval, or of the run; whether it is there in time."""
        if self._thread.ident is None:
            self._thread.start()
        elif not self._is_under_way:
            self.run(self.gate.is_paused.clear)
        deadline = time.monotonic() + timeout
        while self._thread.is_alive() and not self.gate.is_paused.is_set() and time.monotonic() < deadline:
            self.gate.is_paused.wait(min(_POLL_SECONDS, timeout))
        if self._error is not None:
            raise self._error
        is_there = self.gate.is_paused.is_set() or self.reason is not None
        self._is_under_way = not is_there
        return is_there

    def close(self, reason):
        """Ends the training, which is saved; raises RuntimeError if that takes longer than two minutes."""
        if self._thread.ident is None:
            self._trainer.close()
            return
        self._trainer.interrupt(reason)
        self.gate.open()
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            raise RuntimeError(f"the training did not end within {_CLOSE_SECONDS:g} s")
        if self._error is not None:
            raise self._error

    def _train(self):
        try:
            _, self.reason = self._trainer.train()
        except BaseException as error:
            self._error = error


class _Gate(Callback):
    """Pauses the training at the end of each interval, and calls what is in `orders` there.

    Args:
        env_steps: int; of the run so far.
        interval: environment steps.
        eval_return: as of `_Session`; also an attribute.

    Attributes:
        orders: queue of pairs of a function and the `Future` of its result.
        is_paused: event; it is set while the training is paused. An order clears it.
    """

    def __init__(self, env_steps, interval, eval_return):
        self.orders = queue.SimpleQueue()
        self.is_paused = threading.Event()
        self.eval_return = eval_return
        self._interval = interval
        self._end = self._find_end(env_steps)
        self._is_open = False

    def open(self):
        """Ends the pause, now and for ever."""
        self._is_open = True
        self.orders.put((self.is_paused.clear, concurrent.futures.Future()))

    def on_train_iter(self, trainer, summary):
        env_steps = trainer.counters["env_steps"]
        if env_steps < self._end or self._is_open:
            return
        self._end = self._find_end(env_steps)
        self.is_paused.set()
        while self.is_paused.is_set():
            # Without a limit: the thread that gives orders ends with this process, or opens the gate.
            function, future = self.orders.get()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

    def on_evaluation(self, trainer, evaluation):
        self.eval_return = evaluation.figures["return"]["mean"]

    def _find_end(self, env_steps):
        return (env_steps // self._interval + 1) * self._interval
