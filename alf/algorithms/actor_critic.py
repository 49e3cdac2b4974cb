# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What IMPALA and PPO share: the groups of an actor-critic policy's variables."""


def group_actor_critic_variables(policy):
    """Groups the trainable variables for `Algorithm.parameter_groups`.

    Args:
        policy: `ActorCriticPolicy`.

    Returns:
        dict: the group "value" holds the variables that only the value depends on, "policy" holds the others.
        If policy and value share their layers, there is no group "value".
    """
    value_variables = list(policy.value_variables)
    value_ids = {id(variable) for variable in value_variables}
    others = [variable for variable in policy.trainable_variables if id(variable) not in value_ids]
    return {"policy": others, "value": value_variables} if value_variables else {"policy": others}
