"""Runs `dovetail bench` as people do: bench_test.py BINARY SOURCE_DIR. What is measured, never how fast it is."""

import json
import pathlib
import re
import shutil
import sys
import unittest

import cases

MODELS = pathlib.Path(sys.argv[2]) / "tests" / "golden" / "models"
ROOFLINES = ["roofline int8", "roofline bf16", "roofline f32", "roofline DRAM read"]
BATCHES = (1, 2, 4, 8, 16, 32, 64)


class Bench(cases.OfCommand):
    COMMAND = "bench"

    def model(self, context, name="llama3-tiny"):
        """A small model that says it was made for so many positions."""
        folder = self.folder / f"{name}-{context}"
        shutil.copytree(MODELS / name, folder)
        config = json.loads((folder / "config.json").read_text())
        config["max_position_embeddings"] = context
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def measured(self, *arguments):
        """The table's lines after its head, and the JSON object, both of one run of the command."""
        path = self.folder / "bench.json"
        done = self.run_command(*arguments, "--json", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in done.stderr.splitlines():
            self.assertTrue(line.startswith("dovetail bench: "), line)
        head, titles, *lines = done.stdout.splitlines()
        self.assertIn(" kernels, threads: ", head)
        self.assertTrue(titles.startswith("measure "))
        found = json.loads(path.read_text())
        # What mixed steps take of their parts stands behind the table.
        mixed = {row["measure"]: row["of_parts"] for row in found["measures"] if "of_parts" in row}
        self.assertEqual(lines[len(lines) - len(mixed):],
                         [f"{name} takes {share:.2f} times its prompt and its sequences alone"
                          for name, share in mixed.items()])
        lines = lines[:len(lines) - len(mixed)]
        self.assertEqual([line[:24].rstrip() for line in lines], [row["measure"] for row in found["measures"]])
        return lines, found

    def check_values(self, row, runs):
        self.assertEqual(len(row["values"]), runs)
        self.assertLess(0, row["min"])
        self.assertEqual((row["min"], row["max"]), (min(row["values"]), max(row["values"])))
        self.assertLessEqual(row["min"], row["median"])
        self.assertLessEqual(row["median"], row["max"])

    def test_every_row_is_there(self):
        # A window of 16 positions: deep sequences take no longer than others, whatever the build.
        lines, found = self.measured(self.model(8192, "mistral-tiny"), "--runs", 2)
        rows = {row["measure"]: row for row in found["measures"]}
        self.assertEqual(list(rows), ROOFLINES + ["prefill 512", "prefill 4096"] +
                         [f"decode x{batch} at 128" for batch in BATCHES] +
                         [f"decode x{batch} at {depth}" for depth in (1024, 4096) for batch in (1, 8)] +
                         ["mixed 512 + x8 at 128", "mixed 512 + x32 at 128"])
        self.assertEqual((found["name"], found["runs"]), ("mistral-tiny-8192", 2))
        self.assertGreater(found["dram_buffer_bytes"], 0)
        for name, row in rows.items():
            if name == "roofline bf16" and "skipped" in row:
                self.assertIn("no such products", row["skipped"])
                continue
            self.assertNotIn("skipped", row)
            self.check_values(row, 2)
            self.assertEqual(row["unit"], "GB/s" if name == "roofline DRAM read" else
                             "GMAC/s" if row["kind"] == "roofline" else "tokens/s")
            if row["kind"] != "roofline":
                for share in ("of_compute", "of_dram", "step_ms"):
                    self.assertGreater(row[share], 0, name)
        mixed = rows["mixed 512 + x8 at 128"]
        parts = 512 / rows["prefill 512"]["median"] + 1e-3 * rows["decode x8 at 128"]["step_ms"]
        self.assertAlmostEqual(mixed["of_parts"], 1e-3 * mixed["step_ms"] / parts, places=6)
        self.assertEqual([name for name, row in rows.items() if "of_parts" in row],
                         ["mixed 512 + x8 at 128", "mixed 512 + x32 at 128"])
        self.assertEqual({key: rows["mixed 512 + x8 at 128"][key] for key in ("kind", "prompt", "sequences", "depth")},
                         {"kind": "mixed", "prompt": 512, "sequences": 8, "depth": 128})
        self.assertEqual(sum("tokens/s" in line and line.count(" %") == 2 for line in lines), 15)

    def test_rows_beyond_the_context_say_why(self):
        lines, found = self.measured(self.model(2048), "--runs", 1, "--only", "prefill,decode")
        skipped = {row["measure"]: row["skipped"] for row in found["measures"] if "skipped" in row}
        beyond = ["prefill 4096", "decode x1 at 4096", "decode x8 at 4096"]
        self.assertEqual(skipped, dict.fromkeys(beyond, "context of 2048"))
        self.assertEqual([line for line in lines if "skipped" in line],
                         [f"{name:<24}skipped: context of 2048" for name in skipped])
        self.assertEqual([row["measure"] for row in found["measures"] if row["kind"] == "decode"],
                         [f"decode x{batch} at 128" for batch in BATCHES] +
                         [f"decode x{batch} at {depth}" for depth in (1024, 4096) for batch in (1, 8)])

    def test_depths_beyond_the_context_are_refused_before_anything_is_measured(self):
        model = self.model(2048)
        for depths, expected in (("100000", "--depth: 100000 is beyond the model's context of 2048, expected at most "),
                                 ("16,2048", "--depth: 2048 is beyond the model's context of 2048")):
            done = self.run_command(model, "--runs", 1, "--depth", depths)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(expected, done.stderr)
            self.assertNotIn("roofline", done.stderr)
        most = re.search(r"expected at most (\d+)", done.stderr)[1]
        _, found = self.measured(model, "--runs", 1, "--only", f"decode x1 at {most}", "--depth", most, "--repeat-context")
        self.check_values(found["measures"][0], 1)
        # What is not measured needs no context.
        self.measured(model, "--runs", 1, "--only", "roofline", "--depth", 100000)

    def test_rows_beyond_the_memory_of_the_cache_say_why(self):
        _, found = self.measured(self.model(8192), "--runs", 1, "--only", "decode", "--kv-memory", "256K",
                                 "--depth", "1,1024")
        last = found["measures"][-1]
        self.assertIn("--kv-memory allows", last["skipped"])
        self.assertNotIn("skipped", found["measures"][0])

    def test_models_of_all_kinds(self):
        for name in ("llama3-tiny", "qwen2-bf16-tiny", "qwen3-moe-tiny"):
            with self.subTest(name=name):
                _, found = self.measured(self.model(1024, name), "--runs", 1, "--only", "mixed", "--depth", 20,
                                         "--threads", 1, "--kernels", "portable")
                self.assertEqual((found["threads"], found["kernels"]), (1, "portable"))
                self.assertEqual(len(found["measures"]), 2)
                for row in found["measures"]:
                    self.check_values(row, 1)

    def test_json_alone(self):
        done = self.run_command(MODELS / "llama3-tiny", "--runs", 1, "--only", "roofline", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["measure"] for row in json.loads(done.stdout)["measures"]], ROOFLINES)

    def test_rows_by_their_names(self):
        _, found = self.measured(self.model(1024), "--runs", 1, "--depth", 40, "--only", "decode x2 at 40,prefill 512")
        self.assertEqual([row["measure"] for row in found["measures"]], ["prefill 512", "decode x2 at 40"])

    def test_contexts_that_repeat(self):
        command = [self.model(2048), "--runs", 1, "--depth", 1100, "--only", "decode x1 at 1100,prefill 512"]
        _, whole = self.measured(*command)
        _, found = self.measured(*command, "--repeat-context")
        self.assertEqual((whole["repeated_context"], found["repeated_context"]), (False, True))
        self.assertEqual([row["measure"] for row in found["measures"]], ["prefill 512", "decode x1 at 1100"])
        self.check_values(found["measures"][1], 1)

    def test_what_is_wrong(self):
        model = MODELS / "llama3-tiny"
        self.refused("MODEL is missing")
        self.refused("/nowhere.gguf", "/nowhere.gguf")
        self.refused("--runs: '0' is out of range, expected 1 to 1000", model, "--runs", 0)
        self.refused("--runs: 'few' is not an integer", model, "--runs", "few")
        self.refused("--only: 'sampling' is not measured, expected some of roofline,prefill,decode,mixed, or rows such as "
                     "'prefill 512'", model,
                     "--only", "decode,sampling")
        self.refused("--only: '' is not measured", model, "--only", "decode,")
        self.refused("--depth: '0' is out of range, expected 1", model, "--depth", "128,0")
        self.refused("--depth: '' is not an integer", model, "--depth", "128,")
        self.refused("kernels: 'abacus' is not available", model, "--kernels", "abacus")
        self.refused("nowhere/b.json: No such file", model, "--json", self.folder / "nowhere" / "b.json")
        done = self.run_command(model, "--runs", 1, "--only", "roofline", "--json", "/dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/dev/full: No space left on device", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
