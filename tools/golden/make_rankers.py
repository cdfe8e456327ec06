"""Writes tiny random cross-encoders in the Hugging Face layout, with the scores that transformers gives.

    make_rankers.py [NAME...]

Makes all cases, or those named. Each is a folder under tests/golden/rankers with config.json, the
weights and golden.json:
  prompts  token ids of a query and a document behind each other
  second   for each prompt the token with which the document begins, 0 where the model has one type
  scores   in float32, through the function that sentence-transformers' CrossEncoder takes
"""

import json
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForSequenceClassification

import reference
from make_embedders import BERT, LENGTHS, MODERN_BERT, SEED, XLM_ROBERTA, random_weights

ONE_LABEL = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
IDENTITY = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}

# New cases go to the end: a case's place is in its seed.
CASES = {
    "bert-tiny": BERT | ONE_LABEL | {"architectures": ["BertForSequenceClassification"]},
    "bert-number-tiny": BERT
    | ONE_LABEL
    | IDENTITY
    | {"architectures": ["BertForSequenceClassification"]},
    "xlm-roberta-tiny": XLM_ROBERTA
    | ONE_LABEL
    | {"architectures": ["XLMRobertaForSequenceClassification"]},
    "modern-bert-tiny": MODERN_BERT
    | ONE_LABEL
    | {"architectures": ["ModernBertForSequenceClassification"], "classifier_pooling": "mean"},
}


@torch.no_grad()
def make_case(number, name, config):
    folder = reference.MODELS.parent / "rankers" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    parsed = AutoConfig.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_config(
        parsed, attn_implementation="eager", dtype=torch.float32
    ).eval()
    weights = random_weights(model, [SEED, 100 + number])
    model.load_state_dict(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    function = torch.nn.Identity() if "sentence_transformers" in config else torch.nn.Sigmoid()
    random = np.random.default_rng([SEED, 100 + number, 1])
    golden = {"prompts": [], "second": [], "scores": []}
    for length in LENGTHS[1:]:
        # Ids of padding have no position in XLM-RoBERTa.
        prompt = random.integers(4, parsed.vocab_size, length).tolist()
        inputs = {"input_ids": torch.tensor([prompt])}
        second = length // 3 if config.get("type_vocab_size", 1) > 1 else 0
        if second:
            types = [0] * second + [1] * (length - second)
            inputs["token_type_ids"] = torch.tensor([types])
        score = function(model(**inputs).logits)[0, 0].numpy()
        golden["prompts"].append(prompt)
        golden["second"].append(second)
        golden["scores"].append(float(str(score)))
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


def main():
    torch.set_num_threads(1)
    for number, (name, config) in enumerate(CASES.items()):
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make_case(number, name, config)


if __name__ == "__main__":
    main()
