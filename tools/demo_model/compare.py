"""Compare the logits of a model folder's files with those of Hugging Face's transformers.

Needs the package `transformers`. Fails if float32 differs by 1e-4 or more. What bfloat16 does is
reported only (ours as in training: layers in bfloat16 by autocast): near ties between experts may
fall on either side of it."""

import argparse
import sys

import torch
from transformers import AutoModelForCausalLM

import evaluate
import problems


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="the model folder")
    folder = parser.parse_args().folder
    cases = [case for cases in evaluate.held_out_cases(20).values() for case in cases]
    rows = [torch.tensor([[problems.BOS, *(prompt + expected).encode()]])
            for prompt, expected in cases]
    ours = evaluate.load_model(folder)
    agree = True
    for dtype in (torch.float32, torch.bfloat16):
        theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
        worst, largest = 0.0, 0.0
        for row in rows:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype != torch.float32):
                hidden = ours(row)
            mine = ours.logits(hidden)
            other = theirs(row).logits.float()
            worst = max(worst, (mine - other).abs().max().item())
            largest = max(largest, other.abs().max().item())
        print(f"{dtype}: logits up to {largest:.2f} differ by at most {worst:.2g}")
        agree = agree and (dtype == torch.bfloat16 or worst < 1e-4)
    sys.exit(not agree)


if __name__ == "__main__":
    main()
