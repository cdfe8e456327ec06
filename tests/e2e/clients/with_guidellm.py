"""GuideLLM's benchmark over chats."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from served import API_KEY, NAME, PATIENCE, need, server

need("guidellm")
need("torch")  # its only way to load data


class WithGuideLLM(unittest.TestCase):
    def test_a_benchmark(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        # Of a number of tokens: a small model may not come to an end by itself.
        prompts = [{"prompt": f"Say {number}.", "output_tokens_count": 16} for number in range(8)]
        (folder / "data.jsonl").write_text("".join(json.dumps(one) + "\n" for one in prompts))
        backend = dict(kind="openai_http", target=server().url, model=NAME, api_key=API_KEY)
        done = subprocess.run(
            [sys.executable, "-m", "guidellm", "run",
             "--backend", ",".join(f"{key}={value}" for key, value in backend.items()),
             "--profile", "kind=concurrent,streams=2",
             "--constraint", "kind=max_requests,count=8",
             "--data", "kind=json_file,path=data.jsonl",
             "--output", "kind=json,path=report.json", "--disable-console-interactive"],
            cwd=folder, env={**os.environ, "HF_HUB_OFFLINE": "1"}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        (benchmark,) = json.loads((folder / "report.json").read_text())["benchmarks"]
        self.assertEqual(benchmark["metrics"]["request_totals"]["successful"], 8)
        for request in benchmark["requests"]["successful"]:
            self.assertEqual(request["output_metrics"]["text_tokens"], 16)
