# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Elo ratings: Elo's formula, and which games of a stream of records are rated."""

import json
import math

import numpy as np
import pytest

from alf.data_structures import FIRST, LAST, MID, LogRecord
from alf.errors import ConfigError
from alf.games.elo import EloRating, expect_score

K = 20.0


def test_the_expected_score_is_elos_formula():
    assert expect_score(1200.0, 1200.0) == 0.5
    assert math.isclose(expect_score(1600.0, 1200.0), 10 / 11)  # 400 points are odds of 10 to 1
    assert math.isclose(expect_score(1200.0, 1600.0), 1 / 11)


class Column:
    """The steps of one agent: lists of what a `LogRecord` has."""

    def __init__(self):
        self.step_type, self.reward, self.owner, self.policy_version = [], [], [], []

    def add(self, step_type, reward=0.0, owner=0, version=0):
        self.step_type.append(step_type)
        self.reward.append(reward)
        self.owner.append(owner)
        self.policy_version.append(version)


def play(columns, length, winner, owners, versions, ends=True):
    """Adds a game of so many plies; `versions` are those of the first and the last step of each agent.

    The winner's rewards are in its last two steps, and a FIRST step has one that must not count.
    """
    for agent, column in enumerate(columns):
        first, last = versions[agent]
        column.add(FIRST, 7.0 * agent, owners[agent], first)
        for t in range(length - 1):
            column.add(MID, 0.0, owners[agent], first if t == 0 else last)
        total = 0.0 if winner is None else (1.0 if winner == agent else -1.0)
        if length > 1 and winner == agent:
            column.reward[-1], total = 5.0, total - 5.0
        column.add(LAST if ends else MID, total, owners[agent], last)


def to_records(columns, length):
    """Cuts columns of one length into `LogRecord`s of T steps."""
    names = ("step_type", "reward", "owner", "policy_version")
    arrays = {name: np.array([getattr(c, name) for c in columns]).T for name in names}
    total = len(arrays["step_type"])
    for start in range(0, total - total % length, length):
        part = {name: x[start : start + length] for name, x in arrays.items()}
        part["reward"] = part["reward"].astype(np.float32)
        discount = np.ones_like(part["reward"])
        yield LogRecord(discount=discount, env_id=np.arange(len(columns), dtype=np.int32), **part)


class LiteralElo:
    def __init__(self):
        self.main, self.versions, self.scores = 1200.0, {}, []

    def rate(self, score, version):
        rating = self.versions.setdefault(version, self.main)
        move = K * (score - 1 / (1 + 10 ** ((rating - self.main) / 400)))
        self.main += move
        self.versions[version] = rating - move
        self.scores.append(score)


def pad(columns):
    """Gives all columns one length: FIRST steps, which begin no game that ends."""
    longest = max(len(c.step_type) for c in columns)
    for column in columns:
        while len(column.step_type) < longest:
            column.add(FIRST)


@pytest.mark.parametrize("length", [1, 4, 7])
def test_ratings_follow_the_literal_formula(length):
    """One game at a time, of random length, owners and results; records cut games anywhere."""
    rng = np.random.default_rng(length)
    columns, literal = (Column(), Column()), LiteralElo()
    for number in range(300):
        seat, kind = int(rng.integers(2)), rng.random()
        is_self_play = kind < 0.2
        owners, versions = [0, 0], [(number, number + 1)] * 2  # that of main may change in a game
        version = int(rng.integers(5))
        is_mixed = 0.2 < kind < 0.3
        if not is_self_play:
            owners[1 - seat] = 1 + int(rng.integers(3))
            versions[1 - seat] = (version, version + 10 if is_mixed else version)
        winner = (0, 1, None)[rng.integers(3)]
        is_broken_off = kind > 0.9
        # A game in which the version changes needs a step with each.
        play(columns, int(rng.integers(2, 12)), winner, owners, versions, ends=not is_broken_off)
        if not is_self_play and not is_mixed and not is_broken_off:
            score = 0.5 if winner is None else float(winner == seat)
            literal.rate(score, version)
    for column in columns:  # so that the last game is in a whole record
        for _ in range(length):
            column.add(FIRST)
    elo = EloRating(2, k_factor=K, window=1000)
    for record in to_records(columns, length):
        elo(record)
    assert len(literal.scores) > 150
    assert math.isclose(elo.result(), literal.main, rel_tol=1e-9)
    assert math.isclose(elo.score.result(), np.mean(literal.scores), rel_tol=1e-9)
    for version, rating in literal.versions.items():
        assert math.isclose(elo.rate(version), rating, rel_tol=1e-9)
    assert max(literal.versions) < 5  # none of the games of two versions


def test_games_of_one_batch_and_of_several_environments_are_kept_apart():
    results = {0: [0, 0, 0], 1: [1, 1, 1], 2: [None, None, None]}  # by game: who wins, seat 0 is main
    columns = [Column() for _ in range(6)]
    for game, winners in results.items():
        for winner in winners:
            play(columns[2 * game : 2 * game + 2], 3 + game, winner, [0, 1], [(9, 9), (game, game)])
    pad(columns)
    for column in columns:
        column.add(FIRST)
    elo = EloRating(2)
    for record in to_records(columns, 2):
        elo(record)
        elo(record._replace(env_id=record.env_id + 6))
    assert elo.rate(0) < elo.rate(2) < elo.rate(1)
    assert elo.score.result() == 0.5
    assert len(elo.score.get_state()) == 18


def test_several_opponents_of_a_game_share_the_move():
    """Three agents: the first one wins against one version and has the return of the other."""
    columns = [Column() for _ in range(3)]
    owners, versions = [0, 1, 2], [(9, 9), (3, 3), (4, 4)]
    play(columns, 3, 0, owners, versions)
    columns[2].reward[1:] = columns[0].reward[1:]
    for column in columns:
        column.add(FIRST)
    elo = EloRating(3, k_factor=K)
    for record in to_records(columns, 5):
        elo(record)
    assert elo.rate(3) == 1200.0 - K * 0.5 / 2
    assert elo.rate(4) == 1200.0
    assert elo.result() == 1200.0 + K * 0.5 / 2


def play_rewards(elo, *games, length=3):
    """Plays games of two agents, main and version 7, with these lists of rewards in records of `length`."""
    columns = Column(), Column()
    for rewards in games:
        for agent, (column, values) in enumerate(zip(columns, rewards, strict=True)):
            column.add(FIRST, 0.0, agent, 7)
            for value in values[:-1]:
                column.add(MID, value, agent, 7)
            column.add(LAST, values[-1], agent, 7)
    for column in columns:
        for _ in range(length):
            column.add(FIRST)
    for record in to_records(columns, length):
        elo(record)
    return elo.score.get_state()


@pytest.mark.parametrize("length", [1, 3, 64])
def test_equal_sums_of_fractions_are_a_draw(length):
    """Also after other games in the record, in another order, and if float32 rounds a reward otherwise."""
    rng = np.random.default_rng(length)
    games = [([0.3, 0.4, 1e6], [0.1, 0.5, -1e6]), ([0.1, 0.2], [0.1, 0.2]), ([0.1, 0.2], [0.3, 0.0])]
    for _ in range(200):
        rewards = rng.normal(size=rng.integers(1, 9)) * 10.0 ** rng.integers(-3, 4)
        games.append((rewards.tolist(), rng.permutation(rewards).tolist()))
    elo = EloRating(2, window=1000)
    assert play_rewards(elo, *games, length=length) == [1.0] + [0.5] * 202


def test_small_differences_of_returns_win():
    games = [([2.0**24, 1.0], [2.0**24, 0.0]), ([0.1, 0.2], [0.1, 0.2001]), ([1e-6, 0.0], [0.0, 0.0])]
    assert play_rewards(EloRating(2), *games) == [1.0, 0.0, 1.0]


def test_an_agent_that_ends_early_waits_for_the_others():
    one, other = Column(), Column()
    for column in (one, other):
        column.add(FIRST, owner=int(column is other))
    one.add(MID)
    one.add(LAST, 1.0)
    one.add(FIRST)
    one.add(FIRST)
    other.add(MID, owner=1)
    other.add(MID, owner=1)
    other.add(MID, owner=1)
    other.add(LAST, 2.0, owner=1)
    elo = EloRating(2, k_factor=K)
    counts = []
    for record in to_records((one, other), 1):
        elo(record)
        if len(counts) < 4:  # in another environment the game is broken off
            elo(record._replace(env_id=record.env_id + 2))
        counts.append(len(elo.score.get_state()))
    assert counts == [0, 0, 0, 0, 1]
    assert elo.result() == 1200.0 - K / 2
    draw = [np.array([x]) for x in ([FIRST, FIRST], [LAST, LAST])]
    for step_type in draw:
        record = record._replace(step_type=step_type, reward=np.zeros((1, 2)))
        elo(record._replace(env_id=record.env_id + 2))
    assert len(elo.score.get_state()) == 2


def test_the_state_is_json_and_restores_all_ratings():
    elo = EloRating(2)
    elo.set_state({"rating": 1300.0, "versions": [[0, 1100.0], [40, 1250.5]]})
    state = json.loads(json.dumps(elo.get_state()))
    other = EloRating(2)
    other.set_state(state)
    assert other.result() == 1300.0
    assert (other.rate(0), other.rate(40), other.rate(80)) == (1100.0, 1250.5, 1300.0)
    other.keep([40, 80])
    assert dict(other.get_state()["versions"]) == {40: 1250.5, 80: 1300.0}
    assert other.expect_scores([40]).tolist() == [expect_score(1300.0, 1250.5)]


def test_a_game_may_end_while_versions_are_forgotten():
    """The log thread rates a version that is new to it, in the middle of what the learner's thread does."""
    elo = EloRating(2)

    class Busy(list):
        def __contains__(self, version):
            elo.rate(version + 1000)
            return super().__contains__(version)

    elo.set_state({"rating": 1300.0, "versions": [[0, 1.0], [40, 2.0], [80, 3.0]]})
    elo.keep(Busy([40]))
    assert dict(elo.get_state()["versions"]) == {40: 2.0, 1000: 1300.0, 1040: 1300.0, 1080: 1300.0}


@pytest.mark.parametrize(
    ("name", "value"), [("k_factor", 0), ("first_rating", "high"), ("window", 0)], ids=lambda x: str(x)
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ConfigError, match=f"EloRating.{name} is {value!r}"):
        EloRating(2, **{name: value})


@pytest.mark.parametrize("rating", [1000.0, 1500.0])
def test_the_first_rating_counts(rating):
    assert EloRating(2, first_rating=rating).rate(0) == rating
