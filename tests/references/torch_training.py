# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Writes torch_training.json: 100 updates of small networks by PyTorch, which tests compare with ALF's.

    python tests/references/torch_training.py        (in an environment with torch and numpy)

A network has a convolution, a dense layer, a layer norm, a GRU or LSTM, and a dense layer with spectral norm
or without. Its weights and data come from `draw`, which the tests use, too.
"""

import json
from pathlib import Path

import numpy as np

T, B = 3, 4
STEPS = 100
FILE = Path(__file__).with_suffix(".json")
# Name: optimizer, its settings by PyTorch's names, recurrent layer, scale of the loss. A small scale makes
# gradients of the order of epsilon.
CASES = {
    "adam": ("Adam", dict(lr=3e-3, betas=(0.8, 0.99), eps=1e-8), "GRU", 1.0),
    "adam_epsilon": ("Adam", dict(lr=3e-3, eps=1e-4), "LSTM", 1e-4),
    "adamw": ("AdamW", dict(lr=3e-3, weight_decay=0.1), "LSTM", 1.0),
    "rmsprop": ("RMSprop", dict(lr=1e-3, alpha=0.95, eps=1e-4), "GRU", 1e-3),
    "rmsprop_momentum": ("RMSprop", dict(lr=1e-4, momentum=0.8, eps=1e-6, centered=True), "LSTM", 1.0),
    "sgd": ("SGD", dict(lr=0.03), "GRU", 1.0),
    "momentum": ("SGD", dict(lr=0.01, momentum=0.9), "LSTM", 1.0),
    "nesterov": ("SGD", dict(lr=0.01, momentum=0.9, nesterov=True), "GRU", 1.0),
}
SHAPES = {
    "conv/kernel": (3, 3, 2, 3),
    "conv/bias": (3,),
    "dense/kernel": (48, 5),
    "dense/bias": (5,),
    "norm/gamma": (5,),
    "norm/beta": (5,),
    "GRU/input_kernel": (5, 12),  # z, r, candidate
    "GRU/input_bias": (12,),
    "GRU/kernel": (4, 12),
    "GRU/candidate_bias": (4,),
    "LSTM/input_kernel": (5, 16),  # i, f, g, o
    "LSTM/input_bias": (16,),
    "LSTM/kernel": (4, 16),
    "head/kernel": (4, 2),
    "head/bias": (2,),
}


def draw():
    """Returns a dict of initial weights, and images [T * B, H, W, C] and targets [T * B, 2], all float32."""
    rng = np.random.default_rng(5)
    weights = {name: rng.normal(scale=0.4, size=shape) for name, shape in SHAPES.items()}
    weights = {name: x.astype(np.float32) for name, x in weights.items()}
    images, targets = rng.normal(size=(T * B, 6, 6, 2)), rng.normal(size=(T * B, 2))
    return weights, images.astype(np.float32), targets.astype(np.float32)


def project(name, weight):
    """Returns two sums of a weight's numbers, each number times a random factor: its fingerprint."""
    factors = np.random.default_rng(list(name.encode())).normal(size=(2, *weight.shape))
    return [float(np.sum(f * np.asarray(weight, np.float64))) for f in factors]


def reorder(kernel, order):
    """Puts the parts of the last axis, one for each gate, into another order."""
    return np.concatenate([np.split(kernel, len(order), axis=-1)[i] for i in order], axis=-1)


def make_torch(rnn):
    """Returns PyTorch's layers by name, and a function that reads their weights back by ALF's names."""
    import torch

    weights, _, _ = draw()
    layers = {
        "conv": torch.nn.Conv2d(2, 3, 3),
        "dense": torch.nn.Linear(48, 5),
        "norm": torch.nn.LayerNorm(5),
        "rnn": getattr(torch.nn, rnn)(5, 4),
        "head": torch.nn.Linear(4, 2),
    }
    order = (1, 0, 2) if rnn == "GRU" else (0, 1, 2, 3)  # PyTorch's GRU has r before z
    links = [  # PyTorch's weight, ALF's name, from ALF's to PyTorch's, and back
        (
            layers["conv"].weight,
            "conv/kernel",
            lambda x: x.transpose(3, 2, 0, 1),
            lambda x: x.transpose(2, 3, 1, 0),
        ),
        (layers["conv"].bias, "conv/bias", lambda x: x, lambda x: x),
        (layers["dense"].weight, "dense/kernel", lambda x: x.T, lambda x: x.T),
        (layers["dense"].bias, "dense/bias", lambda x: x, lambda x: x),
        (layers["norm"].weight, "norm/gamma", lambda x: x, lambda x: x),
        (layers["norm"].bias, "norm/beta", lambda x: x, lambda x: x),
        (
            layers["rnn"].weight_ih_l0,
            f"{rnn}/input_kernel",
            lambda x: reorder(x, order).T,
            lambda x: reorder(x.T, order),
        ),
        (
            layers["rnn"].bias_ih_l0,
            f"{rnn}/input_bias",
            lambda x: reorder(x, order),
            lambda x: reorder(x, order),
        ),
        (
            layers["rnn"].weight_hh_l0,
            f"{rnn}/kernel",
            lambda x: reorder(x, order).T,
            lambda x: reorder(x.T, order),
        ),
        (layers["head"].weight, "head/kernel", lambda x: x.T, lambda x: x.T),
        (layers["head"].bias, "head/bias", lambda x: x, lambda x: x),
    ]
    for parameter, name, convert, _ in links:
        parameter.data = torch.tensor(np.ascontiguousarray(convert(weights[name])))
    # Of PyTorch's second bias only the candidate's part is not the same as the first one.
    second = layers["rnn"].bias_hh_l0
    second.data = torch.zeros_like(second)
    if rnn == "GRU":
        second.data[8:] = torch.tensor(weights["GRU/candidate_bias"])

    def read():
        found = {name: back(parameter.detach().numpy()) for parameter, name, _, back in links}
        if rnn == "GRU":
            found["GRU/candidate_bias"] = second.detach().numpy()[8:]
        return found

    return layers, read


def train(optimizer, settings, rnn, scale):
    """Trains one network. Returns its losses, one for each update, and the fingerprints of its weights."""
    import torch

    layers, read = make_torch(rnn)
    _, images, targets = draw()
    images, targets = torch.tensor(images.transpose(0, 3, 1, 2)), torch.tensor(targets)
    second = layers["rnn"].bias_hh_l0
    parameters = [p for layer in layers.values() for p in layer.parameters()]
    optimizer = getattr(torch.optim, optimizer)(parameters, **settings)
    mask = torch.zeros_like(second)
    if rnn == "GRU":
        mask[8:] = 1.0  # ALF has no second bias of the gates
    losses = []
    for _ in range(STEPS):
        x = torch.relu(layers["conv"](images))
        x = torch.tanh(layers["dense"](x.permute(0, 2, 3, 1).reshape(T * B, -1)))
        x, _ = layers["rnn"](layers["norm"](x).reshape(T, B, -1))
        loss = torch.mean((layers["head"](x).reshape(T * B, -1) - targets) ** 2)
        optimizer.zero_grad()
        (scale * loss).backward()
        second.grad *= mask
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses[::10], "weights": {name: project(name, x) for name, x in read().items()}}


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: train(*case) for name, case in CASES.items()}, indent=1) + "\n")
