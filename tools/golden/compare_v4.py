"""Holds deepseek_v4.py to transformers' DeepseekV4ForCausalLM in float32, with deepseek-v4-tiny.

transformers has no layer that drafts. Needs torch and transformers 5.
"""

import json
import sys

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

import deepseek_v4
import reference


@torch.no_grad()
def logits_of(model, ids, cuts=None):
    """As a whole without a cache, or in pieces with one."""
    if cuts is None:
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()
    cache, rows = DynamicCache(config=model.config), []
    for begin, end in zip([0, *cuts], [*cuts, len(ids)]):
        found = model(torch.tensor([ids[begin:end]]), cache=cache, use_cache=True)
        rows.append(found.logits[0].numpy())
    return np.concatenate(rows)


def main():
    torch.set_num_threads(1)
    folder = reference.MODELS / "deepseek-v4-tiny"
    config, weights = reference.load_model(folder)
    golden = json.loads((folder / "golden.json").read_text())
    model, found = AutoModelForCausalLM.from_pretrained(
        folder,
        config=AutoConfig.from_pretrained(folder),
        dtype=torch.float32,
        attn_implementation="eager",
        output_loading_info=True,
    )
    print({what: sorted(names)[:5] for what, names in found.items()})
    model = model.eval()
    print("rope:", model.config.rope_parameters)
    print("layers:", model.config.layer_types, model.config.mlp_layer_types)
    worst = 0.0
    for ids, after in zip(golden["prompts"], golden["greedy"]):
        ids = [*ids, *after]
        wanted = deepseek_v4.Model(config, weights).logits(ids)
        runs = {"whole": None, "by one": list(range(1, len(ids)))}
        runs |= {f"by {size}": list(range(size, len(ids), size)) for size in (5, 64, 129)}
        runs["prompt, then by one"] = list(range(len(ids) - len(after), len(ids)))
        for what, cuts in runs.items():
            rows = logits_of(model, ids, cuts)
            errors = np.abs(rows - wanted).max(-1) / np.abs(wanted).max(-1)
            off = np.flatnonzero(errors > 1e-4)
            first = f", first off at {off[0]} ({len(off)} rows)" if len(off) else ""
            print(f"{len(ids)} tokens, {what}: error {errors.max():.1e}{first}", flush=True)
            worst = max(worst, errors.max())
    sys.exit(0 if worst < 1e-4 else 1)


if __name__ == "__main__":
    main()
