# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""One game of PettingZoo: which random actions it takes, what is blank, and what is wrong, in one line."""

import functools

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

from alf.errors import ConfigError, EnvError
from alf.workers import EnvBatch
from alf.workers.arrays import Layout
from alf.workers.games import make_game
from tests.workers.counting_games import NUMBERS, ParallelGame, TurnGame

ONE, TWO = np.zeros(1, np.float32), spaces.Discrete(2)


class Pair(ParallelEnv):
    """A parallel game of "a" and "b" without rules, whose parts a test replaces.

    Args:
        agents: that `step` leaves in the game.
        **parts: the `reset` or `step` results, or the `space` or `action` space or `possible_agents`.
    """

    def __init__(self, agents=("a", "b"), **parts):
        self.possible_agents = parts.get("possible_agents", ["a", "b"])
        self._left, self._parts = list(agents), parts

    def observation_space(self, agent):
        return self._parts.get("space", spaces.Box(-1, 1, (1,), np.float32))

    def action_space(self, agent):
        return self._parts.get("action", TWO)

    def reset(self, seed=None, options=None):
        self.agents = list(self._parts.get("begins", ["a", "b"]))
        return self._parts.get("reset", (dict.fromkeys("ab", ONE), {}))

    def step(self, actions):
        self.agents = self._left
        parts = [dict.fromkeys("ab", x) for x in (ONE, 1.0, False, False)]
        for i, name in enumerate(("observations", "rewards", "terminations", "truncations")):
            parts[i] = self._parts.get(name, parts[i])
        return self._parts.get("step", (*parts, {}))


class Turns(TurnGame):
    """A game of turns whose parts a test replaces."""

    def __init__(self, space=None, action=None, keeps=False, absent=False, loses=None):
        super().__init__()
        for x in self.possible_agents:
            self.observation_spaces[x] = space or self.observation_spaces[x]
            self.action_spaces[x] = action or self.action_spaces[x]
        self._keeps, self._absent, self._loses = keeps, absent, loses

    def step(self, action):
        if action is None and self._keeps:
            return
        super().step(action)
        if self._loses in self.agents:
            self.agents.remove(self._loses)
        if self._absent:
            self.agent_selection = "third"


def batch_of(make):
    return EnvBatch([functools.partial(make_game, make)], [0])


MASKED = spaces.Dict({"observation": NUMBERS, "action_mask": spaces.MultiBinary(3)})


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: 3, "load_pettingzoo.name makes 3: it must make a ParallelEnv or an AECEnv of PettingZoo"),
        (functools.partial(Pair, possible_agents=[]), r"possible_agents of .* is \[\]: it must name all"),
        (functools.partial(Pair, possible_agents=["1", 1]), r"is \['1', 1\]: .* each of them once"),
        (functools.partial(Pair, space=spaces.Text(3)), "the observation space's 'a' is Text: supported are"),
        (functools.partial(Pair, action=spaces.Text(3)), "the action space's 'a' is Text: supported are"),
        (
            functools.partial(Turns, action=spaces.Box(0, 1, (2,))),
            "agent 'first' has the action space Box.*: use the game's parallel interface .parallel_env.",
        ),
        (
            functools.partial(Turns, MASKED, spaces.Discrete(4)),
            r"action_mask of agent 'first' is a MultiBinary\(3\): .*Discrete\(4\) needs the shape \(4,\)",
        ),
    ],
)
def test_games_that_cannot_be_played(make, message):
    with pytest.raises(ConfigError, match=message) as error:
        batch_of(make)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "make, message",
    [
        (
            functools.partial(Pair, reset=ONE),
            r"reset\(\) returned an array .* instead of \(observation, info",
        ),
        (functools.partial(Pair, begins=[]), r"reset\(\) began a game without agents"),
        (
            functools.partial(Pair, reset=({"a": ONE}, {})),
            "agent 'b' is in the game, but has no observation in",
        ),
        (
            functools.partial(Pair, step=(1, 2)),
            r"step\(\) returned a tuple of 2 instead of \(observation, rew",
        ),
        (
            functools.partial(Pair, observations={"b": ONE}),
            "agent 'a' is in the game, but has no observation",
        ),
        (functools.partial(Pair, rewards={"a": 1.0}), r"but has no reward in a dict with the keys \['a'\]"),
        (
            functools.partial(Pair, terminations=None),
            "agent 'a' is in the game, but has no termination in None",
        ),
        (functools.partial(Pair, truncations={}), "has no truncation in"),
        (functools.partial(Pair, rewards={"a": 1.0, "b": "x"}), "the reward of agent 'b' is 'x'"),
        (functools.partial(Pair, ["a"]), "agent 'b' has left the game without termination or truncation"),
        (
            functools.partial(Pair, observations={"a": ONE, "b": np.zeros(2)}),
            r"the observation's 'agents/b' is an array of shape \(2,\) and dtype float64",
        ),
        (
            functools.partial(Turns, keeps=True),
            "agent 'second' has ended, but its step with None does not rem",
        ),
        (functools.partial(Turns, loses="second"), "agent 'second' has left the game without termination or"),
        (functools.partial(Turns, absent=True), "it is the turn of agent 'third', which is not in the game"),
    ],
)
def test_games_that_break_the_interface(make, message):
    batch = batch_of(make)
    with pytest.raises(EnvError, match=rf"^environment 0, step \d: .*{message}") as error:
        batch.reset()
        for _ in range(6):
            batch.step()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("game, number", [(ParallelGame, 9), (TurnGame, -1)])
def test_an_action_out_of_its_space(game, number):
    batch = batch_of(game)
    batch.reset()
    for array in batch.arrays.action:
        array[...] = number
    with pytest.raises(
        EnvError, match=rf"^environment 0, step 1: the action of agent '\w+' is {number}, its"
    ):
        batch.step()


def test_the_action_of_an_agent_that_waits_or_is_not_in_the_game_is_not_looked_at():
    for game, index in ((ParallelGame, 0), (TurnGame, 2)):  # "late", and "third" waits: leaves are sorted
        batch = batch_of(game)
        batch.reset()
        batch.arrays.action[index][...] = 77
        batch.step()


def test_an_agent_that_has_ended_may_stay_on_the_list():
    ended = {"a": True, "b": False}
    batch = batch_of(functools.partial(Pair, terminations=ended))
    batch.reset()
    types = []
    for _ in range(3):
        batch.step()
        types.append(batch.arrays.observation[-1][0].tolist())
    assert types == [[2, 1], [0, 1], [0, 1]]


class Respawning(Pair):
    """Agent "a" ends in step 1 and is away; "b" goes on; "a" is back in step 3 and ends again in step 4."""

    def reset(self, seed=None, options=None):
        self._time = 0
        return super().reset(seed)

    def step(self, actions):
        self._time += 1
        assert list(actions) == (["b"] if self._time in (2, 3) else ["a", "b"])
        self._left = ["b"] if self._time in (1, 2, 4) else ["a", "b"]
        self._parts["terminations"] = {"a": self._time in (1, 4), "b": False}
        return super().step(actions)


def test_an_agent_that_comes_back_after_its_end_begins_another_episode():
    batch = batch_of(Respawning)
    batch.reset()
    types, rewards = [], []
    for _ in range(4):
        batch.step()
        types.append(batch.arrays.observation[-1][0].tolist())
        rewards.append(batch.arrays.reward[0].tolist())
    assert types == [[2, 1], [0, 1], [0, 1], [2, 1]]
    assert rewards == [[1, 1], [0, 1], [0, 1], [1, 1]]


class Undead(Pair):
    """Agent "a" ends in step 1 and, without leaving the list, is alive again from step `back` on."""

    def __init__(self, back, flag="terminations"):
        super().__init__()
        self._back, self._flag = back, flag

    def reset(self, seed=None, options=None):
        self._time = 0
        return super().reset(seed)

    def step(self, actions):
        self._time += 1
        self._parts[self._flag] = {"a": self._time < self._back, "b": False}
        return super().step(actions)


@pytest.mark.parametrize("back, flag", [(2, "terminations"), (3, "truncations")])
def test_an_agent_that_goes_on_after_its_end_without_leaving_is_one_line(back, flag):
    batch = batch_of(functools.partial(Undead, back, flag))
    batch.reset()
    for _ in range(back - 1):
        batch.step()
    with pytest.raises(EnvError) as error:
        batch.step()
    assert str(error.value) == (
        f"environment 0, step {back}: agent 'a' goes on after its end: remove it from the list agents in the "
        "step of its end; it may come back in a later one"
    )


class Risen(TurnGame):
    """As `TurnGame`; in `ply`, the agent that has ended before is back: as if it had never left, or anew."""

    def __init__(self, ply, leaves, late):
        super().__init__(late=late)
        self._ply, self._leaves = ply, leaves

    def step(self, action):
        super().step(action)
        if self._step == self._ply and self._leaves and "second" not in self.agents:
            self._add("second")
        elif self._step == self._ply and not self._leaves and action is not None:
            self.terminations["second"] = False


@pytest.mark.parametrize(
    "leaves, late, message",
    [
        # It has ended in ply 3, waits to be removed, and is alive again in ply 4.
        (False, True, "agent 'second' goes on after its end: remove it"),
        # It ends in ply 4, and is back as soon as it is removed.
        (True, False, "agent 'second' has ended, but its step with None does not remove it"),
    ],
)
def test_an_agent_in_turns_that_goes_on_after_its_end_is_one_line(leaves, late, message):
    batch = batch_of(functools.partial(Risen, 4, leaves, late))
    batch.reset()
    with pytest.raises(EnvError, match=f"^environment 0, step 4: {message}") as error:
        for _ in range(4):
            for array in batch.arrays.action:
                array[...] = 1
            batch.step()
    assert "\n" not in str(error.value)


def test_an_agent_that_comes_back_in_turns_begins_another_episode():
    game = make_game(functools.partial(Risen, 6, True, False))
    game.reset()
    types = []
    for _ in range(7):
        game.action_space.seed(0)
        observation, *_ = game.step(game.action_space.sample())
        types.append(observation["step_type"][1])
    assert types == [1, 1, 1, 2, 0, 0, 1]


class Stuck(TurnGame):
    """As `TurnGame`; after ply 3, the mask of the agent whose turn it is allows no choice of an integer."""

    @classmethod
    def mask_of(cls, agent, ply):
        mask = super().mask_of(agent, ply)
        mask[: 2 if agent == "second" else 4] = ply != 1 if agent == "second" else ply != 3
        return mask


def test_a_turn_without_an_allowed_action_is_one_line():
    batch = batch_of(Stuck)
    batch.reset()
    with pytest.raises(
        EnvError,
        match="^environment 0, step 1: it is the turn of agent 'second', whose action_mask allows no",
    ):
        batch.step()


def test_games_whose_agents_have_another_order_are_not_one_batch():
    makes = [functools.partial(Pair, possible_agents=list(x)) for x in ("ab", "ba")]
    with pytest.raises(ConfigError, match="environment 1 has other spaces"):
        EnvBatch([functools.partial(make_game, make) for make in makes], [0, 1])


def test_a_blank_is_zero_or_what_is_nearest():
    space = spaces.Dict(
        {
            "box": spaces.Box(np.array([-1.0, 2.0, -4.0]), np.array([1.0, 3.0, -3.0])),
            "parts": spaces.Tuple(
                [spaces.Discrete(3, start=-5), spaces.MultiDiscrete([2, 3], start=[1, -1])]
            ),
            "bits": spaces.MultiBinary(2),
        }
    )
    game = make_game(functools.partial(Pair, space=space, begins=["a"], reset=({"a": space.sample()}, {})))
    blank = game.reset()[0]["agents"]["b"]
    assert blank["box"].tolist() == [0, 2, -3] and blank["bits"].tolist() == [0, 0]
    assert blank["parts"][0] == -3 and blank["parts"][1].tolist() == [1, 0]
    assert space.contains({**blank, "parts": (np.int64(blank["parts"][0]), blank["parts"][1])})


def test_random_actions_are_those_that_the_masks_allow():
    game = make_game(TurnGame)
    game.action_space.seed(0)
    drawn = {}
    game.reset()
    for ply in range(9):
        samples = [game.action_space.sample() for _ in range(50)]
        actor = TurnGame.TURNS[ply]
        for agent in TurnGame.possible_agents[:2] if ply < 4 else ["first"]:
            drawn = {tuple(np.ravel(x[agent]).tolist()) for x in samples}
            first = {(0, 0)} if agent == "second" else {(0,)}
            if agent != actor:
                assert drawn == first
            elif agent == "first":
                assert drawn == {(x,) for x in range(ply % 3 > 0, 4)}
            else:  # its mask forbids the 0 of the first integer
                assert drawn == {(1, x) for x in range(3)}
        game.step(samples[0])


def test_a_layout_travels():
    """So that several workers may have games of the same kind."""
    import cloudpickle

    for game in (ParallelGame, TurnGame):
        one, other = make_game(game), make_game(game)
        other.reset()
        layouts = [Layout(x.observation_space, x.action_space, x.reward_space.shape) for x in (one, other)]
        assert cloudpickle.loads(cloudpickle.dumps(layouts[1])) == layouts[0]
        assert list(layouts[0].observation_space["agents"]) == game.possible_agents
