# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Sessions hold a policy and environments for many evaluations, in this process or in another one."""

import contextlib
import functools
import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from typing import Any, NamedTuple

import gin
from absl import logging

from alf.config.parsing import parse_operative_config
from alf.core.devices import take_memory_as_needed
from alf.core.restart_limit import LostProcessError
from alf.drivers.env_making import close_all
from alf.drivers.weights import get_weights, set_weights
from alf.errors import ConfigError, EnvError
from alf.evaluation.episodes import evaluate, join_episodes
from alf.evaluation.video import GifRecorder, choose_drivers, opengl_errors_are_config_errors, render_frame
from alf.games.mapping import find_agents
from alf.policies.agent import Agent
from alf.runs.experiment import Experiment
from alf.runs.saved_run import make_env, restore_policy
from alf.workers.process import signals_held

_STOPPED = "the evaluation was stopped"


class Result(NamedTuple):
    """The result of an evaluation."""

    episodes: Any  # `Episodes`
    video: Any = None  # `Gif` or None


class Session:
    """A policy and its environments, in this process.

    Args:
        policy: `Policy`, whose variables are changed.
        batch_size, num_episodes, deterministic, seed, video_interval, video_frames, env: arguments of
            `Evaluator`.
        first_index: int, the number of the first sub-environment in a batch that several sessions share.

    Attributes:
        num_games: int, how many episodes go on at a time, those of several agents counted once.
    """

    def __init__(
        self,
        policy,
        batch_size,
        num_episodes,
        deterministic,
        seed,
        video_interval=None,
        video_frames=200,
        env=None,
        first_index=0,
    ):
        self._policy, self._agent = policy, Agent(policy)
        self._num_episodes, self._deterministic, self._seed = num_episodes, deterministic, seed
        self._video_interval, self._video_frames = video_interval, video_frames
        self._num_evaluations, self._first_index = 0, first_index
        # Never reset: a session that was stopped is closed next, and evaluates nothing any more.
        self._is_stopping = False
        # Environments that cannot be seeded again differ at least by this one from the other sessions'.
        seed = seed if seed is None else seed + first_index
        if video_interval is None:
            self._env = make_env(seed, batch_size, env=env)
        else:
            choose_drivers()
            with opengl_errors_are_config_errors():
                self._env = make_env(seed, batch_size, "rgb_array", env)
                # Otherwise a wrong render mode would end the run at its first evaluation, hours later.
                self._check_renders()
        self.num_games = self._env.batch_size // len(find_agents(self._env))

    def evaluate(self, path, note_step):
        """Evaluates the checkpoint at `path`. Returns the `Result`.

        It calls `note_step` () when it begins, and before every step.
        """
        note_step()
        restore_policy(self._policy, path)
        return self._evaluate(note_step)

    def evaluate_weights(self, weights):
        """Evaluates weights, the result of `get_weights` for the same policy. Returns the `Result`."""
        set_weights(self._policy, weights)
        return self._evaluate(lambda: None)

    def stop(self):
        """Ends the current evaluation after its step. Any thread may call this."""
        self._is_stopping = True

    def close(self):
        """Closes the environments."""
        close_all([self._env])

    def _evaluate(self, note_step):
        # The same seed for each evaluation, so that their differences come from the weights.
        if self._first_index:
            # Also without a seed: the number of a game may decide which policies act there.
            with contextlib.suppress(NotImplementedError):
                self._env.seed(self._seed, self._first_index)
        elif self._seed is not None:
            with contextlib.suppress(NotImplementedError):
                self._env.seed(self._seed)

        def should_stop():
            note_step()
            return self._is_stopping

        is_recorded = self._video_interval is not None and self._num_evaluations % self._video_interval == 0
        # With 0 frames it does nothing: the other evaluations do not pay for rendering.
        recorder = GifRecorder(self._env, self._video_frames if is_recorded else 0)
        settings = self._num_episodes, self._deterministic, should_stop, recorder
        episodes = evaluate(self._agent, self._env, *settings)
        self._num_evaluations += 1
        return Result(episodes, recorder.make_gif())

    def _check_renders(self):
        try:
            self._env.reset()
            render_frame(self._env)
        except ConfigError as error:
            close_all([self._env])
            raise ConfigError(f"Evaluator.video_interval is {self._video_interval}: {error}") from None
        except BaseException:
            close_all([self._env])
            raise


class WorkerSession:
    """Evaluates in other processes, each with a part of the sub-environments, with the methods of `Session`.

    Args:
        workers: list of `EvaluationProcess` or `RayEvaluator`, one for each part that `divide` has made, in
            this order.
        max_restarts: int, how often each of them is replaced in one evaluation.
        read: callable (path of a checkpoint) -> what `begin` of a worker takes.
    """

    def __init__(self, workers, max_restarts, read=lambda path: path):
        self._workers, self._max_restarts, self._read = workers, max_restarts, read

    def evaluate(self, path, note_step):
        """Evaluates the checkpoint at `path`. Returns the `Result`. Calls `note_step` as `Session` does.

        It does not do so for processes in a cluster, because Ray brings no news of a call that goes on.

        Raises:
            EnvError: for any error in a process on this machine, or if one was lost too often.
            Exception: what `RayEvaluator.end` raises.
        """
        content = self._read(path)
        try:
            # All begin before the first is waited for: `begin` does not wait.
            for worker in self._workers:
                worker.begin(content)
            results = [finish(worker, content, self._max_restarts, note_step) for worker in self._workers]
        except BaseException:
            # The others would answer this evaluation when they are asked for the next one.
            self.stop()
            raise
        # The first worker has sub-environment 0, which the video shows.
        return Result(join_episodes([result.episodes for result in results]), results[0].video)

    def stop(self):
        """Ends the processes, also during an evaluation. Any thread may call this."""
        for worker in self._workers:
            worker.stop()

    def close(self):
        """Ends the processes."""
        self.stop()  # All, before the end of the first is waited for.
        for worker in self._workers:
            worker.close()


class EvaluationProcess:
    """A process on this machine with a `Session`.

    Args:
        root_dir: path of the run's directory.
        settings: dict of the arguments of a `Session`.
    """

    def __init__(self, root_dir, settings):
        # The settings are arguments, because the standard input has the paths.
        self._arguments = root_dir, json.dumps(settings)
        # Held while the process is replaced, or a signal sent.
        self._lock, self._is_stopping = threading.Lock(), False
        self._start()

    def _start(self):
        # When this end is closed, also because the run was killed, the kernel ends the process.
        reader, self._lifeline = os.pipe()
        # The standard error stream is inherited: warnings and tracebacks of the process appear among the
        # lines of the run.
        with os.fdopen(reader), signals_held():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "alf.evaluation.session_process", *self._arguments, str(reader)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[reader],
                # One thread and no GPU, because training needs the cores and the memory of the GPU.
                env={**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            )

    def begin(self, path):
        """Begins to evaluate the checkpoint at `path`."""
        with contextlib.suppress(BrokenPipeError):  # the process has ended, which `end` tells
            self._process.stdin.write(os.fsencode(path) + b"\n")
            self._process.stdin.flush()

    def end(self, note_step):
        """Waits for the evaluation that has begun. Returns the `Result`.

        It calls `note_step` () about once a second while the environments step.

        Raises:
            LostProcessError: if the process has ended, for example because memory was short.
            EnvError: if the evaluation failed, or after `stop`.
        """
        # Without a time-out: only the evaluator's thread waits here, and `stop` ends the process, which
        # closes the pipe, which ends the read.
        try:
            while (answer := pickle.load(self._process.stdout)) is None:
                note_step()
        except (EOFError, pickle.UnpicklingError):
            with self._lock:
                self._kill()
                status = self._process.wait()
                if self._is_stopping:
                    raise EnvError(_STOPPED) from None
            raise LostProcessError(f"the process of the evaluation has ended with status {status}") from None
        if isinstance(answer, str):
            raise EnvError(f"the evaluation failed: {answer}")
        return answer

    def restart(self):
        """Replaces the process after it was lost; raises EnvError after `stop`."""
        with self._lock:
            if self._is_stopping:
                raise EnvError(_STOPPED)
            self._end()
            self._start()

    def stop(self):
        """Kills the process, also during an evaluation. Any thread may call this."""
        with self._lock:
            self._is_stopping = True
            self._kill()

    def close(self):
        """Kills the process."""
        self.stop()
        self._end()

    def _kill(self):
        # Not SIGTERM, which a process that hangs may not obey, and then the thread in `end` would wait for
        # its answer. Nothing is lost: the process has only read, and worker processes end when it does.
        if self._process.returncode is None:  # not reaped, so its id is still its own
            with contextlib.suppress(ProcessLookupError):  # it has no group yet
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()

    def _end(self):
        """Waits for the end of the process, which is killed, and closes what belongs to it."""
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):  # a path that a dead process has not read is flushed
            self._process.stdin.close()
        self._process.stdout.close()
        os.close(self._lifeline)


def finish(worker, content, max_restarts, note_step):
    """Waits for the result of a worker that has begun; if its process is lost, a successor begins again.

    Args:
        worker: `EvaluationProcess` or `RayEvaluator`.
        content: what its `begin` has got.
        max_restarts: int; after so many successors EnvError is raised.
        note_step: the argument of its `end`, which also says what else is raised.
    """
    # Of this evaluation only, because a run of weeks may lose a process now and then.
    for num_restarts in itertools.count():
        try:
            return worker.end(note_step)
        except LostProcessError as loss:
            if num_restarts == max_restarts:
                raise EnvError(f"{loss}; Evaluator.max_restarts={max_restarts} is reached") from None
            logging.warning("%s: restart %d of %d", loss, num_restarts + 1, max_restarts)
        worker.restart()
        worker.begin(content)


def divide(settings, num_workers):
    """Divides the sub-environments of an evaluation, each with its share of the episodes, among workers.

    Args:
        settings: dict of the arguments of a `Session`.
        num_workers: int, at most `settings["batch_size"]`.

    Returns:
        list of such dicts, one for each worker.
    """
    size, (share, rest) = settings["batch_size"], divmod(settings["num_episodes"], settings["batch_size"])
    firsts = [size * i // num_workers for i in range(num_workers + 1)]
    return [
        {
            **settings,
            "batch_size": end - first,
            # As `evaluate` does: the first `rest` sub-environments play one episode more.
            "num_episodes": share * (end - first) + min(end, rest) - min(first, rest),
            "video_interval": None if first else settings["video_interval"],
            "first_index": first,
        }
        for first, end in itertools.pairwise(firsts)
    ]


def start_processes(root_dir, parts, max_restarts):
    """Makes a `WorkerSession` in processes on this machine; `parts` is a result of `divide`."""
    return WorkerSession([EvaluationProcess(root_dir, part) for part in parts], max_restarts)


def start_in_cluster(evaluators, policy, parts, max_restarts, config):
    """Makes a `WorkerSession` in processes that Ray starts anywhere in a cluster.

    It sends weights rather than the path of a checkpoint, because the run's files may only be on this
    machine.

    Args:
        evaluators: list of `RayEvaluator`, not started.
        policy: `Policy` like the policy that learns; its variables are changed.
        parts: a result of `divide`, as many as there are evaluators.
        max_restarts: as in `WorkerSession`.
        config: text, the run's operative configuration.
    """
    spec = policy.time_step_spec
    specs = spec.observation, policy.action_spec, spec.reward
    for evaluator, part in zip(evaluators, parts, strict=True):
        # It does not wait: Ray looks for a place, and the process imports TensorFlow, while training begins.
        evaluator.start(functools.partial(_make_evaluate, config, specs, part))

    def read(path):
        restore_policy(policy, path)
        return get_weights(policy)

    return WorkerSession(evaluators, max_restarts, read)


def _make_evaluate(config, specs, settings):
    """Makes a `Session` in the other process and returns its method `evaluate_weights`.

    Args:
        config: text, the run's gin configuration.
        specs: tuple of the specs of observations, actions and rewards, for `Experiment.make_policy`.
        settings: dict of the arguments of a `Session`.
    """
    gin.clear_config()
    parse_operative_config(config)
    take_memory_as_needed()
    return Session(Experiment().make_policy(*specs), **settings).evaluate_weights
