"""Measure the files of the model folder on held-out cases, greedily and exactly. Writes nothing."""

import argparse
import glob
import json
import os

import torch

import formats
import naming
import problems
from llama import Llama, Shape, generate

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


def load_model(folder, gguf):
    """The model of a folder: from its GGUF file if asked, else from its safetensors."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    shape = Shape(
        vocab=config["vocab_size"],
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_width=config["head_dim"],
        inner=config["intermediate_size"],
        context=config["max_position_embeddings"],
        rope_base=config["rope_theta"],
        norm_epsilon=config["rms_norm_eps"],
    )
    model = Llama(shape)
    if gguf:
        _, tensors = formats.read_gguf(gguf)
        tensors = naming.from_gguf(tensors, model.state_dict(), shape)
    else:
        tensors = formats.read_safetensors(os.path.join(folder, "model.safetensors"))
    model.load_state_dict({name: torch.tensor(values) for name, values in tensors.items()})
    return model


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


if __name__ == "__main__":
    main()
