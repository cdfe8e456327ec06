#!/usr/bin/env python3
"""Writes what the `tokenizers` library makes of pairs of texts: tests/golden/tokenizers/pairs.json.

A list of {tokenizer, pairs: [{first, second, ids, types}]}, and post_processor where that replaces
the one of the tokenizer's file: an object of tokenizer.json. Tokenizers are those that
make_tokenizers.py has written.
"""

import json
import pathlib

from tokenizers import Tokenizer

FOLDER = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "tokenizers"
TEXTS = [
    ("where do boats go?", "The little boat went out on the morning tide."),
    ("", "three fish"),
    ("tea", ""),
    (" spaces before", "and between  "),
    ("Grüße, l'été", "老渔夫每天早晨出海 😀"),
]


def text(which, kind=0):
    return {"Sequence": {"id": which, "type_id": kind}}


def token(name, kind=0):
    return {"SpecialToken": {"id": name, "type_id": kind}}


def template(pair, tokens):
    return {
        "type": "TemplateProcessing",
        "single": [text("A")],
        "pair": pair,
        "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in tokens.items()},
    }


ENDS = {"</s>": 2, "<unk>": 0}
# As XLM-RoBERTa has it, and types that change with a token between the texts.
TWICE = [token("<unk>"), text("A"), token("</s>"), token("</s>"), text("B"), token("</s>")]
EARLY = [text("A"), token("</s>"), token("<unk>", 1), text("B", 1), token("</s>", 1)]
ROBERTA = {
    "type": "RobertaProcessing",
    "sep": ["</s>", 2],
    "cls": ["<unk>", 0],
    "trim_offsets": True,
    "add_prefix_space": False,
}
CASES = [
    ("wordpiece", None),
    ("wordpiece-cased", None),
    ("llama2", None),
    ("gemma", None),
    ("unigram-nfkc", None),
    ("unigram-nfkc", template(TWICE, ENDS)),
    ("unigram-nfkc", template(EARLY, ENDS)),
    ("unigram-folded", ROBERTA),
]


def main():
    out = []
    for name, post_processor in CASES:
        file = json.loads((FOLDER / name / "tokenizer.json").read_text())
        case = {"tokenizer": name}
        if post_processor:
            case["post_processor"] = file["post_processor"] = post_processor
        tokenizer = Tokenizer.from_str(json.dumps(file))
        case["pairs"] = []
        for first, second in TEXTS:
            made = tokenizer.encode(first, second)
            case["pairs"].append(
                {"first": first, "second": second, "ids": made.ids, "types": made.type_ids}
            )
        out.append(case)
    (FOLDER / "pairs.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
