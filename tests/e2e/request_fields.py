"""Fields of a request and what holds without them, through HTTP.

usage: request_fields.py PROGRAM MODEL [unittest options]
"""

import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

from running_server import RunningServer

PROGRAM, MODEL = sys.argv[1:3]
BLOCK = 16
# One token per character: several whole blocks, and a rest.
LONG = "".join(f"Q: {a}+{a + 7}=?\nA: {2 * a + 7}\n" for a in range(11, 17)) + "Q: 5+6=?\nA:"
CHAT = [{"role": "user", "content": LONG}]


class RequestFields(unittest.TestCase):
    def setUp(self):
        self.server = RunningServer(PROGRAM, MODEL)
        self.addCleanup(self.server.stop)

    def post(self, path="/v1/completions", expect=200, **fields):
        body = {"max_tokens": 4, "temperature": 0, **fields}
        body.setdefault(*(("messages", CHAT) if "chat" in path else ("prompt", LONG)))
        status, text = self.server.request(path, body)
        self.assertEqual(status, expect, text)
        return text

    def cached(self, **fields):
        answer = json.loads(self.post(**fields))
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_a_second_request_finds_the_prompt_of_the_first(self):
        first = json.loads(self.post())
        self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        second = json.loads(self.post())
        # All whole blocks but that of the last token.
        whole = (first["usage"]["prompt_tokens"] - 1) // BLOCK * BLOCK
        self.assertGreater(whole, 3 * BLOCK)
        self.assertEqual(second["usage"]["prompt_tokens_details"]["cached_tokens"], whole)
        self.assertEqual(second["choices"], first["choices"])
        metrics = self.server.wait_for(lambda m: m["requests_finished_total"] == 2)
        self.assertEqual(metrics["cached_tokens_total"], whole)
        self.assertEqual(metrics["prompt_tokens_total"],
                         2 * first["usage"]["prompt_tokens"] - whole)
        self.assertGreater(metrics["kv_blocks_cached"], 0)

    def test_the_board_asks_for_metrics_that_are_there(self):
        self.post()
        _, text = self.server.request("/metrics")
        there = set(re.findall(r"^([a-z_]+:?[a-z_0-9]+)(?:[{ ])", text, re.MULTILINE))
        board = json.loads((Path(__file__).parents[2] / "docs" / "grafana.json").read_text("utf-8"))
        asked = {name for panel in board["panels"] for target in panel["targets"]
                 for name in re.findall(r"(?:vllm:|dovetail_)[a-z_0-9]+", target["expr"])}
        self.assertGreater(len(asked), 15)
        self.assertEqual(asked - there, set())

    def test_chats_and_streams_say_it_too(self):
        path = "/v1/chat/completions"
        first = json.loads(self.post(path))
        second = json.loads(self.post(path))
        found = second["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertGreater(found, 3 * BLOCK)
        self.assertEqual(second["choices"], first["choices"])
        stream = self.post(path, stream=True, stream_options={"include_usage": True})
        events = [line.removeprefix("data: ") for line in stream.splitlines() if line]
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(json.loads(events[-2])["usage"], second["usage"])

    def test_prefixes_belong_to_a_user_and_a_salt(self):
        self.assertEqual(self.cached(), 0)
        self.assertEqual(self.cached(user="a"), 0)
        self.assertEqual(self.cached(user="a", cache_salt="x"), 0)
        self.assertEqual(self.cached(cache_salt="x"), 0)
        for fields in ({}, {"user": "a"}, {"user": "a", "cache_salt": "x"}, {"cache_salt": "x"}):
            self.assertGreater(self.cached(priority=5, **fields), 0, fields)

    def test_what_is_late_is_answered_with_504(self):
        # Four hundred steps take longer than a millisecond on any machine.
        late = {"timeout": 0.001, "max_tokens": 400, "prompt": "Q: 1+1=?\nA:", "ignore_eos": True}
        error = json.loads(self.post(expect=504, **late))["error"]
        self.assertEqual((error["code"], error["param"]), ("timeout", "timeout"))
        stream = self.post(stream=True, **late)
        events = [line.removeprefix("data: ") for line in stream.splitlines() if line]
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(json.loads(events[-2])["error"]["code"], "timeout")
        metrics = self.server.wait_for(lambda metrics: metrics["requests_running"] == 0)
        self.assertEqual(metrics["timed_out_total"], 2)
        self.assertEqual(metrics["kv_blocks_used"], 0)
        # Who has time is answered.
        self.post(timeout=100)

    def serve_instead(self, model, *options):
        self.server.stop()
        self.server = RunningServer(PROGRAM, model, *options)
        self.addCleanup(self.server.stop)

    def sampling_defaults(self):
        status, text = self.server.request("/v1/models")
        self.assertEqual(status, 200, text)
        return {name: round(value, 6)
                for name, value in json.loads(text)["data"][0]["sampling_defaults"].items()}

    def drawn(self, **sampling):
        """Texts of several seeds."""
        body = {"prompt": "Q:", "max_tokens": 40, "ignore_eos": True, **sampling}
        answers = [json.loads(self.post(expect=200, seed=seed, **{"temperature": None, **body}))
                   for seed in range(12)]
        return [answer["choices"][0]["text"] for answer in answers]

    def test_a_gguf_file_without_recommendations_is_drawn_from_moderately(self):
        self.serve_instead(Path(MODEL) / "demo-arith-Q8_0.gguf")
        moderate = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
        self.assertEqual(self.sampling_defaults(), {**moderate, "repetition_penalty": 1})
        line = ("sampling: temperature 0.8, top-k 40, top-p 0.95, min-p 0.05, unless asked otherwise "
                "(the GGUF file recommends none)\n")
        self.assertTrue(any(said.endswith("] [info] " + line) for said in self.server.log))
        self.assertEqual(self.drawn(), self.drawn(**moderate))
        # What a request says goes before.
        off = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}
        self.assertNotEqual(self.drawn(**off), self.drawn())
        self.assertEqual(len(set(self.drawn(temperature=0))), 1)

    def test_a_folder_without_recommendations_is_drawn_from_as_openai_does(self):
        off = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}
        self.assertEqual(self.sampling_defaults(), {**off, "repetition_penalty": 1})
        self.assertEqual(self.drawn(), self.drawn(**off))

    def test_a_developer_is_heard_as_the_system_where_the_template_knows_none(self):
        template = Path(self.enterContext(tempfile.TemporaryDirectory())) / "roles.jinja"
        template.write_text("{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}")
        self.serve_instead(MODEL, "--chat-template", str(template))
        def tokens(role):
            answer = self.post("/v1/chat/completions",
                               messages=[{"role": role, "content": "x"}, *CHAT])
            return json.loads(answer)["usage"]["prompt_tokens"]
        self.assertEqual(tokens("developer"), tokens("system"))
        self.assertNotEqual(tokens("longer name"), tokens("system"))

    def test_guesses_are_counted(self):
        self.serve_instead(MODEL, "--speculative-tokens", "3")
        self.post(max_tokens=200, ignore_eos=True)
        metrics = self.server.wait_for(lambda m: m["requests_finished_total"] == 1)
        self.assertGreater(metrics["drafted_tokens_total"], 0)
        self.assertLessEqual(metrics["accepted_tokens_total"], metrics["drafted_tokens_total"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
