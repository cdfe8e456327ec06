"""What tests of the program's commands share."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY = pathlib.Path(sys.argv[1]).resolve()


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
