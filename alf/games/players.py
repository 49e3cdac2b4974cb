# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Players for evaluation: reads a text that names the policy and the checkpoint for each agent."""

from alf.core.nest_utils import to_tensor_spec
from alf.data_structures import OBSERVATION
from alf.errors import ConfigError, argument
from alf.games.group import PolicyGroup
from alf.games.mapping import MappedEnvironment, find_agents
from alf.policies.random_policy import RandomPolicy

RANDOM = "random"


def add_players(saved, base, env, text, checkpoint="newest", seed=None):
    """Makes the policies that a text names, and an environment in which these policies act.

    Args:
        saved: `SavedRun`.
        base: `Policy` or `PolicyGroup` from `saved.make_policy()`; its variables change.
        env: batched environment that is not mapped.
        text: a player that acts for all agents, or "AGENT=PLAYER,AGENT=PLAYER" with all agents. A player is
            the name of a policy ("policy", if the run has only one), "NAME@CHECKPOINT" for another checkpoint
            that `SavedRun.restore` accepts, or "random".
        checkpoint: text, the checkpoint of players without "@".
        seed: int or None.

    Returns:
        `PolicyGroup` and `MappedEnvironment`.

    Raises:
        ConfigError: if the text names an unknown agent, policy or checkpoint.
    """
    players = _parse(text, find_agents(env))
    space_names = getattr(env, "space_names", None)
    observation_spec, action_spec = base.time_step_spec.observation, base.time_step_spec.prev_action
    if isinstance(base, PolicyGroup):  # the specs of the environment itself have no owners
        observation_spec = observation_spec[OBSERVATION]
    policies, spaces, names = {}, {}, {}
    for i, (agent, player) in enumerate(players.items()):
        space = None if space_names is None else space_names[i]
        # Each kind of spaces needs a random policy of its own.
        names[agent] = name = f"{player}_{space}" if player == RANDOM and space else player
        # Agents with the same player share it: it acts for the rows of all of them in one call.
        if name in policies:
            continue
        if player == RANDOM:
            spaces[name] = space
            parts = observation_spec, action_spec
            policies[name] = RandomPolicy(*(parts if space is None else (part[space] for part in parts)))
        else:
            policies[name] = _load(saved, base, player, checkpoint)
            spaces[name] = (getattr(base, "spaces", None) or {}).get(player.partition("@")[0])
    _check_spaces(names, spaces, space_names)
    spaces = None if space_names is None else spaces
    env = MappedEnvironment(env, names, tuple(policies), spaces, seed)
    mapped_spec = {**to_tensor_spec(env.observation_spec()), OBSERVATION: observation_spec}
    return PolicyGroup(policies, mapped_spec, action_spec, spaces), env


def select_policy(policy, name=None):
    """Returns a policy of a `PolicyGroup` by its name; the name of a single `Policy` is "policy".

    The name may be None if there is only one policy. Raises ConfigError for an unknown name.
    """
    known = getattr(policy, "policies", None)
    if known is None:
        raise ConfigError(f"policy is {policy!r}: it must be a Policy or a PolicyGroup")
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name is None:
        raise ConfigError(f"the run has several policies: name one of {tuple(known)}")
    if name not in known:
        raise ConfigError(f"the policy is {name!r}: it must be one of {tuple(known)}")
    return known[name]


def _parse(text, agents):
    """Returns a dict from each agent to its player."""
    if "=" not in text:
        return dict.fromkeys(agents, text)
    pairs = [part.partition("=") for part in text.split(",")]
    players = {agent: player for agent, _, player in pairs}
    if set(players) != set(agents) or len(pairs) != len(players):
        name = argument("policy")
        raise ConfigError(f"{name} is {text!r}: it must have an entry for each of the agents {agents}")
    return {agent: players[agent] for agent in agents}


def _load(saved, base, player, checkpoint):
    """Makes a copy of a policy of the run, with the weights of the checkpoint that the player names."""
    name, has_own, own = player.partition("@")
    try:
        policy = select_policy(base, name)
    except ConfigError as error:
        raise ConfigError(f"{argument('policy')}: {error}, or {RANDOM!r}") from None
    # All players share the variables of `base`, so each gets a copy before the next checkpoint is restored.
    saved.restore(base, own if has_own else checkpoint)
    return policy.copy()


def _check_spaces(names, spaces, space_names):
    """Raises ConfigError if an agent's policy was made for other spaces than the agent has."""
    for (agent, name), space in zip(names.items(), space_names or (), strict=False):
        if spaces[name] not in (None, space):
            raise ConfigError(
                f"{argument('policy')}: {name!r} cannot act for {agent!r}, because it was made for the "
                f"spaces of {spaces[name]!r}: name a player for each agent, AGENT=PLAYER,..."
            )
