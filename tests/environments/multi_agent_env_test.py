# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Games of several agents: each step of each agent arrives once, and nothing else is learned."""

import contextlib
import functools
import os
import signal

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from alf.config.parsing import parse_config
from alf.core.nest_utils import to_tensor_spec
from alf.data_structures import FIRST, LAST, MID
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.environments import load_pettingzoo
from alf.policies import ActorCriticPolicy
from alf.policies.data_transformers import ObservationNormalizer
from alf.policies.random_policy import RandomPolicy
from alf.testing import EnvironmentContract
from alf.testing.environment_contract import sample_action
from alf.testing.fakes import FrozenPolicy, RecordingLearner, RecordingObserver, in_a_row
from alf.training import Experiment
from tests.builders import build_driver, build_trainer, collect_and_observe, driver_of
from tests.workers.counting_games import (
    ACTION,
    GAME,
    NUMBERS,
    PID,
    SEED,
    STEP,
    ParallelGame,
    TurnGame,
    reward_of,
)

CONNECT_FOUR = "pettingzoo.classic.connect_four_v3:env"
SPREAD = "mpe2.simple_spread_v3:parallel_env"


class _Contract(EnvironmentContract):
    """The rows of agents that are not in the game are FIRST after FIRST; the rest is as for one agent."""

    def test_first_follows_last_and_nothing_else(self):
        rng = np.random.RandomState(0)
        before = self.env.reset().step_type
        np.testing.assert_array_equal(before, FIRST)
        ended = False
        for _ in range(self.num_steps):
            step_type = self.env.step(sample_action(self.env, rng)).step_type
            assert (step_type[before == LAST] == FIRST).all()
            assert (before[step_type == FIRST] != MID).all()
            ended, before = ended or (step_type == LAST).any(), step_type
        assert ended == self.ends

    def test_reset_in_the_middle_of_episodes_forgets_them(self):
        rng = np.random.RandomState(0)
        for _ in range(7):
            self.env.step(sample_action(self.env, rng))
        np.testing.assert_array_equal(self.env.reset().step_type, FIRST)
        assert self.env.game_begins.all()
        self.env.step(sample_action(self.env, rng))
        assert not self.env.game_begins.any()


class TestParallel(_Contract):
    num_steps = 30

    def make_env(self, seed):
        return load_pettingzoo(ParallelGame, 3, seed, num_workers=0, info_keys=("code", "deep/even"))


class TestTurns(_Contract):
    num_steps = 30

    def make_env(self, seed):
        return load_pettingzoo(TurnGame, 2, seed, num_workers=0)


class TestSimpleSpread(EnvironmentContract):
    num_steps = 60

    def make_env(self, seed):
        return load_pettingzoo(SPREAD, 2, seed, num_workers=0)


class TestConnectFour(EnvironmentContract):
    num_steps = 60
    random = False  # of what happens here, actions alone are random

    def make_env(self, seed):
        return load_pettingzoo(CONNECT_FOUR, 3, seed, num_workers=0)


class Rows:
    """The time steps of all rows, and the actions that answered them: arrays [N, B, ...]."""

    def __init__(self, step_type, reward, discount, observation, action):
        self.step_type, self.reward, self.discount = step_type, reward, discount
        self.observation, self.action = observation, action


def play(env, num_steps, seed=0):
    """Returns the `Rows` of random actions."""
    rng = np.random.RandomState(seed)
    steps, actions = [env.reset()], []
    for _ in range(num_steps):
        actions.append(sample_action(env, rng))
        steps.append(env.step(actions[-1]))
    stack = functools.partial(tf.nest.map_structure, lambda *x: np.stack(x))
    return Rows(*stack(*steps), stack(*actions))


def check_parallel(rows, names, game, same=False):
    """Checks all rows of a `ParallelGame` against its literal course; returns how many transitions it has.

    Args:
        rows: `Rows`.
        names: `space_names`.
        game: index of the game.
        same: as of the game.
    """
    agents, lives = ParallelGame.possible_agents, ParallelGame.LIVES
    count, step, number = 0, None, None
    for t in range(len(rows.step_type)):
        long_row = game * 4 + 1
        if rows.step_type[t, long_row] == FIRST:  # it is there from the beginning to the end
            numbers = rows.observation if same else rows.observation["long"]["x"]
            number = numbers[t, long_row, GAME]
            step = 0
        else:
            step += 1
        for i, agent in enumerate(agents):
            row, (enters, ends, terminates) = game * 4 + i, lives[agent]
            ends += number % 2 == 0
            found = rows.step_type[t, row], rows.reward[t, row], rows.discount[t, row]
            if enters < step <= ends:
                kind = LAST if step == ends else MID
                discount = 0.0 if kind == LAST and terminates else 1.0
                assert found == (kind, np.float32(reward_of(i, step)), discount), (agent, step, found)
                count += 1
            else:
                assert found == (FIRST, 0.0, 1.0), (agent, step, found)
            observation = tf.nest.map_structure(lambda x, t=t, row=row: x[t, row], rows.observation)
            own = observation if same else observation.pop(names[i])
            if agent == "long" and not same:
                assert own["k"] == 2 + step % 3
                own = own["x"]
            if enters <= step <= ends:
                assert tuple(own[[GAME, STEP]]) == (number, step)
                expected = -1.0
                if step > enters:
                    action = tf.nest.map_structure(lambda x, t=t, row=row: x[t - 1, row], rows.action)
                    expected = np.ravel(action if same else action[names[i]])[0]
                assert own[ACTION] == expected, (agent, step)
            else:
                assert not own.any()
            if not same:  # Of what is not its own, k is 2: the least that its space has.
                others = [np.ravel(x) for x in tf.nest.flatten(observation)]
                assert all((x == (2 if x.dtype == np.int64 else 0)).all() for x in others)
    return count


def check_turns(rows, names, game):
    """As `check_parallel`, for a `TurnGame`: also masks, and that actions of those who wait do not count."""
    agents = TurnGame.possible_agents
    count, ply, number, last = 0, None, None, {}
    for t in range(len(rows.step_type)):
        if rows.step_type[t, game * 3] == FIRST:
            number = rows.observation["first"]["observation"][t, game * 3, GAME]
            ply, last = 0, {}
        else:
            actor = TurnGame.TURNS[ply]
            i = agents.index(actor)
            last[actor] = np.ravel(rows.action[names[i]][t - 1, game * 3 + i])[-1]
            ply += 1
        end = 9 + (number % 2 == 0)
        lives = {"first": (0, end, False), "second": (0, 4, True), "third": (2, end, True)}
        for i, agent in enumerate(agents):
            row, (enters, ends, terminates) = game * 3 + i, lives[agent]
            found = rows.step_type[t, row], rows.reward[t, row], rows.discount[t, row]
            own = {key: x[t, row] for key, x in rows.observation[names[i]].items()}
            if not enters <= ply <= ends:
                assert found == (FIRST, 0.0, 1.0), (agent, ply, found)
                assert not own["observation"].any() and not own["action_mask"].any()
                continue
            assert tuple(own["observation"][[GAME, STEP, ACTION]]) == (number, ply, last.get(agent, -1.0))
            if ply < ends:
                waits = np.zeros(TurnGame.SIZES[agent])
                waits[[0, 2] if agent == "second" else 0] = 1  # the first of 2, and of 3 choices
                acts = agent == TurnGame.TURNS[ply]
                assert own["is_turn"].tolist() == [float(acts)]
                np.testing.assert_array_equal(
                    own["action_mask"], TurnGame.mask_of(agent, ply) if acts else waits
                )
            if ply == enters:
                assert found == (FIRST, 0.0, 1.0), (agent, ply, found)
                continue
            kind = LAST if ply == ends else MID
            discount = 0.0 if kind == LAST and terminates else 1.0
            assert found == (kind, np.float32(reward_of(i, ply)), discount), (agent, ply, found)
            count += 1
    return count


PARALLEL_STEPS = {1: 2 + 6 + 2 + 5, 0: 3 + 7 + 3 + 6}  # transitions of an odd game, and of an even one


@pytest.mark.parametrize("same, num_workers", [(False, 0), (True, 0), (False, 2)])
def test_each_step_of_each_agent_arrives_once_where_all_act_at_once(same, num_workers):
    env = load_pettingzoo(ParallelGame, 3, 1, num_workers=num_workers, same=same)
    with contextlib.closing(env):
        assert env.agents == ("short", "long", "late", "twin") and env.batch_size == 12
        assert env.space_names == (None if same else ("short", "long", "short", "twin"))
        # Two games of 6 and 7 steps, with a reset after each.
        rows = play(env, 2 * (7 + 8) - 1)
        for game in range(3):
            found = check_parallel(rows, env.space_names, game, same)
            assert found == 2 * (PARALLEL_STEPS[1] + PARALLEL_STEPS[0])


@pytest.mark.parametrize(
    "masks, late, num_workers",
    [
        *((masks, late, 0) for masks in ("observation", "info") for late in (False, True)),
        ("observation", True, 2),
    ],
)
def test_each_step_of_each_agent_arrives_once_where_they_take_turns(masks, late, num_workers):
    make = functools.partial(TurnGame, masks, late)
    with contextlib.closing(load_pettingzoo(make, 2, 1, num_workers=num_workers)) as env:
        assert env.space_names == ("first", "second", "first")
        rows = play(env, 2 * (10 + 11) - 1)
        for game in range(2):
            assert check_turns(rows, env.space_names, game) == 2 * (9 + 4 + 7) + 2 * (10 + 4 + 8)


def test_without_masks_the_one_whose_turn_it_is_may_do_all():
    with contextlib.closing(load_pettingzoo(functools.partial(TurnGame, ""), 1, 1, num_workers=0)) as env:
        masks = play(env, 3).observation["first"]["action_mask"]
    np.testing.assert_array_equal(masks[:, 0], [[1, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]])
    assert masks[2, 2].tolist() == [1, 1, 1, 1]  # "third" has just entered


def test_a_game_that_begins_is_told():
    with contextlib.closing(load_pettingzoo(ParallelGame, 2, 1, num_workers=0)) as env:
        begins = []
        for t in range(15):
            env.step(sample_action(env, np.random.RandomState(0))) if t else env.reset()
            begins.append(env.game_begins.tolist())
    assert np.flatnonzero([x == [True, True] for x in begins]).tolist() == [0, 7]
    assert all(x == [t in (0, 7)] * 2 for t, x in enumerate(begins))


def test_games_of_a_restarted_worker_begin_anew_and_the_others_go_on():
    env = load_pettingzoo(ParallelGame, 4, 1, num_workers=2)
    with contextlib.closing(env):
        rng = np.random.RandomState(0)
        steps, actions, begins = [env.reset()], [], []
        for t in range(40):
            if t == 10:
                os.kill(env._env._batch.pids[1], signal.SIGKILL)
            actions.append(sample_action(env, rng))
            steps.append(env.step(actions[-1]))
            begins.append(env.game_begins)
        assert env.num_restarts == 1
        np.testing.assert_array_equal(begins[10][2:], True)
        assert not begins[10][:2].any()
        np.testing.assert_array_equal(steps[11].step_type[8:], FIRST)
    stack = functools.partial(tf.nest.map_structure, lambda *x: np.stack(x))
    rows = Rows(*stack(*steps), stack(*actions))
    for game in range(4):
        check_parallel(rows, env.space_names, game)
    pids = rows.observation["long"]["x"][:, 1::4, PID]
    assert [len(set(x)) for x in pids.T] == [1, 1, 2, 2]
    np.testing.assert_array_equal(rows.observation["long"]["x"][11, 1::4, GAME], [2, 2, 1, 1])


def test_the_limit_of_steps_truncates_all_that_are_in_the_game():
    with contextlib.closing(load_pettingzoo(ParallelGame, 1, num_workers=0, max_episode_steps=4)) as env:
        rows = play(env, 9)
    assert rows.step_type[4].tolist() == [FIRST, LAST, LAST, LAST]  # "short" has ended before
    np.testing.assert_array_equal(rows.discount[4], 1.0)
    np.testing.assert_array_equal(rows.reward[4], [0.0, 104.5, 204.5, 304.5])
    assert rows.step_type[9].tolist() == [FIRST, LAST, LAST, LAST] and rows.discount[9].tolist() == [1] * 4
    with contextlib.closing(load_pettingzoo(TurnGame, 1, num_workers=0, max_episode_steps=3)) as env:
        rows = play(env, 3)
    assert rows.step_type[3].tolist() == [LAST] * 3 and rows.discount[3].tolist() == [1] * 3


@pytest.mark.parametrize("num_workers", [0, 1])
def test_each_row_has_the_info_of_its_own_agent(num_workers):
    keys = ("code", "deep/even", "no", "tensorflow")
    env = load_pettingzoo(ParallelGame, 2, num_workers=num_workers, info_keys=keys)
    with contextlib.closing(env):
        assert env.info_keys == keys
        env.reset()
        found = []
        for _ in range(3):
            env.step(sample_action(env, np.random.RandomState(0)))
            found.append(env.get_info())
    nan = np.nan
    np.testing.assert_array_equal(found[0]["code"], [1, 1001, nan, 3001] * 2)
    np.testing.assert_array_equal(found[1]["code"], [2, 1002, nan, 3002] * 2)
    np.testing.assert_array_equal(found[2]["code"], [nan, 1003, 2003, 3003] * 2)
    np.testing.assert_array_equal(found[1]["deep/even"], [2, 2, nan, 2] * 2)
    assert all(np.isnan(x["no"]).all() for x in found) and np.isnan(found[0]["deep/even"]).all()
    assert set(found[1]["tensorflow"][[0, 1, 3]]) == {num_workers == 0}  # not in a worker


def test_each_game_has_its_own_seed_whatever_the_number_of_workers():
    found = []
    for num_workers in (0, 2):
        with contextlib.closing(load_pettingzoo(ParallelGame, 4, 5, num_workers=num_workers)) as env:
            seeds = [env.reset().observation["long"]["x"][1::4, SEED].tolist()]
            for seed in (6, 5):
                env.seed(seed)
                seeds.append(env.reset().observation["long"]["x"][1::4, SEED].tolist())
        assert seeds[0] == seeds[2] and len({*seeds[0], *seeds[1]}) == 8
        found.append(seeds)
    assert found[0] == found[1]


def test_random_starts_take_actions_that_the_masks_allow():
    """They begin in the middle of a game, and all rows are FIRST."""
    env = load_pettingzoo(TurnGame, 30, 1, num_workers=0, max_random_steps=8)
    with contextlib.closing(env):
        time_step = env.reset()
        np.testing.assert_array_equal(time_step.step_type, FIRST)
        np.testing.assert_array_equal(time_step.discount, 1)
        np.testing.assert_array_equal(time_step.reward, 0)
        plies = time_step.observation["first"]["observation"][::3, STEP]
        actions = time_step.observation["first"]["observation"][::3, ACTION]
        assert len(set(plies)) > 4
        # After plies 0 and 3, "first" may choose its action 0, after plies 5 and 7 it may not.
        assert set(actions[plies >= 8]) <= {1.0, 2.0, 3.0} and (plies >= 8).any()
        following = env.step(sample_action(env, np.random.RandomState(0)))
        in_game = plies < 8
        assert (following.step_type[::3][in_game] == MID).all()


def test_frames_and_how_fast_they_are():
    for game, fps in ((ParallelGame, 7), (TurnGame, 2)):
        with contextlib.closing(load_pettingzoo(game, 2, render_mode="rgb_array")) as env:
            env.reset()
            env.step(sample_action(env, np.random.RandomState(0)))
            np.testing.assert_array_equal(env.render(), np.ones((2, 3, 3), np.uint8))
            assert env.render_fps == fps
            assert env.reset().observation is not None


@contextlib.contextmanager
def running(driver_class, envs, policy=None, observers=(), **kwargs):
    learner = RecordingLearner(policy or FrozenPolicy(envs[0]))
    driver = build_driver(driver_class, envs, learner, unroll_length=5, observers=observers, **kwargs)
    driver.start()
    try:
        yield driver
    finally:
        driver.stop()


@pytest.mark.parametrize(
    "driver_class, kwargs",
    [(AsyncOffPolicyDriver, {"learn_queue_cap": 2}), (SyncOffPolicyDriver, {})],
    ids=["async", "sync"],
)
def test_what_is_learned_are_the_steps_of_the_agents(driver_class, kwargs):
    envs = [load_pettingzoo(ParallelGame, 2, seed, num_workers=seed) for seed in range(2)]
    names, steps = envs[0].space_names, 0
    with running(driver_class, envs, **kwargs) as driver:
        while min(map(len, driver.learner.unrolls(2))) < 6:
            steps += collect_and_observe(driver)
        unrolls = driver.learner.unrolls(2)
    count = 0
    for index, rows in enumerate(map(in_a_row, unrolls)):
        assert (rows.env_id == 8 * index + np.arange(8)).all()
        count += sum(check_parallel(rows, names, game) for game in range(2))
    assert count == steps


def test_metrics_count_each_agent_by_itself():
    envs = [load_pettingzoo(ParallelGame, 2, seed, num_workers=0) for seed in range(2)]
    observer = RecordingObserver()
    with running(SyncOffPolicyDriver, envs, observers=[observer]) as driver:
        for _ in range(9):  # 45 rows: three games of each kind
            collect_and_observe(driver)
        assert observer.wait_for(lambda: len(observer.records) == 18)
        metrics = {metric.name: metric.result() for metric in driver.get_metrics()}
    assert metrics["NumberOfEpisodes"] == 4 * 6 * 4
    assert metrics["EnvironmentSteps"] == 4 * 3 * (PARALLEL_STEPS[1] + PARALLEL_STEPS[0])
    lengths = []
    for i, (agent, (enters, ends, _)) in enumerate(ParallelGame.LIVES.items()):
        odd = [reward_of(i, step) for step in range(enters + 1, ends + 1)]
        even = [*odd, reward_of(i, ends + 1)]
        assert metrics[f"agents/{agent}/AverageReturn"] == pytest.approx((sum(odd) + sum(even)) / 2)
        lengths += [len(odd), len(even)]
    assert metrics["AverageEpisodeLength"] == pytest.approx(np.mean(lengths))


def test_those_who_wait_have_one_choice_and_teach_a_policy_nothing():
    env = load_pettingzoo(CONNECT_FOUR, 4, 0, num_workers=0)
    specs = to_tensor_spec(env.observation_spec()), to_tensor_spec(env.action_spec())
    policy = ActorCriticPolicy(*specs, action_mask_key="action_mask")
    with running(SyncOffPolicyDriver, [env], policy) as driver:
        for _ in range(20):
            collect_and_observe(driver)
        rows = in_a_row(driver.learner.unrolls(1)[0])
    stones = rows.observation["observation"].sum(axis=(2, 3, 4))
    turn = stones[:, ::2] % 2  # the first agent moves when there is an even number of stones
    is_first = rows.step_type == FIRST
    # The one who waits has nothing to choose, the other one has the columns that are not full.
    log_prob = policy.actions.log_prob(rows.info.params, rows.info.raw).numpy()
    entropy = policy.actions.entropy(rows.info.params).numpy()
    goes_on = rows.step_type[:-1] != LAST
    waits = np.stack([turn == 1, turn == 0], axis=-1).reshape(is_first.shape)[:-1] & goes_on
    assert waits.any() and (goes_on & ~waits).any()
    assert (rows.action[:-1][waits] == 0).all()
    np.testing.assert_array_equal(log_prob[:-1][waits], 0)
    np.testing.assert_allclose(entropy[:-1][waits], 0, atol=1e-6)
    num_columns = rows.observation["action_mask"].sum(axis=-1)[:-1]
    np.testing.assert_allclose(entropy[:-1][goes_on], np.log(num_columns[goes_on]), atol=0.01)
    # Every stone is there once, no move was illegal, and the game's rewards are those of winner and loser.
    same_game = ~is_first[1:, ::2]
    np.testing.assert_array_equal((stones[1:, ::2] - stones[:-1, ::2])[same_game], 1)
    np.testing.assert_array_equal(rows.reward[:, ::2], -rows.reward[:, 1::2])
    ends = rows.step_type[:, ::2] == LAST
    assert ends.sum() > 5 and (np.abs(rows.reward[:, ::2][~ends]) == 0).all()
    won_by_mover = np.where(turn == 1, rows.reward[:, ::2], rows.reward[:, 1::2])  # who has moved last
    assert set(won_by_mover[ends]) <= {0.0, 1.0}


def test_one_policy_of_agents_with_different_spaces_finds_the_mask_of_each():
    env = load_pettingzoo(TurnGame, 4, 0, num_workers=0)
    specs = to_tensor_spec(env.observation_spec()), to_tensor_spec(env.action_spec())
    policy = ActorCriticPolicy(*specs, action_mask_key="action_mask")
    with running(SyncOffPolicyDriver, [env], policy) as driver:
        for _ in range(8):
            collect_and_observe(driver)
        rows = in_a_row(driver.learner.unrolls(1)[0])
    for game in range(4):
        check_turns(rows, env.space_names, game)
    has_choice = policy.actions.has_choice(rows.info.params).numpy()
    log_prob = policy.actions.log_prob(rows.info.params, rows.info.raw).numpy()
    goes_on = (rows.step_type != LAST) & (rows.step_type != FIRST)
    goes_on[-1] = False  # its action and info are copies of those before
    for i, name in enumerate(env.space_names):
        own = {key: x[:, i::3] for key, x in rows.observation[name].items()}
        may_choose = own["action_mask"].sum(axis=-1) > np.size(TurnGame().action_space(name).sample())
        own_rows = goes_on[:, i::3]
        np.testing.assert_array_equal(has_choice[:, i::3][own_rows], may_choose[own_rows])
        np.testing.assert_array_equal(log_prob[:, i::3][own_rows & ~may_choose], 0)
        if name == "first":
            allowed = np.take_along_axis(own["action_mask"], rows.action[name][:, i::3, np.newaxis], -1)
            assert allowed[own_rows].all() and (rows.action[name][:, i::3][own_rows] > 0).any()


@pytest.mark.parametrize(
    "action, mask",
    [
        (spaces.Discrete(3, start=5), [1, 0, 0]),
        (spaces.MultiDiscrete([2, 1]), [1, 0, 1]),
        (spaces.Discrete(4), [0, 0, 0]),
        (spaces.Box(-1, 1, (3,)), [0, 0, 0]),
        (spaces.Dict({"x": spaces.Discrete(3)}), [0, 0, 0]),
    ],
    ids=["discrete", "multi", "other size", "box", "dict"],
)
def test_the_mask_of_a_blank_allows_one_action(action, mask):
    class Masked(ParallelGame):
        def __init__(self):
            super().__init__(same=True)
            observed = spaces.Dict({"x": NUMBERS, "action_mask": spaces.MultiBinary(3)})
            self.observation_spaces["long"], self.action_spaces["long"] = observed, action

        def _observe(self, agent):
            numbers = self._numbers(agent)
            return {"x": numbers, "action_mask": np.ones(3, np.int8)} if agent == "long" else numbers

    with contextlib.closing(load_pettingzoo(Masked, 1, 0, num_workers=0)) as env:
        masks = env.reset().observation["long"]["action_mask"]
    np.testing.assert_array_equal(masks, [mask, [1, 1, 1], mask, mask])


@pytest.mark.parametrize(
    "game, is_one", [(CONNECT_FOUR, True), (TurnGame, False)], ids=["equal", "different"]
)
def test_a_random_player_keeps_to_the_masks(game, is_one):
    with contextlib.closing(load_pettingzoo(game, 3, 0, num_workers=0)) as env:
        policy = RandomPolicy(to_tensor_spec(env.observation_spec()), to_tensor_spec(env.action_spec()))
        time_step = env.reset()
        for _ in range(60):
            action = policy.predict_step(tf.nest.map_structure(tf.constant, time_step), ()).action
            action = tf.nest.map_structure(lambda x: x.numpy(), action)
            seen = time_step.observation if is_one else time_step.observation["first"]
            mask, chosen = seen["action_mask"], action if is_one else action["first"]
            allowed = np.take_along_axis(mask, chosen[:, np.newaxis].astype(np.int64), 1)[:, 0]
            assert (allowed[mask.any(axis=1)] == 1).all()
            time_step = env.step(action)


def test_normalizers_do_not_count_agents_that_are_not_in_the_game():
    env = load_pettingzoo(ParallelGame, 3, 0, num_workers=0, same=True)
    spec = to_tensor_spec(env.observation_spec())
    normalizer = ObservationNormalizer(spec, tf.TensorSpec((), tf.float32))
    with running(SyncOffPolicyDriver, [env]) as driver:
        for _ in range(6):
            collect_and_observe(driver)
        unrolls = driver.learner.unrolls(1)[0]
    for unroll in unrolls:
        normalizer.observe(unroll, ())
    rows = in_a_row(unrolls).observation[:-1].reshape(-1, 5)  # the last one is counted with the next unroll
    (statistics,) = normalizer._statistics
    in_game = rows[rows[:, GAME] > 0]
    assert len(in_game) < len(rows)
    np.testing.assert_allclose(statistics.mean(), in_game.mean(axis=0))


TRAINING = """
import alf.learner.optimizers
Experiment.num_groups = 2
Experiment.seed = 0
Experiment.unroll_length = 8
Experiment.algorithm = @{algorithm}
Experiment.data_transformers = (@ObservationNormalizer, @RewardNormalizer)
alf.environments.load.name = "pettingzoo:tests.workers.counting_games:{game}"
Experiment.num_envs = 4
alf.environments.load.num_workers = {num_workers}
DriverSettings.learn_queue_cap = 2
ActorCriticNetwork.fc_layer_params = (8,)
UnrollLearner.optimizer = @Adam()
Adam.learning_rate = 0.01
StopCriteria.num_iterations = 2
"""


@pytest.mark.parametrize(
    "game, num_workers, algorithm, settings",
    [
        ("ParallelGame", 1, "ImpalaAlgorithm", []),
        (
            "ParallelGame",
            0,
            "PPOAlgorithm",
            ["alf.environments.load.same = True", "ActorCriticNetwork.rnn = @GRU"],
        ),
        ("TurnGame", 0, "ImpalaAlgorithm", ["ActorCriticPolicy.action_mask_key = 'action_mask'"]),
    ],
    ids=["parallel", "same", "turns"],
)
def test_one_policy_of_agents_with_any_spaces_trains(game, num_workers, algorithm, settings, tmp_path):
    text = TRAINING.format(game=game, num_workers=num_workers, algorithm=algorithm)
    lines = [text, *settings]
    parse_config([], "\n".join(lines).splitlines())
    trainer = build_trainer(str(tmp_path / "run"), driver_of(Experiment()))
    before = [v.numpy() for v in trainer.learner.policy.trainable_variables]
    assert trainer.train() == (True, "num_iterations=2 reached")
    after = [v.numpy() for v in trainer.learner.policy.trainable_variables]
    assert any((a != b).any() for a, b in zip(before, after, strict=True))
    assert trainer.counters["env_steps"] > 0
