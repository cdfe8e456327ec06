"""What an endpoint's errors and refusals cost a run, in requests and in what waits for them: endpoint_troubles.py BINARY MODEL.

How long it all takes is judged under a virtual clock (tests/pipeline/remote/cost_of_trouble_test.cpp); here HTTP is real, and
what is counted is the work."""

import collections
import socket
import threading
import unittest

from pipeline_run import PATIENCE, WithFolder, main, run
from scripted_endpoint import ScriptedEndpoint

PARALLEL = 8

ASKED = """
name: asked
records: {records}
models:
  writer: {{endpoint: "{url}", model: w, max_parallel: {parallel}}}
columns:
  - {{name: number, type: sampler, sampler: uuid}}
  - {{name: text, type: llm-text, model: writer, prompt: "write about {{{{ number }}}}"}}
"""


class Script:
    """Answers of an endpoint that know how far the run is. `answer(nth, is_first)`: of the nth prompt, from 0."""

    def __init__(self, records, answer):
        self.more = threading.Condition()
        self.numbers = {}  # of prompts, in the order of their first arrival
        self.counts = collections.Counter()  # of requests, by status
        self.under_way = 0
        self.most_late = 0  # under way at the same time, while a prompt of the second half waits
        self.records = records
        self.answer = answer
        self.waited_in_vain = False

    def __call__(self, prompt):
        with self.more:
            is_first = prompt not in self.numbers
            nth = self.numbers.setdefault(prompt, len(self.numbers))
            self.under_way += 1
            if 2 * nth >= self.records:
                self.most_late = max(self.most_late, self.under_way)
            self.more.notify_all()
            text = self.answer(self, nth, is_first)
            self.under_way -= 1
            self.counts[text if isinstance(text, int) else 200] += 1
            self.more.notify_all()
        return text

    def wait_for(self, condition):
        """Holds an answer back."""
        if not self.more.wait_for(lambda: self.waited_in_vain or condition(), PATIENCE / 2):
            self.waited_in_vain = True
            self.more.notify_all()


class EndpointTroubles(WithFolder):
    def ask(self, script, parallel=PARALLEL):
        with ScriptedEndpoint(script) as endpoint:
            file = self.write("asked.yaml", ASKED.format(url=endpoint.url, records=script.records, parallel=parallel))
            run("run", file, "-o", self.folder / "out", "--quiet")
        self.assertFalse(script.waited_in_vain)
        self.assertEqual((self.folder / "out" / "results.jsonl").read_bytes().count(b"\n"), script.records)

    def test_errors_hold_up_no_other_record(self):
        wrong, each = PARALLEL - 1, 24
        records = wrong * each

        def answer(script, nth, is_first):
            if nth % each == 0 and is_first:
                return 500
            if nth % each == 0:  # their second tries keep all slots but one until the others are done
                script.wait_for(lambda: script.counts[200] >= records - wrong)
            return "text"

        script = Script(records, answer)
        self.ask(script)
        self.assertEqual(script.counts, {200: records, 500: wrong}, "each error costs one request")

    def test_some_refusals_take_no_slot(self):
        records, before = 400, 100

        def answer(script, nth, is_first):
            if before <= nth and nth % 20 == 0 and is_first:
                return 429
            if nth >= records // 2:  # late in the run all slots are in use at the same time
                script.wait_for(lambda: script.most_late == PARALLEL)
            return "text"

        script = Script(records, answer)
        self.ask(script)
        self.assertEqual(script.counts, {200: records, 429: (records - before) // 20}, "each refusal costs one request")

    def test_refusals_of_a_full_endpoint_stay_few(self):
        records, places = 400, 4

        def answer(script, nth, is_first):
            if script.under_way > places:
                return 429
            script.more.wait(0.005)
            return "text"

        script = Script(records, answer)
        self.ask(script, parallel=4 * places)
        self.assertEqual(script.counts[200], records)
        # At the level it began with, three of four requests were refused.
        self.assertLess(script.counts[429], records // 4)

    def test_why_an_endpoint_fails_is_said_while_it_is_tried_again(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"  # without a listener
            file = self.write("asked.yaml", ASKED.format(records=3, url=url, parallel=2))
            for arguments in (["preview", file], ["run", file, "-o", self.folder / "out"]):
                with self.subTest(arguments[0]):
                    running = self.start(*arguments)
                    running.wait_until_said("failing, and tried again: "
                                            f"writer ({url}): POST {url}/chat/completions: Failed to connect")
                    running.kill()
                    running.end()


if __name__ == "__main__":
    main()
