"""What tests of the program's commands share."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY = pathlib.Path(sys.argv[1]).resolve()


def run(*arguments, code=0, text=None, env=None, error_lines=1):
    """Runs a command and checks its exit code, and that an error is one line, or so many."""
    done = subprocess.run([BINARY, *map(str, arguments)], input=text, capture_output=True, text=True,
                          timeout=300, env=env)
    if done.returncode != code:
        raise AssertionError(f"{arguments}: exit code {done.returncode}, expected {code}\n"
                             f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    if code == 1 and len(done.stderr.splitlines()) != error_lines:
        raise AssertionError(f"{arguments}: expected {error_lines} lines of error, got:\n{done.stderr}")
    return done


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


class WithFolder(unittest.TestCase):
    """A folder for each test, gone after it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path


class OfCommand(WithFolder):
    """Tests of `dovetail COMMAND`."""

    COMMAND = None

    def run_command(self, *arguments):
        return subprocess.run([BINARY, self.COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              check=False)

    def output(self, *arguments):
        done = self.run_command(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def refused(self, expected, *arguments):
        done = self.run_command(*arguments)
        self.assertIn(done.returncode, (1, 2), arguments)
        self.assertEqual(done.stdout, "")
        self.assertIn(expected, done.stderr)
