"""The example with servers and a database: run_endpoints.py BINARY MODEL."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import unittest
import uuid

import postgres_server
from pipeline_run import BINARY, MODEL, PATIENCE, WithFolder, main

SCRIPT = MODEL.parent.parent / "scripts" / "run_endpoints.sh"


@unittest.skipIf(postgres_server.missing(), postgres_server.missing())
class RunEndpoints(WithFolder):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)  # the database's owner has to pass
        self.temporary = self.folder / "t"
        self.temporary.mkdir()
        self.out = self.folder / "out"
        with contextlib.ExitStack() as taken:
            sockets = [taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
            self.ports = [listening.getsockname()[1] for listening in sockets]
        # What the script starts, and only that, has this in its environment.
        self.mark = f"DOVETAIL_TEST_MARK={uuid.uuid4()}"

    def begin(self, records, **more):
        environment = dict(os.environ, TMPDIR=str(self.temporary),
                           PORTS=" ".join(map(str, self.ports)), **more)
        environment.update([self.mark.split("=")])
        if "DATABASE_URL" not in more:
            environment.pop("DATABASE_URL", None)
        process = subprocess.Popen([SCRIPT, BINARY, self.out, str(records)], env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def run_to_the_end(self, records, **more):
        process = self.begin(records, **more)
        said = process.communicate(timeout=PATIENCE)[0]
        self.assertEqual(process.returncode, 0, said)
        return said

    def left_processes(self):
        left = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (process / "environ").read_bytes():
                    left.append((process / "cmdline").read_bytes())
            except OSError:
                pass  # it has ended, or belongs to another user
        return left

    def wait_until_nothing_runs(self):
        end = time.monotonic() + PATIENCE
        while left := self.left_processes():
            self.assertLess(time.monotonic(), end, left)
            time.sleep(0.05)

    def assert_nothing_is_left(self):
        self.assertEqual(self.left_processes(), [])
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_it_comes_to_the_report(self):
        said = self.run_to_the_end(60)
        self.assertIn("60 records in", said)
        records = [json.loads(line) for line in (self.out / "results.jsonl").read_text().splitlines()]
        self.assertEqual(len(records), 60)
        for record in records:
            self.assertEqual(record["correct"], record["answer"] == str(record["a"] + record["b"]))
        self.assertGreater(sum(record["correct"] for record in records), 45)
        self.assertGreater((self.out / "report.html").stat().st_size, 10000)
        self.assert_nothing_is_left()

    def test_it_uses_the_database_that_is_named(self):
        server = self.postgres()
        first = self.run_to_the_end(60, DATABASE_URL=server.where)
        results = (self.out / "results.jsonl").read_bytes()
        self.assertNotIn("goes on", first)
        (self.out / "results.jsonl").unlink()
        again = self.run_to_the_end(60, DATABASE_URL=server.where)
        self.assertIn("it has this run already, which goes on", again)
        self.assertIn("0 prompt and 0 generated tokens", again, "all is known")
        self.assertEqual((self.out / "results.jsonl").read_bytes(), results)
        self.assert_nothing_is_left()

    def test_it_cleans_up_when_it_is_stopped(self):
        process = self.begin(1_000_000)
        for line in process.stdout:
            if line.startswith("records "):
                break
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=PATIENCE)[0]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, said)
        self.assertIn("the database was made for this run and is gone with it", said)
        self.assert_nothing_is_left()

    def test_it_cleans_up_when_it_is_stopped_before_the_run(self):
        for number in signal.SIGTERM, signal.SIGHUP:
            process = self.begin(1_000_000)
            process.stdout.readline()  # the database is there
            process.send_signal(number)
            said = process.communicate(timeout=PATIENCE)[0]
            self.assertEqual(process.returncode, 128 + number, said)
            self.assert_nothing_is_left()

    def test_nothing_runs_on_when_it_is_killed(self):
        process = self.begin(1_000_000)
        for line in process.stdout:
            if line.startswith("records "):
                break
        self.assertGreaterEqual(len(self.left_processes()), 5)
        process.kill()
        self.wait_until_nothing_runs()

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", self.ports[1])):
            process = self.begin(5)
            said = process.communicate(timeout=PATIENCE)[0]
        self.assertEqual(process.returncode, 1)
        self.assertIn(f"port {self.ports[1]} is taken; choose others", said)
        self.assert_nothing_is_left()

    def test_a_database_that_is_none(self):
        process = self.begin(5, DATABASE_URL="mysql://nowhere")
        said = process.communicate(timeout=PATIENCE)[0]
        self.assertEqual(process.returncode, 1)
        self.assertIn("DATABASE_URL is to begin with postgresql://", said)
        self.assert_nothing_is_left()


if __name__ == "__main__":
    main()
