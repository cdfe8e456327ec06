"""Runs what docs/clients.md shows, each block of Python or shell, against the tests' server."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from served import API_KEY, PATIENCE, ROOT, ranker, server

TEXT = (ROOT / "docs" / "clients.md").read_text("utf-8")
# What the document says, and what stands for it here.
ADDRESS, KEY = "http://localhost:8000", "my-key"
OF_RANKERS = ("Cohere",)  # headings


def blocks():
    """(heading, language, text) of all fenced blocks."""
    heading, found = "", []
    for match in re.finditer(r"^## ([^\n]*)$|^```(\w+)\n(.*?)^```$", TEXT, re.M | re.S):
        if match[1]:
            heading = match[1]
        else:
            found.append((heading, match[2], match[3]))
    return found


def path():
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of a package's part
        return False


def missing(language, text):
    """The modules or programs of a block that are not installed."""
    if language == "sh":
        programs = re.findall(r"^([\w-]+) ", text, re.M)
        return [name for name in programs if not shutil.which(name, path=path())]
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module)
    return sorted({name for name in names if not is_module(name)})


class Snippets(unittest.TestCase):
    def run_one(self, language, text, where):
        text = text.replace(ADDRESS, where().url).replace(KEY, API_KEY)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        command = [sys.executable, "-c", text] if language == "python" else ["bash", "-ec", text]
        environment = {
            **os.environ,
            "PATH": path(),
            "HOME": folder,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "HF_HUB_OFFLINE": "1",
        }
        done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout}")
        self.assertTrue(done.stdout.strip(), text)

    def test_versions_are_those_that_are_tested(self):
        scripts = ROOT / "scripts"
        lists = [scripts / "python_requirements.txt", *(scripts / "clients").iterdir()]
        pins = set(re.findall(r"^([\w-]+)(?:\[\w+\])?==(\S+)$",
                              "\n".join(path.read_text() for path in lists), re.M))
        rows = re.findall(r"^\| ([a-z][^|]*) \|[^|]*\| ([\d., ]+) \|", TEXT, re.M)
        self.assertGreater(len(rows), 9)
        ours = {(name.removesuffix("-chat").removesuffix("-slim"), pin) for name, pin in pins}
        for names, versions in rows:
            packages = re.findall(r"[a-z][\w-]+", names.split(", its")[0])
            for package, version in zip(packages, versions.split(", "), strict=True):
                self.assertIn((package, version), ours)

    def test_there_are_some(self):
        languages = [language for _, language, _ in blocks()]
        self.assertEqual(set(languages), {"python", "sh", "text"})
        self.assertGreaterEqual(languages.count("python"), 9)


def _add_tests():
    for number, (heading, language, text) in enumerate(blocks()):
        if language == "text":
            continue

        where = ranker if heading in OF_RANKERS else server

        def test(self, language=language, text=text, where=where):
            if absent := missing(language, text):
                self.skipTest(f"not installed: {', '.join(absent)}")
            self.run_one(language, text, where)

        name = re.sub(r"\W+", "_", heading.lower()).strip("_")
        setattr(Snippets, f"test_{number:02}_{name}", test)


_add_tests()
