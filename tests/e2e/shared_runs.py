"""Processes that make one pipeline's run together: shared_runs.py BINARY MODEL. DOVETAIL_LONG: more kills."""

import collections
import json
import os
import random
import shutil
import signal
import sys
import time
import unittest

import postgres_server
from pipeline_run import MODEL, WithFolder, answer, files_of, run
from running_server import PATIENCE
from scripted_endpoint import ScriptedEndpoint

LONG = bool(os.environ.get("DOVETAIL_LONG"))

LOCAL = """
name: adds
records: 60
models:
  adder: {{path: "{model}", sampling: {{temperature: 0, max_tokens: 8}}}}
columns:
  - {{name: a, type: sampler, sampler: integer, params: {{low: 0, high: 9}}}}
  - {{name: sum, type: llm-text, model: adder, chat: false, prompt: "{{{{ a }}}}+1="}}
  - {{name: short, type: validation, column: sum, regex: "^.$", require: true}}
"""


def setUpModule():
    if postgres_server.missing():
        raise unittest.SkipTest(postgres_server.missing())
    global server
    server = postgres_server.PostgresServer()
    unittest.addModuleCleanup(server.close)


def slowly(prompt):
    time.sleep(0.03)
    return answer(prompt)


class SharedRuns(WithFolder):
    def setUp(self):
        super().setUp()
        self.database = ("--database", server.where)
        self.addCleanup(lambda: server.rows("DROP SCHEMA IF EXISTS dovetail_judged, dovetail_adds CASCADE"))

    def worker(self, file, lease=1.0):
        return self.start("run", file, *self.database, "--share", "--lease", lease)

    def end(self, process, code=0):
        said = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, code, said)
        return said

    def wait_for(self, endpoint, requests):
        while len(endpoint.asked) < requests:
            time.sleep(0.005)

    def made_alone(self, file, endpoint):
        """The files of a run that one process makes, and how many requests that takes."""
        out = self.folder / "alone"
        run("run", file, "-o", out, "--quiet", "--no-report")
        return files_of(out), len(endpoint.take_asked())

    def check_results(self, file, endpoint, expected):
        out = self.folder / "out"
        status = json.loads(run("status", file, *self.database, "--json").stdout)
        ended = [column["values"] + column["dropped"] for column in status["columns"]]
        self.assertEqual(ended[:3], 3 * [status["records"]], "every cell is there, or its record is dropped")
        run("resume", file, *self.database, "-o", out, "--quiet")
        self.assertEqual(files_of(out), expected)
        self.assertEqual([prompt for prompt in endpoint.take_asked() if "13" not in prompt], [],
                         "nothing that had a value was asked for")
        self.assertTrue((out / "report.html").exists())

    def finished_prompts(self, files):
        """Prompts whose cells are durable in the database, by the results of the whole run."""
        dropped = {line["record"]: line["row"]
                   for line in map(json.loads, files["dropped.jsonl"].splitlines())}
        kept = (json.loads(line) for line in files["results.jsonl"].splitlines())
        cells = [divmod(int(key), 1 << 16) for key, in server.rows("SELECT key FROM dovetail_judged.cells")]
        columns = sorted({slot for _, slot in cells} - {0})  # of models; the small ones are in 0
        records = {}
        for record in range(max(record for record, _ in cells) + 1):
            number = (dropped.get(record) or next(kept))["number"]
            records[record] = (f"write about {number}", f"grade <about {number} is a number>")
        return {records[record][columns.index(slot)] for record, slot in cells if slot > 0}

    def kill_one_of(self, workers):
        for seed in range(5 if LONG else 1):
            random.seed(seed)
            self.kill_one(workers)
            server.rows("DROP SCHEMA dovetail_judged CASCADE")
            for name in ("alone", "out"):
                shutil.rmtree(self.folder / name)

    def kill_one(self, workers, records=400):
        with ScriptedEndpoint(slowly) as endpoint:
            file = self.judged(endpoint, records)
            expected, calls = self.made_alone(file, endpoint)
            processes = [self.worker(file, lease=3.0) for _ in range(workers)]
            self.wait_for(endpoint, random.randrange(calls // 10, calls * 2 // 3))
            processes[0].kill()
            processes[0].communicate()
            time.sleep(0.3)  # until the endpoint has read what it had sent
            at_kill = len(endpoint.asked)
            finished = self.finished_prompts(expected)
            at_look = len(endpoint.asked)
            for process in processes[1:]:
                self.end(process)
            asked = endpoint.take_asked()
            before, after = collections.Counter(asked[:at_kill]), collections.Counter(asked[at_kill:])
            # A prompt whose answer is no option is asked again, which is no repetition.
            again = {prompt: times for prompt, times in (*before.items(), *after.items())
                     if times > 1 and "13" not in prompt}
            self.assertEqual(again, {}, "asked for twice with no kill between")
            self.assertEqual(finished & set(asked[at_look:]), set(), "asked for again, though durable")
            repeated = set(before) & set(after)
            self.check_results(file, endpoint, expected)
            print(f"{workers} workers: {calls} requests alone, {before.total()} until the kill with "
                  f"{len(finished)} cells durable, {after.total()} after it, {len(repeated)} prompts again")

    def test_one_of_two_is_killed(self):
        self.kill_one_of(2)

    def test_one_of_four_is_killed(self):
        self.kill_one_of(4)

    def test_a_worker_that_slept_has_lost_its_records(self):
        with ScriptedEndpoint(slowly) as endpoint:
            file = self.judged(endpoint, 300)
            expected, calls = self.made_alone(file, endpoint)
            sleeper, other = self.worker(file, 0.5), self.worker(file, 0.5)
            self.wait_for(endpoint, calls // 4)
            sleeper.send_signal(signal.SIGSTOP)
            self.end(other)
            sleeper.send_signal(signal.SIGCONT)
            self.assertNotIn("lease", self.end(sleeper), "no matter for the user")
            time.sleep(0.5)  # until the endpoint has read what the sleeper had sent
            endpoint.take_asked()
            self.check_results(file, endpoint, expected)

    def test_an_interrupted_worker_gives_its_records_back(self):
        with ScriptedEndpoint(slowly) as endpoint:
            file = self.judged(endpoint, 300)
            expected, calls = self.made_alone(file, endpoint)
            first, other = self.worker(file, 3600), self.worker(file, 3600)
            self.wait_for(endpoint, calls // 4)
            first.send_signal(signal.SIGINT)
            self.assertIn("go on with: dovetail pipeline run --share", self.end(first, 128 + signal.SIGINT))
            self.assertEqual(server.rows("SELECT DISTINCT worker <> '' FROM dovetail_judged.ranges "
                                         "WHERE state = 1"), [["t"]], "the other one is at work")
            self.end(other)
            asked = collections.Counter(endpoint.take_asked())
            self.assertEqual({prompt for prompt, times in asked.items() if times > 1 and "13" not in prompt},
                             set(), "what was under way was kept")
            self.check_results(file, endpoint, expected)

    def test_workers_come_and_go(self):
        """One after the other, and once more when there is nothing left to do."""
        with ScriptedEndpoint(slowly) as endpoint:
            file = self.judged(endpoint, 100)
            expected, calls = self.made_alone(file, endpoint)
            said = run("run", file, *self.database, "--share").stderr
            self.assertIn("the run is complete", said)
            self.assertIn("for the results: dovetail pipeline resume", said)
            self.assertEqual(len(endpoint.take_asked()), calls)
            self.assertIn("0 records were made here", run("run", file, *self.database, "--share").stderr)
            end = json.loads(run("run", file, *self.database, "--share", "--json").stdout.splitlines()[-1])
            self.assertEqual(end["end"], "complete")
            self.assertFalse((self.folder / "judged").exists(), "workers write no files")
            self.check_results(file, endpoint, expected)

    def test_results_need_no_model(self):
        model = self.folder / "model"
        shutil.copytree(MODEL, model)
        file = self.write("adds.yaml", LOCAL.format(model=model))
        run("run", file, "-o", self.folder / "alone", "--quiet")
        self.assertIn("dropped.jsonl", files_of(self.folder / "alone"))
        run("run", file, *self.database, "--share", "--quiet")
        run("resume", file, *self.database, "-n", 80, "--quiet", "-o", self.folder / "more")
        shutil.rmtree(model)
        late = run("run", file, *self.database, "--share").stderr
        self.assertIn("0 records were made here", late, "a worker that comes when nothing is left")
        self.assertIn("model", run("run", file, *self.database, "--share", "-n", 90, code=1).stderr)
        self.assertIn("model", run("resume", file, *self.database, "-n", 90, "-o", self.folder / "more",
                                   code=1).stderr)
        run("resume", file, *self.database, "-o", self.folder / "out", "--quiet")
        self.assertEqual(files_of(self.folder / "out"), files_of(self.folder / "alone"))

    def priced(self, endpoint, cost):
        """Each answer of the first column costs 1."""
        text = self.judged(endpoint, 600).read_text()
        text = text.replace("model: w,", f"model: w, input_price: {1e6 / 7},")
        return self.write("judged.yaml", f"{text}\nlimits: {{cost: {cost}}}\n")

    def test_the_cost_of_all_workers_is_limited(self):
        pace = [0.0]

        def answering(prompt):
            time.sleep(pace[0])
            return answer(prompt)

        with ScriptedEndpoint(answering) as endpoint:
            expected, calls = self.made_alone(self.judged(endpoint, 600), endpoint)
            pace[0] = 0.25  # far longer than a commit takes, which tells the others what was paid
            file = self.priced(endpoint, 150)
            for worker in [self.worker(file) for _ in range(3)]:
                said = self.end(worker, code=1)
                self.assertIn("limits.cost is 150", said)
                self.assertIn("go on with: dovetail pipeline run --share", said)
            paid = sum(prompt.startswith("write") for prompt in endpoint.take_asked())
            self.assertGreaterEqual(paid, 150)
            # What was in flight, and what was asked for until a commit has told of it.
            self.assertLessEqual(paid, 150 + 4 * 3 * 8)
            end = json.loads(run("run", file, *self.database, "--share", "--json", code=1).stdout
                             .splitlines()[-1])
            self.assertEqual(end["end"], "cost")
            self.assertEqual(endpoint.take_asked(), [], "a worker that comes later sends no request")

            # What has been made can be had, up to the first record that is not.
            out = self.folder / "part"
            self.assertIn("limits.cost", run("resume", file, *self.database, "-o", out, code=1).stderr)
            part = (out / "results.jsonl").read_bytes()
            self.assertTrue(expected["results.jsonl"].startswith(part))
            self.assertGreater(part.count(b"\n"), 10)
            self.assertEqual(endpoint.take_asked(), [])

            file = self.priced(endpoint, 10_000)
            for worker in [self.worker(file) for _ in range(2)]:
                self.assertIn("the run is complete", self.end(worker))
            paid += sum(prompt.startswith("write") for prompt in endpoint.take_asked())
            self.assertEqual(paid, 600, "nothing was paid for twice")
            self.check_results(file, endpoint, expected)

    def test_what_cannot_be_shared(self):
        with ScriptedEndpoint(answer) as endpoint:
            text = self.judged(endpoint).read_text()
        target = 'target_accepted: {count: 3, when: "{{ size > 3 }}", candidates: 9}'
        file = self.write("refused.yaml", text.replace("records: 300", target))
        self.assertIn("refused.yaml: target_accepted: ",
                      run("run", file, *self.database, "--share", code=1).stderr)
        file = self.write("judged.yaml", text)
        self.assertIn("--share: without --database", run("run", file, "--share", code=1).stderr)
        self.assertIn("PostgreSQL", run("run", file, "--share", "--database", self.folder / "run.db",
                                        code=1).stderr)
        self.assertIn("--lease", run("run", file, *self.database, "--lease", 3, code=2).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
