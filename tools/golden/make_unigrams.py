#!/usr/bin/env python3
"""Writes what SentencePiece makes of nasty strings with small Unigram models, as GGUF would carry them.

    make_unigrams.py TOKENIZER_FOLDER

Reads strings.json of the folder and writes unigrams.json: for each model its pieces with scores and
types, its compiled character map in base64, how it treats spaces, and the ids of each string. Needs
what make_tokenizers.py needs, whose sentences the models are trained on.
"""

import base64
import json
import pathlib
import sys

import sentencepiece

from make_tokenizers import train_sentencepiece

VARIANTS = [dict(remove_extra_whitespaces=True, add_dummy_prefix=True),
            dict(remove_extra_whitespaces=False, add_dummy_prefix=True),
            dict(remove_extra_whitespaces=False, add_dummy_prefix=False)]


def main():
    folder = pathlib.Path(sys.argv[1])
    strings = [base64.b64decode(s).decode(errors="replace") for s in json.loads((folder / "strings.json").read_text())]
    models = []
    for variant in VARIANTS:
        proto = train_sentencepiece(folder, **variant)
        processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
        models.append({
            **variant, "pieces": [[p.piece, p.score, p.type] for p in proto.pieces],
            "charsmap": base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode(),
            "ids": [processor.encode(text) for text in strings],
        })
    (folder / "unigrams.json").write_text(json.dumps(models, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(len(models), "models; sentencepiece", sentencepiece.__version__)


main()
