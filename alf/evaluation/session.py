# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Sessions hold a policy and environments for many evaluations, in this process or in another one."""

import base64
import contextlib
import functools
import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

import gin

from alf.config.parsing import operative_config, parse_operative_config
from alf.distributed.ray_process import AfterTensorFlow
from alf.drivers.weights import get_weights, set_weights
from alf.errors import ConfigError, EnvError
from alf.evaluation.episodes import evaluate, summarize_episodes
from alf.evaluation.video import (
    Gif,
    GifRecorder,
    choose_drivers,
    opengl_errors_are_config_errors,
    render_frame,
)
from alf.policies.agent import Agent
from alf.runs.experiment import Experiment
from alf.runs.saved_run import make_env, restore_policy


class Result(NamedTuple):
    """The result of an evaluation."""

    figures: dict  # the result of `summarize_episodes`
    video: Any = None  # `Gif` or None

    def to_json(self):
        """Converts it to JSON types."""
        video = self.video and self.video._replace(content=base64.b64encode(self.video.content).decode())
        return {"figures": self.figures, "video": video}

    @classmethod
    def from_json(cls, value):
        """Reverses `to_json`."""
        video = value["video"] and Gif(*value["video"])
        video = video and video._replace(content=base64.b64decode(video.content))
        return cls(value["figures"], video)


class Session:
    """A policy and its environments, in this process.

    Args:
        policy: `Policy`, whose variables are changed.
        batch_size, num_episodes, deterministic, seed, video_interval, video_frames, env_ctor: arguments of
            `Evaluator`.
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
        env_ctor=None,
    ):
        self._policy, self._agent = policy, Agent(policy)
        self._num_episodes, self._deterministic, self._seed = num_episodes, deterministic, seed
        self._video_interval, self._video_frames = video_interval, video_frames
        self._num_evaluations = 0
        # Never reset: a session that was stopped is closed next, and evaluates nothing any more.
        self._is_stopping = False
        if video_interval is None:
            self._env = make_env(seed, batch_size, env_ctor=env_ctor)
            return
        choose_drivers()
        with opengl_errors_are_config_errors():
            self._env = make_env(seed, batch_size, "rgb_array", env_ctor)
            # Otherwise a wrong render mode would end the run at its first evaluation, after hours perhaps.
            self._check_renders()

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
        self._env.close()

    def _evaluate(self, note_step):
        # The same seed for each evaluation, so that their differences come from the weights.
        if self._seed is not None:
            with contextlib.suppress(NotImplementedError):
                self._env.seed(self._seed)

        def should_stop():
            note_step()
            return self._is_stopping

        is_recorded = self._video_interval is not None and self._num_evaluations % self._video_interval == 0
        # With 0 frames it does nothing: the other evaluations do not pay for rendering.
        recorder = GifRecorder(self._env, self._video_frames if is_recorded else 0)
        settings = self._num_episodes, self._deterministic, should_stop, recorder
        figures = summarize_episodes(evaluate(self._agent, self._env, *settings))
        self._num_evaluations += 1
        return Result(figures, recorder.make_gif())

    def _check_renders(self):
        try:
            self._env.reset()
            render_frame(self._env)
        except ConfigError as error:
            self._env.close()
            raise ConfigError(f"Evaluator.video_interval is {self._video_interval}: {error}") from None
        except BaseException:
            self._env.close()
            raise


class ProcessSession:
    """Evaluates in another process, with the methods of `Session`.

    Args:
        root_dir: path of the run's directory.
        settings: dict of the arguments of a `Session`.
    """

    def __init__(self, root_dir, settings):
        program = "alf.evaluation.session_process"
        self._process = subprocess.Popen(
            # The settings are arguments, because the standard input has the paths. The standard error stream
            # is inherited: warnings and tracebacks of the process appear among the lines of the run.
            [sys.executable, "-m", "alf.core.startup", program, root_dir, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # One thread, because training needs the cores.
            env={**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"},
        )

    def evaluate(self, path, note_step):
        """Evaluates the checkpoint at `path`. Returns the `Result`. Calls `note_step` as `Session` does.

        Raises:
            EnvError: for any error in the process, or if it has ended.
        """
        with contextlib.suppress(BrokenPipeError):  # the process has ended; `readline` below returns ""
            self._process.stdin.write(path + "\n")
            self._process.stdin.flush()
        # Without a time-out: only the evaluator's thread waits here, and `stop` ends the process, which
        # closes the pipe, which ends the read.
        while (line := self._process.stdout.readline()) == "\n":
            note_step()
        if not line:
            status = self._process.wait()
            raise EnvError(f"the process of the evaluation has ended with status {status}")
        answer = json.loads(line)
        if "error" in answer:
            raise EnvError(f"the evaluation failed: {answer['error']}")
        return Result.from_json(answer)

    def stop(self):
        """Kills the process, also during an evaluation. Any thread may call this."""
        # Not SIGTERM, which a process that hangs may not obey, and then the thread in `evaluate` would wait
        # for its answer. Nothing is lost: the process has only read, and worker processes end when it does.
        self._process.kill()

    def close(self):
        """Kills the process."""
        self.stop()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):  # a path that a dead process has not read is flushed
            self._process.stdin.close()
        self._process.stdout.close()


class ClusterSession:
    """Evaluates in a process that Ray starts anywhere in a cluster, with the methods of `Session`.

    It sends weights rather than the path of a checkpoint, because the run's files may only be on this
    machine.

    Args:
        evaluator: `RayEvaluator`, not started.
        policy: `Policy` like the policy that learns; its variables are changed.
        settings: dict of the arguments of a `Session`.
    """

    def __init__(self, evaluator, policy, settings):
        self._evaluator, self._policy = evaluator, policy
        spec = policy.time_step_spec
        specs = spec.observation, policy.action_spec, spec.reward
        make = functools.partial(_make_evaluate, operative_config(), specs, settings)
        # It does not wait: Ray looks for a place, and the process imports TensorFlow, while training begins.
        evaluator.start(AfterTensorFlow(make))

    def evaluate(self, path, note_step):
        """Evaluates the checkpoint at `path`. Returns the `Result`. Raises like `RayEvaluator.evaluate`.

        It does not call `note_step`, because Ray brings no news of a call that goes on.
        """
        restore_policy(self._policy, path)
        return self._evaluator.evaluate(get_weights(self._policy))

    def stop(self):
        """Ends the process, also during an evaluation. Any thread may call this."""
        self._evaluator.stop()

    def close(self):
        """Ends the process."""
        self._evaluator.stop()


def _make_evaluate(config, specs, settings):
    """Makes a `Session` in the other process and returns its method `evaluate_weights`.

    Args:
        config: text, the run's gin configuration.
        specs: tuple of the specs of observations, actions and rewards, for `Experiment.make_policy`.
        settings: dict of the arguments of a `Session`.
    """
    gin.clear_config()
    parse_operative_config(config)
    return Session(Experiment().make_policy(*specs), **settings).evaluate_weights
