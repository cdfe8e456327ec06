"""Asks the dovetail program what it can do: help_test.py BINARY"""

import os
import re
import shutil
import subprocess
import sys
import unittest

from cases import BINARY, WithFolder


def run(*arguments, code=0):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != code:
        raise AssertionError(f"{arguments}: exit code {done.returncode}, expected {code}\n{done.stderr}")
    return done


def commands():
    overview = run("--help").stdout
    return re.findall(r"(?m)^  (\w+) +\w", overview.split("Commands:")[1].split("Options:")[0])


def options(*command):
    """The long options of a command, as its help has them."""
    lines = re.findall(r"(?m)^  (-[\w,-]+)", run(*command, "--help").stdout)
    return {name for line in lines for name in line.split(",") if name.startswith("--")}


class Help(WithFolder):
    def test_version(self):
        lines = run("--version").stdout.splitlines()
        self.assertRegex(lines[0], r"^dovetail \d+\.\d+\.\d+$")
        said = dict(line.split(maxsplit=1) for line in lines[1:])
        self.assertEqual(list(said), ["commit", "compiler", "build", "kernels"])
        self.assertRegex(said["commit"], r"^([0-9a-f]{12,}|unknown)$")
        self.assertRegex(said["compiler"], r"^\S+ \d+\.\d+")
        best, all_of_them = re.match(r"(\w+) on this CPU, which runs (.*)", said["kernels"]).groups()
        self.assertEqual(all_of_them.split(", ")[0], best)
        self.assertIn("portable", all_of_them.split(", "))

    def test_help_of_commands(self):
        self.assertEqual(run("help").stdout, run("--help").stdout)
        for command in commands():
            self.assertEqual(run("help", command).stdout, run(command, "--help").stdout)
        self.assertEqual(run("help", "pipeline", "run").stdout, run("pipeline", "run", "--help").stdout)
        self.assertIn("did you mean serve", run("help", "serv", code=2).stderr)
        self.assertIn("'walk' is no part of pipeline", run("help", "pipeline", "walk", code=2).stderr)

    def test_near_matches(self):
        for arguments, message in [
            (["serve", "x", "--prot", "1"], "dovetail serve: unknown option --prot, did you mean --port"),
            (["chat", "x", "--temprature=1"], "unknown option --temprature, did you mean --temperature"),
            (["--verison"], "dovetail: unknown option '--verison'; did you mean --version"),
            (["bench", "--xyzzy-plugh"], "unknown option --xyzzy-plugh\n"),
            (["pipeline", "rum", "x"], "'rum' is none of run, resume, "),
            (["pipeline", "rum", "x"], "did you mean run"),
            (["pipeline", "run", "x", "--recrods", "3"], "unknown option --recrods, did you mean --records"),
            (["tokenize", "x", "y", "z"], "z"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(message, run(*arguments, code=2).stderr)

    def test_manual_page(self):
        page = run("help", "--man").stdout
        self.assertTrue(page.startswith(".TH DOVETAIL 1 "))
        for command in commands():
            self.assertIn(f'.SS "dovetail {command}', page)
            section = page.split(f'.SS "dovetail {command}')[1].split("\n.SS ")[0]
            for option in options(command):
                self.assertIn("\\fB" + option.replace("-", "\\-") + "\\fR", section)
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-z"], input=page, capture_output=True, text=True,
                                  check=True)
            self.assertEqual(done.stderr, "")

    def complete(self, *words):
        """What bash offers for the last of the words."""
        script = self.write("completion", run("completion", "bash").stdout)
        ask = (f"source {script}; COMP_WORDS=({' '.join(repr(w) for w in ('dovetail', *words))}); "
               f"COMP_CWORD={len(words)}; _dovetail; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes(self):
        self.assertEqual(self.complete("se"), ["serve"])
        self.assertEqual(set(self.complete("")), {*commands(), "--help", "--version"})
        for command in commands():
            self.assertEqual(set(self.complete(command, "x", "--")), options(command))
        self.assertEqual(self.complete("run", "x", "--policy", "f"), ["fcfs", "fair"])
        self.assertEqual(self.complete("run", "--policy", ""), ["fcfs", "priority", "fair"])
        self.assertEqual(self.complete("completion", ""), ["bash", "zsh"])
        self.assertEqual(self.complete("help", "perp"), ["perplexity"])
        self.assertEqual(self.complete("pipeline", "re"), ["resume", "report"])
        self.assertEqual(set(self.complete("pipeline", "run", "--")), options("pipeline", "run"))
        self.assertEqual(self.complete("run", "mod"), [])  # files are bash's own business

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh_reads_its_script(self):
        script = self.write("_dovetail", run("completion", "zsh").stdout)
        done = subprocess.run(["zsh", "-fc", f"autoload -U compinit; compinit -D; source {script}; whence -w _dovetail"],
                              capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(self.folder)})
        self.assertEqual((done.stdout, done.stderr), ("_dovetail: function\n", ""))

    def test_completion_of_other_shells(self):
        self.assertIn("'fish' is no shell", run("completion", "fish", code=1).stderr)
        self.assertIn("SHELL is missing", run("completion", code=2).stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
