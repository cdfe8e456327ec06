"""A tokenizer for the tiny models of tests/golden that embed or rank, which have none."""

import string


def tokenizer():
    """WordPiece of single characters, with BERT's ids around one text and two."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *string.ascii_lowercase,
              *(f"##{letter}" for letter in string.ascii_lowercase)]
    ids = {token: number for number, token in enumerate(tokens)}
    return {
        "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i in range(4)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": ids},
    }
