"""Holds what Dovetail reads out of random Hugging Face folders to what transformers reads out of them.

    fuzz_families.py DOVETAIL [FAMILY...] [--count 20] [--seed 1] [--keep FOLDER]

For each family tiny configurations as fuzz_settings.py draws them, in the spelling of old and new versions
of transformers, with fields left out whose defaults matter. Weights are random, under their published names
or as save_pretrained writes them. Some beginnings of a random prompt go to `dovetail run`: the
log-probabilities of the 20 likeliest tokens must be those of transformers in float32, to 1e-3 of the spread
of the logits. Of embedders, vectors are compared. Prints a line for each difference, refusal (REFUSED) and
folder that transformers itself does not take (NOT MADE), and for each family how many there were of each;
exit code 1 where something differs or crashes. --keep leaves the folders of all that do not agree.
"""

import argparse
import collections
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto import modeling_auto

import make_models
from fuzz_settings import DECODERS, ENCODERS, TEXTS, WRAPPERS, modern

TOLERANCE = 1e-3
TOP = 20  # as many as `dovetail run` gives
MORE = 3  # tokens that are generated
OPTIONS = ["--threads", "1", "--kv-cache-dtype", "f32", "--kernels", "avx2"]  # avx2 rounds no activations
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
LETTER_IDS = {letter: 4 + i for i, letter in enumerate(LETTERS)}
TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": LETTER_IDS, "merges": []},
}
VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
VISION |= {"image_size": 28, "patch_size": 14, "head_dim": 8, "depth": 1, "num_heads": 2, "out_hidden_size": 8}
VISION |= {"deepstack_visual_indexes": [0], "fullatt_block_indexes": [0], "num_position_embeddings": 4}
# What may be left out, or be null.
OPTIONAL = """
    attention_bias attention_multiplier attn_logit_softcapping block_auto_adjust_ff_dim
    block_ffn_dim_multiplier block_multiple_of conv_L_cache conv_bias conv_kernel
    decoder_sparse_step dtype embedding_multiplier final_logit_softcapping first_k_dense_replace
    global_attn_every_n_layers global_rope_theta hidden_activation layer_norm_eps
    layer_norm_epsilon local_attention local_rope_theta logit_scale logits_scaling
    mamba_conv_bias mamba_d_conv mamba_n_groups max_window_layers mlp_bias mlp_hidden_act
    mlp_only_layers moe_layer_freq n_shared_experts no_rope_layer_interval
    no_rope_layers norm_bias norm_eps norm_topk_prob num_dense_layers num_nextn_predict_layers
    partial_rotary_factor position_embedding_type query_pre_attn_scalar residual_multiplier
    rms_norm_eps rope_interleave rope_local_base_freq rope_scaling rope_theta rotary_pct
    routed_scaling_factor scoring_func sliding_window sliding_window_pattern swiglu_limit
    tie_embedding tie_word_embeddings time_step_limit topk_method torch_dtype
    type_vocab_size use_bidirectional_attention use_conv_bias use_expert_bias use_qk_norm
    use_sliding_window moe_layer_end_index moe_layer_interval moe_layer_start_index
    moe_num_shared_experts qkv_bias use_bias
""".split()


def spelled(r, family):
    """A configuration with some fields left out, and the whole of it."""
    if family in ENCODERS:
        make, kind, name, _ = ENCODERS[family]
    else:
        make, kind = (DECODERS | TEXTS)[family], family
        name = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(family, "Mistral4ForCausalLM")
    c = make(r) | {"model_type": kind, "architectures": [name]}
    two_bases = kind in ("gemma3_text", "olmo3")
    if "rope_theta" in c and r.random() < 0.4:
        c = modern(c, two_bases)
    elif (s := c.get("rope_scaling")) and not two_bases and r.random() < 0.4:
        s["type"] = s.pop("rope_type", s.get("type"))
    elif c.get("rope_scaling", 0) is None and r.random() < 0.5:
        del c["rope_scaling"]
    # transformers rounds the scale of Gemma's embeddings to the type that it computes in.
    types = ["float32"] * 4 + ["float16"] + ["bfloat16"] * ("gemma" not in family)
    c[r.choice(["dtype", "torch_dtype"])] = r.choice(types)
    less = {key: value for key, value in c.items() if key not in OPTIONAL or r.random() < 0.9}
    if r.random() < 0.1:
        less.pop("num_key_value_heads", None)
    if r.random() < 0.1 and "head_dim" in less:
        less["head_dim"] = None
    return [dict(sorted(one.items())) for one in (less, c)]


def wrapped(r, family):
    """The same of a model that takes pictures; both of its parts may say whether embeddings are tied."""
    texts, vision = WRAPPERS[family]
    outer = {"architectures": [modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES[family]]}
    outer |= {"model_type": family, "vision_config": VISION | {"model_type": vision}, "mm_tokens_per_image": 4}
    if r.random() < 0.6:
        outer["tie_word_embeddings"] = r.random() < 0.5
    both = spelled(r, r.choice(texts))
    for text in both:
        del text["architectures"]
        text.pop("final_logit_softcapping", None)  # which classes with pictures do not heed
        if "logit_scale" in text or "cohere" in family or "aya" in family:
            text["logit_scale"] = 1.0
        if r.random() < 0.5:
            text.pop("tie_word_embeddings", None)
    return [outer | {"text_config": text} for text in both]


def read_model(folder, kind):
    model, found = kind.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
        output_loading_info=True,
    )
    text = model.config.get_text_config()
    # Of layers that differ (Gemma 4) an attribute is refused.
    if text.num_attention_heads % (text.to_dict().get("num_key_value_heads") or 1):
        raise ValueError("heads that share keys unevenly")
    spare = [name for name in found["unexpected_keys"] if "mtp" not in name and name != "lm_head.weight"]
    if make_models.drafting_layers(model.config) > 0:
        spare = []
    if found["missing_keys"] or found["mismatched_keys"] or spare:
        raise ValueError(f"transformers: {found}")
    return model.eval()


def write_by_transformers(folder, parsed, kind, seed):
    model = kind.from_config(parsed, dtype=torch.float32)
    torch.manual_seed(seed)
    for name, tensor in model.state_dict().items():
        if tensor.dtype == torch.float32:
            norm = "norm" in name.lower() and "bias" not in name
            one = norm and not make_models.adds_one(parsed.get_text_config())
            one |= name.endswith(make_models.SCALES)
            tensor.normal_(std=0.2 if norm or one else 0.25).add_(one)
    model.save_pretrained(folder)


def write_published(folder, parsed, c, r, seed):
    weights = make_models.random_weights(parsed, [seed])
    if parsed.tie_word_embeddings and r.random() < 0.2:  # transformers 5 takes a head of its own
        head = weights["model.embed_tokens.weight"]
        weights["lm_head.weight"] = head.clone() if r.random() < 0.5 else head.flip(0)
    stored = getattr(torch, c.get("dtype") or c.get("torch_dtype") or "float32")
    make_models.write_weights(folder, weights, stored, r.choice([1, 1, 3]))
    return stored


def write_model(folder, c, r, seed):
    """The folder, and what transformers reads out of it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = json.dumps(c, indent=2) + "\n"
    (folder / "config.json").write_text(config)
    parsed = AutoConfig.from_pretrained(folder)
    shards = {"max_shard_size": r.choice(["50KB", "1GB"])}
    saved = folder / "saved"
    if "text_config" in c or c["architectures"][0].endswith("Model"):
        kind = AutoModelForImageTextToText if "text_config" in c else AutoModel
        write_by_transformers(saved, parsed, kind, seed)
        if r.random() < 0.5:
            (saved / "config.json").write_text(config)
        else:
            read_model(saved, kind).save_pretrained(saved, **shards)
        return saved, read_model(saved, kind)
    kind = AutoModelForCausalLM
    stored = write_published(folder, parsed, c, r, seed)
    model = read_model(folder, kind)
    if r.random() < 0.6:
        return folder, model
    model.to(stored).save_pretrained(saved, **shards)
    return saved, read_model(saved, kind)


def output(command, given):
    done = subprocess.run([str(part) for part in command], input=given, capture_output=True, text=True, timeout=60)
    if done.returncode == 1:
        return None, done.stderr.strip()
    return (None, f"CRASH {done.returncode} {done.stderr}") if done.returncode else (done.stdout.splitlines(), "")


@torch.no_grad()
def rows_apart(binary, folder, model, place, r):
    """How far vectors of texts are apart at most, of their root mean square; or None and a refusal."""
    texts = ["".join(r.choices(LETTERS, k=length)) for length in (1, 2, 33, 70)]
    lines, refused = output([binary, "embed", folder, *OPTIONS], "\n".join(texts))
    worst, note = 0.0, refused
    for text, line in zip(texts, lines or (), strict=lines is not None):
        rows = model(torch.tensor([[LETTER_IDS[letter] for letter in text]])).last_hidden_state[0]
        wanted = {"mean": rows.mean(0), "first": rows[0], "last": rows[-1]}[place]
        got = torch.tensor(json.loads(line)["embedding"])
        apart = float((got - wanted / wanted.norm()).abs().max()) * len(got) ** 0.5
        if not apart <= worst:
            worst, note = apart, f"of {len(text)} tokens"
    return None if lines is None else worst, note


@torch.no_grad()
def logits_apart(binary, folder, model, ids):
    """How far the likeliest tokens are apart at most, of the spread of the logits; or None and a refusal."""
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    limit = rope.get("original_max_position_embeddings", 0) if rope.get("rope_type") == "longrope" else 0
    ends, longest = (1, 2, len(ids) // 3, len(ids) // 2 + 1, len(ids)), len(ids) + MORE
    if 1 < limit < len(ids):  # transformers chooses factors by the sequence, Dovetail by its context
        ends = (limit + 3, len(ids))
    elif limit:
        longest = limit
    asked = {"max_tokens": MORE, "temperature": 0, "logprobs": TOP, "ignore_eos": True}
    given = "".join(json.dumps(asked | {"prompt": ids[:end]}) + "\n" for end in ends)
    command = [binary, "run", folder, "-q", "--input", "-", "--max-model-len", longest, *OPTIONS]
    lines, refused = output(command, given)
    worst, note = 0.0, refused
    for end, line in zip(ends, lines or (), strict=lines is not None):
        answer = json.loads(line)["logprobs"]
        whole = ids[:end] + [token["id"] for token in answer]
        rows = model(torch.tensor([whole[:-1]])).logits[0].double()
        for i, (token, logits) in enumerate(zip(answer, rows[end - 1 :], strict=True)):
            wanted = torch.log_softmax(logits, -1)
            apart = max(abs(each["logprob"] - float(wanted[each["id"]])) for each in token["top"])
            apart /= float(logits.std())
            if not apart <= worst:
                worst, note = apart, f"after {end} tokens and {i}"
    return None if lines is None else worst, note


def try_one(binary, family, seed, place):
    r = random.Random(f"{family} {seed}")
    less, whole = wrapped(r, family) if family in WRAPPERS else spelled(r, family)
    try:
        folder, model = write_model(place, less, r, seed)
    except Exception:  # of fields that transformers itself cannot do without
        folder, model = write_model(place, whole, r, seed)
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    if family in ENCODERS:
        return rows_apart(binary, folder, model, ENCODERS[family][3], r)
    vocabulary = model.config.get_text_config().vocab_size
    for _ in range(2):  # of experts two may be as good as equal for one prompt
        ids = [r.randrange(vocabulary) for _ in range(r.randint(60, 80))]
        apart, note = logits_apart(binary, folder, model, ids)
        if apart is None or apart <= TOLERANCE:
            break
    return apart, note


def judged(binary, family, seed, place):
    """What came of it in a word, how far apart the two are, and a line about it."""
    try:
        apart, note = try_one(binary, family, seed, place)
    except Exception as problem:
        return "not made", 0.0, f"NOT MADE {type(problem).__name__}: {str(problem)[:300]}"
    if apart is None and not note.startswith("CRASH"):
        return "refused", 0.0, "REFUSED " + note.replace(str(place), "")
    if apart is None or not apart <= TOLERANCE:
        return "differ", 0.0, f"DIFFERS {apart} {note}"
    return "agree", apart, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dovetail", type=pathlib.Path)
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    make_models.know_all()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    bad = 0
    with tempfile.TemporaryDirectory() as temporary:
        for family in options.families or [*DECODERS, *WRAPPERS, *ENCODERS]:
            tally, worst = collections.Counter(), 0.0
            for seed in range(options.seed, options.seed + options.count):
                place = (options.keep or pathlib.Path(temporary)) / f"{family}-{seed}"
                verdict, apart, line = judged(options.dovetail, family, seed, place)
                tally[verdict] += 1
                worst = max(worst, apart)
                if line:
                    print(f"{family} {seed}: {line}", flush=True)
                else:
                    shutil.rmtree(place)
            bad += tally["differ"]
            print(f"{family}: {dict(tally)}, at most {worst:.1e} where they agree", flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
