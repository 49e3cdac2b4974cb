# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluator: evaluates checkpoints while training goes on, in a thread or in another process."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from absl import logging

from alf.config.kinds import NonNegativeInt, PositiveFloat, PositiveInt, WholeNumber
from alf.config.settings import Role, configurable
from alf.distributed.ray_evaluator import RayEvaluator
from alf.errors import ConfigError, contain
from alf.evaluation.session import ClusterSession, ProcessSession, Session
from alf.policies.policy import Policy

_PLACES = ("thread", "process", "cluster")
_CLOSE_SECONDS = 5.0  # for the environments to return from a step and to close


class Evaluation(NamedTuple):
    """The evaluation of a checkpoint."""

    path: str  # of the checkpoint
    env_steps: int  # that were learned from before
    figures: dict  # what `alf.evaluation.episodes.summarize_episodes` returns
    seconds: float  # that it took
    video: Any = None  # `alf.evaluation.video.Gif`, if there is one

    def scalars(self) -> dict[str, float]:
        """The numbers for TensorBoard, a dict by name: "eval/return_mean", for example."""
        figures = self.figures.items()
        values = {f"eval/{name}_{key}": x for name, parts in figures for key, x in parts.items()}
        return {**values, "eval/seconds": self.seconds}


@configurable("alf.training", role=Role.MEASUREMENT)
class Evaluator:
    """Evaluates the newest weights from time to time. The actors and the learner go on meanwhile.

    Set `Trainer.evaluator_ctor = @Evaluator` and one of the intervals. The next evaluation begins after the
    one before has ended.

    Args:
        interval_steps: environment steps between the beginnings of two evaluations, or None.
        interval_seconds: seconds between them, or None. One interval must be set; with both, the first one
            that is over counts.
        num_episodes: N, of each evaluation.
        batch_size: sub-environments that step together, at most N; an `env_ctor` without an argument
            `batch_size` ignores it.
        deterministic: whether the policy acts as well as it can, or explores as in training.
        seed: int; every evaluation gives the environments the same seeds. None: they have others each time.
        place: where it evaluates. "thread": in this process. "process": in another one on this machine, which
            costs the memory of one, and leaves this process the GIL. "cluster": in a process that Ray starts,
            perhaps on another machine. Other processes make policy and environments from gin's configuration.
        env_ctor: callable (seed=) -> batched environment, for users without gin and the place "thread". None:
            `Experiment.env_ctor`, with bindings of the scope "eval", such as
            `eval/alf.environments.load.max_episode_steps = 500`.
        cluster_ctor: callable () -> `RayEvaluator`, for the place "cluster".
        video_interval: int, N; TensorBoard shows the beginning of each N-th evaluation, from the first one
            on, as a moving picture. None for no picture. The environments must render: they are made with
            `render_mode = "rgb_array"`, which makes some of them slower.
        video_frames: time steps of such a picture, of sub-environment 0. 200 are some MB.
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
        env_ctor: Callable[..., Any] | None = None,
        cluster_ctor: Callable[..., Any] = RayEvaluator,
        video_interval: PositiveInt | None = None,
        video_frames: PositiveInt = 200,
    ) -> None:
        if interval_steps is None and interval_seconds is None:
            raise ConfigError("Evaluator.interval_steps and interval_seconds are None: set one of them")
        if place != "thread" and env_ctor is not None:
            raise ConfigError(
                f"Evaluator.env_ctor is set: with the place {place!r} environments are made by "
                "Experiment.env_ctor"
            )
        self._interval_steps = interval_steps
        self._interval_seconds = interval_seconds
        self._place = place
        self._env_ctor = env_ctor
        self._cluster_ctor = cluster_ctor
        self._settings = dict(
            batch_size=min(batch_size, num_episodes),
            num_episodes=num_episodes,
            deterministic=deterministic,
            seed=seed,
            video_interval=video_interval,
            video_frames=video_frames,
        )
        self._session: Any = None
        self._thread: Any = None
        self._policy: Any = None
        self._remote: Any = None  # the `RayEvaluator`, if there is one
        self._is_busy = False
        self._jobs, self._results = queue.SimpleQueue(), queue.SimpleQueue()

    def open(self, policy: Policy) -> None:
        """Makes the environments, which shows whether they can be made. `policy` learns; it is copied."""
        self._policy = policy.copy()
        if self._place == "cluster":
            self._remote = self._cluster_ctor()
        self._session = Session(self._policy, **self._settings, env_ctor=self._env_ctor)

    def run(self, root_dir: str, env_steps: int) -> None:
        """Begins to count the intervals; after `open`.

        Args:
            root_dir: the run's directory, with its configuration, which is gin's.
            env_steps: environment steps learned from so far.
        """
        if self._place != "thread":
            self._session.close()
        if self._place == "process":
            self._session = ProcessSession(root_dir, self._settings)
        elif self._place == "cluster":
            self._session = ClusterSession(self._remote, self._policy, self._settings)
        self._last_steps, self._last_time = env_steps, time.monotonic()
        self._thread = threading.Thread(target=self._work, name="Evaluator", daemon=True)
        self._thread.start()

    def is_due(self, env_steps: int) -> bool:
        """Whether an evaluation should begin now. `env_steps`: as in `run`."""
        if self._is_busy:
            return False
        steps, seconds = self._interval_steps, self._interval_seconds
        is_due = steps is not None and env_steps - self._last_steps >= steps
        return is_due or (seconds is not None and time.monotonic() - self._last_time >= seconds)

    def start(self, path: str, env_steps: int) -> None:
        """Begins to evaluate a checkpoint, whose files must stay until the result is there."""
        self._last_steps, self._last_time, self._is_busy = env_steps, time.monotonic(), True
        self._jobs.put((path, env_steps))

    def poll(self, timeout: float = 0.0) -> Evaluation | None:
        """Returns the `Evaluation` that has ended since the last call, or None.

        It waits at most `timeout` seconds for one that has begun. It raises what the environments raised, or
        EnvError if the process has ended, with the place "cluster" too often.
        """
        if not self._is_busy:
            return None
        try:
            result = self._results.get(timeout=timeout) if timeout else self._results.get_nowait()
        except queue.Empty:
            return None
        self._is_busy = False
        if isinstance(result, BaseException):
            raise result
        return result

    def close(self) -> None:
        """Ends the evaluation that goes on, and closes the environments; may be repeated.

        It returns within 5 seconds, with a warning in the log if the environments do not.
        """
        if self._session is None:
            return
        session, self._session = self._session, None
        session.stop()
        if self._thread is None:
            session.close()
            return
        self._jobs.put(None)
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            logging.warning("the environments of the evaluation did not close within %g s", _CLOSE_SECONDS)

    def _work(self):
        """Evaluates what is in the queue; runs in the thread, which also closes the environments."""
        with contextlib.closing(self._session) as session:
            while (job := self._jobs.get()) is not None:
                started = time.monotonic()
                try:
                    figures, video = session.evaluate(job[0])
                    self._results.put(Evaluation(*job, figures, time.monotonic() - started, video))
                except BaseException as error:
                    self._results.put(contain(error, "an environment of the evaluation"))
