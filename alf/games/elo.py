# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Elo ratings of a policy, and of its past versions as its opponents."""

import collections

import numpy as np

from alf.config.kinds import PositiveFloat, PositiveInt
from alf.config.settings import Role, configurable
from alf.data_structures import FIRST, LAST, MID
from alf.drivers.metrics import EpisodeMetric, Metric


def expect_score(rating, other):
    """Returns the expected score, 1 for a win and 0.5 for a draw, by Elo's logistic formula.

    Args:
        rating, other: floats or arrays, of the player and of the opponent: 400 points are odds of 10 to 1.
    """
    return 1.0 / (1.0 + 10.0 ** ((other - rating) / 400.0))


def bound_rounding(rewards):
    """Returns how far float32 may have moved each reward, a float64 array: not at all if it is an integer.

    Returns whose difference is not above the sum of these bounds are a tie: 0.1 + 0.2 is then 0.3.
    """
    rewards = np.asarray(rewards, np.float64)
    return np.where(rewards == np.rint(rewards), 0.0, 2.0**-24 * np.abs(rewards))


@configurable("alf.training", role=Role.MEASUREMENT)
class EloRating(Metric):
    """The rating of the learning policy, number 0 in `LogRecord.owner`; all others are versions of it.

    After each game against a version, the ratings of the policy and the version move by `k_factor` times the
    difference between score and expected score: one up, the other down. The player with the higher return
    wins, and a difference that float32 may have made is a draw. With several opponents in a game, each
    opponent counts as a game, and the moves are divided by the number of opponents. A version is the
    `policy_version` of the opponent. A game is not rated if it changes.

    A game is over when no agent goes on. All agents must be rows of one environment, row = game * A + agent.

    Args:
        num_agents: int, A, at least 2.
        k_factor: number above 0.
        first_rating: number, the rating of the first version.
        window: int, the number of last games that `score` averages over.

    Attributes:
        score: `EpisodeMetric`, the mean score against versions.
    """

    name = "league/Elo"

    def __init__(
        self,
        num_agents: int,
        k_factor: PositiveFloat = 16.0,
        first_rating: float = 1200.0,
        window: PositiveInt = 100,
    ) -> None:
        self._num_agents = num_agents
        self._k_factor = k_factor
        self._rating = first_rating
        self._scores = collections.deque(maxlen=window)
        self.score = EpisodeMetric("league/Score", self._scores)
        self._versions = {}  # version -> rating
        self._unfinished = {}  # first env id of a batch -> `_Episodes`
        self._players = {}  # (first env id, game) -> `_Player`s whose episodes have ended

    def rate(self, version):
        """Returns the rating of a version; a new version starts with the rating of the learning policy."""
        # The thread that logs rates games, and the thread that trains draws and forgets versions. They share
        # this dict without a lock, because each access to it, such as `setdefault`, is one step under the
        # GIL.
        return self._versions.setdefault(version, self._rating)

    def keep(self, versions):
        """Forgets all versions but these."""
        for version in list(self._versions):  # a copy: games add versions in another thread
            if version not in versions:
                del self._versions[version]

    def expect_scores(self, versions):
        """Returns the expected scores of the learning policy against a list of N versions, float [N]."""
        return expect_score(self._rating, np.array([self.rate(version) for version in versions]))

    def __call__(self, record):
        key, (length, batch_size) = int(record.env_id[0]), record.step_type.shape
        # The records of a batched environment come in the order of time, those of several in any order.
        if key not in self._unfinished:
            self._unfinished[key] = _Episodes(batch_size)
        returns, errors, first_versions = self._unfinished[key].add(record)
        games = record.step_type.reshape(length, -1, self._num_agents)
        ends = (games == LAST).any(axis=2)
        begins = (games == FIRST).all(axis=2)
        is_over = ends & ~(games == MID).any(axis=2)
        # Python looks only at the steps in which a game begins or an agent ends: the thread that logs must
        # not hold the GIL for long.
        for t, game in np.argwhere(ends | begins).tolist():
            players = self._players.setdefault((key, game), [])
            if begins[t, game]:  # players of a game that was broken off are forgotten
                players.clear()
                continue
            for row in range(game * self._num_agents, (game + 1) * self._num_agents):
                if record.step_type[t, row] == LAST:
                    # The answer to the LAST row comes after the last move. If the weights changed just
                    # between the two, a game is not rated that could have been, and never the other way
                    # round.
                    version = int(record.policy_version[t, row])
                    is_same = version == first_versions[t, row]
                    owner = int(record.owner[t, row])
                    total, error = float(returns[t, row]), float(errors[t, row])
                    players.append(_Player(owner, version if is_same else None, total, error))
            if is_over[t, game]:
                self._rate_game(players)
                players.clear()

    def result(self):
        return float(self._rating)

    def get_state(self):
        pairs = list(self._versions.items())  # a copy, as in `keep`
        return {"rating": self._rating, "versions": [list(pair) for pair in pairs]}

    def set_state(self, state):
        self._rating = state["rating"]
        self._versions = {int(version): rating for version, rating in state["versions"]}

    def _rate_game(self, players):
        own = [player for player in players if player.owner == 0]
        others = [player for player in players if player.owner != 0 and player.version is not None]
        pairs = [(one, other) for one in own for other in others]
        # All scores are expected with the ratings before the game, so the order of the pairs does not matter.
        moves = []
        for one, other in pairs:
            is_tie = abs(one.total - other.total) <= one.error + other.error
            score = 0.5 if is_tie else float(one.total > other.total)
            expected = expect_score(self._rating, self.rate(other.version))
            moves.append(self._k_factor * (score - expected) / len(pairs))
            self._scores.append(score)
        for (_, other), move in zip(pairs, moves, strict=True):
            # A version that was forgotten meanwhile comes back here: an opponent plays it until the next
            # draw. The next `keep` forgets it again.
            self._versions[other.version] = self.rate(other.version) - float(move)
        self._rating += float(sum(moves))


# total: the return; error: how far it may be from the sum of the rewards as the environment means them.
_Player = collections.namedtuple("_Player", ("owner", "version", "total", "error"))


class _Episodes:
    """The unfinished episodes of B rows: sum of rewards, its error, and the version that began each."""

    def __init__(self, batch_size):
        self._sums = np.zeros((2, batch_size))
        # No weights have this version, so an episode whose beginning was not seen is not rated.
        self._versions = np.full(batch_size, -1)

    def add(self, record):
        """Takes a `LogRecord`.

        Returns:
            three arrays [T, B] for the episode of each step: the sum of rewards so far and the error that it
            may have, float64, and the first version.
        """
        length, batch_size = record.step_type.shape
        # In float64, and each episode from 0: what was summed before it would round equal returns apart.
        rewards = record.reward.reshape(length, batch_size, -1).astype(np.float64)
        steps = np.stack([rewards.sum(axis=2), bound_rounding(rewards).sum(axis=2)])
        sums, versions = np.empty_like(steps), np.empty(record.step_type.shape, self._versions.dtype)
        for t, is_first in enumerate(record.step_type == FIRST):
            # The reward of a FIRST step does not count.
            self._sums = sums[:, t] = np.where(is_first, 0.0, self._sums + steps[:, t])
            self._versions = versions[t] = np.where(is_first, record.policy_version[t], self._versions)
        return *sums, versions
