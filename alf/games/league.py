# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""League: self-play of one policy against past versions of itself."""

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import numpy as np
from absl import logging

from alf.callback import Callback
from alf.config.kinds import AtLeast, Fraction, PositiveInt
from alf.config.settings import configurable
from alf.core.annotations import Environment
from alf.core.files import open_regular, replace_file
from alf.drivers.metrics import Metric
from alf.drivers.weights import get_weights, set_weights
from alf.errors import ConfigError
from alf.games.elo import EloRating
from alf.games.policies import Policies

MAIN = "main"  # the name of the policy that learns
FOLDER = "league"  # of the versions, in a run's directory
_SAMPLING = ("uniform", "latest", "prioritized")


@configurable("alf.training")
class League(Policies):
    """The policy "main" learns in games against past versions of itself.

    The opponents, "opponent_0" and so on, do not learn. Each has the weights of a version, which is drawn
    anew from time to time. When a game begins, seats are drawn: "main" has all seats, or "main" has one seat
    and opponents have the others. A version is a file "N.npz" in the folder "league" of the run's directory,
    with the weights after N updates; the first one has the initial weights. `EloRating` rates the versions.
    The league goes on without a file that is damaged or of another policy; the log names it.

    All agents must have the same spaces.

    Args:
        num_opponents: int, K, versions that play at the same time.
        self_play: probability that "main" has all seats of a game.
        snapshot_interval: updates of "main" between two versions.
        draw_interval: updates of "main" after which a version is drawn anew for each opponent.
        sampling: how versions are drawn. "uniform": each with the same probability. "latest": always the
            newest. "prioritized": with a probability in proportion to (1 - p)^2, where p is the expected
            score of "main" against the version, so strong versions play more often (AlphaStar,
            10.1038/s41586-019-1724-z, "hard").
        max_versions: int, the most versions that are kept. Beyond it, versions whose neighbours are closest
            together are deleted, one after another, but never the first or the newest.
        num_sequences: int, or dict with the entry "main": sequences in a batch, as in `Policies`.
        elo: callable (num_agents) -> `EloRating`.
    """

    def __init__(
        self,
        num_opponents: PositiveInt = 4,
        self_play: Fraction = 0.5,
        snapshot_interval: PositiveInt = 1000,
        draw_interval: PositiveInt = 100,
        sampling: Literal["uniform", "latest", "prioritized"] = "uniform",
        max_versions: Annotated[int, AtLeast(2)] = 100,
        num_sequences: PositiveInt | dict[str, PositiveInt] | None = None,
        elo: Callable[..., EloRating] = EloRating,
    ) -> None:
        self._self_play = self_play
        self._snapshot_interval = snapshot_interval
        self._draw_interval = draw_interval
        self._sampling = sampling
        self._max_versions = max_versions
        self._make_elo = elo
        self._opponents = tuple(f"opponent_{i}" for i in range(num_opponents))
        names = (MAIN, *self._opponents)
        super().__init__(names, self._draw_seats, self._opponents, num_sequences=num_sequences)

    def wrap(self, env: Environment, seed: int | None) -> Environment:
        """Makes a `MappedEnvironment`, as `Policies.wrap`; ConfigError if a game has only one agent."""
        env = super().wrap(env, seed)
        if len(env.agents) < 2:
            raise ConfigError("Experiment.policies is a League: the environment must have two agents or more")
        return env

    def make_watchers(self, agents: Sequence[str]) -> tuple[Sequence[Metric], Sequence[Callback]]:
        """Returns the metrics of the ratings, and the callback that keeps and draws versions."""
        elo = self._make_elo(num_agents=len(agents))
        settings = self._snapshot_interval, self._draw_interval, self._sampling, self._max_versions
        return (elo, elo.score), (_LeagueCallback(self._opponents, elo, *settings),)

    def _draw_seats(self, episode):
        num_seats, rng = len(episode.agents), episode.rng
        if rng.random() < self._self_play:
            return [MAIN] * num_seats
        seats = rng.choice(self._opponents, num_seats).tolist()
        # In any case one seat, because nobody else learns from the game.
        seats[rng.integers(num_seats)] = MAIN
        return seats


class _LeagueCallback(Callback):
    """Saves versions of "main", and loads them into the opponents. Arguments are as in `League`."""

    def __init__(self, opponents, elo, snapshot_interval, draw_interval, sampling, max_versions):
        self._opponents, self._elo = opponents, elo
        self._snapshot_interval, self._draw_interval = snapshot_interval, draw_interval
        self._sampling = sampling
        self._max_versions = max_versions
        self._versions = None
        self._drawn = None  # the updates of "main" when versions were last drawn

    def on_begin(self, trainer):
        self._versions = Versions(os.path.join(trainer.root_dir, FOLDER))
        main = trainer.learner.policy.policies[MAIN]
        # A run that continues from a checkpoint makes later versions anew: files with higher numbers come
        # from training after the checkpoint, which is lost.
        for version in self._versions.list():
            if version > int(main.progress.updates):
                logging.info("version %d of the league is newer than the run, and is deleted", version)
                self._versions.delete(version)
        if not self._versions.list():
            self._save(main)
        # The checkpoint has brought back ratings, perhaps also of files that were deleted since.
        self._elo.keep(self._versions.list())
        # Nothing of the last draw is saved, so a run that continues draws at its beginning.
        self._draw(trainer)

    def on_train_iter(self, trainer, summary):
        main = trainer.learner.policy.policies[MAIN]
        updates = int(main.progress.updates)
        # The new version first, so that it can be drawn at once.
        newest = max(self._versions.list(), default=None)
        if newest is None or updates - newest >= self._snapshot_interval:
            self._save(main)
        if updates - self._drawn >= self._draw_interval:
            self._draw(trainer)

    def _save(self, main):
        """Saves the present weights as a version. An error, of a full disk for example, is only logged."""
        try:
            self._versions.save(main)
        except OSError as error:
            logging.error("the league has no new version: %s", error)
            return
        while len(self._versions.list()) > self._max_versions:
            # An opponent that plays a deleted version goes on with it: the weights are in its variables.
            self._versions.delete(find_crowded(self._versions.list()))
        self._elo.keep(self._versions.list())

    def _draw(self, trainer):
        """Draws a version for each opponent and loads it."""
        policies = trainer.learner.policy.policies
        self._drawn = int(policies[MAIN].progress.updates)
        # The updates are part of the seed, so a run that continues does not repeat its first draws.
        rng = np.random.default_rng([trainer.driver.stream.seed, self._drawn])
        for name in self._opponents:
            # This writes to the learner's variables, which actors may read. With copies, they get them below.
            self._draw_one(rng, policies[name])
        trainer.driver.publish_soon()

    def _draw_one(self, rng, policy):
        """Loads a version that is drawn. Without any that can be loaded, the policy stays as it is."""
        while versions := self._versions.list():
            shares = share_games(self._sampling, self._elo.expect_scores(versions))
            version = int(rng.choice(versions, p=shares))
            try:
                self._versions.load(version, policy)
                return
            except ConfigError as error:
                logging.warning("%s: the league goes on without this version", error)
                self._versions.forget(version)


class Versions:
    """Past weights of a policy: files "N.npz" in a folder, with the weights after N updates."""

    def __init__(self, folder):
        self._folder = folder
        os.makedirs(folder, exist_ok=True)
        names = (re.fullmatch(r"(0|[1-9][0-9]*)\.npz", name) for name in os.listdir(folder))
        self._versions = sorted(int(name[1]) for name in names if name)

    def list(self):
        """Returns the versions, ints in increasing order."""
        return list(self._versions)

    def save(self, policy):
        """Saves the weights of a `Policy`; OSError if the file cannot be written."""
        version = int(policy.progress.updates)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._folder)  # somebody may have removed it
        with replace_file(self._path(version)) as file:
            # In the thread that trains, between two updates: all arrays are of the same version.
            np.savez(file, *get_weights(policy))
        # Only when the file is complete: nobody draws a version that cannot be loaded.
        self._versions = sorted({*self._versions, version})

    def load(self, version, policy):
        """Sets a policy to the weights of a version, and its `progress` to the updates of the version.

        Raises ConfigError if the file is damaged or of another policy; the policy has not changed then.
        """
        path = self._path(version)
        try:
            # `np.load` refuses pickles unless told otherwise: a file cannot run code.
            with open_regular(path, "rb") as file, np.load(file) as arrays:
                weights = [arrays[f"arr_{i}"] for i in range(len(arrays.files))]
            if not all(np.isfinite(x).all() for x in weights):
                raise ConfigError("a weight is not finite")
            # The counters are among the variables. So the steps of an opponent carry the number of its
            # version, by which `EloRating` knows whom it rates.
            set_weights(policy, weights)
        except Exception as error:  # zipfile, zlib and NumPy raise nearly anything for a foreign file
            text = str(error) if isinstance(error, (ConfigError, OSError)) else repr(error)
            raise ConfigError(f"{path!r} cannot be read: {text}") from None

    def forget(self, version):
        """Leaves a version out of the list; its file stays."""
        self._versions.remove(version)

    def delete(self, version):
        """Deletes a version, or logs why its file stays."""
        self.forget(version)
        try:
            os.remove(self._path(version))
        except OSError as error:
            logging.warning("the league keeps the file of a version: %s", error)

    def _path(self, version):
        return os.path.join(self._folder, f"{version}.npz")


def share_games(sampling, expected_scores):
    """Returns the probability with which each version is drawn, float [N].

    Args:
        sampling: text, as in `League`.
        expected_scores: float [N], expected scores of "main" against the versions, the newest version last.
    """
    if sampling == "latest":
        return np.eye(len(expected_scores))[-1]
    weights = (1.0 - expected_scores) ** 2 if sampling == "prioritized" else np.ones(len(expected_scores))
    return weights / weights.sum()


def find_crowded(versions):
    """Returns the version whose two neighbours are closest together; never the first or the last."""
    middle = range(1, len(versions) - 1)
    return versions[min(middle, key=lambda i: versions[i + 1] - versions[i - 1])]
