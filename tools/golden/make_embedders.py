"""Writes tiny random embedders in the Hugging Face layout, with what transformers makes of prompts.

    make_embedders.py [NAME...]

Makes all cases, or those named. Each is a folder under tests/golden/embedders with config.json, the
weights, what sentence-transformers has beside a model (modules.json and the folders that it names),
and golden.json:
  prompts    token ids
  hidden     for each prompt the hidden rows of all its tokens, in float32
  embedding  for each prompt what sentence-transformers' modules make of these rows
The weights come from numpy's generator, so they do not depend on the version of torch.
"""

import json
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from sentence_transformers import models
from transformers import AutoConfig, AutoModel

import reference

SEED = 20261125
LENGTHS = (1, 5, 33, 60)
PACKAGE = "sentence_transformers.models."

BERT = {
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
}
# As Qwen3-Embedding has it: the class says that there is a head, the names of tensors say that
# there is none.
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "eos_token_id": 7,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 48,
    "intermediate_size": 80,
    "max_position_embeddings": 128,
    "max_window_layers": 3,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 120,
    "torch_dtype": "float32",
}
NOMIC_BERT = {
    "architectures": ["NomicBertModel"],
    "model_type": "nomic_bert",
    "hidden_act": "silu",
    "hidden_size": 48,
    "intermediate_size": 80,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 64,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "rope_parameters": {"rope_theta": 1000.0, "rope_type": "default"},
    "type_vocab_size": 2,
    "vocab_size": 120,
    "torch_dtype": "float32",
}
# The same in the makers' own spelling, which transformers does not read, and with their names of
# tensors.
NOMIC_BERT_OF_MAKERS = {
    "architectures": ["NomicBertModel"],
    "model_type": "nomic_bert",
    "activation_function": "swiglu",
    "causal": False,
    "layer_norm_epsilon": 1e-12,
    "max_trained_positions": 2048,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "n_embd": 48,
    "n_head": 3,
    "n_inner": 80,
    "n_layer": 2,
    "n_positions": 8192,
    "parallel_block": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "type_vocab_size": 2,
    "use_rms_norm": False,
    "vocab_size": 120,
    "torch_dtype": "float32",
}
MODERN_BERT = {
    "architectures": ["ModernBertModel"],
    "model_type": "modernbert",
    "attention_bias": False,
    "bos_token_id": 1,
    "cls_token_id": 1,
    "eos_token_id": 2,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "hidden_activation": "gelu",
    "hidden_size": 48,
    "intermediate_size": 80,
    "local_attention": 16,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 64,
    "mlp_bias": False,
    "norm_bias": False,
    "norm_eps": 1e-5,
    "num_attention_heads": 3,
    "num_hidden_layers": 5,
    "pad_token_id": 0,
    "sep_token_id": 2,
    "vocab_size": 120,
    "torch_dtype": "float32",
}
GEMMA = {
    "architectures": ["Gemma3TextModel"],
    "model_type": "gemma3_text",
    "attention_bias": False,
    "attn_logit_softcapping": None,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "final_logit_softcapping": None,
    "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 48,
    "intermediate_size": 80,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "max_position_embeddings": 64,
    "num_attention_heads": 3,
    "num_hidden_layers": 3,
    "num_key_value_heads": 1,
    "pad_token_id": 0,
    "query_pre_attn_scalar": 24,
    "rms_norm_eps": 1e-6,
    "rope_local_base_freq": 1000.0,
    "rope_scaling": None,
    "rope_theta": 100000.0,
    "sliding_window": 16,
    "use_bidirectional_attention": True,
    "vocab_size": 120,
    "torch_dtype": "float32",
}
# Positions begin behind the padding's id.
XLM_ROBERTA = BERT | {
    "architectures": ["XLMRobertaModel"],
    "model_type": "xlm-roberta",
    "bos_token_id": 0,
    "eos_token_id": 2,
    "layer_norm_eps": 1e-5,
    "max_position_embeddings": 66,
    "pad_token_id": 1,
    "type_vocab_size": 1,
}


class Case:
    """A model, and the modules behind it."""

    def __init__(self, config, pooling=None, dense=(), usual=None):
        self.config = config
        self.usual = usual or config  # as transformers has it
        self.pooling = pooling  # None: the folder says nothing of it
        self.dense = dense  # sizes, with functions


# New cases go to the end: a case's place is in its seed.
CASES = {
    "bert-tiny": Case(BERT),
    "qwen3-embedding-tiny": Case(QWEN3, "lasttoken"),
    "nomic-bert-tiny": Case(NOMIC_BERT_OF_MAKERS, "mean", usual=NOMIC_BERT),
    "modern-bert-tiny": Case(MODERN_BERT, "cls"),
    "embedding-gemma-tiny": Case(
        GEMMA, "mean", [(96, torch.nn.Identity(), False), (32, torch.nn.Tanh(), True)]
    ),
    "xlm-roberta-tiny": Case(XLM_ROBERTA),
    "nomic-bert-usual-tiny": Case(NOMIC_BERT),
}


def random_values(name, shape, random):
    """Weights wide enough that rows differ."""
    values = random.standard_normal(tuple(shape))
    if "norm" in name.lower() and name.endswith("weight") or name == "emb_ln.weight":
        values = 1 + 0.2 * values
    else:
        values = values * (0.5 if name.endswith(".bias") else 0.25)
    return torch.tensor(values, dtype=torch.float32)


def random_weights(model, seed):
    random = np.random.default_rng(seed)
    return {name: random_values(name, t.shape, random) for name, t in model.state_dict().items()}


def nomic_names(weights):
    """The makers' names of the tensors that transformers' class has."""
    out = {}
    for name, values in weights.items():
        for usual, here in (
            ("layers.", "encoder.layers."),
            ("embeddings.LayerNorm", "emb_ln"),
            ("self_attn.o_proj", "attn.out_proj"),
            ("up_proj", "fc11"),
            ("gate_proj", "fc12"),
            ("down_proj", "fc2"),
            ("post_attention_layernorm", "norm1"),
            ("post_mlp_layernorm", "norm2"),
        ):
            name = name.replace(usual, here)
        out[name] = values
    for layer in range(NOMIC_BERT["num_hidden_layers"]):
        at = f"encoder.layers.{layer}."
        parts = [out.pop(f"{at}self_attn.{part}_proj.weight") for part in "qkv"]
        out[f"{at}attn.Wqkv.weight"] = torch.cat(parts)
    return out


def gemma_weights(weights):
    """Gemma's norms are stored less by one."""
    return {n: values - 1 if "norm" in n else values for n, values in weights.items()}


def modules_of(case, size, seed):
    """What stands behind the model."""
    random = np.random.default_rng(seed)
    found = [models.Pooling(size, pooling_mode=case.pooling or "mean")]
    for out, function, bias in case.dense:
        dense = models.Dense(size, out, bias=bias, activation_function=function)
        state = dense.state_dict()
        dense.load_state_dict({n: random_values(n, t.shape, random) for n, t in state.items()})
        found.append(dense)
        size = out
    return found + [models.Normalize()]


def write_modules(folder, found):
    listed = [{"idx": 0, "name": "0", "path": "", "type": PACKAGE + "Transformer"}]
    for number, module in enumerate(found, 1):
        kind = type(module).__name__
        place = f"{number}_{kind}"
        listed.append({"idx": number, "name": str(number), "path": place, "type": PACKAGE + kind})
        if kind == "Normalize":
            continue
        (folder / place).mkdir()
        module.save(str(folder / place))
    (folder / "modules.json").write_text(json.dumps(listed, indent=2) + "\n")


def as_numbers(rows):
    return [[float(str(value)) for value in row] for row in rows]


@torch.no_grad()
def make_case(number, name, case):
    folder = reference.MODELS.parent / "embedders" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = json.dumps(case.config, indent=2, sort_keys=True) + "\n"
    (folder / "config.json").write_text(text)
    usual = dict(case.usual)
    parsed = AutoConfig.for_model(usual.pop("model_type"), **usual)
    model = AutoModel.from_config(parsed, attn_implementation="eager", dtype=torch.float32).eval()
    weights = random_weights(model, [SEED, number])
    if parsed.model_type == "gemma3_text":
        weights = gemma_weights(weights)
    model.load_state_dict(weights)
    if case.usual is not case.config:
        weights = nomic_names(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    found = modules_of(case, parsed.hidden_size, [SEED, number, 2])
    if case.pooling:
        write_modules(folder, found)
    random = np.random.default_rng([SEED, number, 1])
    golden = {"prompts": [], "hidden": [], "embedding": []}
    for length in LENGTHS:
        # Ids of padding have no position in XLM-RoBERTa.
        least = 4 if parsed.model_type == "xlm-roberta" else 0
        prompt = random.integers(least, parsed.vocab_size, length).tolist()
        rows = model(torch.tensor([prompt])).last_hidden_state
        features = {"token_embeddings": rows, "attention_mask": torch.ones(1, length)}
        for module in found:
            features = module(features)
        golden["prompts"].append(prompt)
        golden["hidden"].append(as_numbers(rows[0].numpy()))
        golden["embedding"] += as_numbers(features["sentence_embedding"].numpy())
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


def main():
    torch.set_num_threads(1)
    for number, (name, case) in enumerate(CASES.items()):
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make_case(number, name, case)


if __name__ == "__main__":
    main()
