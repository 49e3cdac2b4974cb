# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluator: evaluates checkpoints during training, in a thread or in another process."""

import contextlib
import functools
import queue
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import tensorflow as tf
from absl import logging

from alf.config.kinds import NonNegativeInt, PositiveFloat, PositiveInt, WholeNumber
from alf.config.parsing import operative_config
from alf.config.settings import Role, configurable
from alf.core.devices import HOST
from alf.core.running_time import running_time
from alf.distributed.ray_evaluator import RayEvaluator
from alf.errors import ConfigError, contain
from alf.evaluation.episodes import summarize_episodes
from alf.evaluation.session import Session, divide, start_in_cluster, start_processes
from alf.policies.policy import Policy
from alf.runs.checkpoint_files import score
from alf.runs.untold import check_other_process

_PLACES = ("thread", "process", "cluster")
_CLOSE_SECONDS = 5.0  # the time in which environments return from a step and close
_STALL_SECONDS = 300.0  # the time without a step after which the log names an evaluation
_HANG_SECONDS = 4.0  # the time without a step after which an evaluation hangs; less than `_CLOSE_SECONDS`
_LOOK_SECONDS = 0.02  # between two looks for a result


class Evaluation(NamedTuple):
    """The evaluation of a checkpoint."""

    path: str  # the path of the checkpoint
    env_steps: int  # environment steps learned from before the checkpoint
    figures: dict  # the result of `alf.evaluation.episodes.summarize_episodes`
    num_episodes: int
    seconds: float  # the time that the evaluation took
    video: Any = None  # `alf.evaluation.video.Gif`, if there is one
    reward_weights: list[float] | None = None  # of the components of a vector reward

    @property
    def score(self) -> float:
        """The mean return; of a vector reward, of the sum of its components with their weights."""
        return score(self.figures, self.reward_weights)

    def scalars(self) -> dict[str, float]:
        """Returns the numbers for TensorBoard, a dict by names such as "eval/return_mean"."""
        figures = self.figures.items()
        values = {f"eval/{name}_{key}": x for name, parts in figures for key, x in parts.items()}
        if self.reward_weights is not None:
            values["eval/weighted_return_mean"] = self.score
        return {**values, "eval/num_episodes": self.num_episodes, "eval/seconds": self.seconds}


@configurable("alf.training", role=Role.MEASUREMENT)
class Evaluator:
    """Evaluates the newest weights at intervals, while actors and learner go on.

    Set `Trainer.evaluator = @Evaluator` and one of the intervals. An evaluation begins only after the
    previous one has ended.

    Args:
        interval_steps: environment steps between the beginnings of two evaluations, or None.
        interval_seconds: seconds between the beginnings of two evaluations, or None. One of the intervals
            must be set; with both, the first to be over counts.
        num_episodes: int, N, the episodes of each evaluation.
        batch_size: int, at most N, how many sub-environments step together; ignored if `env` has no
            argument `batch_size`.
        deterministic: bool, whether the policy acts as well as it can, or explores like in training.
        seed: int, with which each evaluation seeds the environments; None takes other seeds each time.
        place: where it evaluates. "thread": in this process. "process": in another process on this machine,
            which needs more memory but does not hold the GIL of this process. "cluster": in a process that
            Ray starts, possibly on another machine. Other processes make policy and environments from gin's
            configuration.
        num_workers: int, at most `batch_size`, how many processes of the places "process" and "cluster" share
            the sub-environments. The episodes are the same for any number of them, if each sub-environment
            has a seed of its own and the policy does not explore.
        max_restarts: how often each of these processes is replaced in one evaluation because it was lost, for
            example killed because memory was short. Beyond that the run ends with an error.
        env: callable (seed=) -> batched environment, for users without gin and the place "thread". None
            means `Experiment.env` with the bindings of the scope "eval", such as
            `eval/alf.environments.load.max_episode_steps = 500`.
        cluster: callable () -> `RayEvaluator`, for the place "cluster".
        video_interval: int; TensorBoard shows the beginning of every so many evaluations as an animation,
            from the first on. None for no animation. The environments must render: they are made with
            `render_mode = "rgb_array"`, which makes some of them slower.
        video_frames: int, the time steps of such an animation, from sub-environment 0. 200 take some MB.
    """

    def __init__(
        self,
        interval_steps: WholeNumber | None = None,
        interval_seconds: PositiveFloat | None = None,
        num_episodes: PositiveInt = 20,
        batch_size: PositiveInt = 5,
        deterministic: bool = True,
        seed: Annotated[NonNegativeInt | None, Role.MEASUREMENT] = None,
        place: Literal["thread", "process", "cluster"] = "thread",
        num_workers: Annotated[PositiveInt, Role.EXECUTION] = 1,
        max_restarts: Annotated[NonNegativeInt, Role.EXECUTION] = 3,
        env: Callable[..., Any] | None = None,
        cluster: Callable[..., Any] = RayEvaluator,
        video_interval: PositiveInt | None = None,
        video_frames: PositiveInt = 200,
    ) -> None:
        if interval_steps is None and interval_seconds is None:
            raise ConfigError("Evaluator.interval_steps and interval_seconds are None: set one of them")
        if place != "thread" and env is not None:
            raise ConfigError(
                f"Evaluator.env is set: with the place {place!r} environments are made by Experiment.env"
            )
        # Each sub-environment plays a share of the episodes; with a share of 0 it would step for nothing.
        batch_size = min(batch_size, num_episodes)
        if num_workers > 1 and place == "thread":
            raise ConfigError(f"Evaluator.num_workers is {num_workers}: set place to 'process' or 'cluster'")
        if num_workers > batch_size:
            raise ConfigError(
                f"Evaluator.num_workers is {num_workers}, but batch_size and num_episodes have work for "
                f"{batch_size}: raise them"
            )
        self._interval_steps = interval_steps
        self._interval_seconds = interval_seconds
        self._place, self._num_workers, self._max_restarts = place, num_workers, max_restarts
        self._make_env = env
        self._make_remote = cluster
        self._settings = dict(
            batch_size=batch_size,
            num_episodes=num_episodes,
            deterministic=deterministic,
            seed=seed,
            video_interval=video_interval,
            video_frames=video_frames,
        )
        self._session: Any = None
        self._thread: Any = None
        self._policy: Any = None
        self._config = ""  # the run's operative configuration
        self._remote: Any = []  # each `RayEvaluator`, if there are any
        self._is_busy = False
        self._stepped_at: float | None = None  # `running_time` of the last step of the present evaluation
        self._looked_at = 0.0  # `running_time` of its start, or of the last warning
        self._jobs: Any = None
        self._results: Any = None

    def open(self, policy: Policy) -> None:
        """Makes the environments, in this process first, so that errors show before training begins.

        `policy` is the policy that learns; it is copied.
        """
        if self._place != "thread":
            check_other_process(f"Evaluator.place is {self._place!r}", ", or evaluate in a thread")
        # Paths of checkpoints go to the evaluator's thread through one queue, results and errors come back
        # through the other. There is never more than one of them, because nothing is due during an
        # evaluation. Only here, or gin could not copy an evaluator that a program has made.
        self._jobs, self._results = queue.SimpleQueue(), queue.SimpleQueue()
        # A copy, because an evaluation restores a checkpoint into it while the original goes on learning.
        with tf.device(HOST):
            self._policy = policy.copy()
        if self._place == "cluster":
            # Before the environments are made: it raises ConfigError if Ray or the cluster is missing, and
            # then there is nothing to close.
            self._remote = [self._make_remote() for _ in range(self._num_workers)]
        self._session = Session(self._policy, **self._settings, env=self._make_env)
        self._config = operative_config()  # now, as in `run` gin may have the settings of something else
        if self._num_workers > 1 and self._session.num_games != self._settings["batch_size"]:
            self.close()
            raise ConfigError(
                f"Evaluator.num_workers is {self._num_workers}: Experiment.env needs an argument "
                "batch_size, so that workers can share the sub-environments"
            )

    def run(self, root_dir: str, env_steps: int) -> None:
        """Starts the thread or process and the intervals. Call it after `open`.

        Args:
            root_dir: path of the run's directory, which holds its configuration.
            env_steps: int, environment steps learned from so far.
        """
        if self._place != "thread":  # the session in this process has shown that the environments work
            self._session.close()
        parts = divide(self._settings, self._num_workers)
        if self._place == "process":
            self._session = start_processes(root_dir, parts, self._max_restarts)
        elif self._place == "cluster":
            self._session = start_in_cluster(
                self._remote, self._policy, parts, self._max_restarts, self._config
            )
        self._last_steps, self._last_time = env_steps, time.monotonic()
        # A daemon, so that an environment that hangs does not keep the process alive after `close`.
        # The session as an argument: `close` may have taken it away before the thread begins.
        work = functools.partial(self._work, self._session)
        self._thread = threading.Thread(target=work, name="Evaluator", daemon=True)
        self._thread.start()

    def is_due(self, env_steps: int) -> bool:
        """Returns whether an evaluation should begin after `env_steps` environment steps."""
        if self._is_busy:
            return False
        steps, seconds = self._interval_steps, self._interval_seconds
        is_due = steps is not None and env_steps - self._last_steps >= steps
        return is_due or (seconds is not None and time.monotonic() - self._last_time >= seconds)

    def start(self, path: str, env_steps: int) -> None:
        """Begins to evaluate a checkpoint. Its files must stay until `poll` returns the result."""
        # Only the thread that trains reads and writes these; the other thread only sees the queues.
        self._last_steps, self._last_time, self._is_busy = env_steps, time.monotonic(), True
        self._stepped_at = None  # before the job: the other thread writes it from then on
        self._looked_at = running_time()
        self._jobs.put((path, env_steps))

    def poll(self, timeout: float = 0.0) -> Evaluation | None:
        """Returns the `Evaluation` that has ended since the last call, or None.

        Args:
            timeout: float, how many seconds to wait for an evaluation that has begun. It waits no longer for
                one that makes no step for 4 seconds.

        Raises:
            Exception: an exception of the environments.
            EnvError: if a process was lost more than `max_restarts` times.
        """
        if not self._is_busy:
            return None
        deadline = running_time() + timeout
        while self._results.empty() and running_time() < deadline and not self._hangs():
            time.sleep(_LOOK_SECONDS)
        try:
            result = self._results.get_nowait()
        except queue.Empty:
            self._warn_of_stall()
            return None
        # From here on `start` may be called again, and the files of this checkpoint may be replaced. Set
        # before the error is raised, so that a caller who survives it does not wait for a result for ever.
        self._is_busy = False
        if isinstance(result, BaseException):
            raise result
        return result

    def close(self) -> None:
        """Ends the current evaluation and closes the environments. May be called again.

        It returns within 5 seconds, which include the wait of a `poll` for an evaluation that hangs. The log
        has a warning if the environments have not closed by then.
        """
        if self._session is None:
            return
        # The first line makes a second call do nothing, also if the thread hangs below.
        session, self._session = self._session, None
        # The thread closes the environments, because it may be inside one of them.
        session.stop()
        if self._thread is None:
            session.close()
            return
        # After `stop`, which ends the evaluation under way: only then does the thread look for its next job.
        self._jobs.put(None)
        hangs = self._is_busy and self._hangs()
        self._thread.join(_CLOSE_SECONDS - _HANG_SECONDS if hangs else _CLOSE_SECONDS)
        if self._thread.is_alive():
            logging.warning("the environments of the evaluation did not close within %g s", _CLOSE_SECONDS)

    def _hangs(self):
        """Returns whether the present evaluation makes no steps. Of a cluster nobody knows: False."""
        stepped_at = self._stepped_at
        return stepped_at is not None and running_time() - stepped_at > _HANG_SECONDS

    def _warn_of_stall(self):
        """Logs that the present evaluation makes no steps, again and again. Training goes on."""
        seconds = running_time() - max(self._looked_at, self._stepped_at or 0.0)
        if seconds > _STALL_SECONDS and self._place != "cluster":  # of a cluster nobody knows
            self._looked_at = running_time()
            logging.warning(
                "the evaluation at %d env steps has made no step for %d s: an environment may hang",
                self._last_steps,
                seconds,
            )

    def _note_step(self):
        self._stepped_at = running_time()

    def _work(self, session):
        """Evaluates the checkpoints in the queue. The thread runs this, and also closes the environments."""
        # Bound once, because `close` clears the attribute while this thread runs.
        with contextlib.closing(session):
            while (job := self._jobs.get()) is not None:
                started = time.monotonic()
                try:
                    episodes, video = session.evaluate(job[0], self._note_step)
                    figures, count = summarize_episodes(episodes), len(episodes.returns)
                    self._results.put(Evaluation(*job, figures, count, time.monotonic() - started, video))
                except BaseException as error:  # `poll` raises it in the thread that trains
                    self._results.put(contain(error, "an environment of the evaluation"))
