"""Many records without a model: pipeline_many.py BINARY MODEL. DOVETAIL_LONG: a million."""

import contextlib
import json
import os
import sqlite3
import subprocess

from pipeline_run import BINARY, LONG, WithFolder, main, run

RECORDS = 1_000_000 if LONG else 20_000
MOST_MEGABYTES = 300  # of an optimized build; what is queued for the disk is most of it
DRAWN = """
records: {records}
columns:
  - {{name: low, type: sampler, sampler: integer, params: {{low: 0, high: 999}}}}
  - {{name: kind, type: sampler, sampler: category, params: {{values: [red, green, blue]}}}}
  - {{name: share, type: sampler, sampler: uniform, params: {{low: 0, high: 1}}}}
  - {{name: twice, type: expression, as: integer, value: "{{{{ 2 * low }}}}"}}
  - {{name: text, type: expression, value: "{{{{ kind }}}} {{{{ twice }}}}"}}
"""


class ManyRecords(WithFolder):
    def measured(self, *arguments):
        """Runs the program; the most memory that it had, in MB."""
        with subprocess.Popen([BINARY, "pipeline", *map(str, arguments)]) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return usage.ru_maxrss / 1024

    def test_all_are_made_once(self):
        file = self.write("drawn.yaml", DRAWN.format(records=RECORDS))
        out = self.folder / "out"
        used = self.measured("run", file, "-o", out, "--quiet")
        results = out / "results.jsonl"
        count = 0
        with results.open() as lines:
            for count, line in enumerate(lines, 1):
                record = json.loads(line)
                self.assertEqual(list(record), ["low", "kind", "share", "twice", "text"])
                self.assertEqual(record["twice"], 2 * record["low"])
                self.assertEqual(record["text"], f"{record['kind']} {record['twice']}")
        self.assertEqual(count, RECORDS)
        self.assertFalse((out / "dropped.jsonl").exists())

        # A run that is complete makes nothing anew; the database counts what is written.
        with contextlib.closing(sqlite3.connect(out / "run.db")) as database, database:
            database.executescript("""
                CREATE TABLE touched(key);
                CREATE TRIGGER made BEFORE INSERT ON cells BEGIN INSERT INTO touched VALUES(new.key); END;
                CREATE TRIGGER changed BEFORE UPDATE ON cells BEGIN INSERT INTO touched VALUES(new.key); END;
                CREATE TRIGGER gone BEFORE DELETE ON cells BEGIN INSERT INTO touched VALUES(old.key); END;
            """)
        kept = self.folder / "kept.jsonl"
        results.rename(kept)
        again = self.measured("resume", file, "-o", out, "--quiet")
        self.assertEqual(subprocess.run(["cmp", results, kept], check=False).returncode, 0)
        self.assertEqual(self.touched(out), 0)
        # One more record is the only one that is written.
        run("resume", file, "-o", out, "--quiet", "-n", RECORDS + 1)
        self.assertGreater(self.touched(out), 0)
        status = json.loads(run("status", file, "-o", out, "--json").stdout)
        self.assertEqual([column["values"] for column in status["columns"]], 5 * [RECORDS + 1])
        print(f"{RECORDS} records of 5 cells: at most {used:.0f} MB, {again:.0f} MB to resume them")
        if LONG:
            self.assertLess(max(used, again), MOST_MEGABYTES)

    def touched(self, out):
        with contextlib.closing(sqlite3.connect(out / "run.db")) as database:
            return database.execute("SELECT count(*) FROM touched").fetchone()[0]


if __name__ == "__main__":
    main()
