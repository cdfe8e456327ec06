"""Writes models of tests/golden/models as GGUF files, by llama.cpp's own converter.

usage: make_ggufs.py LLAMA_CPP FOLDER [NAME...]

LLAMA_CPP is the source of llama.cpp (the source package of llama-cpp-python has it), FOLDER where
the files go. They have float32 weights and no tokenizer. DeepSeek-V4's layer that drafts is in a file
of its own, mtp-NAME.gguf, which is found beside NAME.gguf. Then the tests of the goldens read them in
place of the folders:

    DOVETAIL_GOLDEN_GGUFS=FOLDER build/release/tests/model/dovetail_model_test --gtest_filter='*Golden*'
"""

import copy
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch

import reference

LLAMA_CPP, FOLDER = (pathlib.Path(argument) for argument in sys.argv[1:3])
sys.path[:0] = [str(LLAMA_CPP / "gguf-py"), str(LLAMA_CPP)]

import conversion  # noqa: E402
import gguf  # noqa: E402
from conversion.base import ModelBase  # noqa: E402

LOAD_HPARAMS = staticmethod(ModelBase.load_hparams)


def no_tokenizer(model):
    model.gguf_writer.add_tokenizer_model("none")
    text = model.hparams.get("text_config", model.hparams)
    model.gguf_writer.add_vocab_size(text["vocab_size"])


def plain_experts(model, layer, part, key):
    """DeepSeek-V4's converter packs experts of FP4 itself, and knows no others."""
    count = model.hparams["n_routed_experts"]
    names = [f"layers.{layer}.ffn.experts.{expert}.{part}.weight" for expert in range(count)]
    all_of_them = np.stack([model.model_tensors[name]().float().numpy() for name in names])
    model.gguf_writer.add_tensor(model.format_tensor_name(key, layer), all_of_them)
    return names


def classes_of(base):
    yield base
    for child in base.__subclasses__():
        yield from classes_of(child)


# Classes that converters know by the model with pictures that they are the text of.
WRAPPED = {
    "Mistral4ForCausalLM": "Mistral3ForConditionalGeneration",
}


def in_own_file(name):
    """Whether the converter writes the layer that drafts by itself."""
    config = json.loads((reference.MODELS / name / "config.json").read_text())
    return config["model_type"] == "deepseek_v4"


def convert(name, only_drafts=False):
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place) / name
        shutil.copytree(reference.MODELS / name, folder)
        config = json.loads((folder / "config.json").read_text())
        drafts = "draft" in json.loads((folder / "golden.json").read_text())
        # Gemma's converter counts the words of a tokenizer.
        words = {str(i): i for i in range(config.get("text_config", config)["vocab_size"])}
        tokenizer = {"model": {"type": "BPE", "vocab": words, "merges": []}, "added_tokens": []}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        # transformers 5 completes any Nemotron-H by experts, which is how converters tell them apart.
        ModelBase.load_hparams = LOAD_HPARAMS
        if config["model_type"] == "nemotron_h":
            ModelBase.load_hparams = staticmethod(lambda *_, **__: copy.deepcopy(config))
        architecture = config["architectures"][0]
        kind = conversion.get_model_class(WRAPPED.get(architecture, architecture))
        for each in classes_of(ModelBase):
            if "set_vocab" in each.__dict__:
                each.set_vocab = no_tokenizer
            if "expert_dtype" not in config and "_write_mxfp4_expert_tensor" in each.__dict__:
                each._write_mxfp4_expert_tensor = plain_experts
            if hasattr(each, "no_mtp"):
                each.no_mtp, each.mtp_only = not drafts, only_drafts
        file = FOLDER / (f"mtp-{name}.gguf" if only_drafts else f"{name}.gguf")
        with torch.inference_mode():
            kind(folder, gguf.LlamaFileType.ALL_F32, file, eager=True).write()


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    names = sys.argv[3:] or sorted(path.name for path in reference.MODELS.iterdir())
    for name in names:
        try:
            convert(name)
            if in_own_file(name):
                convert(name, only_drafts=True)
            print(f"{name}: converted", flush=True)
        except Exception as error:  # what the converter does not take
            (FOLDER / f"{name}.gguf").unlink(missing_ok=True)
            print(f"{name}: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
