# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Experiment: the parts of a run, made one from another."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import gin
import tensorflow as tf

from alf import replay
from alf.adapters import as_environment
from alf.algorithms import Algorithm, AlgorithmName, ImpalaAlgorithm, find_algorithm
from alf.config.kinds import AtLeast, AtMost, NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.parsing import parse_operative_config
from alf.config.registry import find_argument
from alf.config.settings import Role, Seed, configurable
from alf.core.annotations import Environment, NestedSpec
from alf.core.devices import take_memory_as_needed
from alf.core.files import relative_to_here
from alf.core.tf_runtime import (
    SPARE_THREADS,
    require_deterministic_operations,
)
from alf.distributed.ray_collectors import RayCollectors
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, OfflineDriver, reserve_threads
from alf.drivers.collector import Collector
from alf.drivers.driver import Driver
from alf.drivers.driver_settings import split_unroll_length
from alf.drivers.env_making import StartWatch, close_all
from alf.environments import BehaviorEnvironment, load
from alf.errors import ConfigError, check_type
from alf.games.learners import LearnerGroup
from alf.games.policies import Policies, check_settings
from alf.learner import Learner, ReplayLearner, UnrollLearner
from alf.learner.peers import Peers
from alf.policies import ActorCriticPolicy
from alf.policies.data_transformers import Pipeline
from alf.policies.policy import Policy
from alf.runs.devices import choose_device, log_devices
from alf.runs.groups import check_has_source, split_in_groups
from alf.runs.seeds import seed_draws, seed_everything, spawn_seed
from alf.runs.untold import check_other_process

_MAX_THREADS = 4096  # with many more, TensorFlow does not start

# A constructor for the only policy, or a dict with a constructor for each of several policies.
Ctors = Callable[..., Any] | Mapping[str, Callable[..., Any]]
DataTransformers = Sequence[Callable[..., Any]] | Mapping[str, Sequence[Callable[..., Any]]]


@configurable("alf.training")
class Experiment:
    """Says which parts a run has, and makes them. A wrong setting raises ConfigError.

    Args:
        env: callable (seed=int) -> batched environment.
        num_groups: number of groups of environments; a group is one batched environment, which `env` makes. A
            thread steps one while the policy answers others.
        num_envs: number of all environments in this process, a multiple of `num_groups` or less than it;
            `env` gets the part of a group as `batch_size`. With 0 the run learns only from `offline_buffer`,
            or from what `num_collectors` collect. None: each group is as large as `env` makes it.
        data_transformers: tuple or list of callables (observation_spec, reward_spec) -> `DataTransformer`.
            A `Pipeline` applies them in their order.
        policy: callable (observation_spec, action_spec, data_transformer=) -> `Policy`, for transformed
            observations.
        algorithm: a text such as "ppo" or "r2d2", which brings settings that learn (`alf.runs.presets`), or
            a callable (policy) -> `Algorithm`, which brings no others.
        exp_replayer: text or callable, which `alf.replay.make_replayer` takes: the place where experience
            waits for the learner. Without environments it has no effect.
        offline_buffer: text or list, the files of replay buffers that have the same specs: a path, a glob
            such as "runs/*/checkpoints/replay_buffer.npz", a data set of Minari such as
            "minari:D4RL/door/human-v2", or a list of these. Without environments they are all the experience;
            with environments they fill a part of every batch (`HybridReplayer`).
        offline_buffer_length: the number of newest environment steps that are loaded for each sub-environment
            in each file; None loads all.
        learner: callable (algorithm, replayer=) -> `Learner`. None: `UnrollLearner` or `ReplayLearner`, as
            `exp_replayer` needs it.
        driver: callable (envs, policy, unroll_length=) -> `Driver`.
        unroll_length: number, T: transitions in an unroll of `Driver`.
        behavior: callable () -> behavior of a `BehaviorEnvironment`: a script, a person or another run's
            agent (`load_behavior`), which acts in the environments in place of the policy. The policy learns
            from its actions. This works with algorithms such as DQN and SAC, but not with IMPALA and PPO,
            which need their own actions (`Algorithm.needs_own_actions`). In evaluations the policy acts.
            None: the policy always acts.
        num_collectors: processes, anywhere in a cluster, that collect beside this one, or in its place if
            `num_envs` is 0. Each has environments and actors of its own.
        collectors: callable (make_collector, specs, num_collectors, first_env_index) -> `Collectors`.
        policies: `Policies`, if several policies act and learn; None: there is one policy. With several,
            `data_transformers`, `policy`, `algorithm`, `exp_replayer` and `learner` may each
            be a dict from the name of a policy to the value for that policy.
        seed: int, the seed of the run, from which every environment gets a seed of its own. None draws one.
        deterministic: whether the run repeats bit for bit, also if it stops and continues. TensorFlow's
            operations are deterministic then, environments begin new episodes at each checkpoint, and a
            setting that cannot repeat raises ConfigError. docs/reproducibility.md has what it needs and
            costs.
        intra_op_threads: threads that compute one TensorFlow operation. Learner and actors share them: they
            are one pool of the process. With 1, each of them works on one core. None: one for each core.
        learner_device: text such as "GPU:0", the TensorFlow device that makes the updates and has the
            learner's weights and the optimizer's state. "auto": the first GPU if there is one and the updates
            are large, else the CPU; `alf.core.devices` has the rule. A run without use for GPUs takes none of
            their memory. The actors' device is `DriverSettings.actor_device`.
        strategy: callable () -> `tf.distribute.Strategy` whose replicas share the work of each update: in
            gin, `@MirroredStrategy` for several devices, `@MultiWorkerMirroredStrategy` for several learner
            processes, which must be made before TensorFlow starts. None: one device makes the updates.
    """

    def __init__(
        self,
        env: Callable[..., Any] = load,
        num_groups: PositiveInt = 2,
        num_envs: NonNegativeInt | None = None,
        data_transformers: DataTransformers = (),
        policy: Ctors = ActorCriticPolicy,
        algorithm: AlgorithmName | Ctors = ImpalaAlgorithm,
        exp_replayer: Any = "one_time",
        offline_buffer: str | Sequence[str] | None = None,
        offline_buffer_length: PositiveInt | None = None,
        learner: Ctors | None = None,
        driver: Callable[..., Driver] = AsyncOffPolicyDriver,
        unroll_length: PositiveFloat = 8,
        behavior: Callable[[], Any] | None = None,
        num_collectors: NonNegativeInt = 0,
        collectors: Callable[..., Any] = RayCollectors,
        policies: Policies | None = None,
        seed: Seed = None,
        deterministic: bool = False,
        intra_op_threads: Annotated[int | None, AtLeast(1), AtMost(_MAX_THREADS), Role.EXECUTION] = None,
        learner_device: Annotated[str, Role.EXECUTION] = "auto",
        strategy: Annotated[Callable[[], Any] | None, Role.EXECUTION] = None,
    ) -> None:
        collects = collectors if num_collectors else None
        num_groups, self._sizes = split_in_groups(env, num_groups, num_envs, collects)
        is_offline = not num_groups and not num_collectors
        if is_offline:
            check_has_source(offline_buffer)
        if offline_buffer_length is not None and offline_buffer is None:
            raise ConfigError("Experiment.offline_buffer_length is set, but offline_buffer is None")
        self._steps_of_unroll, _ = split_unroll_length(unroll_length)
        if behavior is not None and is_offline:
            raise ConfigError(
                "Experiment.num_envs is 0: there is nothing in which Experiment.behavior could act"
            )
        check_settings(
            policies,
            for_one={"offline_buffer": offline_buffer, "behavior": behavior},
            acting={"data_transformers": data_transformers, "policy": policy},
            learning={"algorithm": algorithm, "exp_replayer": exp_replayer, "learner": learner},
        )
        self.make_env = env
        self._num_groups = num_groups
        self._data_transformers = data_transformers
        self._policy = policy
        self._algorithm = find_algorithm(algorithm) if isinstance(algorithm, str) else algorithm
        self._exp_replayer = exp_replayer
        self._offline_buffer = offline_buffer
        self._offline_buffer_length = offline_buffer_length
        self._learner = learner
        self._driver = driver
        self._unroll_length = unroll_length
        self._behavior = behavior
        self._num_collectors = num_collectors
        self._collectors = collectors
        self._policies = policies
        if deterministic and seed is None:
            raise ConfigError("Experiment.deterministic is True: set Experiment.seed")
        if deterministic and is_offline:
            raise ConfigError("Experiment.deterministic is True: Experiment.num_envs must not be 0")
        self._seed, self._deterministic = seed, deterministic
        self._intra_op_threads = intra_op_threads
        self._learner_device = learner_device  # checked later, because that starts TensorFlow
        self._strategy = strategy

    @relative_to_here()
    def make_parts(self) -> tuple[Driver, Learner]:
        """Makes environments, policy, algorithm, replayer, learner and driver, in this order.

        Returns the driver, which owns the environments, and the learner, a `Learner` or a `LearnerGroup`. If
        anything raises, the environments are closed.
        """
        if self._deterministic:
            require_deterministic_operations()
        if self._num_collectors:
            check_other_process(f"Experiment.num_collectors is {self._num_collectors}")
        # First of all: TensorFlow's numbers of threads cannot change once it has started. They are for the
        # loop of each environment and of at most as many actors. The driver knows the true number, but is
        # made last: by then environments and networks have run operations.
        reserve_threads(2 * self._num_groups + SPARE_THREADS, self._intra_op_threads)
        # Before any operation runs: `MultiWorkerMirroredStrategy` refuses to be made afterwards.
        strategy = self._make_strategy()
        envs, collectors = [], None
        try:
            # `envs` grows while they are made, so that those that exist are closed if a later one fails.
            seed = self._find_seed(strategy)
            self._make_envs(seed_everything(seed, self._num_groups), envs)
            settings = self._add_behavior(envs)
            specs = EnvSpecs(envs) if envs else None
            if self._num_collectors:
                specs = specs or self._find_specs()
                # The other process reads the whole configuration, of which little has been read here so far.
                make = functools.partial(make_collector, gin.config_str())
                collectors = self._collectors(make, specs, self._num_collectors, len(envs))
                settings["collectors"] = collectors
            num_groups = len(envs) + (collectors.num_groups if collectors else 0)
            learner = self._make_learner(specs, num_groups, strategy)
            if specs is not None:
                if learner.metrics:
                    settings["metrics"] = learner.metrics
                driver = self._driver(envs, learner.policy, unroll_length=self._unroll_length, **settings)
                check_type("what Experiment.driver makes", driver, Driver)
                driver.deterministic = self._deterministic
                log_devices(learner.device, driver.actor_device)
            else:
                driver = OfflineDriver(learner.policy)
            seed_draws(driver, learner, seed)
            return driver, learner
        except BaseException:
            close_all(envs)
            if collectors is not None:  # They hold a reservation of the cluster's CPUs.
                collectors.close()
            raise

    @relative_to_here()
    def make_collector(self, index: int, num_restarts: int, num_groups: int, **kwargs: Any) -> Collector:
        """Makes a `Collector` with environments of its own, in the process where it works.

        Args:
            index: int, the collector's number.
            num_restarts: int, how often the collector was replaced. A successor draws other random numbers.
            num_groups: int, batched environments.
            **kwargs: arguments of `Collector`.
        """
        # From 1, because the seeds of learner processes begin with 0 (`_find_seed`).
        seed = spawn_seed(self._seed, index + 1, num_restarts)
        take_memory_as_needed()  # of a GPU that Ray has given to this process
        reserve_threads(2 * num_groups + SPARE_THREADS)
        envs = []
        try:
            self._make_envs(seed_everything(seed, num_groups), envs)
            driver = functools.partial(self._driver, **self._add_behavior(envs))
            specs = EnvSpecs(envs)
            policy = self.make_policy(specs.observation, specs.action, specs.reward)
            return Collector(envs, policy, driver=driver, seed=seed, **kwargs)
        except BaseException:
            close_all(envs)
            raise

    def make_policy(
        self, observation_spec: NestedSpec, action_spec: NestedSpec, reward_spec: NestedSpec
    ) -> Policy:
        """Makes only the policy, or a `PolicyGroup`. The specs are nests of unbatched tensor specs."""
        if self._policies is None:
            return self._make_policy(None, observation_spec, action_spec, reward_spec)
        make = functools.partial(self._make_policy, reward_spec=reward_spec)
        return self._policies.make_group(make, observation_spec, action_spec)

    def wrap_env(self, env: Environment, seed: int | None) -> Environment:
        """Returns a batched environment as the policies see it; `seed` is an int or None."""
        env = as_environment(env)
        return env if self._policies is None else self._policies.wrap(env, seed)

    def _make_policy(self, name, observation_spec, action_spec, reward_spec):
        transformers = self._setting_of(name, self._data_transformers)
        transformer = Pipeline(observation_spec, reward_spec, transformers, action_spec)
        algorithm = self._setting_of(name, self._algorithm)  # None for a policy that does not learn
        transformer.use_discount(None if algorithm is None else find_argument(algorithm, "discount"))
        make = self._setting_of(name, self._policy)
        policy = make(transformer.observation_spec, action_spec, data_transformer=transformer)
        return check_type("what Experiment.policy makes", policy, Policy)

    def _setting_of(self, name, setting):
        """Returns the value of a setting for the policy `name`, which is None if there is a single policy."""
        return setting.get(name) if isinstance(setting, dict) else setting

    def _make_strategy(self):
        """Makes the strategy of the learner, a `tf.distribute.Strategy` or None."""
        if self._strategy is None:
            return None
        take_memory_as_needed()  # before the strategy starts TensorFlow
        strategy = self._strategy()
        return check_type("what Experiment.strategy makes", strategy, tf.distribute.Strategy)

    def _find_seed(self, strategy):
        """Returns the seed of this process: each learner process must collect other experience."""
        peers = Peers(strategy)
        if peers.count > 1 and (self._num_collectors or self._policies):
            what = "several policies" if self._policies else "collectors"
            raise ConfigError(f"Experiment.strategy has {peers.count} processes: they cannot have {what} yet")
        # The first process keeps the seed of the run: alone it collects the same as without a strategy.
        return spawn_seed(self._seed, 0, 0, peers.index) if peers.index else self._seed

    def _make_envs(self, seeds, envs):
        """Makes an environment for each seed; adds them to the list `envs`."""
        with StartWatch(envs, len(seeds)):
            for seed in seeds:
                # At once, so that the caller closes it if it cannot be wrapped.
                envs.append(self.make_env(seed=seed, **self._sizes))
                envs[-1] = self.wrap_env(envs[-1], seed)
                if self._policies is not None:
                    self._policies.check_rows(envs[-1])

    def _add_behavior(self, envs):
        """Lets the behavior, if there is one, act in `envs`; returns the settings the driver needs for it."""
        if self._behavior is None:
            return {}
        behavior = self._behavior()
        envs[:] = [BehaviorEnvironment(env, behavior) for env in envs]
        return {"overwrite_policy_output": True}

    def _find_specs(self):
        """Reads the `EnvSpecs` from an environment made for that, as all others are in other processes."""
        envs = []
        try:
            self._make_envs([self._seed], envs)
            return EnvSpecs(envs)
        finally:
            close_all(envs)

    def _make_learner(self, specs, num_groups, strategy):
        """Makes the learner and its parts.

        Args:
            specs: `EnvSpecs`, or None without environments.
            num_groups: batched environments of all processes.
            strategy: `tf.distribute.Strategy` or None.
        """
        files = [] if self._offline_buffer is None else replay.find_files(self._offline_buffer)
        rows = specs or replay.read_row_spec(files[0])
        make_policy = functools.partial(self.make_policy, rows.observation, rows.action, rows.reward)
        # Here and not in the constructor: this starts TensorFlow, and then its number of threads is fixed.
        sizes = num_groups, self._steps_of_unroll, getattr(rows, "batch_size", 1)
        parts = self._driver, self._exp_replayer, strategy
        device = choose_device(self._learner_device, *parts, sizes, make_policy)
        with tf.device(device):
            policy = make_policy()
        if self._policies is not None:
            return self._make_learner_group(policy, specs, num_groups, device, strategy)

        def make_replayer(with_env_info):
            loaded = files, policy.data_transformer.context, self._offline_buffer_length
            if specs is None:
                return replay.check_offline(replay.load_replayer(*loaded), policy, with_env_info)
            spec = specs.unroll_spec(policy, self._steps_of_unroll, with_env_info=with_env_info)
            made = replay.make_replayer(self._exp_replayer, spec, num_groups, loaded[1])
            return replay.HybridReplayer(made, replay.load_replayer(*loaded)) if files else made

        learner = self._make_one_learner(None, policy, make_replayer, device, strategy)
        if specs is None and policy.data_transformer.has_statistics:
            raise ConfigError(
                "Experiment.num_envs is 0: data transformers that learn from fresh experience, such as "
                "ObservationNormalizer, would learn nothing"
            )
        if specs is None and learner.needs_fresh_experience:
            raise ConfigError(
                "Experiment.num_envs is 0: nothing would fill the buffer again, so "
                "ReplayLearner.clear_replay_buffer must be False"
            )
        return learner

    def _make_one_learner(self, name, policy, make_replayer, device, strategy):
        """Makes the learner of a policy; `name` is None if there is a single policy."""
        with tf.device(device):
            algorithm = self._setting_of(name, self._algorithm)(policy)
        check_type("what Experiment.algorithm makes", algorithm, Algorithm)
        # Outside of the learner's device: replay buffers stay in main memory, which is larger.
        replayer = make_replayer(algorithm.needs_env_info)
        kind = UnrollLearner if isinstance(replayer, replay.UnrollReplayer) else ReplayLearner
        make = self._setting_of(name, self._learner) or kind
        given = {} if strategy is None else {"strategy": strategy}
        learner = make(algorithm, replayer=replayer, **given)
        return check_type("what Experiment.learner makes", learner, Learner)

    def _make_learner_group(self, group, specs, num_groups, device, strategy):
        """Makes the learners of several policies, each in the gin scope that has the policy's name."""
        numbers = self._policies.resolve_num_sequences(specs.batch_size)
        learners = {}
        for name in self._policies.learning:
            policy, view = group.policies[name], specs.view(*group.view_specs(name))

            def make_replayer(with_env_info, name=name, policy=policy, view=view):
                kind = self._setting_of(name, self._exp_replayer)
                keeps_rows_apart = replay.is_of_sequences(kind)
                # A replay buffer keeps each row's steps apart, so it takes the rows one by one.
                view.batch_size = 1 if keeps_rows_apart else numbers[name]
                spec = view.unroll_spec(policy, self._steps_of_unroll, with_env_info=with_env_info)
                num_rows = num_groups * specs.batch_size if keeps_rows_apart else 1
                return replay.make_replayer(kind, spec, num_rows, policy.data_transformer.context)

            # So `NAME/LearnerSettings.max_grad_norm = 1` is for one policy; without a scope it is for all.
            with gin.config_scope(name):
                learners[name] = self._make_one_learner(name, policy, make_replayer, device, strategy)
        return LearnerGroup(group, learners, numbers, *self._policies.make_watchers(specs.agents))


def make_collector(config, *args, **kwargs):
    """Makes a `Collector` in another process; Ray calls this there.

    Args:
        config: text, the gin configuration of the run.
        *args, **kwargs: arguments of `Experiment.make_collector`.
    """
    gin.clear_config()
    parse_operative_config(config)
    return Experiment().make_collector(*args, **kwargs)
