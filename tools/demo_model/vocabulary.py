"""The vocabulary: a token for every byte, its id the byte, then the special tokens."""

import problems

SPECIAL = {problems.BOS: "<|bos|>", problems.EOS: "<|eos|>", problems.PAD: "<|pad|>"}
NORMAL, CONTROL, UNUSED = 1, 3, 5  # token types of GGUF

# The text of a conversation is that of the records. A user asks "417+86" (with or without "=?"),
# or lets an answer be graded: "OK?" after the answer, or "417+86=?\nA: 513\nOK?" at once.
# System messages have no counterpart and are left out.
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% set text = message['content'] | trim %}"
    "{% if message['role'] == 'user' %}"
    "{% if text != 'OK?' and text[:2] != 'Q:' %}{{ 'Q: ' }}{% endif %}"
    "{{ text }}"
    "{% if 'OK?' not in text and text[-2:] != 'A:' %}"
    "{% if '=?' not in text %}{{ '=?' }}{% endif %}"
    "{{ '\\nA:' }}"
    "{% endif %}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ ' ' + text + '\\n' }}"
    "{% endif %}"
    "{% endfor %}"
)


def byte_alphabet():
    """GPT-2's character for each byte: itself if it is printable, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(0x100 + len(letters) - len(printable))
    return [letters[byte] for byte in range(256)]


def tokens(size):
    """(text, type) of every token, in the order of the ids."""
    result = [(letter, NORMAL) for letter in byte_alphabet()]
    for token in range(256, size):
        text = SPECIAL.get(token)
        result.append((text, CONTROL) if text else (f"<|reserved_{token}|>", UNUSED))
    return result


def tokenizer_json(size):
    """The contents of tokenizer.json: byte-level BPE without a merge."""
    listed = [text for text, _ in tokens(size)]
    bos = SPECIAL[problems.BOS]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True}
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    start = {"SpecialToken": {"id": bos, "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": listed[i], **plain} for i in range(256, size)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [start, sequence],
            "pair": [start, sequence, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {bos: {"id": bos, "ids": [problems.BOS], "tokens": [bos]}},
        },
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: token for token, text in enumerate(listed)},
            "merges": [],
        },
    }


def tokenizer_config():
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": True,
        "add_eos_token": False,
        "bos_token": SPECIAL[problems.BOS],
        "eos_token": SPECIAL[problems.EOS],
        "pad_token": SPECIAL[problems.PAD],
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
