"""Pipelines as people run them: pipelines.py BINARY MODEL."""

import json
import os
import subprocess
import time

from pipeline_run import BINARY, MODEL, WithFolder, answer, files_of, main, run
from running_server import API_KEY, PATIENCE, RunningServer
from scripted_endpoint import ScriptedEndpoint

EXAMPLE = MODEL.parent.parent / "examples" / "arithmetic" / "pipeline.yaml"


class Commands(WithFolder):
    def test_the_example(self):
        out = self.folder / "out"
        run("run", EXAMPLE, "-o", out, "-n", 200, "--quiet")
        records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
        self.assertEqual(len(records), 200)
        for record in records:
            truth = record["a"] + record["b"] if record["sign"] == "+" else record["a"] - record["b"]
            self.assertEqual(record["truth"], truth)
            self.assertEqual(record["correct"], record["answer"] == str(truth))
            self.assertEqual(record["accepted"], record["verdict"]["right"]["score"] == "yes")
        right = sum(record["correct"] for record in records)
        self.assertGreater(right, 150, "the bundled model can add")
        status = json.loads(run("status", EXAMPLE, "-o", out, "-n", 200, "--json").stdout)
        self.assertEqual([column["values"] for column in status["columns"]], [200] * 8)
        report = (out / "report.html").read_text()
        (out / "report.html").unlink()
        run("report", EXAMPLE, "-o", out, "-n", 200)
        self.assertEqual(len(report) > 10000, (out / "report.html").stat().st_size > 10000)

    def test_preview_shows_records_and_keeps_nothing(self):
        done = subprocess.run([BINARY, "pipeline", "preview", EXAMPLE, "-n", "2"], cwd=self.folder,
                              capture_output=True, text=True, timeout=PATIENCE, check=True)
        self.assertIn("record 1", done.stdout)
        self.assertIn("verdict", done.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_events(self):
        out = self.folder / "out"
        events = [json.loads(line) for line in
                  run("run", EXAMPLE, "-o", out, "-n", 50, "--json").stdout.splitlines()]
        self.assertEqual(events[-1]["event"], "end")
        self.assertEqual(events[-1]["records"], 50)
        self.assertTrue(all(event["event"] == "progress" for event in events[:-1]))

    def test_errors(self):
        out = self.folder / "out"
        missing = run("run", self.folder / "none.yaml", code=1).stderr
        self.assertIn("none.yaml: No such file or directory", missing)
        run("run", EXAMPLE, "-o", out, "-n", 5, "--quiet")
        again = run("run", EXAMPLE, "-o", out, "-n", 5, code=1).stderr
        self.assertIn("run.db", again)
        self.assertIn("`dovetail pipeline resume`", again)
        self.assertNotIn("--resume", again)
        self.assertIn("run.db", run("resume", EXAMPLE, "-o", self.folder / "other", code=1).stderr)
        bad = self.write("bad.yaml", "records: 3\ncolumns:\n  - {name: a, type: samplr}\n")
        self.assertIn("bad.yaml:3:", run("validate", bad, code=1).stderr)
        worse = self.write("worse.yaml", "records: 0\nname: ../../x\ncolumns:\n  - {name: a, type: samplr}\n")
        said = run("validate", worse, code=1).stderr
        for place in ("worse.yaml:1:1: /records: 0", 'worse.yaml:2:1: /name: "../../x"',
                      "worse.yaml:4:15: /columns/0/type: \"samplr\""):
            self.assertIn(place, said)
        models = self.write("models.yaml", f"""
records: 3
models:
  gone: {{path: none.gguf}}
  short: {{path: {MODEL}, engine: {{max-model-len: 100000}}}}
  good: {{path: {MODEL}}}
columns:
  - {{name: a, type: llm-text, model: good, prompt: "1+1="}}
  - {{name: b, type: llm-text, model: gone, prompt: "1+1="}}
  - {{name: c, type: llm-text, model: short, prompt: "1+1="}}
""")
        said = run("validate", models, code=1).stderr
        self.assertIn("models.yaml: models.gone: ", said)
        self.assertIn("none.gguf: no such file or folder", said)
        self.assertIn("models.yaml: models.short: max-model-len: 100000 is out of range", said)
        self.assertNotIn("models.good", said)

    def test_a_dataset_without_a_record_is_a_failure(self):
        file = self.write("none.yaml", """
records: 5
columns:
  - {name: n, type: sampler, sampler: integer, params: {low: 0, high: 9}}
  - {name: text, type: expression, value: "{{ n }}"}
  - {name: check, type: validation, column: text, regex: "x", require: true}
""")
        for arguments in (("run", file, "-o", self.folder / "out"), ("resume", file, "-o", self.folder / "out"),
                          ("preview", file)):
            said = run(*arguments, code=1).stderr
            self.assertIn("no record was kept: all ", said)
            self.assertIn("check: text is not valid", said)


OPTIONS = """
name: options
records: 200
models:
  judge:
    path: {model}
    engine: {{max-num-seqs: {rows}}}
    sampling: {{temperature: 3, max_tokens: 1, stop: ["\\n", "0"]}}
columns:
  - {{name: n, type: sampler, sampler: integer, params: {{low: 0, high: 99999}}}}
  - name: verdict
    type: llm-judge
    model: judge
    chat: false
    answer: option
    corrections: 0
    prompt: "{{{{ n }}}}"
    rubrics: [{{name: r, options: {options}}}]
"""


class Options(WithFolder):
    def test_a_model_here_says_nothing_else(self):
        options = ["1", "10", "100", "1 or 2", "a.b|(c"]
        outs = {rows: self.folder / f"rows{rows}" for rows in (1, 7, 64)}
        for rows, out in outs.items():
            text = OPTIONS.format(model=MODEL, rows=rows, options=json.dumps(options))
            run("run", self.write("options.yaml", text), "-o", out, "--quiet")
        lines = (outs[1] / "results.jsonl").read_text().splitlines()
        scores = {json.loads(line)["verdict"]["r"]["score"] for line in lines}
        self.assertEqual(len(lines), 200)
        self.assertLessEqual(scores, set(options))
        self.assertLess({"1", "10"}, scores, "an option that is the beginning of another")
        self.assertFalse((outs[1] / "dropped.jsonl").exists())
        for out in outs.values():
            self.assertEqual(files_of(out), files_of(outs[1]))

        changed = OPTIONS.format(model=MODEL, rows=7, options='["1", "10"]')
        done = run("resume", self.write("options.yaml", changed), "-o", outs[7])
        self.assertIn("made anew, since they or what they need have changed: verdict", done.stderr)
        lines = (outs[7] / "results.jsonl").read_text().splitlines()
        self.assertEqual({json.loads(line)["verdict"]["r"]["score"] for line in lines}, {"1", "10"})


class Reports(WithFolder):
    def test_dropped_records_and_their_reasons(self):
        file = self.write("target.yaml", """
target_accepted: {count: 30, when: "{{ n > 4 }}", candidates: 1000}
columns:
  - {name: n, type: sampler, sampler: integer, params: {low: 0, high: 9}}
  - {name: text, type: expression, value: "<{{ n }} & more>"}
  - {name: check, type: validation, column: text, regex: "^<[^7]", require: true}
""")
        out = self.folder / "out"
        run("run", file, "-o", out, "--quiet")
        dropped = [json.loads(line) for line in (out / "dropped.jsonl").read_text().splitlines()]
        refused = sum("target_accepted" in record["reason"] for record in dropped)
        self.assertGreater(min(refused, len(dropped) - refused), 0)
        page = (out / "report.html").read_text()
        self.assertIn("<dt>Accepted</dt><dd>30</dd>", page)
        section = page[page.index('id="dropped"'):page.index('id="samples"')]
        first = next(i for i, record in enumerate(dropped) if "target" in record["reason"])
        self.assertIn(f'<th scope="row">target_accepted</th><td class="n" data-label="Records">{refused}</td>'
                      f'<td class="n" data-label="Record">{dropped[first]["record"]}</td>', section)
        shown = section.split("<summary>")[1:]
        self.assertEqual(len(shown), 5)
        for text, record in zip(shown, dropped):
            self.assertTrue(text.startswith(f"Record {record['record']} <span>"), text)
            self.assertIn(record["reason"][:20], text.replace("&quot;", '"').replace("&lt;", "<"))
            self.assertIn(f"&lt;{record['row']['n']} &amp; more&gt;", text)


WRITTEN = """
records: 60
models:
  m: {{endpoint: "{url}", model: m, max_parallel: 2}}
columns:
  - {{name: n, type: sampler, sampler: integer, params: {{low: 0, high: 999999}}}}
  - {{name: text, type: llm-text, model: m, prompt: "write {{{{ n }}}}"}}
  - {{name: even, type: validation, column: text, regex: "[02468]$"}}
"""


def half_of_some(prompt):
    """An answer that is cut where its number ends with 7."""
    time.sleep(0.1)  # long beside what the program itself takes, whatever it was built with
    return prompt, "length" if prompt.endswith("7") else "stop"


class Told(WithFolder):
    def test_what_a_run_knows_of_itself(self):
        with ScriptedEndpoint(half_of_some) as endpoint:
            file = self.write("written.yaml", WRITTEN.format(url=endpoint.url))
            out = self.folder / "out"
            said = run("run", file, "-o", out).stderr
            records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
            cut = sum(record["text_cut"] for record in records)
            self.assertGreater(cut, 0)
            for record in records:
                self.assertEqual(list(record), ["n", "text", "text_cut", "even"])
                self.assertEqual(record["text_cut"], str(record["n"]).endswith("7"))
            self.assertIn(f"text: {cut} of 60 answers were cut by max_tokens", said)
            held = r"held by your max_parallel \(2\) for \d+ % of the time"
            self.assertRegex(said, held)

            shown = run("status", file, "-o", out).stdout
            even = sum(record["even"]["valid"] for record in records)
            share = f"{100 * even / 60:.1f}%"
            self.assertRegex(shown, f"even .*  {share} valid")
            self.assertRegex(shown, f"text .*  {cut} cut by max_tokens")
            self.assertRegex(shown, held)
            status = json.loads(run("status", file, "-o", out, "--json").stdout)
            self.assertEqual(status["columns"][2]["valid"], {"hits": even, "of": 60})
            self.assertEqual(status["columns"][1]["cut"], cut)
            self.assertEqual(status["endpoints"][0]["max_parallel"], 2)

            # Sessions that ask no model, and reports, keep what the first one did.
            whole = files_of(out)
            for command in ("run", "resume", "report"):
                if command != "run":
                    run(command, file, "-o", out)
                page = (out / "report.html").read_text()
                self.assertIn("Endpoints over time", page, command)
                self.assertRegex(page, held, command)
                self.assertIn(f"<dt>cut by max_tokens</dt><dd>{cut} (", page)
                self.assertIn(f"<dt>valid</dt><dd>{even} ({share})</dd>", page)
            self.assertEqual(files_of(out), whole)

    def test_deleted_results_are_noticed_and_written_again(self):
        with ScriptedEndpoint(half_of_some) as endpoint:
            file = self.write("written.yaml", WRITTEN.format(url=endpoint.url))
            run("run", file, "-o", self.folder / "whole", "--quiet")
            out = self.folder / "out"
            running = self.start("run", file, "-o", out)
            results = out / "results.jsonl"
            while not results.exists() or results.stat().st_size == 0:
                time.sleep(0.005)
            results.unlink()
            self.assertEqual(running.end(), 1)
            self.assertIn("results.jsonl: the file was deleted or moved while the run wrote it", running.said())
            run("resume", file, "-o", out, "--quiet")
            self.assertEqual(files_of(out), files_of(self.folder / "whole"))
            # A folder takes the cells with it.
            moved = self.folder / "moved"
            running = self.start("run", file, "-o", self.folder / "there")
            results = self.folder / "there" / "results.jsonl"
            while not results.exists() or results.stat().st_size == 0:
                time.sleep(0.005)
            (self.folder / "there").rename(moved)
            self.assertEqual(running.end(), 1)
            # Whichever of the two files is looked for first says so.
            self.assertRegex(running.said(), r"(results\.jsonl|run\.db): its folder was deleted or moved")
            self.assertNotIn("--output", running.said())
            run("resume", file, "-o", moved, "--quiet")
            self.assertEqual(files_of(moved), files_of(self.folder / "whole"))


class Endpoints(WithFolder):
    def test_a_model_here_and_behind_a_server_say_the_same(self):
        text = EXAMPLE.read_text()
        here = text.replace("../../models/demo-arith", str(MODEL))
        server = RunningServer(str(BINARY), str(MODEL))
        self.addCleanup(server.stop)
        os.environ["DOVETAIL_TEST_KEY"] = API_KEY
        there = here.replace(f"path: {MODEL}",
                             f"endpoint: {server.url}/v1\n    model: demo-arith\n"
                             "    api_key_env: DOVETAIL_TEST_KEY")
        self.assertEqual(there.count("endpoint:"), 2)
        run("run", self.write("here.yaml", here), "-o", self.folder / "here", "-n", 300, "--quiet")
        run("run", self.write("there.yaml", there), "-o", self.folder / "there", "-n", 300, "--quiet")
        self.assertEqual(files_of(self.folder / "here"), files_of(self.folder / "there"))

    def test_a_changed_column_is_made_anew(self):
        with ScriptedEndpoint(answer) as endpoint:
            out = self.folder / "out"
            run("run", self.judged(endpoint), "-o", out, "--quiet")
            endpoint.take_asked()
            done = run("resume", self.judged(endpoint, verb="judge"), "-o", out)
            self.assertIn("made anew, since they or what they need have changed: grade", done.stderr)
            asked = endpoint.take_asked()
            self.assertTrue(all(prompt.startswith("judge ") for prompt in asked))
            self.assertGreaterEqual(len(asked), 290)

    def test_a_refused_key_ends_the_run_early(self):
        with ScriptedEndpoint(lambda prompt: 401) as endpoint:
            done = run("run", self.judged(endpoint, 2000), "-o", self.folder / "out", code=1)
            self.assertIn("failed for good; go on with: dovetail pipeline resume", done.stderr)
            self.assertLess(len(endpoint.take_asked()), 500)


if __name__ == "__main__":
    main()
