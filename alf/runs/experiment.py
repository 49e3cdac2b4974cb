# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Experiment: the parts of a run, made one from another."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import gin
import tensorflow as tf

from alf import replay
from alf.algorithms import Algorithm, ImpalaAlgorithm
from alf.config.kinds import AtLeast, AtMost, NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.parsing import parse_operative_config
from alf.config.settings import Role, Seed, configurable
from alf.core.annotations import Environment, NestedSpec
from alf.core.seeds import spawn_seeds
from alf.core.tf_runtime import SPARE_THREADS, check_device, global_seed, on_device, set_intra_op_threads
from alf.data_structures import PolicyState
from alf.distributed.ray_collectors import RayCollectors
from alf.distributed.ray_process import AfterTensorFlow
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, OfflineDriver, reserve_threads
from alf.drivers.collector import Collector
from alf.drivers.driver import Driver, split_unroll_length
from alf.drivers.env_specs import close_all
from alf.environments import BehaviorEnvironment, load
from alf.errors import ConfigError, check_type
from alf.games.learners import LearnerGroup
from alf.games.policies import Policies
from alf.learner import Learner, ReplayTraining, UnrollTraining
from alf.learner.peers import Peers
from alf.policies import ActorCriticPolicy
from alf.policies.data_transformers import Pipeline
from alf.policies.policy import Policy

_MAX_THREADS = 4096  # with many more, TensorFlow does not start

# What makes an object, or the objects of several policies by their names.
Ctors = Callable[..., Any] | Mapping[str, Callable[..., Any]]
DataTransformers = Sequence[Callable[..., Any]] | Mapping[str, Sequence[Callable[..., Any]]]


@configurable("alf.training")
class Experiment:
    """Says which parts a run has, and makes them. A setting that is wrong by itself raises ConfigError.

    Args:
        env_ctor: callable (seed=int) -> batched environment, or a list of them, such as those that share
            worker processes (`load.num_splits`).
        num_envs: number of batched environments, or of such lists. 0 learns from `offline_buffer` alone.
        data_transformers: tuple, list or dict (see `policies`) of callables (observation_spec, reward_spec)
            -> `DataTransformer`, in their order; see `Pipeline`.
        policy_ctor: callable or dict of such (see `policies`): (observation_spec, action_spec,
            data_transformer=) -> `Policy`, for transformed observations.
        algorithm_ctor: callable or dict of such (see `policies`): (policy) -> `Algorithm`.
        exp_replayer: text, callable or dict of such (see `policies`): where experience waits for the learner.
            A name, or what stands for one in `alf.replay.make_replayer`. Without environments it has no
            effect.
        offline_buffer: text or list: the files of replay buffers that have the same specs. A path, a glob
            such as "runs/*/checkpoints/replay_buffer.npz", or a list of these. They are all the experience,
            or with environments a part of every batch, see `HybridReplayer`.
        offline_buffer_length: environment steps that are loaded of each sub-environment of each file, the
            newest ones; None loads all.
        learner_ctor: callable or dict of such (see `policies`): (algorithm, training=) -> `Learner`.
        driver_ctor: callable (envs, learner, unroll_length=) -> `Driver`.
        unroll_length: number, T, transitions of an unroll, see `Driver`.
        behavior_ctor: callable () -> behavior, see `BehaviorEnvironment`: a script, a person or another run's
            agent (`load_behavior`), which acts in the environments in place of the policy. The policy learns
            from what that does: for algorithms such as DQN and SAC, and not for IMPALA and PPO, see
            `Algorithm.needs_own_actions`. Environments for evaluation are without. None: the policy acts.
        num_collectors: processes, anywhere in a cluster, that collect beside this one, or alone if `num_envs`
            is 0. Each has environments and actors of its own.
        collectors_ctor: callable (make_collector, specs, num_collectors, first_env_index) -> `Collectors`.
        policies: `Policies`, where several policies act and learn; None: there is one. The settings that
            make a policy and its learner, `data_transformers`, `policy_ctor`, `algorithm_ctor`,
            `exp_replayer` and `learner_ctor`, may be dicts by the name of the policy then.
        seed: int or None, of the run; every environment gets one of its own from it. None draws one.
        intra_op_threads: threads that compute one TensorFlow operation. They are one pool of the process,
            which learner and actors share; with 1, each learns or acts on one core. None: one for each core.
        learner_device: text, the TensorFlow device that has the learner's weights and the optimizer's state,
            and makes the updates, such as "GPU:0". Queues and replay buffers stay in main memory. The actors'
            device is `DriverSettings.actor_device`. None leaves the choice to TensorFlow.
        strategy_ctor: callable () -> `tf.distribute.Strategy`, for `Learner.strategy`, which is called before
            TensorFlow starts: `MultiWorkerMirroredStrategy`, for several learner processes, needs that. None
            leaves it to `Learner.strategy`.
    """

    def __init__(
        self,
        env_ctor: Callable[..., Any] = load,
        num_envs: NonNegativeInt = 2,
        data_transformers: DataTransformers = (),
        policy_ctor: Ctors = ActorCriticPolicy,
        algorithm_ctor: Ctors = ImpalaAlgorithm,
        exp_replayer: Any = "one_time",
        offline_buffer: str | Sequence[str] | None = None,
        offline_buffer_length: PositiveInt | None = None,
        learner_ctor: Ctors = Learner,
        driver_ctor: Callable[..., Driver] = AsyncOffPolicyDriver,
        unroll_length: PositiveFloat = 8,
        behavior_ctor: Callable[[], Any] | None = None,
        num_collectors: NonNegativeInt = 0,
        collectors_ctor: Callable[..., Any] = RayCollectors,
        policies: Policies | None = None,
        seed: Seed = None,
        intra_op_threads: Annotated[int | None, AtLeast(1), AtMost(_MAX_THREADS), Role.EXECUTION] = None,
        learner_device: Annotated[str | None, Role.EXECUTION] = None,
        strategy_ctor: Annotated[Callable[[], Any] | None, Role.EXECUTION] = None,
    ) -> None:
        if not num_envs and not num_collectors and offline_buffer is None:
            raise ConfigError(
                "Experiment.num_envs is 0: without them there must be num_collectors or an offline_buffer"
            )
        if offline_buffer_length is not None and offline_buffer is None:
            raise ConfigError("Experiment.offline_buffer_length is set, but offline_buffer is None")
        self._steps_of_unroll, _ = split_unroll_length(unroll_length)
        _check_behavior_ctor(behavior_ctor, num_envs or num_collectors)
        if policies is not None:
            _check_policies(
                policies,
                {
                    "offline_buffer": offline_buffer,
                    "behavior_ctor": behavior_ctor,
                    "strategy_ctor": strategy_ctor,
                },
            )
        by_policy = {
            "data_transformers": data_transformers,
            "policy_ctor": policy_ctor,
            "algorithm_ctor": algorithm_ctor,
            "exp_replayer": exp_replayer,
            "learner_ctor": learner_ctor,
        }
        for name, value in by_policy.items():
            _check_by_policy(name, value, policies)
        self.env_ctor = env_ctor
        self._num_envs = num_envs
        self._data_transformers = data_transformers
        self._policy_ctor = policy_ctor
        self._algorithm_ctor = algorithm_ctor
        self._exp_replayer = exp_replayer
        self._offline_buffer = offline_buffer
        self._offline_buffer_length = offline_buffer_length
        self._learner_ctor = learner_ctor
        self._driver_ctor = driver_ctor
        self._unroll_length = unroll_length
        self._behavior_ctor = behavior_ctor
        self._num_collectors = num_collectors
        self._collectors_ctor = collectors_ctor
        self._policies = policies
        self._seed = seed
        self._intra_op_threads = intra_op_threads
        self._learner_device = learner_device  # checked later, because that starts TensorFlow
        self._strategy_ctor = strategy_ctor

    def make_driver(self) -> Driver:
        """Makes environments, policy, algorithm, replayer, learner and driver, in this order.

        Returns the driver; it owns the environments, and has the other parts: `driver.learner.policy` and so
        on. A wrong setting raises ConfigError and closes the environments.
        """
        # Before anything starts TensorFlow, which fixes its numbers of threads.
        if self._intra_op_threads is not None:
            set_intra_op_threads(self._intra_op_threads)
        reserve_threads(2 * self._num_envs + SPARE_THREADS)
        strategy = self._strategy_ctor() if self._strategy_ctor else None
        envs, collectors = [], None
        try:
            self._make_envs(seed_everything(self._find_seed(strategy), self._num_envs), envs)
            settings = self._add_behavior(envs)
            specs = EnvSpecs(envs) if envs else None
            if self._num_collectors:
                specs = specs or self._find_specs()
                collectors = self._make_collectors(specs, len(envs))
                settings["collectors"] = collectors
            num_envs = len(envs) + (collectors.num_envs if collectors else 0)
            learner = self._make_learner(specs, num_envs, strategy)
            if self._behavior_ctor is not None and learner.algorithm.needs_own_actions:
                raise ConfigError(
                    f"Experiment.behavior_ctor is set: {type(learner.algorithm).__name__} learns from the "
                    "actions of its own policy alone"
                )
            if specs is not None:
                driver = self._driver_ctor(envs, learner, unroll_length=self._unroll_length, **settings)
                return check_type("what Experiment.driver_ctor makes", driver, Driver)
            return OfflineDriver(learner)
        except BaseException:
            close_all(envs)
            raise

    def make_collector(self, index: int, num_restarts: int, num_envs: int, **kwargs: Any) -> Collector:
        """Makes a `Collector` with environments of its own, in the process where it works.

        Args:
            index: int; of the collector.
            num_restarts: int; how often it was replaced. Another one draws other random numbers.
            num_envs: batched environments.
            **kwargs: of `Collector`.
        """
        seed = self._seed
        if seed is not None:
            (seed,) = spawn_seeds([seed, index + 1, num_restarts], 1)
        reserve_threads(2 * num_envs + SPARE_THREADS)
        envs = []
        try:
            self._make_envs(seed_everything(seed, num_envs), envs)
            driver_ctor = functools.partial(self._driver_ctor, **self._add_behavior(envs))
            specs = EnvSpecs(envs)
            policy = self.make_policy(specs.observation, specs.action, specs.reward)
            return Collector(envs, policy, driver_ctor=driver_ctor, **kwargs)
        except BaseException:
            close_all(envs)
            raise

    def make_policy(
        self, observation_spec: NestedSpec, action_spec: NestedSpec, reward_spec: NestedSpec
    ) -> Policy:
        """Makes the policy alone, or a `PolicyGroup`, for environments of these specs.

        They are nests of unbatched tensor specs.
        """
        if self._policies is None:
            return self._make_policy(None, observation_spec, action_spec, reward_spec)
        make = functools.partial(self._make_policy, reward_spec=reward_spec)
        return self._policies.make_group(make, observation_spec, action_spec)

    def wrap_env(self, env: Environment, seed: int | None) -> Environment:
        """Returns a batched environment as policies see it; `seed` is an int or None."""
        return env if self._policies is None else self._policies.wrap(env, seed)

    def _make_policy(self, name, observation_spec, action_spec, reward_spec):
        transformers = self._setting_of(name, self._data_transformers)
        transformer = Pipeline(observation_spec, reward_spec, transformers, action_spec)
        make = self._setting_of(name, self._policy_ctor)
        policy = make(transformer.observation_spec, action_spec, data_transformer=transformer)
        return check_type("what Experiment.policy_ctor makes", policy, Policy)

    def _setting_of(self, name, setting):
        """The setting of the policy called `name`; None with a single policy."""
        if name is None or not isinstance(setting, dict):
            return setting
        return setting[name]

    def _find_seed(self, strategy):
        """The seed of this process: learner processes must not all collect the same experience."""
        peers = Peers(strategy)
        if peers.count > 1 and self._num_collectors:
            raise ConfigError(
                f"Experiment.num_collectors is {self._num_collectors}: several learner processes cannot have "
                "collectors yet"
            )
        if self._seed is None or peers.index == 0:
            return self._seed
        (seed,) = spawn_seeds([self._seed, 0, 0, peers.index], 1)
        return seed

    def _make_envs(self, seeds, envs):
        """Makes an environment, or a list of them, for each seed; adds them to the list `envs`."""
        for seed in seeds:
            made = self.env_ctor(seed=seed)
            made = made if isinstance(made, list) else [made]
            if not made:
                raise ConfigError("Experiment.env_ctor makes an empty list: it must hold environments")
            first = len(envs)
            envs += made  # so that they are closed if one cannot be wrapped
            for i, env_seed in enumerate(spawn_seeds(seed, len(made)), start=first):
                envs[i] = self.wrap_env(envs[i], env_seed)
                if self._policies is not None:
                    self._policies.check_rows(envs[i])
        reserve_threads(2 * len(envs) + SPARE_THREADS)

    def _add_behavior(self, envs):
        """Lets the behavior act in `envs`, if there is one; returns what the driver must be told for that."""
        if self._behavior_ctor is None:
            return {}
        behavior = self._behavior_ctor()
        envs[:] = [BehaviorEnvironment(env, behavior) for env in envs]
        return {"overwrite_policy_output": True}

    def _find_specs(self):
        """Makes an environment to see its `EnvSpecs`, where this process has none of its own."""
        envs = []
        try:
            self._make_envs([self._seed], envs)
            return EnvSpecs(envs)
        finally:
            close_all(envs)

    def _make_collectors(self, specs, first_env_index):
        make = AfterTensorFlow(functools.partial(make_collector, gin.config_str()))
        return self._collectors_ctor(make, specs, self._num_collectors, first_env_index)

    def _make_learner(self, specs, num_envs, strategy):
        """Makes the learner and its parts.

        Args:
            specs: `EnvSpecs`, or None without environments.
            num_envs: batched environments of all processes.
            strategy: `tf.distribute` strategy, or None for that of `Learner.strategy`.
        """
        files = [] if self._offline_buffer is None else replay.find_files(self._offline_buffer)
        rows = specs or replay.read_row_spec(files[0])
        check_device("Experiment.learner_device", self._learner_device)
        with on_device(self._learner_device):
            policy = self.make_policy(rows.observation, rows.action, rows.reward)
        if self._policies is not None:
            return self._make_learner_group(policy, specs, num_envs)

        def make_replayer(with_env_info):
            return self._make_replayer(policy, specs, num_envs, files, with_env_info)

        learner = self._make_one_learner(None, policy, make_replayer, strategy)
        if specs is None and policy.data_transformer.has_statistics:
            raise ConfigError(
                "Experiment.num_envs is 0: data transformers that learn from fresh experience, such as "
                "ObservationNormalizer, would learn nothing"
            )
        if specs is None and learner.needs_fresh_experience:
            raise ConfigError(
                "Experiment.num_envs is 0: nothing would fill the buffer again, so "
                "ReplayTraining.clear_replay_buffer must be False"
            )
        return learner

    def _make_one_learner(self, name, policy, make_replayer, strategy=None):
        """Makes the learner of a policy, whose name is None if there is a single one."""
        device = self._learner_device
        with on_device(device):
            algorithm = self._setting_of(name, self._algorithm_ctor)(policy)
        check_type("what Experiment.algorithm_ctor makes", algorithm, Algorithm)
        replayer = make_replayer(algorithm.needs_env_info)
        is_unrolls = isinstance(replayer, replay.UnrollReplayer)
        training = UnrollTraining(replayer) if is_unrolls else ReplayTraining(replayer)
        settings = {"device": device, "strategy": strategy}
        settings = {name: value for name, value in settings.items() if value is not None}
        with on_device(device):
            learner = self._setting_of(name, self._learner_ctor)(algorithm, training=training, **settings)
        return check_type("what Experiment.learner_ctor makes", learner, Learner)

    def _make_learner_group(self, group, specs, num_envs):
        """Makes the learners of several policies, each in gin's scope of its name."""
        numbers = self._policies.resolve_num_sequences(specs.batch_size)
        learners = {}
        for name in self._policies.learning:
            policy, view = group.policies[name], specs.view(*group.view_specs(name))

            def make_replayer(with_env_info, name=name, policy=policy, view=view):
                kind = self._setting_of(name, self._exp_replayer)
                keeps_rows_apart = replay.is_of_sequences(kind)
                view.batch_size = 1 if keeps_rows_apart else numbers[name]
                spec = view.unroll_spec(policy, self._steps_of_unroll, with_env_info=with_env_info)
                num_rows = num_envs * specs.batch_size if keeps_rows_apart else 1
                return replay.make_replayer(kind, spec, num_rows, policy.data_transformer.context)

            with gin.config_scope(name):
                learners[name] = self._make_one_learner(name, policy, make_replayer)
        return LearnerGroup(group, learners, numbers, *self._policies.make_watchers(specs.agents))

    def _make_replayer(self, policy, specs, num_envs, files, with_env_info):
        """Makes the replayer: of fresh experience, of files, or of both."""
        context = policy.data_transformer.context
        if specs is None:
            replayer = replay.load_replayer(files, context, self._offline_buffer_length)
            if with_env_info and not replayer.row_spec.env_info:
                raise ConfigError(
                    f"the algorithm or RewardShaping uses `Experience.env_info`: {files[0]!r} has none"
                )
            state = PolicyState((), policy.state_spec)
            needed = replayer.row_spec._replace(info=policy.info_spec, state=state)
            replay.check_same_rows(needed, replayer.row_spec)
            return replayer
        unroll_spec = specs.unroll_spec(policy, self._steps_of_unroll, with_env_info=with_env_info)
        replayer = replay.make_replayer(self._exp_replayer, unroll_spec, num_envs, context)
        if not files:
            return replayer
        offline = replay.load_replayer(files, context, self._offline_buffer_length)
        return replay.HybridReplayer(replayer, offline)


def make_collector(config, *args, **kwargs):
    """Makes a `Collector` in another process, from the text of a gin configuration.

    Args:
        config: text.
        *args, **kwargs: of `Experiment.make_collector`.
    """
    gin.clear_config()
    parse_operative_config(config)
    return Experiment().make_collector(*args, **kwargs)


def _check_behavior_ctor(behavior_ctor, num_envs):
    """Raises ConfigError if there is a behavior, but no environment."""
    if behavior_ctor is not None and not num_envs:
        raise ConfigError(
            "Experiment.num_envs is 0: there is nothing in which Experiment.behavior_ctor could act"
        )


def _check_policies(policies, others):
    """Raises ConfigError unless it is a `Policies`, and settings are None that do not work with several."""
    if not isinstance(policies, Policies):
        raise ConfigError(f"Experiment.policies is {policies!r}: it must be a Policies; in gin, @Policies()")
    for name, value in others.items():
        if value is not None:
            raise ConfigError(f"Experiment.{name} is set: it does not work with several policies")


def _check_by_policy(name, value, policies):
    """Raises ConfigError if a setting is a dict, and not one by the names of the policies that need it."""
    if not isinstance(value, dict):
        return
    if policies is None:
        raise ConfigError(
            f"Experiment.{name} is {value!r}: it may be a dict where Experiment.policies is set"
        )
    acts = name in ("data_transformers", "policy_ctor")
    missing = set(policies.names if acts else policies.learning) - set(value)
    unknown = set(value) - set(policies.names)
    if missing or unknown:
        wrong = f"no entry for {min(missing)!r}" if missing else f"an entry for {min(unknown)!r}, no policy"
        raise ConfigError(
            f"Experiment.{name} is {value!r}: it has {wrong}; the policies are {policies.names}"
        )


def seed_continued_run(driver, iterations):
    """Seeds a run that continues after `iterations` train iterations, unless its seed is None.

    With the seeds of its beginning the environments would repeat their first episodes, and the policy its
    first actions, each time that the run is continued.
    """
    seed = global_seed()
    if seed is not None:
        entropy = [seed, iterations]
        driver.reseed(entropy)
        seed_everything(spawn_seeds(entropy, 1)[0], 0)


def seed_everything(seed, num_envs):
    """Seeds TensorFlow, Keras and NumPy, but not with None; returns a seed (int) for each environment."""
    if seed is not None:
        # Python's, NumPy's and Keras' own generator, from which it draws the seeds of initial weights.
        tf.keras.utils.set_random_seed(seed % 2**32)
        tf.random.set_seed(seed)
    return spawn_seeds(seed, num_envs)
