"""Pipelines as people run them: pipelines.py BINARY MODEL. DOVETAIL_LONG: more kills."""

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from running_server import API_KEY, PATIENCE, RunningServer
from scripted_endpoint import ScriptedEndpoint

BINARY, MODEL = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
LONG = bool(os.environ.get("DOVETAIL_LONG"))
EXAMPLE = MODEL.parent.parent / "examples" / "arithmetic" / "pipeline.yaml"

JUDGED = """
name: judged
records: {records}
models:
  writer: {{endpoint: "{url}", model: w, max_parallel: 8}}
  judge: {{endpoint: "{url}", model: j, max_parallel: 8}}
columns:
  - {{name: number, type: sampler, sampler: integer, params: {{low: 0, high: 1000000000000}}}}
  - {{name: text, type: llm-text, model: writer, prompt: "write about {{{{ number }}}}"}}
  - name: grade
    type: llm-judge
    model: judge
    answer: option
    corrections: 0
    prompt: "{verb} {{{{ text }}}}"
    rubrics: [{{name: good, description: is it, options: {{"yes": it is, "no": it is not}}}}]
  - {{name: size, type: expression, as: integer, value: "{{{{ text | length }}}}"}}
"""


def answer(prompt):
    verb, _, rest = prompt.partition(" ")
    if verb == "write":
        return f"<{rest} is a number>"
    if "13" in rest:
        return "hardly"  # no option: the record is dropped
    return "no" if "7" in rest else "yes"


def run(*arguments, code=0):
    done = subprocess.run([BINARY, "pipeline", *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE)
    if done.returncode != code:
        raise AssertionError(f"{arguments}: exit code {done.returncode}, expected {code}\n"
                             f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def judged(self, endpoint, records=300, verb="grade", name="judged.yaml"):
        return self.write(name, JUDGED.format(url=endpoint.url, records=records, verb=verb))


def files_of(folder):
    names = ("results.jsonl", "dropped.jsonl")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


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
        self.assertIn("run.db", run("run", EXAMPLE, "-o", out, "-n", 5, code=1).stderr)
        self.assertIn("run.db", run("resume", EXAMPLE, "-o", self.folder / "other", code=1).stderr)
        bad = self.write("bad.yaml", "records: 3\ncolumns:\n  - {name: a, type: samplr}\n")
        self.assertIn("bad.yaml:3:", run("validate", bad, code=1).stderr)


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


class Interruptions(WithFolder):
    def start(self, *arguments):
        process = subprocess.Popen([BINARY, "pipeline", *map(str, arguments), "--quiet"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def test_one_interrupt_keeps_what_is_under_way(self):
        def slowly(prompt):
            time.sleep(0.02)
            return answer(prompt)

        with ScriptedEndpoint(slowly) as endpoint:
            whole, out = self.folder / "whole", self.folder / "out"
            file = self.judged(endpoint)
            run("run", file, "-o", whole, "--quiet")
            endpoint.take_asked()
            process = self.start("run", file, "-o", out)
            while len(endpoint.asked) < 100:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=PATIENCE)[1]
            self.assertEqual(process.returncode, 128 + signal.SIGINT)
            self.assertIn("go on with: dovetail pipeline resume", said)
            before = collections.Counter(endpoint.take_asked())
            run("resume", file, "-o", out, "--quiet")
            after = collections.Counter(endpoint.take_asked())
            # A prompt whose answer was no option is asked again, in the same session.
            repeated = {prompt for prompt in before if prompt in after and "13" not in prompt}
            self.assertEqual(repeated, set(), "what was under way was kept")
            self.assertEqual(files_of(out), files_of(whole))

    def test_kill_at_any_moment(self):
        """No record is lost, none that was finished is asked for again, and the files are those of a run
        that nobody killed."""
        random.seed(20)
        kills = 50 if LONG else 8
        with ScriptedEndpoint(answer) as endpoint:
            whole, out = self.folder / "whole", self.folder / "out"
            file = self.judged(endpoint, 150 * kills)
            start = time.monotonic()
            run("run", file, "-o", whole, "--quiet", "--no-report")
            duration = (time.monotonic() - start) / kills
            calls = len(endpoint.take_asked())
            finished = set()
            total = killed = 0
            command = "run"
            while True:
                process = self.start(command, file, "-o", out, "--no-report")
                try:
                    # Some while it starts, most in the middle.
                    process.wait(timeout=random.uniform(0.01, 0.05 + 1.5 * duration)
                                 if killed < kills else PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    killed += 1
                said = process.communicate()[1]
                if process.returncode != -signal.SIGKILL:
                    self.assertEqual(process.returncode, 0, said)
                asked = endpoint.take_asked()
                total += len(asked)
                again = [prompt for prompt in asked if prompt in finished]
                self.assertEqual(again, [], f"finished before kill {killed}")
                if process.returncode == 0:
                    break
                if (out / "run.db").exists():
                    command = "resume"
                if (out / "results.jsonl").exists():
                    for line in (out / "results.jsonl").read_text().splitlines(keepends=True):
                        if line.endswith("\n"):
                            number = json.loads(line)["number"]
                            text = f"<about {number} is a number>"
                            finished |= {f"write about {number}", f"grade {text}"}
            self.assertGreater(killed, 0)
            self.assertGreater(total, calls, "some kills met requests under way")
            self.assertEqual(files_of(out), files_of(whole))
            print(f"{killed} kills, {calls} requests of the whole run, {total} with the kills")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
