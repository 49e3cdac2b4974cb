# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluator: when it evaluates, what it evaluates, what it keeps, and how it ends.

That in another process is in evaluator_program_test.py.
"""

import errno
import functools
import glob
import json
import math
import os
import re
import shutil
import threading
import time

import gin
import numpy as np
import psutil
import pytest
import tensorflow as tf
from tensorflow.core.util import event_pb2

from alf.algorithms import ImpalaAlgorithm
from alf.callback import Callback
from alf.config.parsing import bind
from alf.config.registry import find_argument, own_config
from alf.core.nest_utils import to_tensor_spec
from alf.core.randomness import bootstrap_interval
from alf.errors import ConfigError, EnvError
from alf.evaluation.evaluator import Evaluation
from alf.learner import optimizers
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.runs import checkpoint_files as files
from alf.runs.saved_run import SavedRun, load_agent
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Evaluator, Experiment, Trainer
from alf.training.stop_criteria import StopCriteria
from tests.builders import (
    build_checkpointer,
    build_learner,
    build_offline_driver,
    build_trainer,
    driver_of,
    find_evaluator,
)
from tests.training import small_runs
from tests.training.small_runs import EPISODE_LENGTH

FEW_SAMPLES = functools.partial(bootstrap_interval, num_resamples=10)  # of the interval of a mean


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    """The interval of a mean takes most of a short evaluation; episodes_test.py is about it."""
    monkeypatch.setattr("alf.evaluation.episodes.bootstrap_interval", FEW_SAMPLES)


class EvaluationEnvironment(MatchObservationEnvironment):
    """Notes its seeds, its resets and whether it was closed; `step` is called before every step."""

    def __init__(self, step=lambda env: None, seed=0, batch_size=2):
        super().__init__(batch_size, episode_length=EPISODE_LENGTH, seed=0)
        self.step_hook, self.seeds, self.num_resets, self.num_steps, self.closed = step, [seed], 0, 0, False

    def seed(self, seed):
        self.seeds.append(seed)

    def close(self):
        self.closed = True

    def _reset(self):
        self.num_resets += 1
        return super()._reset()

    def _step(self, action):
        self.num_steps += 1
        self.step_hook(self)
        return super()._step(action)


def make_trainer(root_dir, made=None, step=lambda env: None, stop=None, **kwargs):
    """A trainer whose evaluation environments are appended to `made`; kwargs: of `Evaluator`."""
    env = functools.partial(make_env, [] if made is None else made, step)
    return small_runs.make_trainer(
        root_dir,
        stop or {"num_iterations": 5},
        evaluator=functools.partial(Evaluator, env=env, **kwargs),
    )


def make_env(made, step, seed, batch_size=2):
    made.append(EvaluationEnvironment(step, seed, batch_size))
    return made[-1]


def read_scalars(root_dir, tag):
    """A list of (step, value) of a summary."""
    paths = glob.glob(os.path.join(root_dir, "train", "*tfevents*"))
    events = [event_pb2.Event.FromString(r.numpy()) for r in tf.data.TFRecordDataset(paths)]
    found = [(e.step, v) for e in events for v in e.summary.value if v.tag == tag]
    return [(step, float(tf.make_ndarray(value.tensor))) for step, value in found]


def wait_until(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def test_evaluations_come_at_their_interval_and_are_shown(tmp_path):
    made = []
    intervals = {"interval_steps": 100, "num_episodes": 3, "batch_size": 2, "seed": 7}
    trainer = make_trainer(tmp_path, made, stop={"num_env_steps": 450}, **intervals)
    evaluator, due = find_evaluator(trainer), []
    is_due = evaluator.is_due
    evaluator.is_due = lambda steps: is_due(steps) and not due.append(steps)
    poll = evaluator.poll
    evaluator.poll = lambda timeout=0.0: poll(60.0)  # so that none is late
    trainer.train()
    steps = [step for step, _ in read_scalars(tmp_path, "eval/return_mean")]
    assert steps == due and len(steps) == 4
    # An iteration is at most 16 steps.
    assert all(100 <= b - a < 116 for a, b in zip([0, *steps], steps))
    (env,) = made
    assert env.batch_size == 2 and env.closed
    assert env.num_resets == 4 and env.num_steps == 4 * (2 * EPISODE_LENGTH + 1)  # 3 episodes of 2
    lengths = [value for _, value in read_scalars(tmp_path, "eval/length_mean")]
    assert lengths == [EPISODE_LENGTH] * 4
    assert env.seeds == [7] * 5, "each evaluation has the same"


def test_an_interval_in_seconds():
    evaluator = Evaluator(interval_seconds=1000.0, env=EvaluationEnvironment)
    evaluator._last_steps, evaluator._last_time = 0, time.monotonic()
    assert not evaluator.is_due(10**9)
    evaluator._last_time -= 1000.0
    assert evaluator.is_due(0)


WRONG_SETTINGS = [
    ({}, "interval_steps and interval_seconds are None: set one"),
    ({"interval_steps": 0}, "Evaluator.interval_steps is 0"),
    ({"interval_seconds": -1}, "Evaluator.interval_seconds is -1"),
    ({"interval_steps": 1, "num_episodes": 0}, "Evaluator.num_episodes is 0"),
    ({"interval_steps": 1, "batch_size": 1.5}, "Evaluator.batch_size is 1.5"),
    ({"interval_steps": 1, "deterministic": 1}, "Evaluator.deterministic is 1"),
    ({"interval_steps": 1.5}, "Evaluator.interval_steps is 1.5: it must be a whole number above 0, or None"),
    ({"interval_steps": 1, "place": ["thread"]}, r"Evaluator.place is \['thread'\]: it must be one of"),
    ({"interval_steps": 1, "place": "moon"}, "Evaluator.place is 'moon': it must be one of"),
    ({"interval_steps": 1, "seed": -1}, "Evaluator.seed is -1"),
    ({"interval_steps": 1, "place": "process", "env": int}, "with the place 'process' env"),
    ({"interval_steps": 1, "place": "cluster", "env": int}, "with the place 'cluster' env"),
    ({"interval_steps": 1, "num_workers": 2}, "Evaluator.num_workers is 2: set place to 'process' or"),
    (
        {"interval_steps": 1, "num_workers": 3, "batch_size": 2, "place": "process"},
        "num_episodes have work for 2",
    ),
    ({"interval_steps": 1, "num_workers": 3, "num_episodes": 2, "place": "process"}, "have work for 2"),
]


def test_a_wrong_setting_is_named(subtests):
    for settings, message in WRONG_SETTINGS:
        with subtests.test(msg=str(settings)), pytest.raises(ConfigError, match=message):
            Evaluator(**settings)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A policy, and the path of a checkpoint of it."""
    env = MatchObservationEnvironment(1)
    specs = to_tensor_spec(env.observation_spec()), to_tensor_spec(env.action_spec())
    policy = ActorCriticPolicy(*specs, functools.partial(ActorCriticNetwork, fc_layer_params=(8,), seed=0))
    learner = build_learner(ImpalaAlgorithm(policy), optimizers.SGD())
    return policy, build_checkpointer(tmp_path_factory.mktemp("saved"), build_offline_driver(learner)).save()


def run_evaluations(saved, count, **settings):
    """Evaluates a checkpoint several times; returns the environment, and a list of (observation, action)."""
    policy, path = saved
    made, seen = [], []
    env = functools.partial(make_env, made, lambda env: None)
    evaluator = Evaluator(interval_steps=1, env=env, **settings)
    evaluator.open(policy)
    choose = evaluator._session._agent.act

    def act(*args):
        action, state = choose(*args)
        seen.append((args[3].copy(), action))
        return action, state

    evaluator._session._agent.act = act
    evaluator.run("nowhere", 0)
    try:
        for _ in range(count):
            evaluator.start(path, 0)
            assert evaluator.poll(60.0) is not None
    finally:
        evaluator.close()
    return made[0], seen


class LateThread(threading.Thread):
    """A thread that begins only when somebody waits for its end."""

    def start(self):
        self.is_due = True

    def join(self, timeout=None):
        super().start()
        super().join(timeout)


@pytest.mark.parametrize("runs", [False, True])
def test_an_evaluator_that_is_closed_at_once_closes_its_environments(saved, monkeypatch, runs):
    made, policy = [], saved[0]
    monkeypatch.setattr("alf.evaluation.evaluator.threading.Thread", LateThread)
    evaluator = Evaluator(interval_steps=1, env=functools.partial(make_env, made, lambda env: None))
    evaluator.open(policy)
    if runs:
        evaluator.run("nowhere", 0)
    evaluator.close()
    (env,) = made
    assert env.closed and env.num_resets == 0
    evaluator.close()


@pytest.mark.parametrize("deterministic", [True, False])
def test_it_acts_greedily_or_explores(saved, deterministic):
    _, seen = run_evaluations(saved, 1, num_episodes=40, deterministic=deterministic)
    actions_of = {}
    for observation, action in seen:
        for row, chosen in zip(observation, action):
            actions_of.setdefault(row.tobytes(), set()).add(int(chosen))
    is_certain = all(len(actions) == 1 for actions in actions_of.values())
    assert is_certain == deterministic


def test_without_a_seed_evaluations_differ(saved):
    env, _ = run_evaluations(saved, 3, num_episodes=1)
    assert env.seeds == [None], "that of the constructor: it is not seeded again"


def test_training_goes_on_while_an_evaluation_takes_its_time(tmp_path):
    go_on, steps = threading.Event(), []
    trainer = make_trainer(
        tmp_path,
        step=lambda env: go_on.wait(60),
        interval_steps=1,
        stop={"num_iterations": 30},
        num_episodes=1,
    )
    train = trainer.learner.train

    def count():
        steps.append(1)
        if len(steps) == 25:  # 24 iterations with an evaluation that has begun and has not ended
            assert read_scalars(tmp_path, "eval/return_mean") == [] and find_evaluator(trainer)._is_busy
            go_on.set()
        return train()

    trainer.learner.train = count
    trainer.train()
    assert len(read_scalars(tmp_path, "eval/return_mean")) >= 1


def make_evaluation(path, mean, env_steps=1):
    return Evaluation(path, env_steps, {"return": {"mean": mean}}, 1, 0.1)


def test_the_best_checkpoint_is_kept(tmp_path):
    trainer = make_trainer(tmp_path, interval_steps=10**9)
    checkpointer, best = trainer.checkpoints.checkpointer, tmp_path / "checkpoints" / "best"
    policies = {}
    for number, mean, is_best in ((2, 1.0, True), (3, 0.5, False), (4, 1.0, False), (5, 2.0, True)):
        trainer._counts.iterations = number
        for variable in trainer.learner.policy.trainable_variables:
            variable.assign_add(tf.ones_like(variable))
        path = checkpointer.save_for_evaluation()
        assert os.path.basename(os.path.dirname(path)) == "evaluated"
        policies[number] = trainer.learner.policy.copy()
        assert checkpointer.keep_best(make_evaluation(path, mean, number)) == is_best
    assert files.list_numbers(str(best)) == [5]
    content = json.loads((best / "ckpt-5" / "evaluation.json").read_text())
    assert content["figures"]["return"]["mean"] == 2.0 and content["env_steps"] == 5
    # More checkpoints follow, which do not touch the best one.
    for number in range(6, 10):
        trainer._counts.iterations = number
        checkpointer.save()
    agent = load_agent(tmp_path, "best", trainer.learner.policy.copy())
    for ours, theirs in zip(agent.policy.variables, policies[5].variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert SavedRun(tmp_path).find_checkpoint("best") == str(best / "ckpt-5")
    # A kill has left a worse one, with a higher number.
    shutil.copytree(best / "ckpt-5", best / "ckpt-7")
    (best / "ckpt-7" / "evaluation.json").write_text(json.dumps(make_evaluation("", 1.5)._asdict()))
    assert SavedRun(tmp_path).find_checkpoint("best") == str(best / "ckpt-5")
    assert not checkpointer.keep_best(make_evaluation(path, 1.75))
    trainer.close()


def test_the_best_checkpoint_follows_the_weights_of_a_vector_reward(tmp_path):
    """Also if the weights change: then the kept one counts by the new weights."""
    trainer = make_trainer(tmp_path, interval_steps=10**9)
    checkpointer = trainer.checkpoints.checkpointer
    path = checkpointer.save_for_evaluation()

    def keep(first, second, weights):
        figures = {"return": first + second, "return_0": first, "return_1": second}
        figures = {name: {"mean": x} for name, x in figures.items()}
        evaluation = Evaluation(path, 1, figures, 1, 0.1, reward_weights=weights)
        assert evaluation.scalars()["eval/weighted_return_mean"] == evaluation.score
        return checkpointer.keep_best(evaluation)

    assert keep(10.0, 0.0, [0.1, 1.0])
    assert not keep(100.0, -10.0, [0.1, 1.0]) and keep(0.0, 2.0, [0.1, 1.0])
    assert files.list_best(str(tmp_path / "checkpoints" / "best"))[0][0] == 2.0
    assert not keep(1.0, 1.0, [1.0, 1.0]) and keep(1.0, 1.0, [1.0, 0.0])
    trainer.close()


def test_a_disk_without_space_does_not_end_training(tmp_path, monkeypatch, caplog):
    """First no checkpoint can be kept for an evaluation, then not the best one."""
    replace, calls = files.replace_folder, []

    def fail(path):
        calls.append(os.path.basename(os.path.dirname(path)))
        if calls[-1] == "best" or (calls[-1] == "evaluated" and calls.count("evaluated") <= 2):
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(path)

    monkeypatch.setattr(files, "replace_folder", fail)
    trainer = make_trainer(tmp_path, interval_steps=1, num_episodes=1)
    poll = find_evaluator(trainer).poll
    find_evaluator(trainer).poll = lambda timeout=0.0: poll(60.0)
    assert trainer.train() == (True, "num_iterations=5 reached")
    assert calls == ["evaluated"] * 2 + ["evaluated", "best"] * 3 + ["checkpoints"]
    assert caplog.text.count("No space left on device") == 2 + 3


def test_a_nan_is_never_the_best(tmp_path):
    trainer = make_trainer(tmp_path, interval_steps=10**9)
    checkpointer = trainer.checkpoints.checkpointer
    path = checkpointer.save_for_evaluation()
    for mean in (math.nan, math.inf):
        assert not checkpointer.keep_best(make_evaluation(path, mean))
    assert checkpointer.keep_best(make_evaluation(path, -5.0))
    for mean in (math.nan, math.inf):
        assert not checkpointer.keep_best(make_evaluation(path, mean))
    trainer.close()


MEANS = "NaN", "Infinity", "1e999", "null", "[]", '"x"', "1" * 400
NO_EVALUATIONS = "", "{", "[]", "[" * 10**5, '"return"'


@pytest.mark.parametrize(
    "content",
    [*NO_EVALUATIONS, *(f'{{"figures": {{"return": {{"mean": {mean}}}}}}}' for mean in MEANS)],
    ids=lambda content: content[:60],
)
def test_a_damaged_evaluation_has_nothing_to_beat(content, tmp_path, caplog):
    trainer = make_trainer(tmp_path, interval_steps=10**9)
    checkpointer, best = trainer.checkpoints.checkpointer, tmp_path / "checkpoints" / "best"
    for number, mean in ((1, 7.0), (2, 1.0)):
        trainer._counts.iterations = number
        assert checkpointer.keep_best(make_evaluation(checkpointer.save_for_evaluation(), mean))
        (best / f"ckpt-{number}" / "evaluation.json").write_text(content)
    trainer._counts.iterations = 3
    assert checkpointer.keep_best(make_evaluation(checkpointer.save_for_evaluation(), 0.5))
    assert not checkpointer.keep_best(make_evaluation(str(best / "ckpt-3"), 0.25))
    assert files.list_numbers(str(best)) == [3]
    lines = [line for line in caplog.messages if "evaluation.json is damaged" in line]
    assert len(lines) == 2
    trainer.close()


def test_an_evaluation_can_end_training(tmp_path):
    stop = {"target_eval_return": -(10.0**6), "num_iterations": 10**6}
    trainer = make_trainer(tmp_path, interval_steps=20, num_episodes=2, stop=stop)
    finished, reason = trainer.train()
    assert finished and reason.startswith("target_eval_return=-1000000.0 reached")


def test_a_target_without_an_evaluator_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="target_eval_return is set, but nothing evaluates"):
        build_trainer(
            str(tmp_path),
            make_trainer(tmp_path / "other", interval_steps=1).driver,
            lambda: StopCriteria(target_eval_return=1.0),
        )


OF_EXIT = r"an environment of the evaluation raised SystemExit\(3\)"


@pytest.mark.parametrize(
    "raised, error, message",
    [(KeyError("my own bug"), KeyError, "my own bug"), (SystemExit(3), EnvError, OF_EXIT)],
)
def test_an_error_of_the_evaluation_ends_the_run(tmp_path, raised, error, message):
    made = []

    def fail(env):
        raise raised

    trainer = make_trainer(tmp_path, made, fail, interval_steps=1, stop={"max_seconds": 300})
    with pytest.raises(error, match=message):
        trainer.train()
    wait_until(lambda: made[0].closed)


def test_a_run_ends_while_an_evaluation_hangs(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("alf.evaluation.evaluator._CLOSE_SECONDS", 0.5)
    go_on, stop = threading.Event(), {"num_iterations": 10**9}
    trainer = make_trainer(
        tmp_path, step=lambda env: go_on.wait(300), stop=stop, interval_steps=1, num_episodes=1
    )
    train, interrupted = trainer.learner.train, []

    def interrupt_and_train():
        if find_evaluator(trainer)._is_busy and not interrupted:
            interrupted.append(time.monotonic())
            trainer.interrupt("enough")
        return train()

    trainer.learner.train = interrupt_and_train
    assert trainer.train() == (False, "enough")
    assert not go_on.is_set() and time.monotonic() - interrupted[0] < 300, (
        "it did not wait for the evaluation"
    )
    assert "the environments of the evaluation did not close within 0.5 s" in caplog.text
    go_on.set()


def test_a_finished_run_does_not_wait_for_an_evaluation_that_hangs(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("alf.evaluation.evaluator._CLOSE_SECONDS", 1.5)
    monkeypatch.setattr("alf.evaluation.evaluator._HANG_SECONDS", 1.0)
    monkeypatch.setattr("alf.evaluation.evaluator._STALL_SECONDS", 0.0)
    go_on = threading.Event()
    trainer = make_trainer(tmp_path, step=lambda env: go_on.wait(300), interval_steps=1, num_episodes=1)
    ended = []
    trainer.add_callback(AfterIteration(lambda: ended.append(time.monotonic())))
    assert trainer.train() == (True, "num_iterations=5 reached")
    assert time.monotonic() - ended[-1] < 30
    assert "the environments of the evaluation did not close within 1.5 s" in caplog.text
    assert re.search(r"the evaluation at \d+ env steps has made no step for \d+ s", caplog.text)
    go_on.set()


def test_a_finished_run_waits_for_an_evaluation_that_goes_on(tmp_path, monkeypatch):
    """Also if it takes longer than the time without a step after which it would hang."""
    monkeypatch.setattr("alf.evaluation.evaluator._HANG_SECONDS", 2.0)
    steps, begun = [], []
    trainer = make_trainer(
        tmp_path,
        step=lambda env: time.sleep(0.2) or steps.append(1),
        interval_steps=1,
        num_episodes=math.ceil(4.0 / 0.2 / EPISODE_LENGTH),
        batch_size=1,
    )
    trainer.add_callback(AfterIteration(lambda: begun.append(len(steps))))
    trainer.train()
    assert len(steps) * 0.2 > 4.0 and begun[-1] < len(steps) / 2, "most of it came after the end"
    assert len(read_scalars(tmp_path, "eval/return_mean")) == 1


class AfterIteration(Callback):
    """Calls `call` () after each train iteration."""

    def __init__(self, call):
        self._call = call

    def on_train_iter(self, trainer, summary):
        self._call()


CONFIG = """
Experiment.num_groups = 1
Experiment.unroll_length = 4
Experiment.driver = @SyncOffPolicyDriver
alf.environments.load.name = "CartPole-v1"
Experiment.num_envs = 2
eval/alf.environments.load.max_episode_steps = 7
ActorCriticNetwork.fc_layer_params = (8,)
Evaluator.interval_steps = 20
Evaluator.num_episodes = 3
Evaluator.place = "{place}"
Evaluator.num_workers = {num_workers}
Trainer.evaluator = @Evaluator
StopCriteria.target_eval_return = {target}
StopCriteria.max_seconds = 300
"""


def make_configured(root_dir, place, target=7.0, num_workers=1):
    """A trainer of `CONFIG`, in the present configuration. It learns nothing, and waits for evaluations."""
    gin.parse_config(CONFIG.format(place=place, target=target, num_workers=num_workers))
    trainer = build_trainer(str(root_dir), driver_of(Experiment(learner=small_runs.make_idle_learner)))
    poll = find_evaluator(trainer).poll
    find_evaluator(trainer).poll = lambda timeout=0.0: poll(300.0)
    return trainer


def check_scope(root_dir, place, num_workers=1):
    """Episodes of at most 7 steps: only the evaluation's environments have that limit."""
    with own_config():
        trainer = make_configured(root_dir, place, num_workers=num_workers)
        before = {child.pid for child in psutil.Process().children(recursive=True)}
        finished, reason = trainer.train()
    assert finished and reason == "target_eval_return=7.0 reached: eval/return_mean 7"
    assert [value for _, value in read_scalars(root_dir, "eval/length_max")][-1] == 7
    wait_until(lambda: {c.pid for c in psutil.Process().children(recursive=True)} <= before)
    config = (root_dir / "operative_config.gin").read_text()
    assert re.search(r"^eval/\S*load\.max_episode_steps = 7$", config, re.MULTILINE)


def test_gin_configures_it_in_a_scope_of_its_own(tmp_path):
    check_scope(tmp_path, "thread")


def test_a_program_passes_an_evaluator_as_an_object():
    """Gin copies the values of bindings."""
    with own_config():
        bind({"Trainer.evaluator": Evaluator(interval_steps=1)})
        assert isinstance(find_argument(Trainer, "evaluator"), Evaluator)
