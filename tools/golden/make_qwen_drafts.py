"""Give the golden models of Qwen3-Next and Qwen3.5 the layer that drafts tokens, and its drafts.

usage: make_qwen_drafts.py [CASE...]

transformers leaves `mtp.*` out; the layer itself is one of its decoder layers with attention, and what stands around it
is that of vLLM's qwen3_next_mtp.py: the normed embedding of the next token beside the normed hidden row (behind the
model's last norm), one product, the layer, a norm, the model's own logits. Further drafts take the row behind that norm.
Weights are those of the model's own such layer, changed. Adds to model.safetensors, and to golden.json:

  draft   for each prompt the first id drafted behind it and the first greedy id
  drafts  as many as MOST
"""

import copy
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "models"
CASES = ("qwen3-next-tiny", "qwen3-5-tiny", "qwen3-5-moe-tiny")
LAYER = 3  # the one with attention
MOST = 3
MARGIN = 0.004
BEFORE = f"model.layers.{LAYER}."
DRAFTS = "mtp.layers.0."


def drafting_tensors(tensors, seed):
    """The layer's tensors: copies that differ, and what stands around them."""
    torch.manual_seed(seed)
    hidden = tensors["model.embed_tokens.weight"].shape[1]
    made = {}
    for name, value in tensors.items():
        if name.startswith(BEFORE):
            noise = torch.randn(value.shape) * value.float().std().clamp(min=0.05)
            made[DRAFTS + name[len(BEFORE) :]] = (value.float() + noise).to(value.dtype)
    kind = tensors["model.norm.weight"].dtype
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        made[f"mtp.{name}.weight"] = (torch.randn(hidden) * 0.2).to(kind)
    made["mtp.fc.weight"] = (torch.randn(hidden, 2 * hidden) * (1.5 / hidden**0.5)).to(kind)
    return made


def norm(rows, weight, epsilon):
    rows = rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + epsilon)
    return rows * (1 + weight.float())


class Drafter:
    def __init__(self, model, tensors):
        self.model, self.tensors = model, tensors
        self.epsilon = model.config.rms_norm_eps
        other = copy.deepcopy(model)
        layer = other.model.layers[LAYER]
        state = {name[len(DRAFTS) :]: value.float() for name, value in tensors.items() if name.startswith(DRAFTS)}
        missing = self.load(layer, state)
        assert not missing, missing
        self.layer, self.rotary = layer, other.model.rotary_emb

    @staticmethod
    def load(layer, state):
        """Experts lie one by one in older checkpoints, and together in the layer."""
        own = dict(layer.state_dict())
        merged = dict(state)
        for part in ("gate_up_proj", "down_proj"):
            whole = f"mlp.experts.{part}"
            if whole not in own or whole in merged:
                continue
            rows = []
            for number in range(own[whole].shape[0]):
                if part == "down_proj":
                    rows.append(merged.pop(f"mlp.experts.{number}.down_proj.weight"))
                else:
                    pair = [merged.pop(f"mlp.experts.{number}.{name}_proj.weight") for name in ("gate", "up")]
                    rows.append(torch.cat(pair))
            merged[whole] = torch.stack(rows)
        result = layer.load_state_dict(merged, strict=False)
        return result.missing_keys + result.unexpected_keys

    @torch.no_grad()
    def draft(self, prompt, following):
        """MOST ids, and the smallest distance between the two best logits."""
        weight = lambda name: self.tensors[f"mtp.{name}.weight"].float()
        hidden = self.model.model(torch.tensor([prompt])).last_hidden_state[0]
        tokens = list(prompt[1:]) + [following]
        ids, margin = [], float("inf")
        for _ in range(MOST):
            embedded = self.model.model.embed_tokens(torch.tensor(tokens))
            both = torch.cat(
                (
                    norm(embedded, weight("pre_fc_norm_embedding"), self.epsilon),
                    norm(hidden, weight("pre_fc_norm_hidden"), self.epsilon),
                ),
                dim=-1,
            )
            rows = (both @ weight("fc").T)[None]
            count = rows.shape[1]
            positions = torch.arange(count)[None]
            mask = torch.full((count, count), float("-inf")).triu(1)[None, None]
            out = self.layer(
                rows,
                position_embeddings=self.rotary(rows, positions),
                attention_mask=mask,
                position_ids=positions,
            )
            out = out[0] if isinstance(out, tuple) else out
            last = norm(out[0, -1], weight("norm"), self.epsilon)
            logits = self.model.lm_head(last)
            best = torch.topk(logits, 2)
            margin = min(margin, (best.values[0] - best.values[1]).item())
            ids.append(best.indices[0].item())
            tokens.append(ids[-1])
            hidden = torch.cat((hidden, last[None]))
        return ids, margin


def make(case):
    folder = FOLDER / case
    tensors = {name: value for name, value in load_file(folder / "model.safetensors").items() if not name.startswith("mtp.")}
    golden = json.loads((folder / "golden.json").read_text())
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    pairs = [(prompt, ids[0]) for prompt, ids in zip(golden["prompts"], golden["greedy"])]
    for seed in range(1000):
        made = drafting_tensors(tensors, seed)
        drafter = Drafter(model, made)
        found = [drafter.draft(*pair) for pair in pairs]
        if min(margin for _, margin in found) > MARGIN:
            break
    else:
        sys.exit(f"{case}: no weights whose drafts are clear")
    save_file(tensors | made, folder / "model.safetensors", metadata={"format": "pt"})
    golden["draft"] = [ids[0] for ids, _ in found]
    golden["drafts"] = [ids for ids, _ in found]
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(case, "seed", seed, golden["drafts"])


if __name__ == "__main__":
    for one in sys.argv[1:] or CASES:
        make(one)
