"""Muon: momentum whose direction is made orthogonal before it is applied (Keller Jordan, 2024).

For the matrices inside the layers; everything else is trained with AdamW."""

import torch


def orthogonal(matrices):
    """The singular directions of [..., rows, columns] with singular values near 1.

    Five steps of the quintic Newton-Schulz iteration with Jordan's coefficients."""
    x = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    is_tall = x.shape[-2] > x.shape[-1]
    if is_tall:
        x = x.transpose(-2, -1)
    for _ in range(5):
        square = x @ x.transpose(-2, -1)
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.transpose(-2, -1) if is_tall else x


class Muon(torch.optim.Optimizer):
    """Matrices of one shape are worked on together: a mixture of experts has many small ones."""

    def __init__(self, matrices, lr, momentum=0.95, weight_decay=0.1):
        by_shape = {}
        for matrix in matrices:
            by_shape.setdefault(matrix.shape, []).append(matrix)
        super().__init__([{"params": alike} for alike in by_shape.values()],
                         {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            state = self.state[group["params"][0]]
            gradient = torch.stack([p.grad for p in group["params"]])
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(gradient)
            momentum = state["momentum"]
            momentum.mul_(group["momentum"]).add_(gradient)
            directions = orthogonal(gradient + group["momentum"] * momentum)
            rows, columns = directions.shape[-2:]
            for p, direction in zip(group["params"], directions):
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(direction, alpha=-group["lr"] * max(1, rows / columns) ** 0.5)
