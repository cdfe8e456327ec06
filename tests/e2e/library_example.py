"""A program with column types of its own: library_example.py BINARY PIPELINE DOVETAIL"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY, PIPELINE, DOVETAIL = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(last + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


class LibraryExample(unittest.TestCase):
    def run_example(self, *arguments):
        return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=120)

    def test_makes_and_resumes(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name) / "out"
            done = self.run_example(PIPELINE, folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = (folder / "results.jsonl").read_text().splitlines()
            self.assertEqual(len(lines), 200)
            self.assertEqual(done.stdout.splitlines(), [f"{i} {line}" for i, line in enumerate(lines)])
            rows = [json.loads(line) for line in lines]
            for row in rows:
                self.assertEqual(list(row), ["question", "typed", "distance"])
                self.assertEqual(row["distance"], distance(row["question"], row["typed"]))
            right = sum(row["distance"] == 0 for row in rows)
            self.assertTrue(20 < right < 180, right)
            self.assertIn(f"without a typo: {right} of 200\n", done.stderr)
            self.assertTrue((folder / "report.html").exists())

            again = self.run_example(PIPELINE, folder)
            self.assertEqual(again.returncode, 1)
            self.assertIn("run.db", again.stderr)
            resumed = self.run_example(PIPELINE, folder, "--resume")
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            self.assertEqual(resumed.stdout, done.stdout)

            other = folder.parent / "other.yaml"
            other.write_text(PIPELINE.read_text().replace("rate: 0.05", "rate: 0"))
            changed = self.run_example(other, folder, "--resume")
            self.assertEqual(changed.returncode, 0, changed.stderr)
            self.assertIn("without a typo: 200 of 200\n", changed.stderr)

    def test_does_what_the_command_does(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            file = folder / "p.yaml"
            file.write_text("records: 100\ncolumns:\n"
                            "  - {name: n, type: sampler, sampler: integer, params: {low: 0, high: 99}}\n"
                            "  - {name: low, type: validation, column: n, schema: {maximum: 90}, require: true}\n")
            self.assertEqual(self.run_example(file, folder / "own").returncode, 0)
            subprocess.run([DOVETAIL, "pipeline", "run", file, "-o", folder / "command", "--quiet"], check=True, timeout=120)
            for result in ("results.jsonl", "dropped.jsonl"):
                self.assertEqual((folder / "own" / result).read_bytes(), (folder / "command" / result).read_bytes())
            # Each goes on with the other's run.
            resumed = self.run_example(file, folder / "command", "--resume")
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            subprocess.run([DOVETAIL, "pipeline", "resume", file, "-o", folder / "own", "--quiet"], check=True, timeout=120)

    def test_says_what_is_wrong(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for wrong, message in (
                ("between: [question, typd]", "/columns/4/between/1: there is no column 'typd', did you mean typed?"),
                ("between: [question]", "/columns/4/between: expected two columns, not 1"),
            ):
                file = folder / "p.yaml"
                file.write_text(PIPELINE.read_text().replace("between: [question, typed]", wrong))
                done = self.run_example(file, folder / "out")
                self.assertEqual(done.returncode, 1)
                self.assertIn(message, done.stderr)
                self.assertRegex(done.stderr, r"p\.yaml:\d+:\d+: ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
