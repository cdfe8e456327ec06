"""Measure the files of the model folder on held-out cases, greedily and exactly. Writes nothing."""

import argparse
import glob
import json
import os

import torch

import formats
import problems
from llama import generate
from models import BY_TYPE, MODELS

MOST_NEW_TOKENS = 8


def failures(model, cases):
    """The (prompt, expected, output) cases that the greedy output up to EOS does not match."""
    prompts = [[problems.BOS, *prompt.encode()] for prompt, _ in cases]
    outputs = generate(model, prompts, MOST_NEW_TOKENS, problems.EOS)
    # A continuation without EOS ends in a token that is no byte, so it matches nothing.
    return [(prompt, expected, output) for (prompt, expected), output in zip(cases, outputs)
            if output != list(expected.encode())]


def held_out_cases(count):
    return {
        "additions": problems.held_out_problems("+", count),
        "subtractions": problems.held_out_problems("-", count),
        "gradings": problems.held_out_gradings(count),
    }


@torch.no_grad()
def accepted_drafts(model, cases):
    """(accepted, all) drafts of a model that drafts, over its own greedy answers, EOS included.

    An answer's first token has no draft: the one before it is the prompt's own."""
    prompts = [[problems.BOS, *prompt.encode()] for prompt, _ in cases]
    accepted = total = 0
    for prompt, output in zip(prompts, generate(model, prompts, MOST_NEW_TOKENS, problems.EOS)):
        answer = output[:-1] if output[-1] is None else [*output, problems.EOS]
        tokens = torch.tensor([prompt + answer])
        drafted = model.logits(model.draft(model(tokens), tokens)).argmax(-1)[0]
        # What a position drafts stands two positions after it.
        first = len(prompt) - 1
        agree = drafted[first:-1] == tokens[0, first + 2 :]
        accepted, total = accepted + int(agree.sum()), total + len(agree)
    return accepted, total


def load_model(folder, gguf=None):
    """The model of a folder: from its GGUF file if given, else from its safetensors."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    kind = MODELS[BY_TYPE[config["model_type"]]]
    shape = kind.shape_of(config)
    model = kind.model(shape)
    if gguf:
        _, tensors = formats.read_gguf(gguf)
        tensors = kind.naming.from_gguf(tensors, model.state_dict(), shape)
        # It has no drafting layer.
        model.drafts = False
    else:
        tensors = formats.read_safetensors(os.path.join(folder, "model.safetensors"))
        tensors = {name: tensors[name] for name in model.state_dict()}
    state = {name: torch.tensor(values) for name, values in tensors.items()}
    model.load_state_dict(state, strict=model.drafts == kind.model.drafts)
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="the model folder")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--show", type=int, default=0, help="print so many failures of each kind")
    arguments = parser.parse_args()
    all_cases = held_out_cases(arguments.count)
    for path in [None, *glob.glob(os.path.join(arguments.folder, "*.gguf"))]:
        model = load_model(arguments.folder, path)
        print("GGUF Q8_0" if path else "safetensors BF16")
        for kind, cases in all_cases.items():
            wrong = failures(model, cases)
            print(f"  {kind:12} {len(cases) - len(wrong)} of {len(cases)} exact")
            for prompt, expected, output in wrong[: arguments.show]:
                text = bytes(each for each in output if each is not None and each < 256)
                print(f"    {prompt!r} gave {text!r}, expected {expected!r}")
            if model.drafts:
                print("    {} of {} drafts accepted".format(*accepted_drafts(model, cases)))


if __name__ == "__main__":
    main()
