# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks: an encoder of observations, a recurrent layer if wanted, and a head or several."""

from alf.networks.actor_critic import (
    ActorCriticNetwork,
    ImpalaResNetwork,
    KerasNetwork,
    NatureNetwork,
)
from alf.networks.encoders import ObservationEncoder
from alf.networks.images import ImpalaResEncoder, NatureEncoder
from alf.networks.network import Network
from alf.networks.off_policy import CriticsNetwork, PolicyNetwork, QValueNetwork

__all__ = [
    "ActorCriticNetwork",
    "CriticsNetwork",
    "ImpalaResEncoder",
    "ImpalaResNetwork",
    "KerasNetwork",
    "NatureEncoder",
    "NatureNetwork",
    "Network",
    "ObservationEncoder",
    "PolicyNetwork",
    "QValueNetwork",
]
