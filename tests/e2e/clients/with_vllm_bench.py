"""What `vllm bench serve` sends and how it reads the streams, without its package (and torch).

From vLLM's endpoint_request_func.py: the fields of its two requests for servers like OpenAI's, and
which members of the events it counts by.
"""

import json
import unittest
import urllib.request

from served import API_KEY, NAME, PATIENCE, server

COUNT = 24
COMMON = {
    "model": NAME,
    "temperature": 0.0,
    "repetition_penalty": 1.0,
    "stream": True,
    "stream_options": {"include_usage": True},
    "ignore_eos": True,
}
REQUESTS = {
    "/v1/completions": {
        **COMMON, "prompt": "Once upon a time", "max_tokens": COUNT, "logprobs": None
    },
    "/v1/chat/completions": {
        **COMMON,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Tell me a story."}]}],
        "max_completion_tokens": COUNT,
    },
}


class WithVllmBench(unittest.TestCase):
    def events(self, path, body):
        request = urllib.request.Request(
            server().url + path,
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            self.assertIsNone(answer.headers["X-Dovetail-Ignored"])
            lines = [line.strip() for line in answer]
        data = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")]
        self.assertEqual(data[-1], b"[DONE]")
        return [json.loads(each) for each in data[:-1]]

    def test_every_event_that_it_times_is_a_token(self):
        for path, body in REQUESTS.items():
            with self.subTest(path):
                texts, output = [], None
                for event in self.events(path, body):
                    if choices := event.get("choices"):
                        delta = choices[0].get("delta") or {}
                        if text := choices[0].get("text") or delta.get("content"):
                            texts.append(text)
                    elif usage := event.get("usage"):
                        output = usage["completion_tokens"]
                self.assertEqual(output, COUNT)
                # Tokens that are part of a character wait for the rest of it.
                self.assertLessEqual(len(texts), COUNT)
                self.assertGreater(len(texts), COUNT // 2)
