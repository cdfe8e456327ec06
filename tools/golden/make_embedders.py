"""Writes tiny random embedders in the Hugging Face layout, with hidden rows from transformers.

Each case is a folder under tests/golden/embedders with config.json, the weights, and golden.json:
  prompts  token ids
  hidden   for each prompt the hidden rows of all its tokens, in float32
The weights come from numpy's generator, so they do not depend on the version of torch.
"""

import json
import shutil

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel

import reference

SEED = 20261125
LENGTHS = (1, 5, 33, 60)
CASES = {
    "bert-tiny": {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": 48,
        "intermediate_size": 80,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 64,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "position_embedding_type": "absolute",
        "type_vocab_size": 2,
        "vocab_size": 120,
        "torch_dtype": "float32",
    },
}


def random_weights(config, seed):
    """Weights wide enough that rows differ."""
    random = np.random.default_rng(seed)
    weights = {}
    for name, tensor in AutoModel.from_config(config).state_dict().items():
        values = random.standard_normal(tuple(tensor.shape))
        if "LayerNorm.weight" in name:
            values = 1 + 0.2 * values
        else:
            values = values * (0.5 if name.endswith(".bias") else 0.25)
        weights[name] = torch.tensor(values, dtype=torch.float32)
    return weights


@torch.no_grad()
def make_case(number, name, config):
    folder = reference.MODELS.parent / "embedders" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    parsed = AutoConfig.from_pretrained(folder)
    weights = random_weights(parsed, [SEED, number])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    random = np.random.default_rng([SEED, number, 1])
    golden = {"prompts": [], "hidden": []}
    for length in LENGTHS:
        prompt = random.integers(0, config["vocab_size"], length).tolist()
        rows = model(torch.tensor([prompt])).last_hidden_state[0].numpy()
        golden["prompts"].append(prompt)
        golden["hidden"].append([[float(str(value)) for value in row] for row in rows])
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


def main():
    torch.set_num_threads(1)
    for number, (name, config) in enumerate(CASES.items()):
        make_case(number, name, config)


if __name__ == "__main__":
    main()
