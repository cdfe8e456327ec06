"""Train a demo model and write it as one torch checkpoint, which export.py turns into files."""

import argparse
import os
import random
import time
from dataclasses import dataclass

import torch
from torch.nn import functional as F

import problems
from evaluate import accepted_drafts, failures, held_out_cases
from exchange import Exchange
from models import MODELS
from muon import Muon

WARM_UP_STEPS = 100
DRAFT_SHARE = 0.3  # of the loss of drafting, for a model that drafts
BALANCE_RATE = 1e-3  # how far a step moves an expert's bias, for a model with experts


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


ARITH_STAGES = (
    # Learns to calculate, and begins to grade.
    Stage(steps=4250, plateau=1125, zero_at=4500, matrix_rate=0.015, other_rate=3e-3,
          packed_from=3600, packed_share=1.0, graded_share=0.75, verdict_weight=1.0),
    # Learns to grade, which needs the calculation.
    Stage(steps=1400, plateau=100, zero_at=1400, matrix_rate=0.005, other_rate=1e-3,
          packed_from=0, packed_share=0.25, graded_share=1.0, verdict_weight=4.0),
)
MLA_STAGES = (
    # Learns to calculate, and nothing else: the rows are short.
    Stage(steps=1500, plateau=1500, zero_at=5000, matrix_rate=0.015, other_rate=3e-3,
          packed_from=1500, packed_share=0.0, graded_share=0.0, verdict_weight=1.0),
    # Learns to grade, and to work late in a context.
    Stage(steps=800, plateau=100, zero_at=1400, matrix_rate=0.012, other_rate=2.4e-3,
          packed_from=0, packed_share=0.15, graded_share=0.6, verdict_weight=3.0),
    # Becomes exact.
    Stage(steps=2000, plateau=500, zero_at=2000, matrix_rate=0.009, other_rate=1.8e-3,
          packed_from=0, packed_share=0.15, graded_share=0.6, verdict_weight=3.0),
)
STAGES = {"demo-arith": ARITH_STAGES, "demo-mla": MLA_STAGES}

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


NO_INNER = ("embed_tokens", "lm_head", "mlp.gate.")  # matrices that AdamW trains, too


def make_optimizers(model, stage):
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        is_inner_matrix = parameter.dim() == 2 and not any(part in name for part in NO_INNER)
        (matrices if is_inner_matrix else others).append(parameter)
    return [
        Muon(matrices, lr=stage.matrix_rate),
        torch.optim.AdamW(others, lr=stage.other_rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def loss_of(model, tokens, targets, weights):
    def prediction_loss(hidden, targets):
        learnt = targets != problems.NO_TARGET
        return F.cross_entropy(model.logits(hidden[learnt]), targets[learnt], weights)

    drafted = None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        if model.drafts:
            hidden = model(tokens, tokens != problems.PAD)
            drafted = model.draft(hidden, tokens, targets[:, 1:] != problems.NO_TARGET)
        else:
            hidden = model(tokens)
    loss = prediction_loss(hidden, targets)
    if model.drafts:
        # What a position drafts is what the next one should predict.
        loss = loss + DRAFT_SHARE * prediction_loss(drafted, targets[:, 1:])
    return loss


def save(path, contents):
    torch.save(contents, path + ".part")
    os.replace(path + ".part", path)


def report(model):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        all_cases = held_out_cases(300)
        texts = [f"{kind} {len(cases) - len(failures(model, cases))}/{len(cases)}"
                 for kind, cases in all_cases.items()]
        if model.drafts:
            texts.append("drafts {}/{}".format(*accepted_drafts(model, all_cases["additions"])))
    return "  ".join(texts)


def train(model, stage, rng, report_every, path, resumed=None, rank=0, exchange=None):
    """Saves the weights at `path` with every report, and beside them what it takes to resume.

    With an exchange, each worker takes its share of every batch, and all make the same step."""
    optimizers = make_optimizers(model, stage)
    rates = [(group, group["lr"]) for each in optimizers for group in each.param_groups]
    weights = verdict_weights(model.shape.vocab, stage.verdict_weight)
    first, mean_loss, before = 0, None, 0.0
    if resumed:
        for each, state in zip(optimizers, resumed["optimizers"]):
            each.load_state_dict(state)
        first, mean_loss, before = resumed["step"], resumed["mean_loss"], resumed["seconds"]
        rng.setstate(resumed["rng"])
    start = time.time() - before
    for step in range(first, stage.steps):
        tokens, targets = make_batch(rng, stage, step)
        if exchange:
            tokens, targets = tokens[rank :: exchange.workers], targets[rank :: exchange.workers]
        scale = rate_scale(stage, step)
        for group, rate in rates:
            group["lr"] = rate * scale
        loss = loss_of(model, tokens, targets, weights)
        for each in optimizers:
            each.zero_grad()
        loss.backward()
        if exchange:
            loads = model.loads() if model.has_experts else []
            exchange.average(rank, [p.grad for p in model.parameters()] + loads)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for each in optimizers:
            each.step()
        if model.has_experts:
            model.balance(BALANCE_RATE * scale)
        mean_loss = loss.item() if mean_loss is None else 0.98 * mean_loss + 0.02 * loss.item()
        if rank == 0 and ((step + 1) % report_every == 0 or step + 1 == stage.steps):
            save(path, model.state_dict())
            save(path + ".resume", {
                "optimizers": [each.state_dict() for each in optimizers],
                "step": step + 1,
                "mean_loss": mean_loss,
                "seconds": time.time() - start,
                "rng": rng.getstate(),
            })
            print(f"{time.time() - start:6.0f} s  step {step + 1}  loss {mean_loss:.4f}  "
                  f"{report(model)}", flush=True)


def work(rank, exchange, arguments):
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    model, stages, resumed = MODELS[arguments.model].fresh(), STAGES[arguments.model], None
    if arguments.start_from:
        model.load_state_dict(torch.load(arguments.start_from, weights_only=True))
        if arguments.resume:
            resumed = torch.load(arguments.start_from + ".resume", weights_only=True)
    for index in range(arguments.stage - 1, len(stages)):
        if rank == 0:
            print(f"stage {index + 1}", flush=True)
        rng = random.Random(arguments.seed + index)
        train(model, stages[index], rng, arguments.report_every, arguments.out, resumed, rank,
              exchange)
        resumed = None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo-arith", choices=MODELS)
    parser.add_argument("--out", required=True, help="checkpoint to write, once per report")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2, help="of each worker")
    parser.add_argument("--workers", type=int, default=1, help="processes that share each batch")
    parser.add_argument("--report-every", type=int, default=250)
    parser.add_argument("--stage", type=int, default=1, help="the stage to begin with")
    parser.add_argument("--start-from", help="a checkpoint of the stage before, or of this one")
    parser.add_argument("--resume", action="store_true",
                        help="go on with --stage where --start-from was written")
    arguments = parser.parse_args()
    model, exchange = MODELS[arguments.model].fresh(), None
    size = sum(p.numel() for p in model.parameters())
    print(f"{size} parameters", flush=True)
    if arguments.workers > 1:
        loads = model.shape.experts * model.expert_layers() if model.has_experts else 0
        exchange = Exchange(arguments.workers, size + loads)
        exchange.start_others(work, arguments)
    work(0, exchange, arguments)


if __name__ == "__main__":
    main()
