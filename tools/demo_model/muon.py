"""Muon: momentum whose direction is made orthogonal before it is applied (Keller Jordan, 2024).

For the matrices inside the layers; everything else is trained with AdamW."""

import torch


def orthogonal(matrix):
    """A matrix with the singular directions of this one and singular values near 1.

    Five steps of the quintic Newton-Schulz iteration with Jordan's coefficients."""
    x = matrix / (matrix.norm() + 1e-7)
    is_tall = x.shape[0] > x.shape[1]
    if is_tall:
        x = x.t()
    for _ in range(5):
        square = x @ x.t()
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.t() if is_tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, matrices, lr, momentum=0.95, weight_decay=0.1):
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if "momentum" not in self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
                momentum = self.state[p]["momentum"]
                momentum.mul_(group["momentum"]).add_(p.grad)
                direction = orthogonal(p.grad + group["momentum"] * momentum)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(direction, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)
