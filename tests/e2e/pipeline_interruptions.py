"""Pipelines that are stopped or killed and resumed: pipeline_interruptions.py BINARY MODEL.

DOVETAIL_LONG: more kills."""

import json
import random
import signal
import threading
import time
import unittest

import postgres_server
from pipeline_run import (IN_FLIGHT, LONG, PATIENCE, WithFolder, answer, files_of, has_no_grade,
                          main, prompts_of_record, run)
from scripted_endpoint import ScriptedEndpoint


class Interruptions(WithFolder):
    def resume(self, endpoint):
        """The prompts of the rest of the run."""
        whole, out = self.folder / "whole", self.folder / "out"
        run("resume", self.folder / "judged.yaml", "-o", out, "--quiet")
        self.assertEqual(files_of(out), files_of(whole))
        return endpoint.take_asked()

    def one_signal_keeps_what_is_under_way(self, number):
        with ScriptedEndpoint(slowly) as endpoint:
            file = self.judged(endpoint)
            run("run", file, "-o", self.folder / "whole", "--quiet")
            needed = graded(endpoint.take_asked())
            running = self.start("run", file, "-o", self.folder / "out", "--quiet")
            while len(endpoint.asked) < 100:
                self.assertIsNone(running.poll(), running.said())
                time.sleep(0.01)
            running.send_signal(number)
            self.assertEqual(running.end(), 128 + number, running.said())
            self.assertIn("go on with: dovetail pipeline resume", running.said())
            before = graded(endpoint.take_asked())
            after = graded(self.resume(endpoint))
            self.assertEqual(before & after, set(), "what was under way was kept")
            self.assertEqual(before | after, needed)

    def test_an_interrupt_keeps_what_is_under_way(self):
        self.one_signal_keeps_what_is_under_way(signal.SIGINT)

    def test_being_asked_to_end_keeps_what_is_under_way(self):
        self.one_signal_keeps_what_is_under_way(signal.SIGTERM)

    def test_a_second_interrupt_stops_at_once(self):
        goes_on = threading.Event()
        goes_on.set()
        unanswered = []

        def may_hang(prompt):
            if not goes_on.is_set() and len(endpoint.asked) > 100:
                unanswered.append(prompt)
                goes_on.wait()
            return slowly(prompt)

        with ScriptedEndpoint(may_hang) as endpoint:
            file = self.judged(endpoint)
            run("run", file, "-o", self.folder / "whole", "--quiet")
            endpoint.take_asked()
            goes_on.clear()
            running = self.start("run", file, "-o", self.folder / "out", "--quiet")
            while not unanswered:
                time.sleep(0.01)
            running.send_signal(signal.SIGINT)
            running.wait_until_said("once more stops at once")
            time.sleep(1)  # what has been answered is durable
            self.assertIsNone(running.poll(), "it waits for what is under way")
            running.send_signal(signal.SIGINT)
            self.assertEqual(running.end(), 128 + signal.SIGINT)
            goes_on.set()
            before = graded(endpoint.take_asked())
            again = graded(self.resume(endpoint)) & before
            self.assertLessEqual(graded(unanswered), again)
            self.assertLessEqual(len(again), IN_FLIGHT)

    def killed_and_resumed(self, kills, *database):
        """No record is lost, none that was finished is asked for again, and the files are those of a
        run without kills."""
        random.seed(20)
        with ScriptedEndpoint(answer) as endpoint:
            whole, out = self.folder / "whole", self.folder / "out"
            file = self.judged(endpoint, 150 * kills)
            run("run", file, "-o", whole, "--quiet", "--no-report")
            calls = len(endpoint.take_asked())
            finished = set()
            total = killed = 0
            command = "run"
            while True:
                running = self.start(command, file, "-o", out, "--quiet", "--no-report", *database)
                if killed < kills:
                    if killed % 2 == 0:  # while it starts, or soon after
                        time.sleep(random.uniform(0.01, 0.1))
                    else:  # in its middle
                        moment = random.randint(1, calls // kills)
                        while len(endpoint.asked) < moment and running.poll() is None:
                            time.sleep(0.001)
                        time.sleep(random.uniform(0, 0.02))
                    running.kill()
                    killed += 1
                code = running.end()
                if code != -signal.SIGKILL:
                    if command == "run" and "resume it" in running.said():
                        command = "resume"  # it was killed when the run was there, and nothing else
                        continue
                    self.assertEqual(code, 0, running.said())
                asked = endpoint.take_asked()
                total += len(asked)
                again = [prompt for prompt in asked if prompt in finished]
                self.assertEqual(again, [], f"finished before kill {killed}")
                if code == 0:
                    break
                if (out / "run.db").exists():
                    command = "resume"
                if (out / "results.jsonl").exists():
                    command = "resume"
                    for line in (out / "results.jsonl").read_text().splitlines(keepends=True):
                        if line.endswith("\n"):
                            finished |= prompts_of_record(json.loads(line))
            self.assertEqual(killed, kills)
            self.assertGreater(total, calls, "some kills met requests under way")
            self.assertEqual(files_of(out), files_of(whole))
            print(f"{killed} kills, {calls} requests of the whole run, {total} with the kills")

    def test_kill_at_any_moment(self):
        self.killed_and_resumed(50 if LONG else 8)

    @unittest.skipIf(postgres_server.missing(), postgres_server.missing())
    def test_kill_at_any_moment_with_a_database(self):
        self.killed_and_resumed(25 if LONG else 4, "--database", self.postgres().where)


def graded(prompts):
    """Without those that are asked several times: their answers are no options."""
    return {prompt for prompt in prompts if not has_no_grade(prompt)}


def slowly(prompt):
    time.sleep(0.02)
    return answer(prompt)


if __name__ == "__main__":
    main()
