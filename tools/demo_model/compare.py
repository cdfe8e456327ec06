"""Compare the logits of a model folder's files with those of Hugging Face's transformers.

Needs the package `transformers`. Fails if float32 differs by 1e-4 or more; also drafts, for which
transformers lends its decoder layer. What bfloat16 does is reported only (ours as in training:
layers in bfloat16 by autocast): near ties between experts may fall on either side of it."""

import argparse
import os
import sys

import torch
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM

import evaluate
import formats
import problems


def load(folder, dtype=torch.float32, more_layers=0):
    config = AutoConfig.from_pretrained(folder)
    config.num_hidden_layers += more_layers
    model = AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=dtype)
    return model.eval()


def their_drafts(folder, theirs):
    """A function from tokens to the logits of the drafting layer."""
    tensors = formats.read_safetensors(os.path.join(folder, "model.safetensors"))
    number = theirs.config.num_hidden_layers
    prefix = f"model.layers.{number}."
    own = {name[len(prefix) :]: torch.tensor(values) for name, values in tensors.items()
           if name.startswith(prefix)}
    lent = load(folder, more_layers=1).model
    epsilon = theirs.config.rms_norm_eps

    def norm(x, name):
        return F.rms_norm(x, x.shape[-1:], own[name + ".weight"], epsilon)

    def drafts(tokens):
        hidden = theirs(tokens, output_hidden_states=True).hidden_states[-1][:, :-1]
        embedded = F.embedding(tokens[:, 1:], own["embed_tokens.weight"])
        x = torch.cat((norm(embedded, "enorm"), norm(hidden, "hnorm")), dim=-1)
        x = F.linear(x, own["eh_proj.weight"])
        positions = torch.arange(x.shape[1])[None]
        x = lent.layers[number](x, position_embeddings=lent.rotary_emb(x, positions),
                                attention_mask=None, position_ids=positions)
        x = norm(x[0] if isinstance(x, tuple) else x, "shared_head.norm")
        return F.linear(x, own["shared_head.head.weight"])

    return drafts


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="the model folder")
    folder = parser.parse_args().folder
    cases = [case for cases in evaluate.held_out_cases(20).values() for case in cases]
    rows = [torch.tensor([[problems.BOS, *(prompt + expected).encode()]])
            for prompt, expected in cases]

    def worst(what, ours, theirs):
        pairs = [(ours(row), theirs(row).float()) for row in rows]
        largest = max(other.abs().max().item() for _, other in pairs)
        difference = max((mine - other).abs().max().item() for mine, other in pairs)
        print(f"{what}: logits up to {largest:.2f} differ by at most {difference:.2g}", flush=True)
        return difference

    ours = evaluate.load_model(folder)

    def half_precise(row):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = ours(row)
        return ours.logits(hidden)

    theirs = load(folder)
    differences = [worst("float32", lambda row: ours.logits(ours(row)),
                         lambda row: theirs(row).logits)]
    if ours.drafts:
        differences.append(worst("float32 drafts",
                                 lambda row: ours.logits(ours.draft(ours(row), row)),
                                 their_drafts(folder, theirs)))
    theirs = load(folder, torch.bfloat16)
    worst("bfloat16", half_precise, lambda row: theirs(row).logits)
    sys.exit(max(differences) >= 1e-4)


if __name__ == "__main__":
    main()
