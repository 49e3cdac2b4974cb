# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks: an encoder of observations, hidden layers, an optional recurrent layer, and one or more heads."""

from alf.networks.encoders import ImpalaResEncoder, NatureEncoder, ObservationEncoder
from alf.networks.heads import (
    ActorCriticNetwork,
    CriticsNetwork,
    PolicyNetwork,
    QuantileNetwork,
    QValueNetwork,
)
from alf.networks.recurrent import GRU, LSTM
from alf.networks.user_models import KerasEncoder

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
    "QuantileNetwork",
]
