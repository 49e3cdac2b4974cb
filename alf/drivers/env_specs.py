# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvSpecs: the specs that the environments of a driver share, and the specs of their unrolls."""

import copy
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from alf.adapters import as_environment
from alf.adapters.graph_environment import GraphEnvironment
from alf.config.kinds import PositiveInt
from alf.config.settings import checked
from alf.core.annotations import Array, Environment, NestedSpec
from alf.core.array_spec import to_array_spec
from alf.core.nest_utils import add_leading_dims, to_tensor_spec
from alf.core.tf_runtime import reserve_threads
from alf.data_structures import OWNER, ActionReply, Experience, Frame, TimeStep
from alf.environments.batched_environment import EnvironmentWrapper
from alf.errors import ConfigError
from alf.policies.policy import Policy


def name_env(env_index, env):
    """Returns a name for errors: the environment's place in the driver's list, and its class."""
    # Users have never seen the `GraphEnvironment` around a `TFEnvironment` that they wrote.
    named = env.tf_env if isinstance(env, GraphEnvironment) else env
    return f"envs[{env_index}] ({type(named).__name__})"


def get_info_keys(env):
    """Returns the `info_keys` of an environment, a tuple of texts; () if it has none."""
    return tuple(getattr(env, "info_keys", ()))


def get_agents(env):
    """Returns the names of the agents of an environment, a tuple of texts; () if it does not name them."""
    return tuple(getattr(env, "agents", ()))


def to_batched_envs(envs):
    """Returns a list of batched environments of ALF, also for environments of TF-Agents.

    Raises ConfigError if an element is not a batched environment, or stands there twice.
    """
    if not isinstance(envs, (list, tuple)):
        raise ConfigError(f"envs is {envs!r}: it must be a list of batched environments; or see from_env_fn")
    batched_envs, stepped = [as_environment(env) for env in envs], set()
    for index, env in enumerate(batched_envs):
        if isinstance(env, type) or not hasattr(env, "time_step_spec"):
            raise ConfigError(
                f"{name_env(index, envs[index])} is not a batched environment, such as "
                "alf.environments.load makes: PythonEnvironment makes one of gymnasium.Envs"
            )
        if not env.batched:
            raise ConfigError(f"envs[{index}] is not batched: use alf.environments.load")
        if id(_find_stepped(env)) in stepped:
            raise ConfigError(
                f"{name_env(index, envs[index])} is another one of envs, too: make a new one for each group"
            )
        stepped.add(id(_find_stepped(env)))
    return batched_envs


def _find_stepped(env):
    """Returns the object that a step of a batched environment changes, within wrappers of ALF."""
    while isinstance(env, EnvironmentWrapper):
        env = vars(env)["_env"]
    return env.tf_env if isinstance(env, GraphEnvironment) else env


class EnvSpecs:
    """The specs that batched environments share. The constructor raises ConfigError if they differ.

    Args:
        envs: list of batched environments, as in `Driver`.

    Attributes:
        num_groups: int; the number of batched environments.
        batch_size: B, int; sub-environments of each.
        observation, action: nests of unbatched tensor specs; bounds are kept.
        reward: unbatched tensor spec of shape () or [R]; float32, into which rewards of other types are
            converted.
        time_step: `TimeStep` of unbatched tensor specs; bounds are kept.
        info_keys: tuple of texts, the names of the numbers that the environments return as info; () without
            info.
        agents: tuple of texts; row r is agent r % A. () if the environments do not name them.
        policies: tuple of texts, the policies of a `MappedEnvironment`; the owner of a row is an index into
            it. () for one policy.
    """

    def __init__(self, envs: Sequence[Environment]) -> None:
        reserve_threads()  # before a program that uses no `Experiment` makes its networks
        envs = to_batched_envs(envs)
        if not envs:
            raise ConfigError("envs is empty: a driver needs at least one batched environment")
        specs = [(env.observation_spec(), env.action_spec(), env.reward_spec()) for env in envs]
        keys = [(env.batch_size, tf.nest.map_structure(to_array_spec, x)) for env, x in zip(envs, specs)]
        self.info_keys = get_info_keys(envs[0])
        self.agents = get_agents(envs[0])
        for index, env in enumerate(envs):
            if keys[index] != keys[0]:
                raise ConfigError(f"envs[{index}] has another batch_size or other specs than envs[0]")
            if get_info_keys(env) != self.info_keys:
                raise ConfigError(f"envs[{index}] has other info_keys than envs[0]")
            if get_agents(env) != self.agents:
                raise ConfigError(f"envs[{index}] has other agents than envs[0]")
        self.policies = tuple(getattr(envs[0], "policies", ()))
        self.num_groups = len(envs)
        self.batch_size, (observation, action, reward) = keys[0]
        self.observation = to_tensor_spec(observation)
        self.action = to_tensor_spec(action)
        self.reward = tf.TensorSpec(reward.shape, tf.float32)
        if self.reward.shape.rank > 1:
            raise ConfigError(f"the environments' reward has shape {self.reward.shape}: use () or [R]")
        signal, index = tf.TensorSpec((), tf.float32), tf.TensorSpec((), tf.int32)
        self.time_step = TimeStep(index, self.reward, signal, self.observation, self.action, index)
        self._places, self._num_rows = [0], self.batch_size

    def share(self, num_loops: int) -> "EnvSpecs":
        """Returns a copy for loops that step several environments each, as one batch.

        Loop i steps the environments i, i + num_loops, ..., whose rows stand in this order. In the copy
        `batch_size` counts all of its rows, and i takes the place of the index of an environment.
        """
        specs = copy.copy(self)
        specs._places = list(range(0, self.num_groups, num_loops))
        specs.batch_size = self.batch_size * len(specs._places)
        return specs

    def view(self, observation: NestedSpec, action: NestedSpec) -> "EnvSpecs":
        """Returns a copy with the observation and action of one policy, nests of unbatched specs."""
        specs = copy.copy(self)
        specs.observation, specs.action = observation, action
        specs.time_step = self.time_step._replace(observation=specs.observation, prev_action=specs.action)
        return specs

    def env_ids(self, env_index: Array) -> Array:
        """Returns the ids, int32 [..., B], of the rows of batched environments `env_index` [...]."""
        rows = [place * self._num_rows + i for place in self._places for i in range(self._num_rows)]
        return env_index[..., tf.newaxis] * self._num_rows + tf.constant(rows, tf.int32)

    def counters(self, env_index: Array, count: Array) -> list[tuple[Array, Array]]:
        """Returns the counters of the draws for a batched environment, as `draws.Stream.at` takes them.

        `env_index`, `count`: integer scalars, its index, and how often it has drawn before.
        """
        return [(env_index + place if place else env_index, count) for place in self._places]

    def frame_spec(self, policy: Policy) -> Frame:
        """Returns the specs of one step of a batched environment, a `Frame` of specs of [B, ...]."""
        frame = Frame(self.time_step._replace(env_id=()), policy.policy_step_spec.state)
        num_keys = len(self.info_keys)
        env_info = tf.TensorSpec((num_keys, self.batch_size), tf.float32) if num_keys else ()
        frame = add_leading_dims(frame, self.batch_size)
        return frame._replace(env_info=env_info, count=tf.TensorSpec((), tf.int64))

    def reply_spec(self, policy: Policy) -> ActionReply:
        """Returns the specs of the answer of a policy to a `Frame`, an `ActionReply` of specs of [B, ...]."""
        policy_step = add_leading_dims(policy.policy_step_spec, self.batch_size)
        return ActionReply(policy_step, policy.version_spec(self.batch_size))

    @checked
    def unroll_spec(
        self,
        policy: Policy,
        unroll_length: PositiveInt,
        keep_bounds: bool = True,
        with_env_info: bool = False,
    ) -> Experience:
        """Returns the specs of one unroll, an `Experience` of specs of [T+1, B, ...], `state` [B, ...].

        Args:
            policy: `Policy` that acts.
            unroll_length: T, int above 0.
            keep_bounds: whether the specs keep the bounds of observations and actions.
            with_env_info: whether the unroll has `env_info`.

        Raises:
            ConfigError: if T is below 1; if the environments lack info that the policy's data transformer
                needs; if there are no `info_keys`, but `with_env_info` is True.
        """
        missing = [key for key in policy.info_keys if key not in self.info_keys]
        if missing:
            raise ConfigError(
                f"RewardShaping.weights names {missing[0]!r}: load.info_keys must name it, too; it is "
                f"{self.info_keys}"
            )
        if with_env_info and not self.info_keys:
            raise ConfigError(
                "the algorithm uses `Experience.env_info`, but the environments have none: set load.info_keys"
            )
        version = tf.TensorSpec((), tf.int64)
        rows = Experience(*self.time_step, self.action, policy.info_spec, policy_version=version, state=())
        rows = rows._replace(env_info=self._env_info_spec() if with_env_info else ())
        rows = add_leading_dims(rows, unroll_length + 1, self.batch_size, keep_bounds=keep_bounds)
        return rows._replace(state=add_leading_dims(policy.policy_step_spec.state, self.batch_size))

    def record_spec(self, unroll_length: int, needed: Sequence[str] = ()) -> dict[str, Any]:
        """Returns the specs of the `LogRecord` of an unroll, a dict by field of specs of [T, B, ...].

        Args:
            unroll_length: T, int.
            needed: names of optional fields that are filled, too.
        """
        # Not a `LogRecord`: `tf.nest` takes 20 us for each field that is empty.
        optional = {"observation": self.observation, "action": self.action}
        fields = {name: getattr(self.time_step, name) for name in ("step_type", "reward", "discount")}
        fields |= {"env_info": self._env_info_spec()} if self.info_keys else {}
        fields |= {name: optional[name] for name in needed}
        if self.policies:
            fields |= {OWNER: tf.TensorSpec((), tf.int32), "policy_version": tf.TensorSpec((), tf.int64)}
        spec = add_leading_dims(fields, unroll_length, self.batch_size)
        return {**spec, "env_id": tf.TensorSpec((self.batch_size,), tf.int32)}

    def _env_info_spec(self):
        return {key: tf.TensorSpec((), tf.float32) for key in self.info_keys}


def check_holds(sticky, envs, batch_size):
    """Raises ConfigError if an environment of several sub-environments cannot hold some of them."""
    for index, env in enumerate(envs):
        if sticky and batch_size > 1 and not hasattr(env, "hold"):
            raise ConfigError(
                f"sticky is True: {name_env(index, env)} has no hold() to let single sub-environments wait; "
                "PythonEnvironment has one (load.num_workers = 0), and a batch_size of 1 needs none"
            )
