"""Write a model folder (Hugging Face files and a Q8_0 GGUF) from a checkpoint of train.py."""

import argparse
import json
import os

import torch

import formats
import models
import problems
import vocabulary


def generation_config():
    return {
        **models.TOKENS,
        "do_sample": False,
    }


def gguf_fields(name, kind, shape):
    tokens = vocabulary.tokens(shape.vocab)
    u32, string = formats.U32, formats.STRING
    return {
        "general.architecture": (string, kind.gguf_architecture),
        "general.type": (string, "model"),
        "general.name": (string, name),
        "general.license": (string, "apache-2.0"),
        "general.file_type": (u32, 7),  # mostly Q8_0
        "general.quantization_version": (u32, 2),
        "general.alignment": (u32, formats.ALIGNMENT),
        **{f"{kind.gguf_architecture}.{key}": field
           for key, field in kind.gguf_fields(shape).items()},
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


def with_draft_copies(tensors, layers):
    """The drafting layer's own copies of the embedding and the head, as published files have."""
    layer = f"model.layers.{layers}."
    return {
        **tensors,
        layer + "embed_tokens.weight": tensors["model.embed_tokens.weight"],
        layer + "shared_head.head.weight": tensors["lm_head.weight"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo-arith", choices=models.MODELS)
    parser.add_argument("checkpoint")
    parser.add_argument("folder", help="the model folder to write into")
    arguments = parser.parse_args()
    name, kind = arguments.model, models.MODELS[arguments.model]
    shape = kind.shape()
    state = torch.load(arguments.checkpoint, weights_only=True)
    # All files hold the same numbers: Q8_0 is made from the values that BF16 can hold.
    tensors = {tensor: formats.from_bf16(formats.to_bf16(values.numpy()))
               for tensor, values in state.items()}
    if kind.model.drafts:
        tensors = with_draft_copies(tensors, shape.layers)

    folder = arguments.folder
    os.makedirs(folder, exist_ok=True)
    write_json(folder, "config.json", kind.config(shape))
    write_json(folder, "generation_config.json", generation_config())
    write_json(folder, "tokenizer.json", vocabulary.tokenizer_json(shape.vocab))
    write_json(folder, "tokenizer_config.json", vocabulary.tokenizer_config())
    formats.write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    formats.write_gguf(os.path.join(folder, f"{name}-Q8_0.gguf"), gguf_fields(name, kind, shape),
                       kind.naming.to_gguf(tensors, shape))


if __name__ == "__main__":
    main()
