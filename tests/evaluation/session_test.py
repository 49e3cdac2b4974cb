# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Sessions that share an evaluation play the same episodes as one alone."""

import contextlib
import itertools

import gin
import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from alf.config.registry import own_config
from alf.core.restart_limit import LostProcessError
from alf.drivers import EnvSpecs
from alf.drivers.weights import get_weights
from alf.environments import EnvironmentWrapper, GymnasiumEnvironment, PythonEnvironment, load
from alf.errors import EnvError
from alf.evaluation.episodes import join_episodes
from alf.evaluation.session import Result, Session, WorkerSession, divide
from alf.games import MappedEnvironment
from alf.training import Experiment


def test_the_shares_of_workers_are_those_of_their_sub_environments():
    for size, num_episodes in itertools.product(range(1, 8), range(7, 24)):
        shares = [num_episodes // size + (i < num_episodes % size) for i in range(size)]
        for num_workers in range(1, size + 1):
            settings = {"batch_size": size, "num_episodes": num_episodes, "video_interval": 3, "seed": 1}
            parts = divide(settings, num_workers)
            assert len(parts) == num_workers and [p["video_interval"] for p in parts[1:]].count(3) == 0
            of_parts = []
            for part in parts:
                assert part["first_index"] == len(of_parts) and part["batch_size"] >= 1
                share, rest = divmod(part["num_episodes"], part["batch_size"])
                of_parts += [share + (i < rest) for i in range(part["batch_size"])]
            assert of_parts == shares


class Told(EnvironmentWrapper):
    """The reward is the position of the cart, so that no two episodes have the same return."""

    def _step(self, action):
        time_step = super()._step(action)
        return time_step._replace(reward=time_step.observation[:, 0])


def make_vector(seed, batch_size):
    made = gymnasium.make_vec("CartPole-v1", batch_size, vectorization_mode="sync", max_episode_steps=200)
    return Told(GymnasiumEnvironment(made, seed))


def make_of_one_generator(seed, batch_size):
    """Gymnasium's own vector environment draws for all sub-environments from one generator."""
    return Told(load("CartPole-v1", batch_size=batch_size, seed=seed))


def make_python(seed, batch_size):
    return Told(PythonEnvironment([make_single] * batch_size, seed, num_workers=0))


def make_single():
    return gymnasium.wrappers.TimeLimit(CartPoleEnv(), 200)


@pytest.fixture(scope="module")
def policy():
    with own_config():
        gin.parse_config("ActorCriticNetwork.fc_layer_params = (8,)")
        with contextlib.closing(make_vector(0, 1)) as env:
            specs = EnvSpecs([env])
        return Experiment(env=make_vector, num_envs=2, seed=0).make_policy(
            specs.observation, specs.action, specs.reward
        )


def play(policy, make_env, num_workers, seed=3, count=2):
    """Returns the `Episodes` of the last of `count` evaluations, of 11 episodes in 4 sub-environments."""
    settings = dict(batch_size=4, num_episodes=11, deterministic=True, seed=seed, video_interval=None)
    sessions = [Session(policy, **x, env=make_env) for x in divide(settings, num_workers)]
    for _ in range(count):
        parts = [session.evaluate_weights(get_weights(policy)).episodes for session in sessions]
    for session in sessions:
        session.close()
    return join_episodes(parts)


@pytest.mark.parametrize("make_env", [make_vector, make_python])
def test_the_episodes_are_the_same_with_any_number_of_workers(policy, make_env):
    alone = play(policy, make_env, 1)
    assert len(alone.lengths) == 11 and len(set(alone.returns)) == 11
    for num_workers in (2, 3, 4):
        shared = play(policy, make_env, num_workers)
        np.testing.assert_array_equal(shared.lengths, alone.lengths)
        np.testing.assert_array_equal(shared.returns, alone.returns)
        assert shared.wins == ()


class Unseeded(EnvironmentWrapper):
    """An environment that only its constructor seeds."""

    def seed(self, seed, first_index=0):
        raise NotImplementedError


def make_unseeded(seed, batch_size):
    return Unseeded(make_python(seed, batch_size))


@pytest.mark.parametrize("seed", [3, None])
@pytest.mark.parametrize("make_env", [make_unseeded, make_of_one_generator])
def test_workers_never_play_each_others_episodes(policy, make_env, seed):
    assert len(set(play(policy, make_env, 4, seed, count=1).returns)) == 11


def test_games_count_on_from_worker_to_worker():
    """A list of policies goes round all games, whichever process has them."""

    def map_games(first, size, mapping):
        env = MappedEnvironment(make_python(0, size), mapping, ("one", "other", "third"))
        env.seed(5, first) if first else env.seed(5)
        time_step = env.reset()
        env.close()
        return time_step.observation["owner"].tolist()

    mapping = ["one", "other", "third"]
    assert map_games(0, 5, mapping) == [0, 1, 2, 0, 1]
    assert map_games(0, 2, mapping) + map_games(2, 3, mapping) == [0, 1, 2, 0, 1]

    def choose(episode):
        return [["one", "other", "third"][episode.rng.integers(3)]]

    assert map_games(0, 9, choose) != map_games(9, 9, choose)


class StandIn:
    """A worker that notes what is called, in the order of all workers."""

    def __init__(self, name, calls, error=None):
        self.name, self.calls, self.error = name, calls, error

    def begin(self, content):
        self.calls.append(f"begin {self.name} {content}")

    def end(self, note_step):
        note_step()
        self.calls.append(f"end {self.name}")
        if self.error is not None:
            raise self.error
        return Result({"returns": np.array([ord(self.name)])}, f"video {self.name}")

    def stop(self):
        self.calls.append(f"stop {self.name}")

    def close(self):
        self.calls.append(f"close {self.name}")


def test_all_workers_begin_before_one_is_waited_for_and_stop_before_one_is_closed():
    calls = []
    session = WorkerSession([StandIn(name, calls) for name in "ab"], 0, read=str.upper)
    result = session.evaluate("path", lambda: calls.append("step"))
    assert result.episodes["returns"].tolist() == [ord("a"), ord("b")] and result.video == "video a"
    session.close()
    begun = ["begin a PATH", "begin b PATH", "step", "end a", "step", "end b"]
    assert calls == [*begun, "stop a", "stop b", "close a", "close b"]


def test_a_worker_that_fails_ends_the_others():
    """Their answers would be taken for answers of the next evaluation."""
    calls = []
    session = WorkerSession([StandIn("a", calls, EnvError("broken")), StandIn("b", calls)], 3)
    with pytest.raises(EnvError, match="broken"):
        session.evaluate("path", lambda: None)
    assert calls[-2:] == ["stop a", "stop b"] and "end b" not in calls


class Mortal(StandIn):
    """A worker whose process is lost in the first `num_losses` evaluations."""

    def __init__(self, name, calls, num_losses):
        super().__init__(name, calls)
        self.num_losses = num_losses

    def end(self, note_step):
        if self.num_losses:
            self.num_losses -= 1
            raise LostProcessError("it is gone")
        return super().end(note_step)

    def restart(self):
        self.calls.append(f"restart {self.name}")


def test_a_worker_that_is_lost_is_replaced_and_begins_again(caplog):
    calls = []
    session = WorkerSession([Mortal("a", calls, 2), Mortal("b", calls, 0)], 2)
    for _ in range(2):  # each evaluation may lose so many
        session._workers[0].num_losses = 2
        result = session.evaluate("path", lambda: None)
        assert result.episodes["returns"].tolist() == [ord("a"), ord("b")]
    again = ["restart a", "begin a path"] * 2
    assert calls == ["begin a path", "begin b path", *again, "end a", "end b"] * 2
    assert caplog.text.count("it is gone: restart 2 of 2") == 2


def test_a_worker_that_is_lost_too_often_ends_the_others():
    calls = []
    session = WorkerSession([Mortal("a", calls, 3), Mortal("b", calls, 0)], 2)
    with pytest.raises(EnvError, match="it is gone; Evaluator.max_restarts=2 is reached"):
        session.evaluate("path", lambda: None)
    assert calls[-2:] == ["stop a", "stop b"] and calls.count("restart a") == 2
