"""Runs every pipeline of docs/pipelines.md: pipeline_docs.py BINARY SOURCE_DIR"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from running_server import PATIENCE
from scripted_endpoint import ScriptedEndpoint

BINARY, SOURCE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
TYPES = ("sampler", "expression", "llm-text", "llm-code", "llm-structured", "llm-judge", "validation")


def answer(prompt):
    if "fenced code block" in prompt:
        return "Here it is:\n```python\nprint(1)\n```"
    if "fits this JSON schema" in prompt:
        return '{"title": "Water", "pages": 3}'
    if "Judge by these rubrics" in prompt:
        return '{"mood": {"reasoning": "It says so.", "score": 3}}'
    return "Some words."


class Examples(unittest.TestCase):
    def test_every_pipeline_of_the_docs(self):
        text = (SOURCE / "docs" / "pipelines.md").read_text()
        blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)
        self.assertGreaterEqual(len(blocks), 9)
        for kind in TYPES:
            self.assertTrue(any(f"type: {kind}" in block for block in blocks), kind)
        with ScriptedEndpoint(answer) as endpoint, tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "people.csv").write_text("person,age\nAda,36\nBen,12\nKim,70\nLi,19\n")
            (folder / "parts.csv").write_text("code;size;on_sale\n007;3;true\n008;4;false\n009;5;true\n010;6;true\n011;7;true\n")
            for number, block in enumerate(blocks):
                with self.subTest(number=number):
                    file = folder / f"{number}.yaml"
                    file.write_text(block.replace("http://127.0.0.1:8000/v1", endpoint.url))
                    done = subprocess.run([BINARY, "pipeline", "run", file, "-o", folder / str(number), "--quiet"],
                                          capture_output=True, text=True, timeout=PATIENCE)
                    self.assertEqual(done.returncode, 0, f"{block}\n{done.stderr}")
                    results = (folder / str(number) / "results.jsonl").read_text().splitlines()
                    records = int(re.search(r"^records: (\d+)", block, re.M).group(1))
                    self.assertEqual(len(results), records)
                    for line in results:
                        self.assertNotIn(None, json.loads(line).values(), block)
                    if "path: parts.csv" in block:
                        self.assertEqual([json.loads(line)["label"] for line in results],
                                         ["007: 6.0 mm", "009: 10.0 mm"] * 2)
            self.assertTrue(any("path: parts.csv" in block for block in blocks))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
