#!/usr/bin/env python3
"""Writes how an independent matcher splits nasty strings by the names of tokenizer.ggml.pre.

    make_splits.py TOKENIZER_FOLDER

Reads strings.json of the folder and writes splits.json: names, separated by spaces, and for each
string the bytes of each piece. The expressions are those of the models' tokenizer.json, or of llama.cpp where a model has
none; the matcher is the package `regex`. Nothing is normalized.
"""

import base64
import json
import pathlib
import sys

import regex

# Unicode's White_Space: the package's own \s has four control characters more.
SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CJK = r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
ASCII_WORD = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""

GPT2 = [r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"]


def words(digits, lead=CONTRACTION + "|", letters=r"\p{L}", symbols=r" ?[^\s\p{L}\p{N}]+[\r\n]*", lines=r"\s*[\r\n]+",
          rest=r"\s+(?!\S)|\s+"):
    return [lead + r"[^\r\n\p{L}\p{N}]?" + letters + "+|" + digits + "|" + symbols + "|" + lines + "|" + rest]


def cased(digits, contraction=CONTRACTION, upper=UPPER, lower=LOWER, lead="", symbols=r" ?[^\s\p{L}\p{N}]+[\r\n/]*"):
    tail = f"(?:{contraction})?" if contraction else ""
    begin = r"[^\r\n\p{L}\p{N}]?"
    return [lead + begin + upper + "*" + lower + "+" + tail + "|" + begin + upper + "+" + lower + "*" + tail + "|" + digits
            + "|" + symbols + r"|\s*[\r\n]+|\s+(?!\S)|\s+"]


# The list that the model itself has.
DEEPSEEK_LETTERS = (
    r"A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-"
    r"\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-"
    r"\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf"
    r"\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-"
    r"\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"
    r"\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115"
    r"\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e"
    r"\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-"
    r"\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    r"\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-"
    r"\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
DEEPSEEK3 = (ASCII_WORD + r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
LLAMA3 = words(r"\p{N}{1,3}")
QWEN2 = words(r"\p{N}")
DEFAULT_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"

# Names, and their expressions one after the other.
SPLITS = {
    "default": [r"[\p{P}$+<=>^~|]+", DEFAULT_WORDS, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2 gpt2 phi-2 roberta-bpe modern-bert jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code gigachat "
    "a.x-4.0 mellum exaone4 jais trillion granite-docling mpt olmo": GPT2,
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe chatglm-bpe glm4 glm5": LLAMA3,
    "jais-2": words(r"\p{N}{1,3}", rest="|".join(r"\s{%d}(?!\S)" % n for n in (512, 256, 128, 64, 32, 16, 8, 4))
                    + r"|\s{1,2}(?!\S)|\s"),
    "minicpm5": [r"\p{N}{1,3}"] + words(r"\p{N}+"),
    "qwen2 deepseek-r1-qwen stablelm2 kormo f2llmv2 megrez hunyuan solar-open grok-2": QWEN2,
    "qwen35": words(r"\p{N}", letters=r"[\p{L}\p{M}]", symbols=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"),
    "laguna": [r"[^\n]+|\n+"] + QWEN2,
    "ufakzeka": words(r"\p{N}", lead=""),
    "seed-coder": words(r"\p{N}", symbols=r" ?[^\s\p{L}\p{N}\r\n]+"),
    "bailingmoe bailingmoe2 llada-moe": words(r"\p{N}", lead=r"'(?i:[sdmt]|ll|ve|re)|", lines=r"\s*[\r\n]"),
    "exaone-moe": words(r"\p{N}", letters=r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)", symbols=r" ?[^\s\p{L}\p{N}]+[\r\n/]?",
                        lines=r"\s*[\r\n]"),
    "deepseek-llm": [r"[\r\n]", r"\s?[" + DEEPSEEK_LETTERS + "]+", r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"\s+$",
                     r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"],
    "deepseek-v3 hunyuan-dense joyai-llm hy_v4": [r"\p{N}{1,3}", CJK, DEEPSEEK3],
    "spark2_5": [r"\p{N}{1,3}", CJK, ASCII_WORD + r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+",
                 r"\p{N}"],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
              r"[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
              r"\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+", DEEPSEEK3],
    "youtu": ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"] + cased(r"\p{N}"),
    "kimi-k2": cased(r"\p{N}{1,3}", upper=f"(?:(?!\\p{{Script=Han}}){UPPER})", lower=f"(?:(?!\\p{{Script=Han}}){LOWER})",
                     lead=r"\p{Script=Han}+|", symbols=r" ?[^\s\p{L}\p{N}]+[\r\n]*"),
    "falcon": [r"[\p{P}$+<=>^~|`]+", DEFAULT_WORDS, "[0-9][0-9][0-9]"],
    "smollm starcoder refact codeshell exaone minerva-7b mellum2 command-r": [r"\p{N}"] + GPT2,
    "tiny_aya cohere2moe": [r"\d{1,3}(?=(?:\d{3})*\b)"] + cased(r"\p{N}{1,3}"),
    "superbpe": [r"\p{N}+", r"(?=(?:\d{3})+(?!\d))"],
    "bloom poro-chat gpt3-finnish": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}",
                  r"[\p{P}!-/:-@\[-`{-~]"] + GPT2,
    "tekken": cased(r"\p{N}", contraction=""),
    "gpt-4o llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m": cased(r"\p{N}{1,3}"),
    "gemma4 granite-embed-multi-311m sarvam-moe": [r"[^\n]+|\n+"],
}


def with_own_space(expression):
    """\\s and \\S as Unicode's White_Space, in sets and outside."""
    out, inside, at = "", False, 0
    while at < len(expression):
        two = expression[at:at + 2]
        if two in (r"\s", r"\S"):
            negated = "^" if two[1] == "S" else ""
            out += SPACE if inside else f"[{negated}{SPACE}]"
            at += 2
            continue
        if two[0] == "\\":
            out += two
            at += 2
            continue
        inside = two[0] == "[" or (inside and two[0] != "]")
        out += two[0]
        at += 1
    return out


def isolate(pieces, matcher):
    out = []
    for piece in pieces:
        done = 0
        for match in matcher.finditer(piece):
            out += [piece[done:match.start()], match.group()]
            done = match.end()
        out.append(piece[done:])
    return [piece for piece in out if piece]


def main():
    folder = pathlib.Path(sys.argv[1])
    strings = [base64.b64decode(s).decode(errors="replace") for s in json.loads((folder / "strings.json").read_text())]
    splits = {}
    for names, expressions in SPLITS.items():
        matchers = [regex.compile(with_own_space(e), regex.V0) for e in expressions]
        splits[names] = []
        for text in strings:
            pieces = [text] if text else []
            for matcher in matchers:
                pieces = isolate(pieces, matcher)
            splits[names].append([len(piece.encode()) for piece in pieces])
    lines = [f"{json.dumps(names)}: {json.dumps(rows, separators=(',', ':'))}" for names, rows in splits.items()]
    (folder / "splits.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(len(splits), "names; regex", regex.__version__)


main()
