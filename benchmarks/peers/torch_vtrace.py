# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""An update of IMPALA in PyTorch, for speed: `python benchmarks/peers/torch_vtrace.py --network=nature`.

Frames wait in pinned memory, as a queue would hold them, and each update copies a batch to the device. Prints
one JSON line with the milliseconds of an update, the median.
"""

import argparse
import json
import statistics
import time

import torch
from networks import NatureCnn
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x):
        return x + self.second(F.relu(self.first(F.relu(x))))


class ResNet(nn.Module):
    """The deep network of IMPALA (arXiv 1802.01561, figure 3); it takes uint8 frames [B, 4, 84, 84]."""

    def __init__(self):
        super().__init__()
        layers, depth = [], 4
        for channels in (16, 32, 32):
            layers += [nn.Conv2d(depth, channels, 3, padding=1), nn.MaxPool2d(3, 2, 1)]
            layers += [Residual(channels), Residual(channels)]
            depth = channels
        self.layers = nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(32 * 11 * 11, 256), nn.ReLU())
        self.layers = self.layers.to(memory_format=torch.channels_last)

    def forward(self, frames):
        return self.layers(frames.to(torch.float32, memory_format=torch.channels_last).mul_(1 / 255))


class Agent(nn.Module):
    def __init__(self, network, actions):
        super().__init__()
        self.torso, size = (NatureCnn(), 512) if network == "nature" else (ResNet(), 256)
        self.logits, self.value = nn.Linear(size, actions), nn.Linear(size, 1)

    def forward(self, frames):
        x = self.torso(frames.flatten(0, 1))
        rows = frames.shape[:2]
        return self.logits(x).float().view(*rows, -1), self.value(x).float().view(*rows)


def vtrace(log_rho, discount, reward, value):
    """Targets and advantages (arXiv 1802.01561, section 4.1), with both limits 1."""
    rho = log_rho.exp().clamp(max=1.0)
    delta = rho * (reward + discount * value[1:] - value[:-1])
    total, targets = torch.zeros_like(value[0]), []
    for t in reversed(range(len(reward))):
        total = delta[t] + discount[t] * rho[t] * total
        targets.append(value[t] + total)
    targets = torch.stack(targets[::-1])
    after = torch.cat([targets[1:], value[-1:]])
    return targets, rho * (reward + discount * after - value[:-1])


def loss(agent, frames, action, behavior, reward, discount):
    logits, value = agent(frames)
    log_probs = logits[:-1].log_softmax(-1)
    log_prob = log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        targets, advantage = vtrace(log_prob - behavior, discount, reward, value)
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    return (-advantage * log_prob + 0.5 * (targets - value[:-1]).square() - 0.01 * entropy).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=("nature", "resnet"), default="nature")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--unroll_length", type=int, default=16)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--updates", type=int, default=30)
    flags = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True  # as TensorFlow does
    torch.backends.cudnn.benchmark = True
    device, T, B = torch.device(flags.device), flags.unroll_length, flags.batch_size
    agent = Agent(flags.network, 6).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), 3e-4, foreach=True)
    batch = [
        torch.randint(0, 256, (T + 1, B, 4, 84, 84), dtype=torch.uint8),
        torch.randint(0, 6, (T, B)),
        torch.full((T, B), -1.8),
        torch.randn(T, B),
        torch.full((T, B), 0.99),
    ]
    if device.type == "cuda":
        batch = [x.pin_memory() for x in batch]
    times = []
    for _ in range(10 + flags.updates):
        start = time.perf_counter()
        moved = [x.to(device, non_blocking=True) for x in batch]
        with torch.autocast(device.type, torch.bfloat16, enabled=flags.dtype == "bfloat16"):
            total = loss(agent, *moved)
        optimizer.zero_grad(set_to_none=True)
        total.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 40.0, foreach=True)
        optimizer.step()
        total.item()  # waits for the device
        times.append(time.perf_counter() - start)
    milliseconds = 1e3 * statistics.median(times[10:])
    print(
        json.dumps(
            {"ms": milliseconds, "steps_per_second": T * B / milliseconds * 1e3, "device": str(device)}
        )
    )


if __name__ == "__main__":
    main()
