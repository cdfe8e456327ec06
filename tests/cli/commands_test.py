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

from cases import BINARY, WithFolder, lines_of, run

SOURCE, SHARED = (pathlib.Path(argument).resolve() for argument in sys.argv[2:4])
DEMO = SOURCE / "models" / "demo-arith"
STORIES = SHARED / "models" / "stories260K"
STORIES_GGUF = STORIES / "stories260K-F32.gguf"
TINY = SOURCE / "tests" / "golden" / "models" / "llama3-tiny"  # has no tokenizer
SUMS = SOURCE / "examples" / "arithmetic.jsonl"


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
