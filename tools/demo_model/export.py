"""Write the model folder (Hugging Face files and a Q8_0 GGUF) from a checkpoint of train.py."""

import argparse
import json
import os

import torch

import formats
import naming
import problems
import vocabulary
from llama import Shape

NAME = "demo-arith"


def config(shape):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocab,
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width,
        "hidden_act": "silu",
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.norm_epsilon,
        "rope_theta": shape.rope_base,
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": True,
        "bos_token_id": problems.BOS,
        "eos_token_id": problems.EOS,
        "pad_token_id": problems.PAD,
        "initializer_range": 0.02,
        "use_cache": True,
        "torch_dtype": "bfloat16",
    }


def generation_config():
    return {
        "bos_token_id": problems.BOS,
        "eos_token_id": problems.EOS,
        "pad_token_id": problems.PAD,
        "do_sample": False,
    }


def gguf_fields(shape):
    tokens = vocabulary.tokens(shape.vocab)
    u32, f32, string = formats.U32, formats.F32, formats.STRING
    return {
        "general.architecture": (string, "llama"),
        "general.type": (string, "model"),
        "general.name": (string, NAME),
        "general.license": (string, "apache-2.0"),
        "general.file_type": (u32, 7),  # mostly Q8_0
        "general.quantization_version": (u32, 2),
        "general.alignment": (u32, formats.ALIGNMENT),
        "llama.vocab_size": (u32, shape.vocab),
        "llama.context_length": (u32, shape.context),
        "llama.embedding_length": (u32, shape.width),
        "llama.block_count": (u32, shape.layers),
        "llama.feed_forward_length": (u32, shape.inner),
        "llama.attention.head_count": (u32, shape.heads),
        "llama.attention.head_count_kv": (u32, shape.kv_heads),
        "llama.attention.key_length": (u32, shape.head_width),
        "llama.attention.value_length": (u32, shape.head_width),
        "llama.attention.layer_norm_rms_epsilon": (f32, shape.norm_epsilon),
        "llama.rope.dimension_count": (u32, shape.head_width),
        "llama.rope.freq_base": (f32, shape.rope_base),
        "tokenizer.ggml.model": (string, "gpt2"),
        "tokenizer.ggml.pre": (string, "default"),
        "tokenizer.ggml.tokens": ((formats.ARRAY, string), [text for text, _ in tokens]),
        "tokenizer.ggml.token_type": ((formats.ARRAY, formats.I32), [kind for _, kind in tokens]),
        "tokenizer.ggml.merges": ((formats.ARRAY, string), []),
        "tokenizer.ggml.bos_token_id": (u32, problems.BOS),
        "tokenizer.ggml.eos_token_id": (u32, problems.EOS),
        "tokenizer.ggml.padding_token_id": (u32, problems.PAD),
        "tokenizer.ggml.add_bos_token": (formats.BOOL, True),
        "tokenizer.ggml.add_eos_token": (formats.BOOL, False),
        "tokenizer.chat_template": (string, vocabulary.CHAT_TEMPLATE),
    }


def write_json(folder, name, contents):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(contents, file, indent=2, ensure_ascii=False)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("folder", help="the model folder to write into")
    arguments = parser.parse_args()
    shape = Shape()
    state = torch.load(arguments.checkpoint, weights_only=True)
    # Both files hold the same numbers: Q8_0 is made from the values that BF16 can hold.
    tensors = {name: formats.from_bf16(formats.to_bf16(values.numpy()))
               for name, values in state.items()}

    folder = arguments.folder
    os.makedirs(folder, exist_ok=True)
    write_json(folder, "config.json", config(shape))
    write_json(folder, "generation_config.json", generation_config())
    write_json(folder, "tokenizer.json", vocabulary.tokenizer_json(shape.vocab))
    write_json(folder, "tokenizer_config.json", vocabulary.tokenizer_config())
    formats.write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    formats.write_gguf(os.path.join(folder, f"{NAME}-Q8_0.gguf"), gguf_fields(shape),
                       naming.to_gguf(tensors, shape))


if __name__ == "__main__":
    main()
