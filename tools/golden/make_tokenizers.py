#!/usr/bin/env python3
"""Trains small tokenizers and writes what the `tokenizers` library makes of nasty strings.

    make_tokenizers.py OUTPUT_FOLDER [NAME...]

Makes all tokenizers, or those named. Writes strings.json (byte strings as base64) and, for each tokenizer, NAME/tokenizer.json and
NAME/cases.json. Byte strings that are no UTF-8 are decoded with errors="replace" first. Needs the
packages tokenizers, sentencepiece and protobuf; everything else, the corpus too, is made here. The
trainers break ties by chance: another run gives other tokenizers, and the cases that fit them.
"""

import base64
import io
import json
import pathlib
import random
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

SPLIT_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + SPLIT_TAIL
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + SPLIT_TAIL
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SEED_CODER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
DEEPSEEK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_LETTERS = (
    r"\s?(?:(?![\u0560-\u0588\u10c7\u10cd\u10d0-\u10ff\u1c80-\u1c88\u2d00-\u2d2d\ua790-\ua7fa\uab30-\uab68"
    r"\x{10570}-\x{105bc}\x{16e40}-\x{16e7f}\x{1d400}-\x{1d7ff}\x{1df00}-\x{1dfff}])[\p{Lu}\p{Ll}\p{Lt}])+"
)
DEEPSEEK_LLM = [r"[\r\n]", DEEPSEEK_LETTERS, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-\ud7ff]+"]
DEEPSEEK_CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+"]

SENTENCES = """The little boat went out on the morning tide and came back with three fish.
She'd said they're going, but he won't; I'll ask whether we've time, since it's late.
A kettle sings before it boils, and the whole kitchen knows that tea is near.
In 1987 there were 12,345 people; by 2024 there were 1,234,567.
def add(left, right):\n    return left + right\n
for (int i = 0; i < 100; ++i) { total += values[i] * 0.5; }
Der alte Müller grüßt täglich die Bäckerin, weil ihre Brötchen so gut schmecken.
Le garçon a mangé des crêpes près de l'église où l'été était déjà fini.
El niño pequeño soñó que volaba sobre montañas y ríos.
Старый рыбак каждое утро выходит к морю и слушает волны.
Ο γέρος ψαράς βγαίνει κάθε πρωί στη θάλασσα και ακούει τα κύματα.
الصياد العجوز يخرج كل صباح إلى البحر ويسمع الأمواج.
הדייג הזקן יוצא כל בוקר אל הים ושומע את הגלים.
बूढ़ा मछुआरा हर सुबह समुद्र पर जाता है और लहरें सुनता है।
老渔夫每天早晨出海,听海浪的声音。小船回来了。
年老いた漁師は毎朝海に出て、波の音を聞く。カタカナも少し。
늙은 어부는 매일 아침 바다에 나가 파도 소리를 듣는다.
ชาวประมงเฒ่าออกทะเลทุกเช้าและฟังเสียงคลื่น
Người đánh cá già ra biển mỗi sáng và lắng nghe tiếng sóng.
Emoji: 😀 😂 👍 🎉 ❤️ and again 😀 😀 👍🏽.
""".split("\n")


def corpus():
    """Sentences and generated lines, about 60 KB."""
    rng = random.Random(7)
    words = [w for line in SENTENCES for w in line.split()]
    lines = list(SENTENCES) * 4
    for _ in range(600):
        lines.append(" ".join(rng.choice(words) for _ in range(rng.randint(3, 14))))
    for _ in range(60):
        lines.append(" " * rng.randint(2, 8) + "x" * rng.randint(1, 5) + "\n\n")
        lines.append(str(rng.randint(0, 10**9)))
    return lines


def nasty_strings():
    """200 byte strings that tokenizers get wrong."""
    texts = [
        "", " ", "  ", "   ", "\n", "\r\n", "\n\n\n", "\t", " \t \n ", "a", " a", "a ", "  a  ",
        "Hello, world!", "Hello  world", "Hello   world   ", "\n hello\n\n  there \r\n x",
        "I'm you're he'll we've it's they'd don't", "I'M YOU'RE HE'LL WE'VE IT'S THEY'D DON'T",
        "'S 'T 'RE 'VE 'M 'LL 'D 'x '", "'\u017f and '\u212a", "rock'n'roll", "''''s", "don\u2019t",
        "0", "12", "123", "1234", "12345", "1234567890", "3.14159", "1,000,000", "x1y22z333",
        "½ ¼ Ⅷ ² ٣٤٥ १२३ 〇一二", "①②③ ⑩", "0x1F 1e-9 -5 +7", "2024-02-29T23:59:60Z",
        "老渔夫", "老渔夫每天早晨出海", "漢字とカタカナとひらがな", "海の boat 海", "한국어 문장", "ㅎㅏㄴ",
        "\u1112\u1161\u11ab", "ｆｕｌｌ　ｗｉｄｔｈ", "ﬁ ﬂ ﬃ ﬅ", "Ǆ ǅ ǆ", "ß ẞ SS", "İ ı I i",
        "Ελληνικά Σίσυφος ΣΑΣ", "Кириллица ёлка Ё", "עברית שָׁלוֹם", "العربية مَرْحَبًا", "ܣܘܪܝܝܐ",
        "हिन्दी क्षत्रिय", "বাংলা", "தமிழ்", "తెలుగు", "ಕನ್ನಡ", "മലയാളം", "සිංහල", "ภาษาไทยน้ำ", "ລາວ",
        "བོད་སྐད", "မြန်မာ", "ქართული ᲐᲑᲒ", "Հայերեն", "አማርኛ", "ខ្មែរ", "ᠮᠣᠩᠭᠣᠯ", "ᏣᎳᎩ ꭰꭱ", "ᐃᓄᒃᑎᑐᑦ",
        "Tiếng Việt ạ ế ữ", "e\u0301 \u00e9 E\u0301", "a\u0323\u0302 \u1ead a\u0302\u0323", "\u0301 lone mark",
        "Z\u0351\u0329\u0318a\u0315\u0316\u0317l\u0334\u0335g\u0336\u0337o\u0338", "\u0345\u0300\u0323\u0315",
        "\u2126 \u212b \u00c5 A\u030a", "\u1e9b\u0323", "\ufb2c \u05e9\u05bc\u05c1", "\u0958 \u0915\u093c",
        "\u2000\u2001 \u3000 \u00a0x\u00a0", "\u200b\u200c\u200d\u2060\ufeff", "a\u200db", "\u180e x\u180ey",
        "\u0085x\u0085", "\u2028\u2029 x", "a\u00adb", "\x00", "a\x00b", "\x01\x02\x1f\x7f", "\x1c\x1d\x1e\x1fx",
        "\x0b\x0c x", "😀", "😀😀😀", "👍🏽", "👨‍👩‍👧‍👦", "👩🏿‍🚀 in space", "🏳️‍🌈", "🏴‍☠️", "🇩🇪🇫🇷🇯", "❤️ ❤", "☺︎",
        "1️⃣ #️⃣", "🧑🏻‍❤️‍💋‍🧑🏿", "𝒳𝓎 𝔄𝔅", "𐐀𐐨 𐒰", "\U0001f1e6", "\U000e0067\U000e007f", "\uffff \ufffe",
        "\U0010ffff", "\ue000 \uf8ff", "\ufffd", "\ufffd\ufffd x",
        "<s>", "</s>", "<unk>", "<s>Hello</s>", " <s> Hello </s> ", "a<s>b</s>c", "<|im_start|>user\nHi<|im_end|>\n",
        "<|im_start|><|im_end|>", "<|im_start|", "<|im_start|>|>", "<|endoftext|>", "x<|endoftext|>y", "<<s>>",
        "<|eot_id|> \n<|eot_id|>", "<S> </S>", "[MASK]", "the [MASK] is", "the [MASK]  is", "[MASK][MASK]",
        "word", "swordfish", "a word here", "word.", "words", "(word)", "wordword word_", "ＷＯＲＤ word",
        "trim", "  trim  ", "a  trim  b", "atrimb", "trim trim", "TRIM", "lefty x", "x   lefty", "\u3000lefty",
        "righty   x", "righty\n\n", "righty lefty righty", "  lefty  righty  ", "Caf\u00e9 token", "Cafe\u0301 token",
        "caf\u00e9", "<0x41>", "<0x0A><0xE4>", "<0xZZ>", "▁", "▁▁", " ▁ ", "▁Hello▁world", "a▁b", "Ġhello", "Ċ", "Ã©",
        "a" * 300, " " * 100, "\n" * 50, "ab" * 100, "=" * 120, "-" * 33 + "|" + "_" * 7, "a b " * 40,
        "        return x", "\t\tif (x) {\n\t\t\ty();\n\t\t}\n", "if x:\n    y = 1\n\n\n    z = 2",
        "https://example.org/a/b?c=d&e=%20f#g", "user@example.org", "C:\\path\\to\\file.txt", "$100 €200 ¥300 £4.50",
        "a/b\\c|d", "!!! ??? ... …", "“quoted” ‘x’ «y»", "#include <vector>", "<div class=\"x\">y</div>",
        "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋ ≠ ∞", "x² + y³ = √z", "™ ® © ℃", "camelCaseWord HTTPServer XMLHttpRequest iOS",
        "snake_case_word SCREAMING_CASE", "aÀbÁcÂ", "ÀÉÎ", "ŉ ŋ ſ", "ǰ ΐ ΰ",
        "The little boat went out on the morning tide and came back with three fish.",
        "1234567 老渔夫 123 カタカナ!!\n\n  ok", "mixed русский English 中文 العربية 123 😀\n",
        "trailing space ", "trailing newline\n", " leading", "\n\nleading newlines", "a\r\rb\r\n\r\nc",
    ]
    strings = [text.encode() for text in texts]
    strings += [
        b"\xff", b"\xc3", b"\xe4\xb8", b"\xf0\x9f\x98", b"a\xf0\x9f\x98b", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
        b"\x80\x81\x82", b"ok \xe4\xb8\xadx\xe4\xb8 y", b"\xf0\x28\x8c\xbc", b"\xfe\xfe\xff\xff", b"\xe0\x80\x80",
        b"\xc3\xa9\xc3 \xa9", b"<s>\xff</s>", b" \xe2\x96",
    ]
    rng = random.Random(11)
    pools = ["abcXYZ'", " \t\n\r\u00a0\u3000", "0123456789٣", "老海の한", "😀👍🏽\u200d\ufe0f", "éüßñ\u0301\u0323", ".,!?-_/<>|", "шжя", "नम्"]
    while len(strings) < 260:
        strings.append("".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(1, 30))).encode())
    return strings


def specials():
    return [AddedToken(t, special=True, normalized=False) for t in ["<unk>", "<s>", "</s>"]]


def odd_added_tokens():
    return [
        AddedToken("word", single_word=True, normalized=False),
        AddedToken("lefty", lstrip=True, normalized=False),
        AddedToken("righty", rstrip=True, normalized=True),
        AddedToken("trim", lstrip=True, rstrip=True, normalized=False),
        AddedToken("Caf\u00e9", normalized=True),
        AddedToken("<|im_start|>user", normalized=False),
    ]


def chat_specials():
    return [AddedToken(t, special=True, normalized=False)
            for t in ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>"]
            ] + [AddedToken("[MASK]", special=True, lstrip=True, normalized=False)]


def train_byte_level(pre, vocab=900, normalizer=None, **model):
    tok = Tokenizer(models.BPE(**model))
    tok.pre_tokenizer = pre
    if normalizer:
        tok.normalizer = normalizer
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=vocab, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.decoder = decoders.ByteLevel()
    return tok


def split(pattern, behavior="isolated"):
    return pre_tokenizers.Split(Regex(pattern), behavior)


def byte_level(use_regex=False, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def gpt2():
    tok = train_byte_level(byte_level(True))
    tok.add_special_tokens(chat_specials())
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


def gpt2_prefix():
    tok = train_byte_level(byte_level(True, True), 500)
    tok.add_special_tokens(specials())
    tok.add_tokens(odd_added_tokens())
    tok.post_processor = processors.RobertaProcessing(("</s>", tok.token_to_id("</s>")), ("<s>", tok.token_to_id("<s>")))
    return tok


def llama3():
    tok = train_byte_level(pre_tokenizers.Sequence([split(LLAMA3), byte_level()]), 1100)
    data = json.loads(tok.to_str())
    data["model"]["ignore_merges"] = True
    # Tokens that no merge reaches: only ignore_merges finds them.
    for text in ["Ġfish.", "Ġkettle", "Hello"]:
        data["model"]["vocab"].setdefault(text, len(data["model"]["vocab"]))
    tok = Tokenizer.from_str(json.dumps(data))
    tok.add_special_tokens(chat_specials() + [AddedToken("<|begin_of_text|>", special=True, normalized=False)])
    bos = tok.token_to_id("<|begin_of_text|>")
    tok.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                                      special_tokens=[("<|begin_of_text|>", bos)])])
    return tok


def qwen2():
    tok = train_byte_level(pre_tokenizers.Sequence([split(QWEN2), byte_level()]), 1000, normalizers.NFC())
    tok.add_special_tokens(chat_specials())
    tok.add_tokens(odd_added_tokens())
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


def deepseek():
    tok = train_byte_level(pre_tokenizers.Sequence([
        split(r"\p{N}{1,3}"), split(DEEPSEEK_CJK), split(DEEPSEEK), byte_level()]), 1000)
    tok.add_special_tokens([AddedToken("<｜begin▁of▁sentence｜>", special=True, normalized=False),
                            AddedToken("<｜end▁of▁sentence｜>", special=True, normalized=False)] + chat_specials())
    tok.add_tokens([AddedToken("<｜User｜>", normalized=False)])
    bos = "<｜begin▁of▁sentence｜>"
    tok.post_processor = processors.TemplateProcessing(single=[bos, "$A"], pair=[bos, "$A", bos, "$B:1"],
                                                       special_tokens=[(bos, tok.token_to_id(bos))])
    return tok


def deepseek_coder():
    pieces = [split(p) for p in DEEPSEEK_CODER] + [pre_tokenizers.Digits(individual_digits=True), byte_level()]
    tok = train_byte_level(pre_tokenizers.Sequence(pieces), 700)
    tok.add_special_tokens(chat_specials())
    return tok


def deepseek_llm():
    pieces = [split(p) for p in DEEPSEEK_LLM] + [pre_tokenizers.Digits(individual_digits=False), byte_level()]
    tok = train_byte_level(pre_tokenizers.Sequence(pieces), 700)
    tok.add_special_tokens(chat_specials())
    return tok


def tekken():
    return train_byte_level(pre_tokenizers.Sequence([split(TEKKEN), byte_level()]), 700)


def starcoder():
    return train_byte_level(pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), byte_level(True)]), 600)


def byte_tokens():
    return [f"<0x{byte:02X}>" for byte in range(256)]


def llama2(metaspace):
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=metaspace, split=metaspace == "always")
    else:
        tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=800, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"] + byte_tokens(), max_token_length=16,
        limit_alphabet=120))
    data = json.loads(tok.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if t["id"] < 3]
    tok = Tokenizer.from_str(json.dumps(data))
    if metaspace == "first":
        tok.add_tokens(odd_added_tokens())
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    if metaspace == "always":
        tok.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(), decoders.Fuse()])
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>" if metaspace else "<s> $A", pair="<s> $A <s> $B:1",
        special_tokens=[("<s>", 1), ("</s>", 2)])
    return tok


def unigram(variant):
    tok = Tokenizer(models.Unigram())
    steps = {"nfkc": [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")],
             "folded": [normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents(),
                        normalizers.Strip(left=False, right=True)]}[variant]
    tok.normalizer = normalizers.Sequence(steps)
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    if variant == "folded":
        tok.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Metaspace()])
    tok.train_from_iterator(corpus(), trainers.UnigramTrainer(
        vocab_size=700, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>"))
    if variant == "nfkc":
        data = json.loads(tok.to_str())
        data["model"]["byte_fallback"] = True
        lowest = min(score for _, score in data["model"]["vocab"])
        data["model"]["vocab"] += [[token, lowest - 1] for token in byte_tokens()]
        tok = Tokenizer.from_str(json.dumps(data))
        tok.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    else:
        tok.decoder = decoders.Metaspace()
        tok.add_tokens(odd_added_tokens())
    tok.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)])
    return tok


def train_sentencepiece(folder, **options):
    """A Unigram model as SentencePiece trains it, with a map of our own rules."""
    rules = [("ﬁ", "fi"), ("ﬂ", "fl"), ("é", "e"), ("e\u0301", "e!"), ("Σ", "s"), ("\u3000", " "), ("①", "(1)"), ("½", "1/2"),
             ("\u200b", ""), ("老", "old"), ("क", "ka"), ("👍", "+1"), ("👍🏽", "+1!"), ("Ａ", "A"), ("ｆ", "f"), ("\t", " "), ("\n", " ")]
    table = folder / "rules.tsv"
    table.write_text("".join("{}\t{}\n".format(" ".join(f"{ord(c):X}" for c in a), " ".join(f"{ord(c):X}" for c in b))
                             for a, b in rules))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for line in corpus() if line.strip()), model_writer=model, vocab_size=500, model_type="unigram",
        normalization_rule_tsv=str(table), character_coverage=0.98, num_threads=1, minloglevel=2, unk_id=0, bos_id=1, eos_id=2,
        **options)
    table.unlink()
    return sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())


def charsmap():
    """Pieces and character map as SentencePiece made them."""
    proto = train_sentencepiece(pathlib.Path(sys.argv[1]))
    tok = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=0))
    data = json.loads(tok.to_str())
    data["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled",
         "precompiled_charsmap": base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]}
    tok = Tokenizer.from_str(json.dumps(data))
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tok.decoder = decoders.Metaspace(prepend_scheme="first")
    tok.add_special_tokens(specials())
    return tok


def words():
    """Pre-tokenizers and decoders that the others leave out; BPE with affixes and unknown tokens."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    tok.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFKD(), normalizers.Replace(Regex(r"\d"), "0")])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits()])
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=500, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"], limit_alphabet=60, min_frequency=3,
        continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    # The library panics where Strip takes one character from both ends, or from an empty token.
    tok.decoder = decoders.Sequence([decoders.Strip("e", 0, 1), decoders.Strip("0", 2, 0), decoders.Replace("##", ""),
                                     decoders.Replace(Regex("</w>$"), " ")])
    return tok


def bert_split():
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.BertPreTokenizer(), pre_tokenizers.CharDelimiterSplit("x"),
        pre_tokenizers.Split(Regex("[aeiou]+"), "merged_with_next"), pre_tokenizers.Split("th", "contiguous"),
        pre_tokenizers.Split(Regex(r"\w"), "removed", invert=True)])
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=300, show_progress=False, special_tokens=["<unk>", "<s>"], limit_alphabet=80))
    return tok


def qwen35():
    return train_byte_level(pre_tokenizers.Sequence([split(QWEN35), byte_level()]), 600)


def gpt4o():
    return train_byte_level(pre_tokenizers.Sequence([split(GPT4O), byte_level()]), 600)


def seed_coder():
    return train_byte_level(pre_tokenizers.Sequence([split(SEED_CODER), byte_level()]), 600)


def falcon():
    return train_byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), byte_level(True), split("[0-9][0-9][0-9]")]), 600)


def command_r():
    return train_byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), byte_level(True)]), 600, normalizers.NFC())


def gemma():
    """BPE over text with marks for spaces and bytes for what is no token; nothing is split."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Replace(" ", "▁")
    # No token holds a line's end and something else.
    tok.pre_tokenizer = split(r"\n+")
    names = ["<pad>", "<eos>", "<bos>", "<unk>"]
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=900, show_progress=False, special_tokens=names + byte_tokens(), max_token_length=16, limit_alphabet=150))
    data = json.loads(tok.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] in names]
    data["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    tok = Tokenizer.from_str(json.dumps(data))
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ["<|turn>", "<turn|>"]])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tok.post_processor = processors.TemplateProcessing(single="<bos> $A", pair="<bos> $A <bos> $B:1", special_tokens=[("<bos>", 2)])
    return tok


def train_wordpiece(normalizer, decoder, vocab, **model):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]", **model))
    tok.normalizer = normalizer
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoder
    tok.train_from_iterator(corpus(), trainers.WordPieceTrainer(
        vocab_size=vocab, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        limit_alphabet=160))
    if "max_input_chars_per_word" in model:  # the trainer makes a new model
        data = json.loads(tok.to_str())
        data["model"]["max_input_chars_per_word"] = model["max_input_chars_per_word"]
        tok = Tokenizer.from_str(json.dumps(data))
    return tok


def wordpiece():
    tok = train_wordpiece(normalizers.BertNormalizer(), decoders.WordPiece(), 900)
    # What the decoder's cleanup takes apart.
    tok.add_tokens([AddedToken(t, normalized=False) for t in ["n't", "'s", "'m", "'ve", "'re", "do not", "' era", "a ' b"]])
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tok


def wordpiece_cased():
    tok = train_wordpiece(normalizers.BertNormalizer(handle_chinese_chars=False, lowercase=False),
                          decoders.WordPiece(cleanup=False), 700, max_input_chars_per_word=12)
    tok.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tok


MAKERS = {
    "gpt2": gpt2, "gpt2-prefix": gpt2_prefix, "llama3": llama3, "qwen2": qwen2, "deepseek-v3": deepseek,
    "deepseek-coder": deepseek_coder, "deepseek-llm": deepseek_llm, "tekken": tekken, "starcoder": starcoder,
    "llama2": lambda: llama2(None), "metaspace-always": lambda: llama2("always"), "metaspace-first": lambda: llama2("first"),
    "unigram-nfkc": lambda: unigram("nfkc"), "unigram-folded": lambda: unigram("folded"), "unigram-charsmap": charsmap,
    "words": words, "bert-split": bert_split, "qwen35": qwen35, "gpt-4o": gpt4o, "seed-coder": seed_coder,
    "falcon": falcon, "command-r": command_r, "gemma": gemma, "wordpiece": wordpiece, "wordpiece-cased": wordpiece_cased,
}


def cases(tok, strings):
    out = []
    for raw in strings:
        text = raw.decode(errors="replace")
        tok.encode_special_tokens = False
        plain = tok.encode(text, add_special_tokens=False).ids
        full = tok.encode(text, add_special_tokens=True).ids
        tok.encode_special_tokens = True
        unparsed = tok.encode(text, add_special_tokens=False).ids
        tok.encode_special_tokens = False
        case = {"ids": plain, "decoded": tok.decode(full, skip_special_tokens=False),
                "skipped": tok.decode(full, skip_special_tokens=True)}
        if full != plain:
            case["full"] = full
        if unparsed != plain:
            case["unparsed"] = unparsed
        out.append(case)
    # Any ids, which no text gives: bytes in the wrong order, specials in between.
    rng = random.Random(23)
    ids = [i for i in range(tok.get_vocab_size()) if tok.id_to_token(i) is not None]
    random_ids = []
    for _ in range(100):
        chosen = [rng.choice(ids if rng.random() < 0.5 else ids[:300]) for _ in range(rng.randint(0, 20))]
        random_ids.append({"ids": chosen, "decoded": tok.decode(chosen, skip_special_tokens=False),
                           "skipped": tok.decode(chosen, skip_special_tokens=True)})
    return {"strings": out, "random": random_ids}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    strings = nasty_strings()
    (folder / "strings.json").write_text(json.dumps([base64.b64encode(s).decode() for s in strings], indent=0) + "\n")
    wanted = sys.argv[2:] or list(MAKERS)
    for name in wanted:
        make = MAKERS[name]
        tok = make()
        place = folder / name
        place.mkdir(exist_ok=True)
        (place / "tokenizer.json").write_text(
            json.dumps(json.loads(tok.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
        # What the file says counts, not what the object was before it was written.
        tok = Tokenizer.from_file(str(place / "tokenizer.json"))
        (place / "cases.json").write_text(
            json.dumps(cases(tok, strings), ensure_ascii=False, separators=(",", ":")) + "\n")
        print(name, tok.get_vocab_size(), "tokens")
    print("tokenizers", tokenizers.__version__, "sentencepiece", sentencepiece.__version__)


if __name__ == "__main__":
    main()
