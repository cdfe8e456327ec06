"""64 streams at once of a real model: nothing grows, and the histograms say what the client sees.

usage: many_streams.py PROGRAM [unittest options]

DOVETAIL_LONG: for ten minutes (DOVETAIL_STREAM_SECONDS: for as many), else for ten seconds, in
which neither memory nor how near the histograms are is judged, only what holds on a busy machine
too. Skipped (77) where SmolLM2 is not installed.
"""

import importlib.util
import os
import random
import selectors
import sys
import time
import unittest
from pathlib import Path

from running_server import RunningServer
from stream_client import Stream

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77  # CMakeLists.txt knows it
STREAMS = 64
LONG = "DOVETAIL_LONG" in os.environ
SECONDS = float(os.environ.get("DOVETAIL_STREAM_SECONDS", 600 if LONG else 10))
JUDGED = SECONDS >= 60
AGREEMENT = 0.02
HISTOGRAMS = ("time_to_first_token_seconds", "inter_token_latency_seconds",
              "e2e_request_latency_seconds")


def installed_model():
    spec = importlib.util.spec_from_file_location("installed", ROOT / "scripts" / "real_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.path(), module.MISSING


def resident_megabytes(process):
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


class Load:
    """Keeps STREAMS streams of random lengths open for `seconds`, then reads the rest."""

    def __init__(self, server, seconds):
        self.server = server
        self.random = random.Random(7)
        self.ended = []  # streams, without their text
        self.memory = []  # (seconds, megabytes)
        self.seconds = seconds

    def request(self, number):
        # Beginnings that differ, so that prompts are computed and the prefix cache is filled.
        words = " ".join(self.random.choices(("sun", "rain", "wind", "snow", "fog"), k=20))
        return Stream(number, self.server.url, {
            "prompt": f"{number}: {words}", "max_tokens": self.random.randint(16, 96),
            "ignore_eos": True, "temperature": 1, "seed": number, "stream": True,
            "stream_options": {"include_usage": True},
        })

    def run(self):
        begin = sampled = time.monotonic()
        number = 0
        with selectors.DefaultSelector() as selector:
            while True:
                now = time.monotonic() - begin
                while now < self.seconds and len(selector.get_map()) < STREAMS:
                    stream = self.request(number)
                    selector.register(stream.socket, selectors.EVENT_READ, stream)
                    number += 1
                if not selector.get_map():
                    return
                if time.monotonic() - sampled > 1:
                    sampled = time.monotonic()
                    self.memory.append((now, resident_megabytes(self.server.process)))
                for key, _ in selector.select(1):
                    if not key.data.receive():
                        selector.unregister(key.data.socket)
                        key.data.close()
                        self.ended.append(key.data)


class ManyStreams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # A small cache, which is full early: what is cached counts as memory.
        server = RunningServer(
            PROGRAM, str(MODEL), "--log-requests", "none", "--kv-memory", "256M"
        )
        cls.addClassCleanup(server.stop)
        cls.load = Load(server, SECONDS)
        cls.load.run()
        cls.metrics = server.wait_for(lambda metrics: metrics["requests_running"] == 0)

    def histogram(self, name):
        """(count, sum)"""
        values = [next(value for key, value in self.metrics.items()
                       if key.startswith(f"vllm:{name}_{part}")) for part in ("count", "sum")]
        return values[0], values[1]

    def test_every_stream_is_answered(self):
        self.assertGreater(len(self.load.ended), STREAMS - 1)
        for stream in self.load.ended:
            self.assertEqual((stream.status, stream.finish, stream.error), (200, "length", None))
            self.assertTrue(stream.done)
        self.assertEqual(self.metrics["kv_blocks_used"], 0)

    def test_histograms_count_what_the_client_sees(self):
        streams = self.load.ended
        tokens = sum(stream.usage["completion_tokens"] for stream in streams)
        first, between, whole = (self.histogram(name) for name in HISTOGRAMS)
        self.assertEqual(
            (first[0], between[0], whole[0]), (len(streams), tokens - len(streams), len(streams)))
        # The client waits before the server's clock begins and after it ends, however busy the
        # machine; and a request is its first token and the gaps behind it.
        self.assertLess(first[1], sum(stream.pieces[0][0] - stream.sent for stream in streams))
        self.assertLess(whole[1], sum(stream.ended - stream.sent for stream in streams))
        self.assertLess(first[1], whole[1])
        self.assertLess(first[1] + between[1], whole[1] * (1 + 1e-6))

    @unittest.skipUnless(JUDGED, "nearness is judged over a minute or more: DOVETAIL_LONG")
    def test_histograms_say_what_the_client_sees(self):
        streams = self.load.ended
        tokens = sum(stream.usage["completion_tokens"] for stream in streams)
        first = sum(stream.pieces[0][0] - stream.sent for stream in streams)
        whole = sum(stream.ended - stream.sent for stream in streams)
        seen = (first / len(streams), (whole - first) / (tokens - len(streams)),
                whole / len(streams))
        for name, client in zip(HISTOGRAMS, seen):
            with self.subTest(name):
                count, total = self.histogram(name)
                print(f"{name}: server {total / count:.5f} s, client {client:.5f} s",
                      file=sys.stderr)
                self.assertAlmostEqual(total / count / client, 1, delta=AGREEMENT)

    @unittest.skipUnless(JUDGED, "memory is judged over a minute or more: DOVETAIL_LONG")
    def test_memory_is_flat(self):
        # The cache fills first.
        settled = [each for seconds, each in self.load.memory if seconds > SECONDS / 3]
        early, late = settled[: len(settled) // 4], settled[-len(settled) // 4 :]
        print(f"memory: {early[0]:.1f} MB, later {max(late):.1f} MB", file=sys.stderr)
        self.assertLess(max(late), max(early) * 1.02 + 4)


if __name__ == "__main__":
    MODEL, MISSING = installed_model()
    if MODEL is None:
        print(f"skipped: {MISSING}")
        sys.exit(SKIPPED)
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
