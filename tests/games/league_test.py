# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""League: who plays whom, which versions are kept, which weights opponents have, and how a run continues.

Here "main" gets better by itself; a league in which it learns is in policies_learning_test.py.
"""

import functools
import os
import shutil
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Algorithm
from alf.core.nest_utils import to_tensor_spec
from alf.data_structures import FIRST, LAST, EnvStep, PolicyStep
from alf.drivers import AsyncOffPolicyDriver
from alf.environments import ArraySpec, BatchedEnvironment, BoundedArraySpec
from alf.errors import ConfigError
from alf.games.elo import EloRating, expect_score
from alf.games.league import Versions, find_crowded, share_games
from alf.games.mapping import Episode
from alf.networks import ActorCriticNetwork
from alf.ops.draws import Stream
from alf.policies import ActorCriticPolicy, Policy
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Callback, League
from tests.builders import build_driver
from tests.training import small_runs
from tests.training.small_runs import make_idle_learner

GAMES = 8


class Duel(BatchedEnvironment):
    """Games of one step: the higher action wins, 1 against -1."""

    agents = ("left", "right")
    space_names = None

    def __init__(self, seed=None, num_games=GAMES):
        observation = ArraySpec((1,), np.float32)
        super().__init__(2 * num_games, observation, BoundedArraySpec((), np.int64, 0, 2))

    def _reset(self):
        self._is_first = True
        return self._show(np.zeros(self._batch_size, np.float32), FIRST)

    def _step(self, action):
        self._is_first = not self._is_first
        if self._is_first:
            return self._show(np.zeros(self._batch_size, np.float32), FIRST)
        pairs = np.asarray(action).reshape(-1, 2)
        left = np.sign(pairs[:, 0] - pairs[:, 1])
        return self._show(np.stack([left, -left], axis=1).ravel().astype(np.float32), LAST)

    def _show(self, reward, step_type):
        self.game_begins = np.full(self._batch_size // 2, step_type == FIRST)
        self.game_ends = ~self.game_begins
        ones = np.ones(self._batch_size, np.float32)
        discount = ones if step_type == FIRST else 0 * ones
        steps = np.full(self._batch_size, step_type, np.int32)
        return EnvStep(steps, reward, discount, ones[:, np.newaxis])


class Records:
    """Keeps what a driver logs, of each environment apart: arrays [T, B]."""

    def __init__(self):
        self.records = []

    def __call__(self, record):
        self.records.append(record)

    def join(self, name):
        """The rows of an environment at a time, int [N, 2 * GAMES]."""
        return np.concatenate([getattr(record, name) for record in self.records])


class Improving(Policy):
    """Its only weight counts its updates; the action is that number / 20, at most 2."""

    def __init__(self, observation_spec, action_spec, data_transformer=None):
        super().__init__(observation_spec, action_spec, data_transformer=data_transformer)
        self.weight = tf.Variable(0.0)

    def rollout_step(self, time_step, state):
        action = tf.minimum(tf.cast(self.weight, tf.int64) // 20, 2)
        return PolicyStep(tf.fill(tf.shape(time_step.step_type), action))


class NoAlgorithm(Algorithm):
    def train_step(self, experience, prepared):
        raise NotImplementedError

    calc_loss = train_step


def improve(learner):
    learner.policy.weight.assign_add(1.0)


def make_trainer(
    root_dir,
    league,
    num_iterations,
    observers=(),
    env=Duel,
    parameter_update_period=None,
    **kwargs,
):
    driver = functools.partial(
        build_driver,
        AsyncOffPolicyDriver,
        observers=observers,
        parameter_update_period=parameter_update_period,
    )
    experiment = {
        "env": env,
        "policy": Improving,
        "algorithm": NoAlgorithm,
        "learner": functools.partial(make_idle_learner, move=improve),
        "driver": driver,
        "policies": league,
    }
    return small_runs.make_trainer(root_dir, {"num_iterations": num_iterations}, experiment, **kwargs)


def values(policy):
    return [v.numpy() for v in policy.variables]


def are_equal(one, other):
    return all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))


def versions_in(root_dir):
    return sorted(int(name.removesuffix(".npz")) for name in os.listdir(root_dir / "league"))


class Witness(Callback):
    """Notes the weights of "main" after each train iteration, by their updates; and of the opponents."""

    def __init__(self):
        self.main, self.opponents = {}, []

    def on_begin(self, trainer):
        self.on_train_iter(trainer, {})

    def on_train_iter(self, trainer, summary):
        policies = trainer.learner.policy.policies
        self.main[int(policies["main"].progress.updates)] = values(policies["main"])
        self.opponents.append({name: values(policy) for name, policy in policies.items() if name != "main"})


SETTINGS = dict(num_opponents=3, snapshot_interval=7, draw_interval=3, num_sequences=3)


class Run(NamedTuple):
    """A run of 60 train iterations with `SETTINGS`."""

    root_dir: Any
    trainer: Any
    witness: Witness
    records: Records


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root_dir, witness, records = tmp_path_factory.mktemp("run"), Witness(), Records()
    trainer = make_trainer(root_dir, League(**SETTINGS), 60, [records], callbacks=[witness])
    assert trainer.learner.shapes["main"].num_sequences == 3
    trainer.train()
    return Run(root_dir, trainer, witness, records)


def test_versions_are_what_main_was_and_what_opponents_are(run):
    versions, witness = versions_in(run.root_dir), run.witness
    assert versions[0] == 0
    assert len(versions) >= 8
    steps = np.diff(versions)
    assert (steps >= 7).all()
    assert not any(v - 7 >= u for u, v in zip(versions, versions[1:]) for w in witness.main if u + 7 <= w < v)
    for weights in witness.opponents:
        for value in weights.values():
            assert any(are_equal(value, witness.main[version]) for version in versions)
    owner, version = run.records.join("owner"), run.records.join("policy_version")
    assert set(owner.ravel().tolist()) == {0, 1, 2, 3}
    assert set(version[owner > 0].tolist()) <= set(versions)
    assert len(set(version[owner > 0].tolist())) > 3


def test_main_has_all_seats_or_one(run):
    seats = run.records.join("owner").reshape(-1, 2)
    assert set((seats == 0).sum(axis=1).tolist()) == {1, 2}


def test_the_rating_of_a_policy_that_gets_better_rises_and_shows(run):
    metrics = run.trainer.metrics
    # Its action is never lower than that of a version of it.
    assert metrics["league/Elo"].result() > 1200.0
    assert 0.5 <= metrics["league/Score"].result() <= 1.0
    assert "metrics/league/Elo" in run.trainer.summaries.measure(run.trainer)


@pytest.mark.parametrize("share", [0.0, 1.0], ids=str)
def test_self_play_is_never_or_always(share):
    league, rng = League(num_opponents=2, self_play=share), np.random.default_rng(0)
    for i in range(100):
        seats = league._draw_seats(Episode(("a", "b", "c"), 0, i, rng))
        assert list(seats).count("main") == (3 if share else 1)


def test_seats_are_drawn_with_the_same_probability():
    league, rng = League(num_opponents=3, self_play=0.25), np.random.default_rng(0)
    agents, count = ("a", "b", "c"), 4000
    drawn = [tuple(league._draw_seats(Episode(agents, 0, i, rng))) for i in range(count)]
    all_main = sum(seats == ("main",) * 3 for seats in drawn)
    assert abs(all_main / count - 0.25) < 0.05  # 7 standard deviations
    mixed = [seats for seats in drawn if seats != ("main",) * 3]
    assert all(seats.count("main") == 1 for seats in mixed)
    for i in range(3):
        assert abs(sum(seats[i] == "main" for seats in mixed) / len(mixed) - 1 / 3) < 0.07
        for k in range(3):
            share = sum(seats[i] == f"opponent_{k}" for seats in mixed) / len(mixed)
            assert abs(share - 2 / 9) < 0.06


class Watched:
    """Has the place of a `Trainer` for the callback of a league: "main" makes updates, and nobody plays."""

    def __init__(self, root_dir, league, updates=0, seed=0):
        self.root_dir = str(root_dir)
        spec = (
            tf.TensorSpec((1,), tf.float32),
            to_tensor_spec(BoundedArraySpec((), np.int64, 0, 2)),
        )
        self.policies = {name: Improving(*spec) for name in league.names}
        self.main = self.policies["main"]
        self.driver = types.SimpleNamespace(publish_soon=lambda: None, stream=Stream(seed))
        self.learner = types.SimpleNamespace(policy=types.SimpleNamespace(policies=self.policies))
        (self.elo, _), (self.callback,) = league.make_watchers(("left", "right"))
        self._set(updates)

    def _set(self, updates):
        self.main.weight.assign(updates)
        self.main.progress.updates.assign(updates)

    def train(self, num_updates):
        """Returns a list: the versions of all opponents after each update."""
        versions = []
        self.callback.on_begin(self)
        for _ in range(num_updates):
            self._set(int(self.main.progress.updates) + 1)
            self.callback.on_train_iter(self, {})
            opponents = [policy for policy in self.policies.values() if policy is not self.main]
            versions.append([int(policy.progress.updates) for policy in opponents])
            assert [int(policy.weight) for policy in opponents] == versions[-1]
        return versions


def test_versions_are_drawn_by_the_seed_and_the_updates(tmp_path):
    def play(name, seed):
        league = League(num_opponents=1, snapshot_interval=1, draw_interval=1)
        versions = np.array(Watched(tmp_path / name, league, seed=seed).train(60))[20:, 0]
        return versions / np.arange(21, 61)

    places = play("a", 3)
    np.testing.assert_array_equal(play("b", 3), places)
    assert (play("c", 4) != places).mean() > 0.5
    # Another place among the versions each time: half of 40 numbers that are uniform in [0, 1) are below 0.5.
    assert places.std() > 0.1 and 5 < (places < 0.5).sum() < 35


def test_the_latest_version_plays(tmp_path):
    league = League(num_opponents=2, snapshot_interval=4, draw_interval=1, sampling="latest")
    opponents = Watched(tmp_path, league).train(30)
    assert opponents == [[n // 4 * 4] * 2 for n in range(1, 31)]


def test_opponents_keep_their_version_until_they_are_drawn(tmp_path):
    league = League(num_opponents=2, snapshot_interval=2, draw_interval=15, sampling="latest")
    opponents = Watched(tmp_path, league).train(29)
    assert len(versions_in(tmp_path)) == 15
    assert opponents == [[0, 0]] * 14 + [[14, 14]] * 15


def test_those_who_act_with_a_copy_get_other_opponents(tmp_path):
    """The copy would be as old as the run: but for the opponents, nobody asks for another one."""
    records = Records()
    league = League(num_opponents=2, snapshot_interval=2, draw_interval=2)
    make_trainer(tmp_path, league, 60, [records], parameter_update_period=10**6).train()
    version = records.join("policy_version")[records.join("owner") > 0]
    assert len(set(version.tolist())) > 2


def test_each_draw_is_another_one_and_follows_from_the_seed(tmp_path):
    Watched(tmp_path, League(snapshot_interval=1)).train(20)

    def draw(seed, updates=20):
        """The opponents' versions in each of 12 draws from 21 versions."""
        league = League(num_opponents=2, snapshot_interval=10**6, draw_interval=1)
        return Watched(tmp_path, league, updates, seed).train(12)

    drawn = draw(seed=1)
    assert len({tuple(versions) for versions in drawn}) > 6
    assert draw(seed=1) == drawn != draw(seed=2)
    # A run that continues does not begin with the draws that it began with.
    assert draw(seed=1, updates=40) != drawn


def test_so_many_versions_are_kept(tmp_path):
    watched = Watched(tmp_path, League(snapshot_interval=1, draw_interval=1, max_versions=4))
    watched.train(40)
    versions = versions_in(tmp_path)
    assert len(versions) == 4
    assert versions[0] == 0 and versions[-1] == 40
    ratings = dict(watched.elo.get_state()["versions"])
    assert set(versions) <= set(ratings)


def test_a_league_that_is_too_large_shrinks(tmp_path):
    Watched(tmp_path, League(snapshot_interval=1, max_versions=8)).train(20)
    assert len(versions_in(tmp_path)) == 8
    Watched(tmp_path, League(snapshot_interval=1, max_versions=3), updates=20).train(2)
    versions = versions_in(tmp_path)
    assert len(versions) == 3 and versions[0] == 0 and versions[-1] == 22


def test_a_run_continues_with_its_league(tmp_path, run):
    root_dir = tmp_path / "run"
    shutil.copytree(run.root_dir, root_dir)
    versions, updates = versions_in(root_dir), int(run.trainer.learner.progress.updates)
    # As if a kill had lost what came after the checkpoint.
    late = root_dir / "league" / f"{updates + 3}.npz"
    late.write_bytes((root_dir / "league" / "0.npz").read_bytes())
    witness = Witness()
    trainer = make_trainer(root_dir, League(**SETTINGS), 61, callbacks=[witness])
    assert trainer.metrics["league/Elo"].get_state() == run.trainer.metrics["league/Elo"].get_state()
    trainer.train()
    assert min(witness.main) == updates
    assert not late.exists()
    assert set(versions) <= set(versions_in(root_dir))
    saved = {version: load(root_dir, version) for version in versions}
    for value in witness.opponents[0].values():
        assert any(are_equal(value, weights) for weights in saved.values())


def load(root_dir, version):
    with np.load(root_dir / "league" / f"{version}.npz") as arrays:
        return [arrays[f"arr_{i}"] for i in range(len(arrays.files))]


def test_a_full_disk_ends_no_run(tmp_path, monkeypatch, caplog):
    save = Versions.save

    def fail_later(self, policy):
        if int(policy.progress.updates) > 0:
            raise OSError(28, "No space left on device")
        save(self, policy)

    monkeypatch.setattr(Versions, "save", fail_later)
    Watched(tmp_path, League(snapshot_interval=2)).train(10)
    assert versions_in(tmp_path) == [0]
    assert "the league has no new version: [Errno 28]" in caplog.text


def cut(path):
    path.write_bytes(path.read_bytes()[:100])


def fill_with_nan(path):
    with np.load(path) as arrays:
        weights = [arrays[f"arr_{i}"] for i in range(len(arrays.files))]
    for x in weights:
        if x.dtype.kind == "f":
            x.fill(np.nan)
    np.savez(path, *weights)


def write_texts(path):
    with np.load(path) as arrays:
        np.savez(path, *[np.full(arrays[name].shape, "text") for name in arrays.files])


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


DAMAGES = {
    "cut off": cut,
    "empty": lambda path: path.write_bytes(b""),
    "removed": os.remove,
    "a folder": replace_by_folder,
    "not finite": fill_with_nan,
    "of another policy": lambda path: np.savez(path, np.zeros(5)),
    "of another program": lambda path: np.savez(path, table=np.zeros(5)),
    "an array": lambda path: path.write_bytes(b"\x93NUMPY\x01\0"),
    "texts": write_texts,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_league_goes_on_without_a_damaged_version(damage, tmp_path, caplog):
    settings = dict(num_opponents=2, snapshot_interval=2, draw_interval=1)
    Watched(tmp_path, League(**settings)).train(4)
    assert versions_in(tmp_path) == [0, 2, 4]
    DAMAGES[damage](tmp_path / "league" / "2.npz")
    drawn = Watched(tmp_path, League(**settings), updates=4).train(20)
    assert {version for versions in drawn for version in versions} >= {0, 4}
    assert not any(2 in versions for versions in drawn)
    lines = [line for line in caplog.messages if "goes on without this version" in line]
    # A file that is not there is no version of a run that continues.
    assert len(lines) == (damage != "removed")
    assert all("league/2.npz' cannot be read: " in line for line in lines)


def test_a_league_without_its_folder_makes_another_one(tmp_path, caplog):
    watched = Watched(tmp_path, League(num_opponents=1, snapshot_interval=10**6, draw_interval=1))
    watched.train(2)
    shutil.rmtree(tmp_path / "league")
    for _ in range(3):  # the draw finds no file, the next update saves one, which the next draw loads
        watched._set(int(watched.main.progress.updates) + 1)
        watched.callback.on_train_iter(watched, {})
    assert versions_in(tmp_path) == [4]
    assert int(watched.policies["opponent_0"].progress.updates) == 4
    assert len([line for line in caplog.messages if "goes on without this version" in line]) == 1


def test_names_of_versions_are_those_that_a_league_writes(tmp_path):
    for name in ("007.npz", "1.npz.tmp", "-1.npz", "٣.npz", "x.npz"):
        (tmp_path / name).write_bytes(b"")
    assert Versions(str(tmp_path)).list() == []


def test_versions_of_another_network_are_refused(tmp_path):
    versions = Versions(str(tmp_path))
    spec = tf.TensorSpec((3,), tf.float32)
    action = to_tensor_spec(BoundedArraySpec((), np.int64, 0, 1))
    small, large = (
        ActorCriticPolicy(
            spec,
            action,
            network=functools.partial(ActorCriticNetwork, fc_layer_params=(size,)),
        )
        for size in (4, 5)
    )
    small.progress.updates.assign(12)
    versions.save(small)
    assert versions.list() == Versions(str(tmp_path)).list() == [12]
    with pytest.raises(ConfigError, match="the weights are of another policy"):
        versions.load(12, large)
    versions.delete(12)
    assert versions.list() == os.listdir(tmp_path) == []


def test_shares_of_games():
    scores = expect_score(1500.0, np.array([1000.0, 1400.0, 1500.0]))
    np.testing.assert_allclose(share_games("uniform", scores), [1 / 3] * 3)
    np.testing.assert_array_equal(share_games("latest", scores), [0, 0, 1])
    literal = [(1 - 1 / (1 + 10 ** (-gap / 400))) ** 2 for gap in (500, 100, 0)]
    np.testing.assert_allclose(share_games("prioritized", scores), np.array(literal) / sum(literal))


def test_the_version_that_is_deleted_is_in_the_densest_place():
    assert find_crowded([0, 100, 200, 210, 230, 400]) == 210
    assert find_crowded([0, 5, 10]) == 5
    assert find_crowded([0, 10, 20, 30]) == 10


def test_a_wrong_setting_is_named(subtests):
    wrong = {
        "num_opponents": 0,
        "self_play": 1.5,
        "snapshot_interval": 0,
        "draw_interval": 0.5,
        "sampling": "best",
        "max_versions": 1,
    }
    for name, value in wrong.items():
        with subtests.test(msg=name), pytest.raises(ConfigError, match=f"League.{name} is {value!r}"):
            League(**{name: value})


def test_a_league_needs_an_opponent_seat(tmp_path):
    with pytest.raises(ConfigError, match="must have two agents or more"):
        make_trainer(tmp_path, League(), 1, env=lambda seed: MatchObservationEnvironment(4))


def test_the_elo_of_the_experiment_is_the_one_that_is_asked_for(tmp_path):
    elo = functools.partial(EloRating, first_rating=500.0)
    trainer = make_trainer(tmp_path, League(elo=elo), 1)
    assert trainer.metrics["league/Elo"].result() == 500.0
    trainer.close()
