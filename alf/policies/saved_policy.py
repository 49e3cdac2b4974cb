# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""make_saved_policy: a policy as the functions of a SavedModel, which act without ALF."""

import collections

import tensorflow as tf

from alf.core.nest_utils import add_leading_dims, name_leaves, zeros_from_spec
from alf.data_structures import PolicyStep
from alf.policies.agent import agent_state_spec, choose_action

# TF-Agents' name and fields, which are in the file: a model takes a named tuple that has the same ones,
# whoever wrote it. ALF's own `TimeStep` has more.
TimeStep = collections.namedtuple("TimeStep", ["step_type", "reward", "discount", "observation"])


def make_saved_policy(policy, deterministic=True):
    """Makes what `tf.saved_model.save` writes of a `Policy`.

    The module, and the model that is loaded later, have the functions of TF-Agents' `PolicySaver`:

    * `action(time_step, policy_state)` chooses actions. `time_step` is a named tuple `TimeStep` with the
      fields of an `EnvStep`, `policy_state` what the previous call returned. The result is a `PolicyStep`,
      whose `info` is (). Its state is an `AgentState`, because the time step does not hold the previous
      action. Rows where an episode begins ignore the state. Actions are clipped to the bounds of their spec.
    * `get_initial_state(batch_size)` returns the state for the first call, zeros.
    * `get_train_step()` returns the number of updates of the policy, int64; `train_step` is its variable.
    * `get_metadata()` returns {}.

    `model_variables` are the variables of the policy, which are used, not copied. The module holds nothing
    else of the policy: a model must not depend on the classes of its layers.

    Args:
        policy: `Policy`.
        deterministic: True acts as well as it can (`Policy.predict`), False explores (`Policy.rollout`).

    Returns:
        a `tf.Module`, and a dict of its signatures, the functions above by name, with named tensors in place
        of nests, such as "observation_image" and "state_prev_action".
    """
    choose = policy.predict if deterministic else policy.rollout
    state_spec, action_spec = agent_state_spec(policy), policy.action_spec
    time_step_spec = TimeStep(*(getattr(policy.time_step_spec, name) for name in TimeStep._fields))
    specs = add_leading_dims((time_step_spec, state_spec), None)

    def action(time_step, policy_state):
        return PolicyStep(*choose_action(choose, action_spec, *time_step, policy_state))

    def get_initial_state(batch_size):
        return zeros_from_spec(state_spec, batch_size)

    def get_metadata():
        return {}

    module = tf.Module()
    module.model_variables = list(policy.variables)
    module.train_step = policy.progress.updates
    module.action = _in_graph(action, specs)
    module.get_initial_state = _in_graph(get_initial_state, [tf.TensorSpec((), tf.int32, "batch_size")])
    module.get_train_step = _in_graph(module.train_step.read_value)
    module.get_metadata = _in_graph(get_metadata)
    return module, _flatten(module, specs)


def _flatten(module, specs):
    """Returns the signatures of a module; `specs` are those of the arguments of its `action`."""
    time_step, state = specs
    inputs = {k: v for name, nest in time_step._asdict().items() for k, v in name_leaves(name, nest).items()}
    inputs |= name_leaves("state", state)

    def action(**tensors):
        # The order of `inputs` is the order of `tf.nest`; the order of keyword arguments is not.
        step = module.action(*tf.nest.pack_sequence_as(specs, [tensors[name] for name in inputs]))
        return {**name_leaves("action", step.action), **name_leaves("state", step.state)}

    def get_initial_state(batch_size):
        return name_leaves("state", module.get_initial_state(batch_size))

    named = {name: tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in inputs.items()}
    return {
        "action": tf.function(action, autograph=False).get_concrete_function(**named),
        "get_initial_state": _in_graph(get_initial_state, module.get_initial_state.input_signature),
        # `PolicySaver` names this output so, by its dtype.
        "get_train_step": _in_graph(lambda: {"int64": module.get_train_step()}),
        "get_metadata": module.get_metadata,
    }


def _in_graph(function, input_signature=()):
    return tf.function(function, input_signature=input_signature, autograph=False)
