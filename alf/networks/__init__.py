# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks: an encoder of observations, hidden layers, a recurrent layer if wanted, and one or more heads."""

from alf.networks.actor_critic import ActorCriticNetwork
from alf.networks.encoders import KerasEncoder, ObservationEncoder
from alf.networks.images import ImpalaResEncoder, NatureEncoder
from alf.networks.off_policy import CriticsNetwork, PolicyNetwork, QValueNetwork
from alf.networks.recurrent import GRU, LSTM

__all__ = [
    "ActorCriticNetwork",
    "CriticsNetwork",
    "GRU",
    "ImpalaResEncoder",
    "KerasEncoder",
    "LSTM",
    "NatureEncoder",
    "ObservationEncoder",
    "PolicyNetwork",
    "QValueNetwork",
]
