# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks of the loops in PyTorch."""

import math

import torch
from torch import nn


def make_mlp(sizes, activation):
    """Makes dense layers of such sizes, the input's first, with orthogonal weights."""
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [orthogonal(nn.Linear(i, o), math.sqrt(2)), activation()]
    return nn.Sequential(*layers)


def make_torso(space, hidden):
    """Makes what is before the heads, and returns it with the size of its output.

    Args:
        space: of Gymnasium, of the observation: numbers [N] or uint8 frames [4, 84, 84].
        hidden: units of the tanh layers; () for the Nature CNN.
    """
    if hidden:
        return make_mlp([space.shape[0], *hidden], nn.Tanh), hidden[-1]
    return NatureCnn(), 512


class NatureCnn(nn.Module):
    """The network of DQN's paper in Nature; it takes uint8 frames [B, 4, 84, 84]."""

    def __init__(self):
        super().__init__()
        convolutions = [nn.Conv2d(4, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1)]
        layers = [x for layer in convolutions for x in (orthogonal(layer, math.sqrt(2)), nn.ReLU())]
        self.convolutions = nn.Sequential(*layers).to(memory_format=torch.channels_last)
        self.dense = nn.Sequential(nn.Flatten(), *make_mlp([3136, 512], nn.ReLU))

    def forward(self, frames):
        x = frames.to(torch.float32, memory_format=torch.channels_last).mul_(1 / 255)
        return self.dense(self.convolutions(x))


def orthogonal(layer, gain):
    """Sets the weights of a layer, and returns it."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
