"""Train the demo model and write it as one torch checkpoint, which export.py turns into files."""

import argparse
import random
import time

import torch
from torch.nn import functional as F

import problems
from evaluate import failures, held_out_cases
from llama import Llama, Shape
from muon import Muon

WARM_UP_STEPS = 100
MATRIX_RATE = 0.015
OTHER_RATE = 3e-3

# First rows of one problem; the last part of the training packs several into a row, so that the
# model also works late in a long context, after other problems and their answers.
PACKING_STARTS_AT = 0.8
SINGLE_ROWS = 128
PACKED_ROWS = 64
MOST_PACKED = 4


def make_batch(rng, rows, most_problems):
    """tokens and targets, both [rows, longest row], padded on the right."""
    pairs = [problems.training_row(rng, rng.randint(1, most_problems)) for _ in range(rows)]
    length = max(map(len, pairs))
    filler = (problems.PAD, problems.NO_TARGET)
    padded = torch.tensor([row + [filler] * (length - len(row)) for row in pairs])
    return padded[..., 0], padded[..., 1]


def rate_scale(step, steps):
    """Linear warm-up, a plateau, and a linear descent over the last three quarters."""
    return min(1.0, (step + 1) / WARM_UP_STEPS, (steps - step) / (0.75 * steps))


def make_optimizers(model):
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        is_inner_matrix = parameter.dim() == 2 and "embed_tokens" not in name
        (matrices if is_inner_matrix else others).append(parameter)
    return [
        Muon(matrices, lr=MATRIX_RATE),
        torch.optim.AdamW(others, lr=OTHER_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def train(model, steps, seed, report_every, path):
    rng = random.Random(seed)
    optimizers = make_optimizers(model)
    groups = [(group, group["lr"]) for each in optimizers for group in each.param_groups]
    start = time.time()
    mean_loss = None
    for step in range(steps):
        if step < PACKING_STARTS_AT * steps:
            tokens, targets = make_batch(rng, SINGLE_ROWS, 1)
        else:
            tokens, targets = make_batch(rng, PACKED_ROWS, MOST_PACKED)
        for group, rate in groups:
            group["lr"] = rate * rate_scale(step, steps)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = model(tokens)
        learnt = targets != problems.NO_TARGET
        loss = F.cross_entropy(model.logits(hidden[learnt]), targets[learnt])
        for each in optimizers:
            each.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for each in optimizers:
            each.step()
        mean_loss = loss.item() if mean_loss is None else 0.98 * mean_loss + 0.02 * loss.item()
        if (step + 1) % report_every == 0 or step + 1 == steps:
            torch.save(model.state_dict(), path)
            scores = "  ".join(f"{kind} {len(cases) - len(failures(model, cases))}/{len(cases)}"
                               for kind, cases in held_out_cases(300).items())
            print(f"{time.time() - start:6.0f} s  step {step + 1}  loss {mean_loss:.4f}  {scores}",
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="checkpoint to write")
    parser.add_argument("--steps", type=int, default=4500)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--report-every", type=int, default=250)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    model = Llama(Shape())
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    train(model, arguments.steps, arguments.seed, arguments.report_every, arguments.out)


if __name__ == "__main__":
    main()
