"""What tests of pipelines share: the program, a judged pipeline and the answers to it.

A test of these is a script: NAME.py BINARY MODEL. DOVETAIL_LONG: longer and more."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

from postgres_server import PostgresServer
from running_server import PATIENCE

BINARY, MODEL = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
LONG = bool(os.environ.get("DOVETAIL_LONG"))

JUDGED = """
name: judged
records: {records}
models:
  writer: {{endpoint: "{url}", model: w, max_parallel: 8}}
  judge: {{endpoint: "{url}", model: j, max_parallel: 8}}
columns:
  - {{name: number, type: sampler, sampler: integer, params: {{low: 0, high: 1000000000000}}}}
  - {{name: text, type: llm-text, model: writer, prompt: "write about {{{{ number }}}}"}}
  - name: grade
    type: llm-judge
    model: judge
    answer: option
    corrections: 0
    prompt: "{verb} {{{{ text }}}}"
    rubrics: [{{name: good, description: is it, options: {{"yes": it is, "no": it is not}}}}]
  - {{name: size, type: expression, as: integer, value: "{{{{ text | length }}}}"}}
"""
# Requests that may be under way in it at the same time.
IN_FLIGHT = 16


def answer(prompt):
    verb, _, rest = prompt.partition(" ")
    if verb == "write":
        return f"<{rest} is a number>"
    if has_no_grade(prompt):
        return "hardly"  # no option: the record is dropped
    return "no" if "7" in rest else "yes"


def has_no_grade(prompt):
    return not prompt.startswith("write") and "13" in prompt


def prompts_of_record(record):
    text = f"<about {record['number']} is a number>"
    return {f"write about {record['number']}", f"grade {text}"}


def files_of(folder):
    names = ("results.jsonl", "dropped.jsonl")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def run(*arguments, code=0, through=(), **more):
    """Runs the program to its end; `through` is a command that starts it."""
    done = subprocess.run([*through, BINARY, "pipeline", *map(str, arguments)], capture_output=True,
                          text=True, timeout=10 * PATIENCE if LONG else PATIENCE, **more)
    if done.returncode != code:
        raise AssertionError(f"{arguments}: exit code {done.returncode}, expected {code}\n"
                             f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done


class Running(subprocess.Popen):
    """The program while it runs, and what it says on its standard error."""

    def __init__(self, *arguments, through=()):
        super().__init__([*through, BINARY, "pipeline", *map(str, arguments)],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.more = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.stderr:
            with self.more:
                self.lines.append(line)
                self.more.notify_all()
        with self.more:
            self.lines.append(None)
            self.more.notify_all()

    def said(self):
        return "".join(line for line in self.lines if line is not None)

    def wait_until_said(self, words):
        with self.more:
            self.more.wait_for(lambda: words in self.said() or None in self.lines, PATIENCE)
        if words not in self.said():
            raise AssertionError(f"it did not say \"{words}\" but\n{self.said()[-2000:]}")

    def end(self, timeout=PATIENCE):
        """Its exit code, at its end."""
        code = self.wait(timeout)
        self.reader.join()
        self.stderr.close()
        return code

    def communicate(self, unused=None, timeout=PATIENCE):
        self.end(timeout)
        return None, self.said()


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def judged(self, endpoint, records=300, verb="grade", name="judged.yaml"):
        return self.write(name, JUDGED.format(url=endpoint.url, records=records, verb=verb))

    def start(self, *arguments, **more):
        running = Running(*arguments, **more)
        self.addCleanup(running.end)
        self.addCleanup(running.kill)
        return running

    def postgres(self):
        server = PostgresServer()
        self.addCleanup(server.close)
        return server


def main():
    unittest.main(argv=sys.argv[:1], verbosity=2)
