"""Train the demo model and write it as one torch checkpoint, which export.py turns into files."""

import argparse
import random
import time
from dataclasses import dataclass

import torch
from torch.nn import functional as F

import problems
from evaluate import failures, held_out_cases
from llama import Llama, Shape
from muon import Muon

WARM_UP_STEPS = 100


@dataclass(frozen=True)
class Stage:
    """A part of the training, with fresh optimizers and its own random stream.

    The rates stay on a plateau and then descend on a line that reaches zero at `zero_at`. Rows
    hold one problem each, or (packed) up to MOST_PACKED of them, so that the model also works
    late in a long context, after other problems and their answers."""

    steps: int
    plateau: int
    zero_at: int
    matrix_rate: float  # Muon, for the matrices inside the layers
    other_rate: float  # AdamW, for embeddings and norms
    packed_from: int  # the first step at which batches may be packed
    packed_share: float  # the probability that a batch from there on is
    graded_share: float
    verdict_weight: float  # how much more the first byte of a verdict counts in the loss


STAGES = (
    # Learns to calculate, and begins to grade.
    Stage(steps=4250, plateau=1125, zero_at=4500, matrix_rate=0.015, other_rate=3e-3,
          packed_from=3600, packed_share=1.0, graded_share=0.75, verdict_weight=1.0),
    # Learns to grade, which needs the calculation.
    Stage(steps=1400, plateau=100, zero_at=1400, matrix_rate=0.005, other_rate=1e-3,
          packed_from=0, packed_share=0.25, graded_share=1.0, verdict_weight=4.0),
)

SINGLE_ROWS = 128
PACKED_ROWS = 64
MOST_PACKED = 4


def make_batch(rng, stage, step):
    """tokens and targets, both [rows, longest row], padded on the right."""
    packed = step >= stage.packed_from and (
        stage.packed_share == 1 or rng.random() < stage.packed_share)
    rows, most = (PACKED_ROWS, MOST_PACKED) if packed else (SINGLE_ROWS, 1)
    pairs = [problems.training_row(rng, rng.randint(1, most), stage.graded_share)
             for _ in range(rows)]
    length = max(map(len, pairs))
    filler = (problems.PAD, problems.NO_TARGET)
    padded = torch.tensor([row + [filler] * (length - len(row)) for row in pairs])
    return padded[..., 0], padded[..., 1]


def rate_scale(stage, step):
    descent = (stage.zero_at - step) / (stage.zero_at - stage.plateau)
    return min(1.0, (step + 1) / WARM_UP_STEPS, descent)


def verdict_weights(vocab, weight):
    """Weights of the targets: "y" and "n" begin a verdict and occur as targets nowhere else."""
    weights = torch.ones(vocab)
    weights[[ord("y"), ord("n")]] = weight
    return weights


def make_optimizers(model, stage):
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        is_inner_matrix = parameter.dim() == 2 and "embed_tokens" not in name
        (matrices if is_inner_matrix else others).append(parameter)
    return [
        Muon(matrices, lr=stage.matrix_rate),
        torch.optim.AdamW(others, lr=stage.other_rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def train(model, stage, rng, report_every, path):
    optimizers = make_optimizers(model, stage)
    groups = [(group, group["lr"]) for each in optimizers for group in each.param_groups]
    weights = verdict_weights(model.shape.vocab, stage.verdict_weight)
    start = time.time()
    mean_loss = None
    for step in range(stage.steps):
        tokens, targets = make_batch(rng, stage, step)
        for group, rate in groups:
            group["lr"] = rate * rate_scale(stage, step)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = model(tokens)
        learnt = targets != problems.NO_TARGET
        loss = F.cross_entropy(model.logits(hidden[learnt]), targets[learnt], weights)
        for each in optimizers:
            each.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for each in optimizers:
            each.step()
        mean_loss = loss.item() if mean_loss is None else 0.98 * mean_loss + 0.02 * loss.item()
        if (step + 1) % report_every == 0 or step + 1 == stage.steps:
            torch.save(model.state_dict(), path)
            scores = "  ".join(f"{kind} {len(cases) - len(failures(model, cases))}/{len(cases)}"
                               for kind, cases in held_out_cases(300).items())
            print(f"{time.time() - start:6.0f} s  step {step + 1}  loss {mean_loss:.4f}  {scores}",
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="checkpoint to write, once per report")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--report-every", type=int, default=250)
    parser.add_argument("--stage", type=int, default=1, choices=range(1, len(STAGES) + 1),
                        help="the stage to begin with")
    parser.add_argument("--start-from", help="a checkpoint of the stage before")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    model = Llama(Shape())
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    if arguments.start_from:
        model.load_state_dict(torch.load(arguments.start_from, weights_only=True))
    for index in range(arguments.stage - 1, len(STAGES)):
        print(f"stage {index + 1}", flush=True)
        rng = random.Random(arguments.seed + index)
        train(model, STAGES[index], rng, arguments.report_every, arguments.out)


if __name__ == "__main__":
    main()
