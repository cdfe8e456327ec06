"""Runs `dovetail inspect` as people do: inspect_test.py BINARY SOURCE_DIR"""

import json
import pathlib
import sys
import unittest

from cases import WithFolder, run

SOURCE = pathlib.Path(sys.argv[2]).resolve()
DEMO = SOURCE / "models" / "demo-arith"
DEMO_V4 = SOURCE / "models" / "demo-v4-tiny"
TINY = SOURCE / "tests" / "golden" / "models" / "llama3-tiny"  # has no tokenizer

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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
