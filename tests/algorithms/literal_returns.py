# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Returns term by term, as papers write them, in NumPy."""

import numpy as np


def literal_vtrace(rho, value, reward, discount, last, lambda_, clip_rho_threshold, clip_c_threshold):
    """Equation (1) of arXiv 1802.01561 term by term, and the advantages q - V without their ratio.

    v_s = V(x_s) + sum of (discounts before t) (c_s ... c_{t-1}) delta_t over t >= s in the episode.

    Args:
        rho, reward, discount: [T, B]; the ratios, not clipped; what arrives with time step t + 1.
        value, last: [T + 1, B].
        lambda_, clip_rho_threshold, clip_c_threshold: floats.

    Returns:
        Targets and advantages, [T, B]. Rows that are LAST stay 0.
    """
    T, B = rho.shape
    c = lambda_ * np.minimum(clip_c_threshold, rho)
    delta = np.minimum(clip_rho_threshold, rho) * (reward + discount * value[1:] - value[:-1])
    target, advantage = np.zeros((T, B)), np.zeros((T, B))
    for s, b in np.argwhere(~last[:-1]):
        end = next((t for t in range(s, T) if last[t + 1, b]), T - 1)  # the episode's last row
        target[s, b] = value[s, b] + sum(
            np.prod(discount[s:t, b]) * np.prod(c[s:t, b]) * delta[t, b] for t in range(s, end + 1)
        )
    for s, b in np.argwhere(~last[:-1]):
        has_next = s + 1 < T and not last[s + 1, b]
        v_next = value[s + 1, b]
        if has_next:
            v_next = lambda_ * target[s + 1, b] + (1 - lambda_) * v_next
        advantage[s, b] = reward[s, b] + discount[s, b] * v_next - value[s, b]
    return target, advantage


def literal_n_step(value, reward, discount, last, lambda_):
    """The lambda-weighted mean of the n-step returns of each row, term by term; [T, B], 0 where it is LAST.

    With N the last step of the episode or of the unroll, counted from s:

    G_s = (1 - lambda) sum over n < N of lambda^(n - 1) G_s^(n) + lambda^(N - 1) G_s^(N), where
    G_s^(n) = r_s + g_s r_{s+1} + ... + (g_s ... g_{s+n-2}) r_{s+n-1} + (g_s ... g_{s+n-1}) V(x_{s+n})

    Arguments as in `literal_vtrace`.
    """
    T, B = reward.shape
    result = np.zeros((T, B))
    for s, b in np.argwhere(~last[:-1]):
        end = next((t for t in range(s, T) if last[t + 1, b]), T - 1)
        n_step = [
            sum(np.prod(discount[s:t, b]) * reward[t, b] for t in range(s, s + n))
            + np.prod(discount[s : s + n, b]) * value[s + n, b]
            for n in range(1, end - s + 2)
        ]
        mixed = sum((1 - lambda_) * lambda_**i * g for i, g in enumerate(n_step[:-1]))
        result[s, b] = mixed + lambda_ ** (len(n_step) - 1) * n_step[-1]
    return result
