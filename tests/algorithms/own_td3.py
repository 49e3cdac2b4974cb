# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TD3 (arXiv 1802.09477) as a user writes it, with public names alone."""

import copy

import tensorflow as tf

import alf
from alf.algorithms import (
    NStep,
    TargetUpdater,
    action_from_unit_box,
    action_to_unit_box,
    pass_gradient_to_input_only,
)
from alf.data_structures import LossInfo, PolicyStep
from alf.networks import CriticsNetwork, PolicyNetwork
from alf.ops import draws, losses, td_losses


class TD3Policy(alf.policies.Policy):
    """tanh of a network, with Gaussian noise while it collects."""

    def __init__(
        self, observation_spec, action_spec, network=PolicyNetwork, noise=0.1, data_transformer=None
    ):
        super().__init__(observation_spec, action_spec, data_transformer=data_transformer)
        self.network, self._noise = network(observation_spec, action_spec.shape.num_elements()), noise

    def predict_step(self, time_step, state):
        outputs, _ = self.network.policy(time_step.observation, ())
        return PolicyStep(action_from_unit_box(tf.tanh(outputs), self.action_spec))

    def rollout_step(self, time_step, state):
        outputs, _ = self.network.policy(time_step.observation, ())
        unit = tf.tanh(outputs) + self._noise * draws.normal(tf.shape(outputs))
        return PolicyStep(action_from_unit_box(unit, self.action_spec))


class TD3Algorithm(alf.algorithms.Algorithm):
    """Its learner needs an optimizer for each of the groups "actor" and "critic"."""

    policy_type = TD3Policy

    def __init__(self, policy, critic=CriticsNetwork, discount=0.99, tau=0.005, delay=2, noise=0.2, clip=0.5):
        super().__init__(policy, name="td3")
        self._n_step = NStep("TD3Algorithm", discount, n_step=1, burn_in=0, is_recurrent=False)
        self._critic = critic(policy.observation_spec, policy.action_spec.shape.num_elements(), 1)
        self._targets = [copy.deepcopy(network) for network in (policy.network, self._critic)]
        pairs = zip((policy.network, self._critic), self._targets, strict=True)
        self._updaters = [TargetUpdater(*pair, tau, delay) for pair in pairs]
        self._delay, self._noise, self._clip = delay, noise, clip

    def parameter_groups(self):
        actor, critic = self.policy.network, self._critic
        return {"actor": list(actor.trainable_variables), "critic": list(critic.trainable_variables)}

    def preprocess(self, experience):
        size = self.policy.action_spec.shape.num_elements()
        return self._noise * draws.normal((*experience.step_type.shape, size))

    def train_step(self, experience, prepared):
        transitions = self._n_step.make_transitions(experience, self.progress)
        taken, noise = self._n_step.select_starts((experience.action, prepared))
        observation, following = experience.observation[:-1], experience.observation[1:]
        actor, critic = self._targets
        action = tf.tanh(actor(following, (), None, False)[0])
        action = tf.clip_by_value(action + tf.clip_by_value(noise, -self._clip, self._clip), -1.0, 1.0)
        next_q = tf.reduce_min(critic.values(critic.features(following, (), None, False)[0], action), axis=0)
        features, _ = self._critic.features(observation, (), None, True)
        q = self._critic.values(features, action_to_unit_box(taken, self.policy.action_spec))[..., 0]
        action = tf.tanh(self.policy.network(observation, (), None, True)[0])
        features = tf.stop_gradient(features)
        actor_q = pass_gradient_to_input_only(lambda x: self._critic.values(features, x)[0], action)
        return transitions, q, tf.stop_gradient(next_q[..., 0]), actor_q[..., 0]

    def calc_loss(self, experience, train_info):
        transitions, q, next_q, actor_q = train_info
        target = td_losses.td_target(transitions.reward, transitions.discount, next_q)
        critic_loss = tf.reduce_sum((q - target) ** 2, axis=0)
        parts = {"critic_loss": critic_loss, "actor_loss": -actor_q}
        parts = {name: losses.weighted_mean(x, transitions.weight) for name, x in parts.items()}
        return LossInfo(tf.add_n(list(parts.values())), parts)

    def update_with_gradient(self, loss_info, gradients, optimizer):
        optimizer.apply(gradients, groups=["critic"])
        is_due = tf.equal((self.progress.updates + 1) % self._delay, 0)
        tf.cond(is_due, lambda: optimizer.apply(gradients, groups=["actor"]), lambda: None)

    def after_update(self, experience, train_info):
        for update in self._updaters:
            update()
