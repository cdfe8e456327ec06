"""Runs `dovetail simulate` as people do: simulate_test.py BINARY"""

import json
import subprocess
import sys
import unittest

import cases

LOAD = ["--requests", 300, "--arrivals", "poisson:40", "--prompt", "uniform:20-200", "--output", "longtail:8"]


class Simulate(cases.OfCommand):
    COMMAND = "simulate"

    def test_a_report_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([cases.BINARY, "simulate", *map(str, LOAD)], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output: No space left on device", done.stderr)

    # The prompt of 100 tokens takes 1,000 + 100 * 10 us, every further token 1,000 + 50 us.
    def test_a_trace_gives_the_times_of_its_steps(self):
        requests = self.write("r.csv", "arrival,prompt_tokens,output_tokens\n0.5,100,3\n")
        found = json.loads(self.output("--requests-file", requests, "--cost", "1000:10:50:0", "--json"))
        self.assertAlmostEqual(found["time_to_first_token"]["max"], 0.002)
        self.assertAlmostEqual(found["inter_token_latency"]["max"], 0.00105)
        self.assertAlmostEqual(found["end_to_end"]["max"], 0.0041)
        self.assertEqual(found["steps"], {"prefill": 1, "mixed": 0, "decode": 2, "rows": 3})

    def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(self):
        cluster = [*LOAD, "--replicas", 5, "--json"]
        once = self.output(*cluster)
        self.assertEqual(self.output(*cluster), once)
        self.assertEqual(self.output(*cluster, "--threads", 3), once)
        self.assertNotEqual(self.output(*cluster, "--seed", 2), once)

    def test_the_scheduler_s_options_have_their_effect(self):
        mixed = json.loads(self.output(*LOAD, "--json"))
        self.assertGreater(mixed["steps"]["mixed"], 0)
        apart = json.loads(self.output(*LOAD, "--no-mixed", "--json"))
        self.assertEqual(apart["steps"]["mixed"], 0)
        tight = json.loads(self.output(*LOAD, "--max-model-len", 1024, "--kv-blocks", 64, "--no-prefix-cache", "--json"))
        self.assertGreater(tight["preemptions"], 0)
        guessing = json.loads(self.output(*LOAD, "--speculative-tokens", 3, "--acceptance", 1, "--json"))
        self.assertGreater(guessing["tokens"]["guessed_right"], 0)
        for found in (mixed, apart, tight, guessing):
            self.assertEqual(found["requests"]["finished"] + found["requests"]["refused"], 300)
            self.assertEqual(found["requests"]["refused"], 0)

    def test_a_cost_is_learnt_from_measured_steps(self):
        lines = ["prefill_tokens,decode_rows,context_tokens,microseconds"]
        for i in range(40):
            prefill, rows, context = i * 13 % 64, 1 + i * 7 % 32, i * i * 17 % 5000
            lines.append(f"{prefill},{rows},{context},{300 + 12 * prefill + 40 * rows + 0.25 * context}")
        done = self.run_command("--calibrate", self.write("steps.csv", "\n".join(lines)), "--requests", 5)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cost 300.000:12.0000:40.0000:0.250000 us from 40 steps", done.stderr)

    def test_the_trace_is_what_perfetto_reads(self):
        path = self.folder / "trace.json"
        self.output(*LOAD, "--trace", path)
        events = json.loads(path.read_text())["traceEvents"]
        self.assertTrue(any("mixed[" in event.get("name", "") for event in events))

    def test_bad_input_is_named(self):
        bad = self.write("bad.csv", "arrival,prompt_tokens,output_tokens\n0,5,1\n0,5,x\n")
        self.refused("bad.csv:3: output_tokens: 'x' is no number", "--requests-file", bad)
        self.refused("missing.csv", "--requests-file", self.folder / "missing.csv")
        self.refused("makes every step free", "--cost", "0:0:0:0")
        self.refused("expected STEP:PREFILL", "--cost", "1:2")
        self.refused("'nearest' is no router", "--router", "nearest")
        self.refused("cannot be shared out", "--router", "least-outstanding", "--threads", 2)
        self.refused("one of them", "--cost", "1:1:1:1", "--calibrate", bad)
        self.refused("arrivals: 'now'", "--arrivals", "now")

    def test_what_would_have_no_effect_is_refused(self):
        self.refused("--async-scheduling", "--async-scheduling")
        self.refused("--kv-memory", "--kv-memory", "1G")
        self.refused("--kv-cache-dtype", "--kv-cache-dtype", "f16")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
