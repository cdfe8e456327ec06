"""Runs the dovetail program as people do: commands_test.py BINARY SOURCE_DIR SHARED_DIR"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest
import urllib.request

from cases import BINARY, WithFolder

SOURCE, SHARED = (pathlib.Path(argument).resolve() for argument in sys.argv[2:4])
DEMO = SOURCE / "models" / "demo-arith"
STORIES = SHARED / "models" / "stories260K"
STORIES_GGUF = STORIES / "stories260K-F32.gguf"
DEMO_V4 = SOURCE / "models" / "demo-v4-tiny"
TINY = SOURCE / "tests" / "golden" / "models" / "llama3-tiny"  # has no tokenizer
SUMS = SOURCE / "examples" / "arithmetic.jsonl"


def run(*arguments, code=0, text=None, env=None, error_lines=1):
    """Runs a command and checks its exit code, and that an error is one line, or so many."""
    done = subprocess.run([BINARY, *map(str, arguments)], input=text, capture_output=True, text=True,
                          timeout=300, env=env)
    if done.returncode != code:
        raise AssertionError(f"{arguments}: exit code {done.returncode}, expected {code}\n"
                             f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    if code == 1 and len(done.stderr.splitlines()) != error_lines:
        raise AssertionError(f"{arguments}: expected {error_lines} lines of error, got:\n{done.stderr}")
    return done


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


class Usage(WithFolder):
    def test_help_lists_the_commands(self):
        overview = run("--help").stdout
        for command in ("run", "chat", "serve", "inspect", "tokenize", "embed", "rerank", "bench", "perplexity"):
            self.assertRegex(overview, rf"(?m)^  {command} +\w")
            own = run(command, "--help").stdout
            self.assertIn("MODEL", own)
            self.assertIn("--config", own)
            self.assertLessEqual(max(map(len, own.splitlines())), 140)
        for command in ("run", "serve"):
            own = run(command, "--help").stdout
            for option in ("max-num-seqs", "max-num-batched-tokens", "long-prefill-token-threshold",
                           "block-size", "kv-blocks", "kv-memory", "no-mixed", "no-pack", "always-pack", "no-prefix-cache",
                           "async-scheduling", "speculative-tokens", "policy",
                           "max-queued-requests", "target-inter-token-ms", "min-prefill-tokens",
                           "prefill-interval", "prefill-alignment", "ageing-steps", "stall-limit"):
                self.assertRegex(own, rf"(?m)^  --{option}[ ,]")

    def test_schema_of_pipeline_files(self):
        published = (SOURCE / "docs" / "pipeline.schema.json").read_text()
        self.assertEqual(run("pipeline", "schema").stdout, published)
        self.assertIn("a.yaml", run("pipeline", "schema", "a.yaml", code=2).stderr)

    def test_unknown_command(self):
        self.assertIn("did you mean run", run("rnu", code=2).stderr)
        self.assertIn("expected one of run, pipeline, chat", run("frobnicate", code=2).stderr)
        self.assertIn("Commands:", run(code=2).stderr)

    def test_usage_errors(self):
        for arguments, message in [
            (["run"], "MODEL is missing"),
            (["run", TINY, "x", "--max-num-seqs", "0"], "--max-num-seqs: '0' is out of range"),
            (["run", TINY, "x", "--temperature", "hot"], "--temperature: 'hot' is not a number"),
            (["run", TINY, "x", "--kv-memory", "4 gigs"], "'4 gigs' is no size"),
            (["run", TINY, "x", "--input", "y"], "expected one of them"),
            (["run", TINY, "x", "--system", "y"], "--system needs --chat"),
            (["run", TINY, "x", "y"], "y"),
            (["run", TINY, "x", "--tempature", "1"], "unknown option --tempature, did you mean --temperature"),
            (["serve", TINY, "--port", "65536"], "'65536' is out of range, expected 0 to 65535"),
            (["run", TINY, "x", "--policy", "lifo"],
             "--policy: 'lifo' is no policy, expected fcfs, priority or fair"),
            (["run", TINY, "x", "--pin-threads", "yes"],
             "--pin-threads: 'yes' is no pinning, expected auto, always or never"),
            (["run", TINY, "x", "--kv-cache-dtype", "q4_0"],
             "--kv-cache-dtype: 'q4_0' is no cache type, expected auto, f32, f16, bf16, q8_0 or fp8"),
            (["run", TINY, "x", "--min-prefill-tokens", "0"], "'0' is out of range, expected 1"),
            (["run", TINY, "x", "--target-inter-token-ms", "soon"], "'soon' is not a number"),
            (["run", TINY, "x", "--max-waiting", "3"], "--max-waiting"),
            (["tokenize", TINY, "--ids", "1,x"], "'x' is not an integer"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(message, run(*arguments, code=2).stderr)

    def test_missing_files(self):
        for command in ("run", "chat", "serve", "inspect", "tokenize"):
            error = run(command, "/nowhere/model.gguf", code=1, text="x").stderr
            self.assertIn("/nowhere/model.gguf", error)
        self.assertIn("/nowhere.jsonl", run("run", TINY, "--input", "/nowhere.jsonl", code=1).stderr)
        self.assertIn("/nowhere.toml", run("inspect", TINY, "--config", "/nowhere.toml", code=1).stderr)

    def test_damaged_models(self):
        whole = (TINY / "model.safetensors").read_bytes()
        damaged = self.folder / "model"
        damaged.mkdir()
        (damaged / "config.json").write_bytes((TINY / "config.json").read_bytes())
        (damaged / "model.safetensors").write_bytes(whole[: len(whole) // 2])
        self.assertIn("model.safetensors", run("inspect", damaged, code=1).stderr)
        self.assertIn("x.gguf", run("inspect", self.write("x.gguf", b"GGUF\x03"), code=1).stderr)

    def test_a_model_without_tokenizer(self):
        for command in ("run", "chat", "serve", "tokenize"):
            self.assertIn("tokenizer", run(command, TINY, code=1, text="x").stderr)


# DeepSeek-V4-Flash's dimensions.
V4_FLASH = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "bos_token_id": 0,
    "compress_ratios": [0, 0] + [4, 128] * 20 + [4, 0],
    "compress_rope_theta": 160000,
    "eos_token_id": 1,
    "expert_dtype": "fp4",
    "hc_eps": 1e-6,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "head_dim": 512,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 512,
    "max_position_embeddings": 1048576,
    "model_type": "deepseek_v4",
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 64,
    "num_experts_per_tok": 6,
    "num_hash_layers": 3,
    "num_hidden_layers": 43,
    "num_key_value_heads": 1,
    "num_nextn_predict_layers": 1,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "q_lora_rank": 1024,
    "qk_rope_head_dim": 64,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
    "rms_norm_eps": 1e-6,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 16,
                     "original_max_position_embeddings": 65536, "type": "yarn"},
    "rope_theta": 10000,
    "routed_scaling_factor": 1.5,
    "scoring_func": "sqrtsoftplus",
    "sliding_window": 128,
    "swiglu_limit": 10.0,
    "tie_word_embeddings": False,
    "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16",
    "vocab_size": 129280,
}


def v4_parameters(config):
    """By the table of tensors in tools/golden/README.md."""
    hidden, rank = config["hidden_size"], config["q_lora_rank"]
    heads, dim = config["num_attention_heads"], config["head_dim"]
    streams, vocabulary = config["hc_mult"], config["vocab_size"]
    outputs, experts = config["o_groups"] * config["o_lora_rank"], config["n_routed_experts"]
    expert = 3 * hidden * config["moe_intermediate_size"]
    head = streams * streams * hidden + streams + 1  # of a sum of the streams
    weights = (2 + streams) * streams

    def compressor(ratio, size):
        channels = size * (2 if ratio == 4 else 1)
        return 2 * channels * hidden + ratio * channels + size

    def layer(ratio, hashed):
        connections = 2 * (weights * streams * hidden + weights + 3)
        queries = rank * hidden + rank + heads * dim * rank
        attention = queries + dim * hidden + dim + heads
        attention += outputs * heads * dim // config["o_groups"] + hidden * outputs
        if ratio:
            attention += compressor(ratio, dim)
        if ratio == 4:
            index_heads, index_dim = config["index_n_heads"], config["index_head_dim"]
            attention += compressor(4, index_dim) + index_heads * index_dim * rank + index_heads * hidden
        chosen = vocabulary * config["num_experts_per_tok"] if hashed else experts
        return connections + 2 * hidden + attention + (experts + 1) * expert + experts * hidden + chosen

    layers = sum(layer(ratio, number < config["num_hash_layers"])
                 for number, ratio in enumerate(config["compress_ratios"]))
    drafts = 2 * hidden * hidden + 3 * hidden + head  # beside its layer, the last one of those
    return layers + drafts + 2 * vocabulary * hidden + hidden + head


class Inspect(WithFolder):
    def test_report(self):
        config = json.loads((TINY / "config.json").read_text())
        report = json.loads(run("inspect", TINY, "--json", "--tensors", "--max-num-seqs", "3",
                                "--max-model-len", "32", "--kv-cache-dtype", "f16").stdout)
        self.assertEqual(report["family"], "llama")
        self.assertEqual(report["layers"], config["num_hidden_layers"])
        self.assertEqual(report["vocab_size"], config["vocab_size"])
        self.assertEqual(report["tokenizer"], "none")
        self.assertEqual(report["disk_bytes"], (TINY / "model.safetensors").stat().st_size)
        self.assertEqual(report["parameters"],
                         sum(t["rows"] * t["columns"] for t in report["tensors"]))
        names = [tensor["name"] for tensor in report["tensors"]]
        self.assertIn("blk.0.attn_q.weight", names)
        memory = report["memory"]
        # Keys and values of two bytes.
        (kind,) = report["layer_kinds"]
        self.assertEqual(kind["layers"], report["layers"])
        self.assertEqual(memory["cache_bytes_per_token"],
                         2 * 2 * report["layers"] * kind["kv_heads"] * kind["head_dim"])
        self.assertEqual(memory["cache_bytes_per_token_behind_windows"], memory["cache_bytes_per_token"])
        self.assertEqual(memory["kv_blocks"], 3 * 2)
        self.assertEqual(memory["cache_bytes"], 3 * 32 * memory["cache_bytes_per_token"])
        text = run("inspect", TINY, "--tensors").stdout
        self.assertRegex(text, r"(?m)^family +llama$")
        for name in names:
            self.assertIn(name, text)

    def test_weights_are_counted_as_they_are_held(self):
        def memory(model, *options):
            report = json.loads(run("inspect", model, "--json", *options).stdout)
            return report["memory"], report["types"]

        # Floats stay in the file, whatever the options say.
        for options in [[], ["--no-pack"], ["--always-pack"]]:
            held, types = memory(TINY, *options)
            self.assertEqual(held["weights_own_bytes"], 0)
            self.assertEqual(held["weights_bytes"], sum(share["bytes"] for share in types.values()))
        quantised = DEMO / "demo-arith-Q8_0.gguf"
        held, types = memory(quantised, "--no-pack")
        self.assertEqual(held["weights_own_bytes"], 0)
        self.assertEqual(types["Q8_0"]["packed_bytes"], 0)
        self.assertRegex(run("inspect", quantised, "--no-pack").stdout, r"(?m)^  weights .*, in the mapped file$")
        held, types = memory(quantised)
        self.assertGreater(held["weights_own_bytes"], 0)
        self.assertEqual(held["weights_own_bytes"], types["Q8_0"]["packed_bytes"])
        self.assertEqual(held["weights_notice"], "")
        self.assertIn("always-pack", run("inspect", quantised, "--no-pack", "--always-pack", code=1).stderr)
        # What is made of parts takes memory of its own, packed or not.
        parts = SOURCE / "tests" / "golden" / "quantised" / "pack-int4-32"
        for options, packs in [(["--no-pack"], False), ([], True)]:
            held, types = memory(parts, *options)
            self.assertGreater(held["weights_own_bytes"], 0)
            self.assertEqual(types["INT4_32"]["packed_bytes"] > 0, packs)

    def test_weights_stay_in_the_file_where_memory_is_short(self):
        # A cache of all memory that is free, which nothing touches, leaves none for weights.
        quantised = DEMO / "demo-arith-Q8_0.gguf"
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
        block = 16 * json.loads(run("inspect", quantised, "--json").stdout)["memory"]["cache_bytes_per_token"]
        short = ["--kv-blocks", str(1024 * free // block)]
        report = json.loads(run("inspect", quantised, "--json", *short).stdout)["memory"]
        self.assertEqual(report["weights_own_bytes"], 0)
        self.assertRegex(report["weights_notice"], r"Q8_0 stays in the mapped file.*--kv-memory.*--always-pack")
        self.assertIn(report["weights_notice"][:30], run("inspect", quantised, *short).stdout)
        forced = json.loads(run("inspect", quantised, "--json", "--always-pack", *short).stdout)["memory"]
        self.assertGreater(forced["weights_own_bytes"], 0)
        self.assertEqual(forced["weights_notice"], "")
        # The same where it runs: a warning, and the same answer.
        options = ["5+3=", "--max-tokens", "4", "--temperature", "0"]
        done = run("run", quantised, *options, *short)
        self.assertRegex(done.stderr, r"(?m)^dovetail: warning: weights: .*Q8_0 stays in the mapped file")
        packed = run("run", quantised, *options)
        self.assertNotIn("warning", packed.stderr)
        self.assertEqual(done.stdout, packed.stdout)

    def test_the_layer_that_drafts(self):
        model = TINY.parent / "qwen3-5-tiny"
        report = json.loads(run("inspect", model, "--json").stdout)
        self.assertEqual(report["draft_layer"]["kv_heads"], 2)
        self.assertNotIn("draft_layer", json.loads(run("inspect", TINY, "--json").stdout))
        self.assertRegex(run("inspect", model).stdout, r"(?m)^  to draft +attention: 4 heads of 32, .*output gate")
        # It takes memory only where it is to draft.
        stored = sum(share["bytes"] for share in report["types"].values())
        self.assertLess(report["memory"]["weights_bytes"], stored)

    def test_what_stays_behind_the_windows(self):
        memory = json.loads(run("inspect", DEMO_V4, "--json").stdout)["memory"]
        self.assertLess(memory["cache_bytes_per_token_behind_windows"], memory["cache_bytes_per_token"] / 2)
        self.assertIn("behind the windows)", run("inspect", DEMO_V4).stdout)
        self.assertNotIn("behind the windows", run("inspect", TINY).stdout)

    def test_a_configuration_without_weights(self):
        folder = self.folder / "v4-flash"
        folder.mkdir()
        file = folder / "config.json"
        file.write_text(json.dumps(V4_FLASH))
        options = ["--max-model-len", "65536", "--max-num-seqs", "16"]
        text = run("inspect", folder, *options).stdout
        self.assertRegex(text, r"(?m)^weights +none are there: ")
        self.assertRegex(text, r"(?m)^  to draft +attention of one row for all")
        report = json.loads(run("inspect", folder, *options, "--json").stdout)
        self.assertEqual((report["has_weights"], report["disk_bytes"], report["name"]), (False, 0, "v4-flash"))
        self.assertEqual(report["parameters"], v4_parameters(V4_FLASH))
        alone = json.loads(run("inspect", file, *options, "--json").stdout)
        self.assertEqual(alone | {"path": report["path"]}, report)
        # What an element and a scale of 32 and of 128 take, and two bytes of what is not quantised.
        types = report["types"]
        self.assertEqual(types["MXFP4"]["parameters"], 44 * 256 * 3 * 2048 * 4096)
        self.assertEqual(types["MXFP4"]["bytes"], types["MXFP4"]["parameters"] * 17 // 32)
        self.assertEqual(types["FP8_E4M3"]["bytes"], types["FP8_E4M3"]["parameters"] * 132 // 128)
        self.assertEqual(types["BF16"]["bytes"], types["BF16"]["parameters"] * 2)
        # The notes' numbers: a token's entries, a sequence's windows, and what a block of one size
        # for both adds at most.
        memory = report["memory"]
        whole = [groups for groups in memory["cache_groups"] if groups["sliding_window"] == 0]
        windows = [groups for groups in memory["cache_groups"] if groups["sliding_window"] == 128]
        self.assertEqual(len(whole) + len(windows), len(memory["cache_groups"]))
        entries = 2 * (21 * 640 // 4 + 20 * 512 // 128)
        self.assertEqual(entries, 2 * 3440)
        self.assertLessEqual(entries, whole[0]["bytes_per_token"])
        self.assertLess(whole[0]["bytes_per_token"], 1.06 * entries)
        self.assertEqual(whole[0]["bytes_per_sequence"], 65536 * whole[0]["bytes_per_token"])
        self.assertLessEqual(43 * 9 * 16 * 512 * 2, windows[0]["bytes_per_sequence"])
        self.assertEqual(memory["cache_bytes_per_sequence"],
                         whole[0]["bytes_per_sequence"] + windows[0]["bytes_per_sequence"])
        self.assertAlmostEqual(memory["state_bytes_per_sequence"] / 2**20, 11.7, delta=0.05)
        # The layer that drafts: of experts, and the rest of it in FP8.
        drafting = json.loads(run("inspect", folder, *options, "--json", "--speculative-tokens", "2").stdout)
        more = drafting["memory"]["weights_bytes"] - memory["weights_bytes"]
        self.assertGreater(more, 256 * 3 * 2048 * 4096 * 17 // 32)
        self.assertEqual(drafting["memory"]["weights_bytes"],
                         sum(share["bytes"] for share in types.values()))
        # docs/models.md shows this; lines that are too long for it end early there.
        document = (SOURCE / "docs" / "models.md").read_text()
        command = "    $ dovetail inspect v4-flash/config.json "
        block = document[document.index(command) :].split("\n\n    memory")
        shown = (block[0] + "\n    memory" + block[1].split("\n\n")[0]).splitlines()
        got = run("inspect", file, *shown[0].removeprefix(command).split()).stdout.splitlines()
        for line in shown[1:]:
            line = line.removeprefix("    ")
            beginning = line.removesuffix("...")
            self.assertTrue(any(whole == line or (beginning != line and whole.startswith(beginning))
                                for whole in got), line)
        # A context that is longer than any default has memory for, and one that the model is not made for.
        longest = json.loads(run("inspect", folder, "--json", "--max-model-len", "1048576").stdout)["memory"]
        self.assertEqual((longest["max_model_len"], longest["full_sequences"]), (1048576, 1))
        self.assertIn("expected 2 to 1048576",
                      run("inspect", folder, "--max-model-len", "1048577", code=1).stderr)
        # It is nothing to run, and damaged ones are refused by name.
        self.assertIn("no weights", run("run", folder, "x", code=1).stderr)
        self.assertIn("the folder that holds it", run("run", file, "x", code=1).stderr)
        file.write_text(json.dumps(V4_FLASH | {"head_dim": -1}))
        self.assertIn("config.json: head_dim: -1", run("inspect", file, code=1).stderr)

    def test_config_file(self):
        config = self.write("own.toml", "max-num-seqs = 5\n[inspect]\nkv-cache-dtype = \"f32\"\n")
        memory = json.loads(run("inspect", TINY, "--json", "--config", config).stdout)["memory"]
        self.assertEqual((memory["max_num_seqs"], memory["kv_cache_dtype"]), (5, "f32"))
        memory = json.loads(run("inspect", TINY, "--json", "--config", config, "--max-num-seqs",
                                "2").stdout)["memory"]
        self.assertEqual(memory["max_num_seqs"], 2)
        config.write_text("\nmax-num-seq = 5\n")
        self.assertIn("own.toml:2: unknown key max-num-seq, did you mean max-num-seqs",
                      run("inspect", TINY, "--config", config, code=1).stderr)

    def test_the_examples_file_works(self):
        example = SOURCE / "examples" / "dovetail.toml"
        memory = json.loads(run("inspect", TINY, "--json", "--config", example).stdout)["memory"]
        self.assertEqual(memory["max_num_seqs"], 64)


class Model:
    """What every model with a tokenizer must do; subclasses name the model and prompts."""

    model = None
    prompts = []
    options = []

    def input_file(self):
        lines = [json.dumps({"id": i, "prompt": prompt, "max_tokens": 4 + i % 13})
                 for i, prompt in enumerate(self.prompts)]
        return self.write("in.jsonl", "\n".join(lines) + "\n")

    def test_one_prompt(self):
        done = run("run", self.model, self.prompts[0], "--max-tokens", "8")
        again = run("run", self.model, "--max-tokens", "8", "--quiet", text=self.prompts[0] + "\n")
        self.assertEqual(done.stdout, again.stdout)
        self.assertGreater(len(done.stdout), 1)
        self.assertIn("1 request, ", done.stderr)
        self.assertEqual(again.stderr, "")

    def test_a_batch_is_the_same_as_one_after_the_other(self):
        source = self.input_file()
        one = run("run", self.model, "--input", source, "--max-num-seqs", "1")
        many = run("run", self.model, "--input", source, "--max-num-seqs", "64",
                   "--max-num-batched-tokens", "64", "--threads", "2")
        self.assertEqual(one.stdout, many.stdout)
        results = lines_of(one.stdout)
        self.assertEqual([result["index"] for result in results], list(range(len(self.prompts))))
        self.assertEqual([result["id"] for result in results], list(range(len(self.prompts))))
        output = self.folder / "out.jsonl"
        piped = run("run", self.model, "--input", "-", "--output", output, "--max-queued-requests", "3",
                    "--max-num-seqs", "2", text=source.read_text())
        self.assertEqual(piped.stdout, "")
        self.assertEqual(output.read_text(), one.stdout)
        single = run("run", self.model, self.prompts[1], "--max-tokens", "5").stdout
        self.assertEqual(single, results[1]["text"] + "\n")

    def test_no_way_of_scheduling_changes_an_answer(self):
        source = self.write("in.jsonl", "".join(
            json.dumps({"prompt": prompt, "max_tokens": 4 + i % 13, "priority": i % 3,
                        "user": f"u{i % 2}", "cache_salt": f"s{i % 4}", "timeout": 300}) + "\n"
            for i, prompt in enumerate(self.prompts[:24])))
        plain = run("run", self.model, "--input", source)
        self.assertEqual(plain.stderr.count("\n"), 1)
        for options in [
            ["--no-mixed", "--prefill-interval", "3"],
            ["--no-prefix-cache", "--policy", "priority", "--ageing-steps", "5"],
            ["--async-scheduling", "--policy", "fair", "--max-num-seqs", "7"],
            ["--speculative-tokens", "3", "--long-prefill-token-threshold", "5"],
            ["--target-inter-token-ms", "0.5", "--min-prefill-tokens", "2", "--prefill-alignment",
             "1", "--max-num-batched-tokens", "64"],
            ["--kv-blocks", "24", "--async-scheduling", "--speculative-tokens", "2",
             "--max-queued-requests", "2"],
        ]:
            with self.subTest(options=options):
                self.assertEqual(run("run", self.model, "--input", source, *options).stdout,
                                 plain.stdout)
        config = self.write("own.toml", "no-mixed = true\nno-prefix-cache = true\n"
                            "policy = \"fair\"\ntarget-inter-token-ms = 7.5\n"
                            "[run]\nspeculative-tokens = 2\nno-prefix-cache = false\n")
        done = run("run", self.model, "--input", source, "--config", config, "--verbose")
        self.assertEqual(done.stdout, plain.stdout)
        for line in ("policy fair: ", "mixed off: ", "prefix-cache on: ", "speculative-tokens 2: ",
                     "target-inter-token-ms 7.5: ", "async-scheduling off: "):
            self.assertRegex(done.stderr, rf"(?m)^{line}")

    def test_trace(self):
        source = self.input_file()
        trace = self.folder / "trace.json"
        plain = run("run", self.model, "--input", source, "--max-num-seqs", "8")
        traced = run("run", self.model, "--input", source, "--max-num-seqs", "8", "--trace", trace)
        self.assertEqual(traced.stdout, plain.stdout)
        events = json.loads(trace.read_text())["traceEvents"]
        steps = [event["name"] for event in events if event["ph"] == "X" and event["pid"] == 1
                 and event["tid"] == 1]
        self.assertRegex(steps[0], r"^prefill\[p=\d+ chunks?/\d+ tok\]$")
        self.assertTrue(any(name.startswith("mixed[p=") for name in steps), steps)
        self.assertTrue(any(name.startswith("decode[d=") for name in steps), steps)
        ended = [event["name"] for event in events if event["ph"] == "X" and event["pid"] == 2]
        self.assertGreaterEqual(len(ended), 2 * len(self.prompts))
        self.assertIn("/nowhere/trace.json", run("run", self.model, "x", "--trace",
                                                 "/nowhere/trace.json", code=1).stderr)
        self.assertIn("--trace: ", run("run", self.model, "--input", source, "--trace", source,
                                       code=1).stderr)

    def test_options_of_the_cache(self):
        self.assertIn("block-size: 32 is not available, expected 16",
                      run("run", self.model, "x", "--block-size", "32", code=1).stderr)
        done = run("run", self.model, self.prompts[0], "--max-tokens", "1", "-v", "--kv-blocks", "9",
                   "--threads", "1")
        self.assertRegex(done.stderr, r"(?m)^kv-blocks 9: .*, as given$")
        self.assertRegex(done.stderr, r"(?m)^max-model-len 144: what the cache holds")
        self.assertRegex(done.stderr, r"(?m)^threads 1: as given, each on a core of its own while no other process wants it$")
        self.assertRegex(done.stderr, r"(?m)^lanes 1x\(1L\): ")
        # hwloc is told of a machine whose cores have a cache each.
        mine = os.sched_getaffinity(0)
        caches = {"HWLOC_SYNTHETIC": f"l3:{max(mine) + 1} core:1 pu:1", "HWLOC_THISSYSTEM": "1"}
        for pinning, words in (("never", ""), ("always", ", pinned")):
            done = run("run", self.model, "x", "--max-tokens", "1", "-v", "--threads", "1", "--pin-threads", pinning)
            self.assertRegex(done.stderr, rf"(?m)^threads 1: as given{words}$")
        done = run("run", self.model, "x", "--max-tokens", "1", "-v", "--threads", len(mine),
                   env=os.environ | caches)
        stays = ", where it stays$" if len(mine) > 1 else ""
        self.assertRegex(done.stderr, rf"(?m)^lanes {len(mine)}x\(1L\): .*cache{stays}")
        self.assertIn("--stall-limit: ", run("run", self.model, "x", "--stall-limit", "-1",
                                             code=2).stderr)

    def test_a_sandbox_that_tells_nothing_of_cores(self):
        without = ["unshare", "--map-root-user", "--mount", "sh", "-c",
                   'mount -t tmpfs none /sys && exec "$@"', "sh"]
        if subprocess.run([*without, "true"], capture_output=True).returncode != 0:
            self.skipTest("the system does not let this user hide /sys")
        done = subprocess.run([*without, BINARY, "run", self.model, "x", "--max-tokens", "1", "-v"],
                              text=True, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^lanes 1x\(\d+L\): ")
        self.assertNotIn("hwloc", done.stderr)

    def test_draws_repeat_with_a_seed(self):
        def draw(seed):
            # Hot: the bundled model is very sure of itself.
            return run("run", self.model, self.prompts[0], "--temperature", "20", "--seed", seed,
                       "--n", "3", "--max-tokens", "12", "--ignore-eos").stdout
        self.assertEqual(draw(7), draw(7))
        self.assertNotEqual(draw(7), draw(8))
        self.assertEqual([line["choice"] for line in lines_of(draw(7))], [0, 1, 2])

    def test_logprobs(self):
        result = lines_of(run("run", self.model, self.prompts[0], "--logprobs", "2", "--max-tokens",
                              "3").stdout)[0]
        for token in result["logprobs"]:
            self.assertEqual(token["top"][0]["logprob"], token["logprob"])  # greedy
            self.assertEqual(len(token["top"]), 2)

    def test_expectations(self):
        answer = run("run", self.model, self.prompts[0], "--max-tokens", "4").stdout[:-1]
        record = {"prompt": self.prompts[0], "max_tokens": 4, "metadata": {"a": 1}}
        text = "".join(json.dumps(record | {"expect": expect}) + "\n"
                       for expect in (answer, answer + "?"))
        done = run("run", self.model, "--input", "-", text=text)
        self.assertIn("; 1 of 2 as expected", done.stderr)
        results = lines_of(done.stdout)
        self.assertEqual([result["as_expected"] for result in results], [True, False])
        self.assertEqual(results[0]["metadata"], {"a": 1})

    def test_bad_lines_refuse_everything(self):
        output = self.folder / "out.jsonl"
        for line, message in [
            ('{"prompt": "x", "temperature": "hot"}', "bad.jsonl:3: temperature: expected a number"),
            ('{"prompt": "x"', "bad.jsonl:3: byte 15"),
            ('{"prompt": "x", "max_token": 1}', "did you mean max_tokens"),
            ('{"prompt": "x", "max_tokens": 2000000000}', "bad.jsonl:3: max_tokens: "),
            ('{"prompt": "x", "logit_bias": {"99999999": 1}}', "bad.jsonl:3: logit_bias: "),
        ]:
            with self.subTest(line=line):
                bad = self.write("bad.jsonl", f'{{"prompt": "x"}}\n\n{line}\n')
                done = run("run", self.model, "--input", bad, "--output", output, code=1)
                self.assertIn(message, done.stderr)
                self.assertFalse(output.exists())
        good, wrong = '{"prompt": "x"}', '{"prompt": "x", "temperature": "hot"}'
        for count in (2, 20, 25):
            bad = self.write("bad.jsonl", "".join(f"{good}\n{wrong}\n" for _ in range(count)))
            *said, last = run("run", self.model, "--input", bad, "--output", output, code=1,
                              error_lines=min(count, 20) + 1).stderr.splitlines()
            self.assertEqual([re.match(r"dovetail run: .*bad\.jsonl:(\d+): temperature: expected ", line)[1] for line in said],
                             [str(2 * i + 2) for i in range(min(count, 20))])
            more = ", the first 20 of them as above" if count > 20 else ""
            self.assertTrue(last.endswith(f"bad.jsonl: {count} of {2 * count} lines are wrong{more}; nothing was run"), last)
            self.assertFalse(output.exists())
        self.assertIn("it has no lines",
                      run("run", self.model, "--input", self.write("no.jsonl", ""), code=1).stderr)
        source = self.input_file()
        before = source.read_text()
        self.assertIn("is the input file",
                      run("run", self.model, "--input", source, "--output", source, code=1).stderr)
        self.assertEqual(source.read_text(), before)

    def test_config_file(self):
        config = self.write("own.toml", f"model = \"{self.model}\"\nprompt = {json.dumps(self.prompts[0])}\n"
                            "[run]\nmax-tokens = 4\n")
        self.assertEqual(run("run", "--config", config).stdout,
                         run("run", self.model, self.prompts[0], "--max-tokens", "4").stdout)
        self.assertEqual(run("run", "--config", config, "--max-tokens", "2").stdout,
                         run("run", self.model, self.prompts[0], "--max-tokens", "2").stdout)

    def test_tokenize(self):
        for text in (self.prompts[0], self.prompts[1] * 3):
            tokens = json.loads(run("tokenize", self.model, text, "--json").stdout)
            self.assertEqual(len(tokens["ids"]), len(tokens["pieces"]))
            ids = ",".join(map(str, tokens["ids"]))
            self.assertIn(ids, run("tokenize", self.model, text=text).stdout)
            self.assertEqual(run("tokenize", self.model, "--ids", ids, "--no-special").stdout,
                             text + "\n")
        self.assertIn("99999999 is no token id",
                      run("tokenize", self.model, "--ids", "99999999", code=1).stderr)

    def test_a_reader_that_goes_ends_the_run(self):
        many = self.write("many.jsonl", "".join(
            json.dumps({"prompt": self.prompts[0], "max_tokens": 64}) + "\n" for _ in range(2000)))
        for sigpipe in (signal.SIG_DFL, signal.SIG_IGN):
            program = subprocess.Popen(
                [BINARY, "run", self.model, "--input", many, "--ignore-eos"], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, restore_signals=False,
                preexec_fn=lambda: signal.signal(signal.SIGPIPE, sigpipe))
            program.stdout.readline()
            program.stdout.close()
            error = program.stderr.read()
            program.stderr.close()
            self.assertIn(program.wait(timeout=60), (-signal.SIGPIPE, 1))
            self.assertLessEqual(len(error.splitlines()), 1)

    def test_an_interrupt_keeps_what_is_complete(self):
        many = self.write("many.jsonl", "".join(
            json.dumps({"prompt": self.prompts[0], "max_tokens": 64}) + "\n" for _ in range(5000)))
        output = self.folder / "out.jsonl"
        program = subprocess.Popen([BINARY, "run", self.model, "--input", many, "--ignore-eos",
                                    "--output", output], stderr=subprocess.PIPE, text=True)
        while not output.exists() or output.stat().st_size == 0:
            self.assertIsNone(program.poll())
            time.sleep(0.01)
        program.send_signal(signal.SIGINT)
        error = program.communicate(timeout=60)[1]
        self.assertEqual(program.returncode, 130)
        self.assertIn("cancelled", error)
        indices = [line["index"] for line in lines_of(output.read_text())]
        self.assertEqual(indices, sorted(indices))
        self.assertLess(len(indices), 5000)

    def test_chat(self):
        template = self.write("template.jinja",
                              "{% for m in messages %}{{ m.content }}{% endfor %}")
        options = ["--chat-template", template, "--max-tokens", "4"]
        talk_options = [*options, "--temperature", "0"]
        first, second = (prompt.replace("\n", " ") for prompt in self.prompts[:2])
        talk = run("chat", self.model, *talk_options, text=f"{first}\n/reset\n{first}\n/quit\nx\n")
        answer = run("run", self.model, first, "--chat", *options).stdout
        self.assertEqual(talk.stdout, answer * 2)
        # The second turn sees the first.
        both = run("chat", self.model, *talk_options, text=f"{first}\n{second}\n").stdout
        history = first + answer[:-1] + second
        self.assertEqual(both[len(answer):],
                         run("run", self.model, history, "--chat", *options).stdout)

    def test_a_budget_closes_the_reasoning(self):
        template = self.write("reasoning.jinja",
                              "{{ messages[-1].content }}<think>"
                              "{% if enable_thinking is defined and not enable_thinking %}</think>{% endif %}")
        options = ["--chat-template", template, "--max-tokens", "24", "--ignore-eos", "--temperature", "0"]
        ask = lambda *more: run("run", self.model, self.prompts[0], "--chat", *options, *more).stdout.rstrip("\n")
        free = ask()
        self.assertNotIn("</think>", free)
        self.assertEqual(ask("--reasoning-budget", "-1"), free)
        self.assertEqual(ask("--reasoning-budget", "24"), free)
        bounded = ask("--reasoning-budget", "5")
        reasoning, _, answer = bounded.partition("</think>")
        self.assertTrue(free.startswith(reasoning) and 0 < len(reasoning) < len(free), bounded)
        self.assertTrue(answer, bounded)
        self.assertNotIn("</think>", answer)
        told = ask("--reasoning-budget", "5", "--reasoning-budget-message", "Enough.")
        solid = lambda text: "".join(text.split())  # some tokenizers put a space before a text
        self.assertTrue(solid(told).startswith(solid(reasoning) + "Enough.</think>"), told)
        # Draft tokens change nothing, and a chat and lines of a file have it, too.
        self.assertEqual(ask("--reasoning-budget", "5", "--speculative-tokens", "3"), bounded)
        talk = lambda *more: run("chat", self.model, *options, *more,
                                 text=self.prompts[0].replace("\n", " ") + "\n").stdout.strip()
        self.assertEqual(talk(), "")  # pipes get no reasoning, and it did not end
        self.assertTrue(talk("--reasoning-budget", "5"))
        line = self.write("line.jsonl", json.dumps({"messages": [{"role": "user", "content": self.prompts[0]}]}))
        [result] = lines_of(run("run", self.model, "--input", line, *options, "--reasoning-budget", "5").stdout)
        self.assertIn("</think>", result["text"])
        # The template's switch closes it in the prompt.
        self.assertNotIn("</think>", ask("--reasoning-budget", "0"))

    def test_chat_says_what_it_draws_with(self):
        model = DEMO / "demo-arith-Q8_0.gguf"
        terminal, stdin = os.openpty()
        with os.fdopen(terminal, "wb", buffering=0) as typed, os.fdopen(stdin) as stdin:
            typed.write(b"39+324\n/quit\n")
            done = subprocess.run([BINARY, "chat", model, "--seed", "1"], stdin=stdin, capture_output=True,
                                  text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sampling: temperature 0.8, top-k 40, top-p 0.95, min-p 0.05, unless asked otherwise "
                      "(the GGUF file recommends none)\n", done.stderr)
        said = ["--temperature", "0.8", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.05"]
        for seed in range(3):
            talk = ["chat", model, "--seed", seed]
            self.assertEqual(run(*talk, text="39+324\n").stdout, run(*talk, *said, text="39+324\n").stdout)

    def test_serve(self):
        trace = self.folder / "trace.json"
        server = subprocess.Popen([BINARY, "serve", self.model, "--port", "0", "--api-key", "secret",
                                   "--served-model-name", "mine", "--trace", trace], stderr=subprocess.PIPE, text=True)
        try:
            url = ""
            log = ""
            while not url:
                line = server.stderr.readline()
                self.assertNotEqual(line, "", "the server ended")
                log += line
                if "listening on " in line:
                    url = line.split("listening on ")[1].strip()
            log = re.sub(r"(?m)^\[[\d-]+ [\d:.]+\] \[info\] ", "", log)
            self.assertRegex(log, r"(?m)^kv-blocks \d+: ")
            self.assertRegex(log, r"(?m)^policy fcfs: by arrival$")
            self.assertRegex(log, rf"(?m)^model {self.model.stem}: \w+, \S+ (million )?parameters, \S+ [KM]iB$")
            self.assertRegex(log, r"(?m)^weights \w+(, \w+)*: ")
            self.assertRegex(log, r"(?m)^tokenizer .+: \d+ tokens$")
            self.assertRegex(log, r"(?m)^chat-template (none: .*no chat template|on: the model's own$)")
            self.assertRegex(log, r"(?m)^loaded in \d+\.\d s$")
            self.assertIn(f"page {url}/\n", log)
            request = urllib.request.Request(url + "/v1/completions", headers={
                "Authorization": "Bearer secret", "Content-Type": "application/json"},
                data=json.dumps({"model": "mine", "prompt": self.prompts[0], "max_tokens": 4,
                                 "temperature": 0}).encode())
            with urllib.request.urlopen(request, timeout=60) as response:
                text = json.load(response)["choices"][0]["text"]
            self.assertEqual(text + "\n",
                             run("run", self.model, self.prompts[0], "--max-tokens", "4").stdout)
        finally:
            server.send_signal(signal.SIGTERM)
            server.stderr.read()
            server.stderr.close()
            self.assertEqual(server.wait(timeout=60), 0)
        names = [event["name"] for event in json.loads(trace.read_text())["traceEvents"]]
        self.assertIn("decode[d=1]", names)


@unittest.skipUnless(DEMO.exists(), f"{DEMO} is not there")
class Demo(Model, WithFolder):
    model = DEMO

    @classmethod
    def setUpClass(cls):
        with SUMS.open() as sums:
            cls.prompts = [json.loads(next(sums))["prompt"] for _ in range(50)]

    def test_solves_sums(self):
        with SUMS.open() as sums:
            text = "".join(next(sums) for _ in range(100))
        done = run("run", self.model, "--input", "-", text=text)
        right = sum(line["as_expected"] for line in lines_of(done.stdout))
        self.assertGreaterEqual(right, 90)
        self.assertIn(f"; {right} of 100 as expected", done.stderr)


@unittest.skipUnless(STORIES_GGUF.exists(), f"{STORIES} is not there")
class Stories(Model, WithFolder):
    model = STORIES_GGUF
    prompts = ["Once upon a time", "The dog"] + [f"Lily saw {i} birds" for i in range(48)]

    def test_golden_text(self):
        for case in json.loads((STORIES / "stories260K-golden-F32.json").read_text()):
            done = run("run", self.model, "--max-tokens", str(len(case["ids"])), "--prompt",
                       case["prompt"])
            self.assertEqual(done.stdout, case["text"] + "\n")

    def test_a_truncated_file(self):
        cut = self.write("cut.gguf", STORIES_GGUF.read_bytes()[:500000])
        self.assertIn("cut.gguf", run("run", cut, "x", code=1).stderr)

    def test_no_chat_template(self):
        self.assertIn("no chat template", run("chat", self.model, code=1, text="x\n").stderr)
        self.assertIn("no chat template", run("run", self.model, "x", "--chat", code=1).stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
