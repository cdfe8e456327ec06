"""What the scheduler promises, seen through the HTTP server.

usage: scheduling.py PROGRAM MODEL [unittest options]
Numbers in names are those of the cases in tests/schedule/CASES.md.
"""

import json
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

from running_server import API_KEY, RunningServer
from stream_client import Stream, read_all

PROGRAM, MODEL = sys.argv[1:3]
NAME = Path(MODEL).name


def sum_prompt(a, b):
    return f"Q: {a}+{b}=?\nA:"


def body(prompt, **options):
    return {"model": NAME, "prompt": prompt, "stream": True, "temperature": 0, **options}


def endless(prompt, tokens, **options):
    return body(prompt, max_tokens=tokens, ignore_eos=True, **options)


def start(server, bodies):
    return [Stream(number, server.url, one) for number, one in enumerate(bodies)]


def lone(server, bodies):
    """Each of them alone."""
    results = []
    for one in bodies:
        stream = Stream(0, server.url, one)
        read_all([stream])
        results.append((stream.text, stream.finish))
    return results


def long_model(folder):
    """The bundled model with room for 8,192 positions: its text means nothing there, its work does."""
    copy = Path(folder) / NAME
    shutil.copytree(MODEL, copy, ignore=shutil.ignore_patterns("*.gguf"))
    config = json.loads((copy / "config.json").read_text())
    config["max_position_embeddings"] = 8192
    (copy / "config.json").write_text(json.dumps(config))
    return str(copy)


class Serving(unittest.TestCase):
    def serve(self, *options, model=MODEL):
        server = RunningServer(PROGRAM, model, *options)
        self.addCleanup(server.stop)
        return server

    def assert_clean(self, server):
        server.wait_for(
            lambda m: m["kv_blocks_used"] == 0 and m["requests_running"] == 0 and m["requests_waiting"] == 0
        )


class FortyEqualRequests(Serving):
    """A pool that holds 12 of them at full length: 7 blocks for 12 prompt and 100 new tokens."""

    BODIES = [endless(sum_prompt(100 + i, 7), 100) for i in range(40)]

    def run_all(self, *options):
        server = self.serve("--kv-blocks", str(12 * 7), "--max-num-seqs", "64", *options)
        streams = []
        for number, one in enumerate(self.BODIES):
            streams.append(Stream(number, server.url, one))
            server.wait_for(
                lambda m: m["requests_running"] + m["requests_waiting"] + m["requests_finished_total"] > number
            )
        order = read_all(streams)
        self.assertEqual([s.status for s in streams], [200] * 40)
        self.assertEqual([s.error for s in streams], [None] * 40)
        self.assertEqual([s.finish for s in streams], ["length"] * 40)
        self.assertTrue(all(s.done for s in streams))
        self.assert_clean(server)
        return server, order, [(s.text, s.finish) for s in streams]

    def test_s1_all_finish_in_their_order_with_the_answers_of_lone_ones(self):
        server, order, together = self.run_all()
        # Waves of 12 end in the order of their arrival.
        place = {number: at for at, number in enumerate(order)}
        for early in range(40):
            for late in range(early + 12, 40):
                self.assertLess(place[early], place[late], order)
        self.assertEqual(together, lone(server, self.BODIES))

    def test_s1_also_with_everything_switched_on(self):
        _, _, plain = self.run_all("--no-mixed", "--no-prefix-cache")
        _, _, all_on = self.run_all("--async-scheduling", "--speculative-tokens", "3")
        self.assertEqual(plain, all_on)


class LongPrompt(Serving):
    def test_6_streams_go_on_while_a_long_prompt_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.serve("--long-prefill-token-threshold", "128", model=long_model(folder))
            streams = start(server, [endless(sum_prompt(i, i), 6000) for i in range(8)])
            read_all(streams, until=lambda all_: all(len(s.pieces) > 20 for s in all_))
            before = [len(s.pieces) for s in streams]
            streams.append(Stream(8, server.url, endless("1" * 4096, 1)))
            at_first_token = []

            def note(stream):
                if stream.number == 8 and stream.finish and not at_first_token:
                    at_first_token.extend(len(s.pieces) for s in streams[:8])

            read_all(streams, on_event=note, until=lambda all_: all_[8].finish is not None)
            self.assertEqual(streams[8].finish, "length")
            # Its 32 chunks leave room for as many tokens of each other; in one step the others would have got nothing meanwhile.
            for number in range(8):
                self.assertGreaterEqual(at_first_token[number] - before[number], 16, number)
            for stream in streams:
                stream.close()
            self.assert_clean(server)

    def test_12_a_client_that_leaves_while_its_prompt_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.serve("--max-num-batched-tokens", "64", model=long_model(folder))
            before = server.metrics()
            stream = Stream(0, server.url, endless("1" * 8000, 1))
            server.wait_for(lambda m: m["prompt_tokens_total"] > before["prompt_tokens_total"])
            stream.close()
            self.assert_clean(server)
            after = server.metrics()
            self.assertEqual(after["cancelled_total"], before["cancelled_total"] + 1)
            self.assertEqual(after["generated_tokens_total"], before["generated_tokens_total"])


class Leaving(Serving):
    def test_10_a_stream_left_at_its_fifth_token(self):
        server = self.serve()
        before = server.metrics()
        stream = Stream(0, server.url, endless(sum_prompt(1, 2), 450))
        read_all([stream], until=lambda all_: len(all_[0].pieces) >= 5)
        stream.close()
        self.assert_clean(server)
        after = server.metrics()
        self.assertEqual(after["cancelled_total"], before["cancelled_total"] + 1)

    def test_11_queued_requests_that_are_left_cost_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.serve("--max-num-seqs", "1", model=long_model(folder))
            first = Stream(0, server.url, endless(sum_prompt(1, 2), 8000))
            read_all([first], until=lambda all_: len(all_[0].pieces) >= 1)
            with server.paused():
                queued = start(server, [endless(sum_prompt(i, 3), 450) for i in range(100)])
            waiting = server.wait_for(lambda m: m["requests_waiting"] == 100 or m["requests_running"] == 0)
            self.assertEqual(waiting["requests_running"], 1, "the first one ended too soon for this test")
            for stream in queued:
                stream.close()
            server.wait_for(lambda m: m["requests_waiting"] == 0)
            first.close()
            self.assert_clean(server)
            after = server.metrics()
            self.assertEqual(after["prompt_tokens_total"], waiting["prompt_tokens_total"])
            self.assertEqual(after["cancelled_total"], 101)

    def test_13_who_stays_gets_the_same_answer(self):
        server = self.serve("--kv-blocks", "160", "--max-num-seqs", "16")
        bodies = [endless(sum_prompt(3 * i, i), 10 + i % 50) for i in range(200)]
        alone = lone(server, bodies[1::2])
        streams = start(server, bodies)

        def leave(stream):
            if stream.number % 2 == 0 and len(stream.pieces) >= stream.number % 7:
                stream.close()

        for stream in streams[::14]:
            stream.close()  # before anything came
        read_all(streams, on_event=leave)
        self.assertEqual([(s.text, s.finish) for s in streams[1::2]], alone)
        self.assert_clean(server)


class Overload(Serving):
    def test_23_the_queue_is_bounded_and_says_so(self):
        server = self.serve("--max-num-seqs", "2", "--max-queued-requests", "8")
        with server.paused():
            streams = start(server, [endless(sum_prompt(i, 1), 40) for i in range(100)])
        read_all(streams)
        accepted = [s for s in streams if s.status == 200]
        refused = [s for s in streams if s.status != 200]
        self.assertGreaterEqual(len(accepted), 10)
        self.assertGreater(len(refused), 0)
        for stream in accepted:
            self.assertEqual((stream.finish, stream.done), ("length", True))
        for stream in refused:
            self.assertEqual(stream.status, 429, stream.head)
            self.assertIn("retry-after", stream.head.lower())
            self.assertIn("queue", stream.body())
        self.assert_clean(server)

    def test_26_more_choices_than_slots(self):
        server = self.serve("--max-num-seqs", "4", "--max-num-batched-tokens", "16")
        stream = Stream(0, server.url, endless(sum_prompt(12, 81) * 4, 5, n=8))
        read_all([stream])
        self.assertEqual((stream.status, stream.done, stream.error), (200, True, None))
        self.assert_clean(server)

    def test_19_health_answers_under_load(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.serve(model=long_model(folder))
            streams = start(server, [endless("1" * 8000, 1) for _ in range(4)])
            for _ in range(20):
                self.assertEqual(server.request("/health")[0], 200)
            read_all(streams)
            self.assertEqual([s.finish for s in streams], ["length"] * 4)


class Requests(Serving):
    def test_timeouts_end_what_is_late_and_nothing_else(self):
        server = self.serve("--max-num-seqs", "1")
        first = Stream(0, server.url, endless(sum_prompt(1, 2), 450))
        late = Stream(1, server.url, endless(sum_prompt(3, 4), 450, timeout=0.001))
        read_all([first, late])
        self.assertEqual(first.finish, "length")
        self.assertEqual(late.finish if late.status == 200 else None, None)
        self.assertIn("time", (json.dumps(late.error) if late.status == 200 else late.body()))
        self.assert_clean(server)

    def test_cached_tokens_are_counted(self):
        server = self.serve()
        prompt = "".join(f"Q: {i}+{i}=?\nA: {2 * i}\n" for i in range(10)) + sum_prompt(7, 8)
        ask = body(prompt, max_tokens=4, stream_options={"include_usage": True})
        streams = []
        for salt in ("", "", "other"):
            streams.append(Stream(0, server.url, {**ask, "cache_salt": salt} if salt else ask))
            read_all(streams[-1:])
        cached = [s.usage["prompt_tokens_details"]["cached_tokens"] for s in streams]
        tokens = streams[0].usage["prompt_tokens"]
        self.assertEqual(cached, [0, (tokens - 1) // 16 * 16, 0])
        self.assertEqual(len({s.text for s in streams}), 1)

    def test_16_urgent_ones_go_first(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.serve("--max-num-seqs", "1", "--policy", "priority", model=long_model(folder))
            running = Stream(0, server.url, endless(sum_prompt(0, 1), 4000, priority=5))
            read_all([running], until=lambda all_: all_[0].pieces)
            with server.paused():
                low = [Stream(i, server.url, endless(sum_prompt(i, 1), 20, priority=5)) for i in (1, 2)]
                high = Stream(3, server.url, endless(sum_prompt(9, 1), 20, priority=0))
            order = read_all([running, *low, high])
            self.assertEqual(order[0], 3)
            self.assertEqual([s.finish for s in (running, *low, high)], ["length"] * 4)


class Idle(Serving):
    def test_s15_an_idle_server_sleeps(self):
        server = self.serve()
        read_all(start(server, [endless(sum_prompt(1, 1), 20)]))
        self.assert_clean(server)

        def cpu_seconds():
            fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        before = cpu_seconds()
        time.sleep(5)
        # Under 1 % of a core; the clock ticks in hundredths of a second.
        self.assertLessEqual(cpu_seconds() - before, 0.05)


if __name__ == "__main__":
    assert API_KEY
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
