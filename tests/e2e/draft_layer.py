"""A model with latent attention and a layer that drafts tokens, behind the HTTP server.

usage: draft_layer.py PROGRAM MODEL [unittest options]
"""

import random
import sys
import unittest
from pathlib import Path

from running_server import RunningServer
from stream_client import Stream, read_all

PROGRAM, MODEL = sys.argv[1:3]
NAME = Path(MODEL).name
CLIENTS = 64


def clients():
    """Prompts of many lengths, some of which begin alike; greedy and drawn, with log-probabilities."""
    draw = random.Random(7)
    bodies = []
    for number in range(CLIENTS):
        family = random.Random(number % 3)
        solved = "".join(
            f"Q: {a}+{b}=?\nA: {a + b}\n"
            for a, b in (
                (family.randrange(1000), family.randrange(1000)) for _ in range(draw.randrange(6))
            )
        )
        a, b = draw.randrange(1000), draw.randrange(1000)
        body = {
            "model": NAME,
            "prompt": f"{solved}Q: {a}+{b}=?\nA:",
            "stream": True,
            "max_tokens": draw.randrange(4, 140),
            "ignore_eos": True,
            "temperature": draw.choice([0, 0, 0.8]),
            "seed": number,
            "logprobs": 2,
        }
        bodies.append(body)
    return bodies


def answers(server, bodies, together):
    streams = []
    for number, body in enumerate(bodies):
        streams.append(Stream(number, server.url, body))
        if not together:
            read_all(streams[-1:])
    if together:
        read_all(streams)
    return [(stream.status, stream.text, stream.logprobs, stream.finish) for stream in streams]


class DraftLayer(unittest.TestCase):
    def serve(self, *options):
        server = RunningServer(PROGRAM, MODEL, *options)
        self.addCleanup(server.stop)
        return server

    def test_many_clients_get_what_lone_ones_do(self):
        bodies = clients()
        alone = answers(self.serve("--max-num-seqs", "1"), bodies, together=False)
        self.assertEqual({answer[0] for answer in alone}, {200})
        self.assertTrue(all(len(answer[2]) > 0 for answer in alone))
        for options in (
            # Little memory, so that some are preempted.
            ("--max-num-seqs", "24", "--max-model-len", "256", "--kv-blocks", "20"),
            ("--max-num-seqs", "16", "--long-prefill-token-threshold", "24", "--async-scheduling"),
        ):
            server = self.serve("--speculative-tokens", "2", *options)
            self.assertEqual(answers(server, bodies, together=True), alone)
            metrics = server.metrics()
            self.assertGreater(metrics["mixed_steps_total"], 0)
            self.assertGreater(metrics["accepted_tokens_total"], 0)
            self.assertGreaterEqual(
                metrics["drafted_tokens_total"], metrics["accepted_tokens_total"]
            )
            if "--kv-blocks" in options:
                self.assertGreater(metrics["preemptions_total"], 0)

    def test_some_drafts_of_one_client_are_right(self):
        server = self.serve("--speculative-tokens", "2", "--max-num-seqs", "1")
        body = clients()[5] | {"temperature": 0, "max_tokens": 100}
        self.assertEqual(answers(server, [body], together=False)[0][0], 200)
        metrics = server.metrics()
        # How many depends on the speed of the machine, since drafts have to be worth their time.
        # The first ones are made on any.
        self.assertGreaterEqual(metrics["drafted_tokens_total"], 8)
        self.assertGreater(metrics["accepted_tokens_total"], 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
