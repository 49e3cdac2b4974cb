# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A population in Ray's processes: Ray Tune starts members, restarts those that crash and shares the room.

Without TensorFlow, which a member's process imports. `alf.distributed.cluster.connect` comes before this
module, because it says to Ray where to listen when Ray is imported.
"""

import functools
import logging
import math
import os
import shutil
import sys
import time

import cloudpickle
from absl import logging as absl_logging

from alf.distributed.ray_process import AfterTensorFlow, make_here
from alf.errors import ConfigError, SaveError
from alf.population.room import request_resources
from alf.population.study import MEMBERS

# Before Ray Tune is imported, here and in the members' processes, which import this module first.
os.environ.update(
    RAY_CHDIR_TO_TRIAL_DIR="0",  # relative paths in gin files stay right
    TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1",  # the study keeps its own table
    TUNE_DISABLE_SIGINT_HANDLER="1",  # it would end members before they are saved
    TUNE_PRINT_ALL_TRIAL_ERRORS="0",  # there is a line for each
    RAY_AIR_NEW_OUTPUT="0",  # the new output prints a table even if it is told to print nothing
)
try:
    from ray import tune
    from ray.tune.schedulers import PopulationBasedTraining, TrialScheduler
except ImportError as error:
    raise ConfigError(f'Ray Tune is not installed: pip install "alf-tf[tune]" ({error})') from None

_STEP_SECONDS = 1.0  # after which a member answers, also in the middle of an interval: it may have to stop
_STOP_SECONDS = 180.0  # for the members to save and end, also if one is just being built
LOG_FILE = "log.txt"  # in a member's directory


def make_member(**settings):
    """Makes a `Member` of these arguments in its process, whose log goes to a file."""
    from alf.core.tf_runtime import share_heaps
    from alf.population.member import Member  # here, because it imports TensorFlow

    share_heaps()
    member = Member(**settings)
    os.makedirs(member.root_dir, exist_ok=True)
    absl_logging.set_verbosity(absl_logging.INFO)
    handler = logging.FileHandler(os.path.join(member.root_dir, LOG_FILE))
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    absl_logging.get_absl_logger().handlers = [handler]  # in place of that of the member before
    return member


class MemberTrainable(tune.Trainable):
    """A `Member` as Ray Tune sees it. A step is an interval, or a second of one.

    The config is a dict of `order`, see `Study`, which may have an entry `stop`, the reason to end;
    `settings`, a dict of what `Member` needs beside `index`; and `import_paths`, see `make_here`.
    """

    def setup(self, config):
        self._config, self._member, self._index = config, None, None

    def reset_config(self, new_config):
        """Takes another order. It is carried out in the next step, whose errors are its own."""
        self._config = new_config
        return True

    def step(self):
        order = self._config["order"]
        try:
            if "stop" in order:
                self.cleanup(order["stop"])
                return self._result(done=True, is_partial=True)
            if self._index != order["member"]:  # Tune may give this process to another member
                self.cleanup("another member gets its process")
                make = functools.partial(make_member, index=order["member"], **self._config["settings"])
                pickled = cloudpickle.dumps(AfterTensorFlow(make))
                self._member = make_here(pickled, self._config["import_paths"])
                self._index = order["member"]
            report = self._member.follow(order, _STEP_SECONDS)
        except ConfigError as error:
            return self._result(done=True, is_partial=True, config_error=str(error))
        if report is None:
            return self._result(is_partial=True)
        return self._result(done=report["is_over"], is_partial=False, **report)

    def save_checkpoint(self, checkpoint_dir):
        """A member's own directory has its checkpoints; Tune asks for one when it pauses a member."""
        return {"order": self._config["order"]["number"]}

    def load_checkpoint(self, checkpoint):
        """The order says what to load."""

    def cleanup(self, reason="Ray Tune stops it"):
        if self._member is not None:
            self._member.close(reason)
        self._member = self._index = None

    def _result(self, **values):
        return {"env_steps": 0, "objective": math.nan, **values}


class StudyScheduler(PopulationBasedTraining):
    """Tune's PBT where `Study` decides who copies whom, and the processes of the members live on.

    Tune itself would end the process of a member that copies another one, and start a new one.

    Args:
        study: `Study`.
        has_room: whether all members can train at the same time.
        announce: callable (text), called for each event.
        on_change: callable (), called when the table has changed.

    Attributes:
        stop_reason: text; once it is set, from any thread, all members are saved and end.
        error: what ended the study: the ConfigError of a member's binding, or a SaveError; None before.
    """

    def __init__(self, study, has_room, announce, on_change):
        super().__init__("env_steps", "objective", "max", 1.0, custom_explore_fn=lambda config: config)
        self.stop_reason = self.error = None
        self._study, self._has_room = study, has_room
        self._announce, self._on_change = announce, on_change
        self._best = -math.inf

    def on_trial_result(self, tune_controller, trial, result):
        if not result["is_partial"]:
            order = self._take_report(trial, result)
            if order is None:
                return TrialScheduler.STOP
            if order["number"] != trial.config["order"]["number"]:
                self._give(trial, order)
        if self.stop_reason is not None:
            self._give(trial, {**trial.config["order"], "stop": self.stop_reason})
        elif not result["is_partial"] and not self._has_room:
            self._trial_state[trial].last_perturbation_time = -math.inf  # each interval is a turn
            return super().on_trial_result(tune_controller, trial, result)
        return TrialScheduler.CONTINUE

    def on_trial_complete(self, tune_controller, trial, result):
        if result.get("config_error"):
            self._fail(ConfigError(result["config_error"]), "a setting is wrong")
        elif result.get("is_over"):
            self._take_report(trial, result)
            self._announce(f"member {result['member']} has ended: {result['reason']}")
            if result["reason"].startswith("target_"):
                self.stop_reason = self.stop_reason or f"member {result['member']}: {result['reason']}"

    def choose_trial_to_run(self, tune_controller):
        return None if self.stop_reason is not None else super().choose_trial_to_run(tune_controller)

    def lose(self, member):
        """Takes note that a member has ended by an error."""
        try:
            self._study.lose(member)
        except SaveError as error:
            self._fail(error, "the study cannot be saved")

    def _fail(self, error, reason):
        """Ends the study by an error: members are saved and end. Tune would blame the member for it."""
        self.error = self.error or error
        self.stop_reason = self.stop_reason or reason

    def _checkpoint_or_exploit(self, trial, tune_controller, upper_quantile, lower_quantile):
        """Does nothing: the order says it all."""

    def _take_report(self, trial, result):
        """Gives a report to the study; returns the member's order, or None if it is to end."""
        member, before = _index(trial), trial.config["order"]
        try:
            order = self._study.report(result)
            self._on_change()
        except SaveError as error:
            self._fail(error, "the study cannot be saved")
            return before  # an order that is not written is not given
        if result["diverged"]:
            self._announce(f"member {member} has diverged: {result['reason']}")
        elif result["objective"] > self._best:
            self._best = result["objective"]
            self._announce(
                f"member {member} has the best objective so far, {self._best:.6g}, at "
                f"{result['env_steps']:,} env steps; {_format(before['settings'])}"
            )
        if order is None:
            self._announce(f"member {member} ends: it has diverged too often")
        elif order["number"] != before["number"] and order["parent"] is not None:
            parent = order["parent"]
            self._announce(
                f"member {member}, {result['objective']:.6g}, copies member {parent['member']}, "
                f"{parent['objective']:.6g}, at {result['env_steps']:,} env steps; "
                f"{_format(order['settings'])}"
            )
        return order

    def _give(self, trial, order):
        """Sends an order, which arrives before the next step. A process that is started anew gets it, too."""
        trial.set_config({**trial.config, "order": order})
        trial.temporary_state.ray_actor.reset_config.remote(trial.config)


class _Stopper(tune.Stopper):
    """Ends the study once all members have saved and ended, or have had the time for it."""

    def __init__(self, scheduler):
        self._scheduler = scheduler
        self._deadline = None

    def __call__(self, trial_id, result):
        return False

    def stop_all(self):
        if self._scheduler.stop_reason is None:
            return False
        self._deadline = self._deadline or time.monotonic() + _STOP_SECONDS
        running = [trial for trial in self._scheduler._trial_state if trial.status == "RUNNING"]
        return not running or time.monotonic() > self._deadline


class _Events(tune.Callback):
    """Announces members that crash, and whether they are started again."""

    def __init__(self, scheduler, announce):
        self._scheduler, self._announce = scheduler, announce

    def on_trial_recover(self, iteration, trials, trial, **info):
        self._announce(f"member {_index(trial)} is started again: {_describe_error(trial)}")

    def on_trial_error(self, iteration, trials, trial, **info):
        self._scheduler.lose(_index(trial))
        self._announce(f"member {_index(trial)} is lost: {_describe_error(trial)}")


def run_study(ray, study, population, helpers, config, folder, announce, on_change, on_scheduler):
    """Trains all members until they have ended, or `stop_reason` is set.

    Args:
        ray: the module, connected.
        study: `Study`.
        population: `Population`.
        helpers: dict, what the collectors of a member and its evaluation occupy, see `find_helpers`.
        config: text; the gin configuration of all members.
        folder: of the study.
        announce, on_change: as of `StudyScheduler`.
        on_scheduler: callable (`StudyScheduler`), called before the members start.

    Returns:
        a list of the errors of members that were lost, texts.

    Raises:
        ConfigError: if a setting is wrong, or a member needs more than the cluster has.
        SaveError: if the study, or what Tune keeps of it, cannot be written.
    """
    total = ray.cluster_resources()
    request, has_room = request_resources(total, population, len(study.orders), helpers)
    scheduler = StudyScheduler(study, has_room, announce, on_change)
    on_scheduler(scheduler)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    run_config = _configure_run(folder, population, scheduler, _Events(scheduler, announce))
    try:
        results = tune.Tuner(
            tune.with_resources(MemberTrainable, request),
            param_space=_describe_members(study, population, config, folder),
            tune_config=_configure_trials(scheduler),
            run_config=run_config,
        ).fit()
    except Exception as error:  # with a full disk Tune cannot read its own files either
        raise scheduler.error or _find_fault(error, run_config.storage_path) from error
    if scheduler.error is not None:
        raise scheduler.error
    return [_last_line(str(error)) for error in results.errors]


def _describe_members(study, population, config, folder):
    """The config of `MemberTrainable`, of which Tune makes one for each order."""
    settings = dict(
        config=config,
        folder=os.path.join(folder, MEMBERS),
        ranges=population.settings,
        interval=population.interval,
        objective=population.objective,
        seed=study.seed,
    )
    return dict(order=tune.grid_search(study.orders), settings=settings, import_paths=list(sys.path))


def _configure_trials(scheduler):
    return tune.TuneConfig(
        scheduler=scheduler,
        reuse_actors=True,
        trial_name_creator=_name_trial,
        trial_dirname_creator=_name_trial,
    )


def _configure_run(folder, population, scheduler, events):
    """Where Tune writes, and when it ends. A study that goes on needs nothing of what Tune has written."""
    storage = os.path.join(folder, "tune")
    shutil.rmtree(storage, ignore_errors=True)
    return tune.RunConfig(
        name="study",
        storage_path=storage,
        failure_config=tune.FailureConfig(max_failures=population.max_failures),
        stop=_Stopper(scheduler),
        callbacks=[events],
        verbose=0,
    )


def _find_fault(error, path):
    """Returns the SaveError of an error of Tune that says that files below `path` cannot be written.

    Any other error is returned as it is.
    """
    fault = error
    while fault is not None:
        if isinstance(fault, OSError) and not isinstance(fault, ConnectionError):
            return SaveError(f"{path} cannot be written: {fault.strerror or fault}")
        fault = fault.__cause__ or fault.__context__
    return error


def _name_trial(trial):
    return f"member_{_index(trial)}"


def _format(settings):
    values = settings.items()
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in values)


def _index(trial):
    return trial.config["order"]["member"]


def _describe_error(trial):
    """The last line of the last error of a member, which Tune has written into a file."""
    try:
        with open(trial.error_file, encoding="utf-8") as file:
            text = file.read().rpartition("Failure #")[2]
    except OSError:
        return "an unknown error"
    return "its process has died" if "actor died" in text else _last_line(text)


def _last_line(text):
    return (text.strip() or "unknown").splitlines()[-1]
