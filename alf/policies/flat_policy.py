# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""FlatPolicy: a policy as one function of named tensors, for file formats without nests."""

import itertools

import tensorflow as tf

from alf.core.nest_utils import name_leaves, zeros_from_spec
from alf.errors import ConfigError
from alf.policies.agent import agent_state_spec, choose_action

_PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}


class FlatPolicy:
    """A `Policy` as a function from named tensors to named tensors.

    The inputs are the fields "observation", "step_type", "reward" and "discount" of a `TimeStep`, and the
    states "state_0", "state_1", ... The outputs are "action" and "next_state_0", ..., the states of the next
    call. A leaf of a nest has its path in its name, such as "observation_image". At a step_type of 0 an
    episode begins, and the states are ignored.

    Inputs on which no action depends, neither of this step nor of a later one, are left out, except
    observations.

    Args:
        policy: `Policy`; its variables are used, not copied.
        deterministic: True acts as well as it can (`Policy.predict`), False explores (`Policy.rollout`).

    Attributes:
        inputs, outputs: dicts from names to unbatched tensor specs.

    Raises:
        ConfigError: if the policy calls Python from its graph, which a file cannot hold.
    """

    def __init__(self, policy, deterministic=True):
        self._policy = policy
        self._choose = policy.predict if deterministic else policy.rollout
        spec, state_spec = policy.time_step_spec, agent_state_spec(policy)
        self._arguments = (spec.step_type, spec.reward, spec.discount, spec.observation, state_spec)
        names = ("step_type", "reward", "discount", "observation")
        inputs = [name_leaves(name, nest) for name, nest in zip(names, self._arguments)]
        states = {f"state_{i}": leaf for i, leaf in enumerate(tf.nest.flatten(state_spec))}
        self._all_inputs = {k: v for named in (*inputs, states) for k, v in named.items()}
        self._actions = name_leaves("action", policy.action_spec)
        self._next_states = {f"next_{name}": spec for name, spec in states.items()}
        self.inputs, self.outputs = self._all_inputs, {**self._actions, **self._next_states}
        # With all of them first: it traces the function to find out which ones an action depends on.
        self._leave_out()

    def trace(self, batch_size=None):
        """Traces a concrete function with the `inputs` as keyword arguments; it returns a dict of `outputs`.

        `batch_size` is an int, or None for any.
        """
        specs = {k: tf.TensorSpec((batch_size, *s.shape), s.dtype, k) for k, s in self.inputs.items()}
        return tf.function(self._act, autograph=False).get_concrete_function(**specs)

    def _act(self, **tensors):
        # Any input shows it. There is one at least, because observations are never left out.
        batch_size = tf.shape(next(iter(tensors.values())))[0]
        missing = {k: s for k, s in self._all_inputs.items() if k not in tensors}  # no action depends on them
        tensors = {**tensors, **zeros_from_spec(missing, batch_size)}
        # The order of `_all_inputs` is the order of `tf.nest`; the order of keyword arguments is not.
        leaves = [tensors[name] for name in self._all_inputs]
        arguments = tf.nest.pack_sequence_as(self._arguments, leaves)
        results = tf.nest.flatten(choose_action(self._choose, self._policy.action_spec, *arguments))
        results = dict(zip([*self._actions, *self._next_states], results, strict=True))
        # An output needs an operation of its own name, also if it is an input or another output.
        return {name: tf.identity(results[name], name) for name in self.outputs}

    def _leave_out(self):
        """Removes inputs and outputs on which no action depends, now or later. Observations stay."""
        graph = self.trace().graph
        _check_no_python(graph)
        # A state is needed if an action reads it, or if another needed state is computed from it: add states
        # until nothing changes.
        needed = list(self._actions)
        while True:
            operations = _find_ancestors(graph.structured_outputs[name].op for name in needed)
            # A placeholder has the name of its argument.
            read = [k for k in self.inputs if graph.get_tensor_by_name(f"{k}:0").op in operations]
            states = [name for name in self._next_states if name.removeprefix("next_") in read]
            if needed == [*self._actions, *states]:
                break
            needed = [*self._actions, *states]
        # The reward, for example, is only an input if a transformer shows it to the policy.
        self.inputs = {k: v for k, v in self.inputs.items() if k in read or k.startswith("observation")}
        self.outputs = {name: self.outputs[name] for name in needed}


def _find_ancestors(operations):
    """Returns the set of all operations on which `operations` depend, including themselves."""
    found, waiting = set(), list(operations)
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found.add(operation)
            waiting += [x.op for x in operation.inputs] + list(operation.control_inputs)
    return found


def _check_no_python(graph):
    definition = graph.as_graph_def()
    # Functions, too: each branch and each loop of the graph is one.
    nodes = [definition.node, *(function.node_def for function in definition.library.function)]
    names = [node.name for node in itertools.chain(*nodes) if node.op in _PYTHON_OPS]
    if names:
        raise ConfigError(f"the policy cannot be exported: it calls Python from its graph, in {names[0]!r}")
