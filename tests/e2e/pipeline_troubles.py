"""Disks and databases that fail while a pipeline runs: pipeline_troubles.py BINARY MODEL.

DOVETAIL_LONG: longer troubles, and one that does not end."""

import collections
import json
import os
import resource
import shutil
import subprocess
import time
import unittest

import postgres_server
from pipeline_run import BINARY, LONG, WithFolder, answer, files_of, main, prompts_of_record, run
from scripted_endpoint import ScriptedEndpoint

UNPRIVILEGED = 65534  # user and group
# The time for which the store tries again what may pass.
STORE_PATIENCE = 60


DRAWN = """
records: 5000
columns:
  - {name: number, type: sampler, sampler: integer, params: {low: 0, high: 1000000000000}}
  - {name: text, type: expression, value: "{{ number }} is what was drawn, and {{ number + 1 }} is the next"}
"""


# Starts a program for which a file that cannot grow is an error, as on a disk that is full.
ON_A_SMALL_DISK = ("env", "--ignore-signal=XFSZ")


def with_room_for(size):
    """The same with a disk that is full when a file has this many bytes."""
    return "prlimit", f"--fsize={size}:unlimited", *ON_A_SMALL_DISK


def set_room(process, size):
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def slowly(prompt):
    time.sleep(0.02)
    return answer(prompt)


class Troubles(WithFolder):
    def whole(self, endpoint, records=300):
        """The file of a run that nothing disturbs, and what it asks."""
        file = self.judged(endpoint, records)
        run("run", file, "-o", self.folder / "whole", "--quiet")
        return file, collections.Counter(endpoint.take_asked())

    def assert_is_whole(self, out):
        self.assertEqual(files_of(out), files_of(self.folder / "whole"))

    def resume_to_the_end(self, endpoint, file, *database):
        """Of a run that has ended somehow: its files become whole, and what is in the results is not
        asked for again."""
        out = self.folder / "out"
        finished = set()
        for line in (out / "results.jsonl").read_text().splitlines():
            finished |= prompts_of_record(json.loads(line))
        self.assertGreater(len(finished), 0)
        endpoint.take_asked()
        run("resume", file, "-o", out, *database, "--quiet")
        self.assertEqual(finished & set(endpoint.take_asked()), set())
        self.assert_is_whole(out)


class FullDisk(Troubles):
    def run_until_it_is_full(self, endpoint):
        """A run whose disk becomes full in its middle: its file, what an undisturbed one asks."""
        file, needed = self.whole(endpoint)
        out = self.folder / "out"
        running = self.start("run", file, "-o", out, through=ON_A_SMALL_DISK)
        results = out / "results.jsonl"
        while not results.exists() or results.read_bytes().count(b"\n") < 20:
            self.assertIsNone(running.poll(), running.said())
            time.sleep(0.01)
        set_room(running, (out / "run.db-wal").stat().st_size)
        running.wait_until_said("waiting: ")
        self.assertIn("run.db: the disk is full or a limit on the file's size is reached",
                      running.said())
        return file, needed, running

    def test_the_run_waits_until_there_is_room(self):
        with ScriptedEndpoint(slowly) as endpoint:
            _, needed, running = self.run_until_it_is_full(endpoint)
            time.sleep(20 if LONG else 1)
            self.assertIsNone(running.poll(), running.said())
            set_room(running, resource.RLIM_INFINITY)
            self.assertEqual(running.end(), 0, running.said())
            self.assertEqual(collections.Counter(endpoint.take_asked()), needed)
            self.assert_is_whole(self.folder / "out")

    def test_killed_while_it_waits(self):
        with ScriptedEndpoint(slowly) as endpoint:
            file, _, running = self.run_until_it_is_full(endpoint)
            running.kill()
            running.end()
            self.resume_to_the_end(endpoint, file)

    @unittest.skipUnless(LONG, f"takes {STORE_PATIENCE} s; DOVETAIL_LONG")
    def test_a_disk_that_stays_full_ends_the_run(self):
        with ScriptedEndpoint(slowly) as endpoint:
            file, _, running = self.run_until_it_is_full(endpoint)
            self.assertEqual(running.end(10 * STORE_PATIENCE), 1)
            last = running.said().splitlines()[-1]
            self.assertIn("run.db: the disk is full", last)
            self.assertIn("go on with: dovetail pipeline resume", last)
            self.resume_to_the_end(endpoint, file)

    def test_no_room_for_the_results(self):
        """All cells are in the store, and the file of the results cannot be written to its end."""
        file = self.write("drawn.yaml", DRAWN)
        whole, out = self.folder / "whole", self.folder / "out"
        run("run", file, "-o", whole, "--quiet")
        shutil.copytree(whole, out)
        (out / "results.jsonl").unlink()
        size = (whole / "results.jsonl").stat().st_size
        done = run("resume", file, "-o", out, code=1, through=with_room_for(size * 2 // 3))
        self.assertRegex(done.stderr, r"results\.jsonl: cannot write: File too large.*; "
                                      r"go on with: dovetail pipeline resume")
        written = (out / "results.jsonl").read_bytes()
        self.assertTrue(written.endswith(b"\n"), "no half line stays behind")
        self.assertGreater(len(written), size // 2)
        run("resume", file, "-o", out, "--quiet")
        self.assert_is_whole(out)


class RemovedStore(Troubles):
    def test_a_store_that_is_removed_or_replaced_ends_the_run(self):
        for replaced in (False, True):
            with self.subTest(replaced=replaced), ScriptedEndpoint(slowly) as endpoint:
                out = self.folder / f"out-{replaced}"
                running = self.start("run", self.judged(endpoint), "-o", out)
                results = out / "results.jsonl"
                while not results.exists() or results.read_bytes().count(b"\n") < 20:
                    self.assertIsNone(running.poll(), running.said())
                    time.sleep(0.01)
                if replaced:
                    shutil.copy(out / "run.db", out / "other.db")
                    (out / "other.db").rename(out / "run.db")
                else:
                    (out / "run.db").unlink()
                self.assertEqual(running.end(), 1, running.said())
                last = running.said().splitlines()[-1]
                self.assertRegex(last, "^dovetail pipeline: .*/run.db: the file was removed or replaced while the run was "
                                       "going on, .* start the run anew")
                self.assertEqual("go on with" in last, replaced, "a copy may be gone on with")


class ReadOnlyFolder(Troubles):
    def as_anyone(self):
        """How a process without root's rights is started in the folder, which belongs to it."""
        os.chmod(self.folder, 0o755)
        if os.geteuid() != 0:
            return {}
        os.chown(self.folder, UNPRIVILEGED, UNPRIVILEGED)
        user = {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []}
        try:
            subprocess.run([BINARY, "--version"], check=True, capture_output=True, **user)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"permissions do not bind root, and the program cannot be run without its rights: {error}")
        return user

    def test_a_folder_that_cannot_be_made(self):
        user = self.as_anyone()
        with ScriptedEndpoint(answer) as endpoint:
            file = self.judged(endpoint)
            os.chmod(self.folder, 0o555)
            done = run("run", file, "-o", self.folder / "out", code=1, **user)
            self.assertIn(f"{self.folder / 'out'}: Permission denied", done.stderr)
            self.assertEqual(endpoint.take_asked(), [])

    def test_a_folder_that_cannot_be_written(self):
        user = self.as_anyone()
        with ScriptedEndpoint(answer) as endpoint:
            file = self.judged(endpoint)
            out = self.folder / "out"
            out.mkdir(mode=0o555)
            done = run("run", file, "-o", out, code=1, **user)
            self.assertIn(str(out), done.stderr)
            self.assertRegex(done.stderr, "writable|cannot be written")
            self.assertEqual(endpoint.take_asked(), [], "nothing is asked whose answer cannot be kept")
            self.assertEqual(list(out.iterdir()), [])

    def test_a_run_that_cannot_be_written_any_more(self):
        user = self.as_anyone()
        with ScriptedEndpoint(answer) as endpoint:
            file = self.judged(endpoint)
            out = self.folder / "out"
            run("run", file, "-o", out, "--quiet", **user)
            before = files_of(out)
            endpoint.take_asked()
            os.chmod(out, 0o555)
            done = run("resume", file, "-o", out, code=1, **user)
            self.assertIn(str(out), done.stderr)
            self.assertRegex(done.stderr, "writable|cannot be written")
            self.assertIn('"values": 300'.replace(" ", ""),
                          run("status", file, "-o", out, "--json", **user).stdout)
            os.chmod(out, 0o755)
            run("resume", file, "-o", out, "--quiet", **user)
            self.assertEqual(files_of(out), before)
            self.assertEqual(endpoint.take_asked(), [])


@unittest.skipIf(postgres_server.missing(), postgres_server.missing())
class DatabaseAway(Troubles):
    def slow_run(self, server):
        """A run in a database, in its middle: its endpoint, its file, what an undisturbed run asks."""
        endpoint = ScriptedEndpoint(slowly)
        self.addCleanup(endpoint.__exit__)
        file, needed = self.whole(endpoint, 600)
        running = self.start("run", file, "-o", self.folder / "out", "--database", server.where)
        while len(endpoint.asked) < 200:
            self.assertIsNone(running.poll(), running.said())
            time.sleep(0.01)
        return endpoint, file, needed, running

    def test_the_run_waits_for_it(self):
        server = self.postgres()
        endpoint, _, needed, running = self.slow_run(server)
        server.stop()
        running.wait_until_said("waiting: ")
        time.sleep(20 if LONG else 3)
        self.assertIsNone(running.poll(), running.said())
        server.start()
        self.assertEqual(running.end(), 0, running.said())
        self.assertEqual(running.said().count("waiting: "), 1, running.said())
        self.assertEqual(collections.Counter(endpoint.take_asked()), needed)
        self.assert_is_whole(self.folder / "out")

    def test_killed_while_it_waits(self):
        server = self.postgres()
        endpoint, file, _, running = self.slow_run(server)
        server.stop()
        running.wait_until_said("waiting: ")
        running.kill()
        running.end()
        server.start()
        self.resume_to_the_end(endpoint, file, "--database", server.where)

    @unittest.skipUnless(LONG, f"takes {STORE_PATIENCE} s; DOVETAIL_LONG")
    def test_gone_for_longer_than_the_run_waits(self):
        server = self.postgres()
        endpoint, file, _, running = self.slow_run(server)
        server.stop()
        self.assertEqual(running.end(10 * STORE_PATIENCE), 1)
        last = running.said().splitlines()[-1]
        self.assertIn("cannot be reached", last)
        self.assertIn("go on with: dovetail pipeline resume", last)
        server.start()
        self.resume_to_the_end(endpoint, file, "--database", server.where)

    def test_there_is_none(self):
        server = self.postgres()
        server.stop()
        with ScriptedEndpoint(answer) as endpoint:
            done = run("run", self.judged(endpoint), "-o", self.folder / "out", "--database",
                       server.where, code=1)
            self.assertIn("cannot be reached", done.stderr)
            self.assertEqual(endpoint.take_asked(), [])


if __name__ == "__main__":
    main()
