"""Aider, editing a file in its "whole" format."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from served import API_KEY, NAME, PATIENCE, need, server

need("aider-chat", "aider")

# A model of this size does not keep to the format by itself; an expression makes it.
SETTINGS = rf"""
- name: openai/{NAME}
  edit_format: whole
  use_repo_map: false
  extra_params:
    max_tokens: 60
    extra_body:
      guided_regex: 'hello\.py\n```\nprint\("[a-z ]{{3,20}}!"\)\n```\n'
"""


class WithAider(unittest.TestCase):
    def test_a_file_is_edited(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "settings.yml").write_text(SETTINGS)
        file = folder / "hello.py"
        file.write_text('print("hello")\n')
        environment = {
            **os.environ,
            "HOME": str(folder),
            "OPENAI_API_BASE": server().url + "/v1",
            "OPENAI_API_KEY": API_KEY,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        done = subprocess.run(
            [sys.executable, "-m", "aider", "--model", f"openai/{NAME}", "--edit-format", "whole",
             "--model-settings-file", "settings.yml", "--no-git", "--yes-always",
             "--no-check-update", "--no-show-model-warnings", "--analytics-disable", "--no-pretty",
             "--message", "Let it say something else.", "hello.py"],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("Applied edit to hello.py", done.stdout)
        self.assertRegex(file.read_text(), r'^print\("[a-z ]{3,20}!"\)\n$')
