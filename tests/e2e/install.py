"""What `cmake --install` leaves, and that it works where it lies: install.py CMAKE BUILD_FOLDER SOURCE_FOLDER"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])


class Install(unittest.TestCase):
    def install(self, prefix):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        done = subprocess.run([CMAKE, "--install", BUILD, "--prefix", prefix], env={**os.environ, "DESTDIR": folder.name},
                              capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return pathlib.Path(folder.name) / prefix.lstrip("/")

    def say(self, program, *words):
        return subprocess.run([program, *words], capture_output=True, text=True, check=True, timeout=60).stdout

    def test_everything_is_where_systems_look(self):
        root = self.install("/usr/local")
        program = root / "bin" / "dovetail"
        self.assertTrue(os.access(program, os.X_OK))
        for path, words in (("share/man/man1/dovetail.1", ("help", "--man")),
                            ("share/bash-completion/completions/dovetail", ("completion", "bash")),
                            ("share/zsh/site-functions/_dovetail", ("completion", "zsh"))):
            self.assertEqual((root / path).read_text(), self.say(program, *words), path)
        docs = root / "share/doc/dovetail"
        for path in ("LICENSE", "README.md", "CHANGELOG.md", "docs/pipelines.md", "docs/pipeline.schema.json",
                     "examples/README.md", "examples/arithmetic/pipeline.yaml"):
            self.assertEqual((docs / path).read_bytes(), (SOURCE / path).read_bytes(), path)
        self.assertEqual(list(docs.rglob("CMakeLists.txt")), [])
        unit = (root / "lib/systemd/system/dovetail.service").read_text()
        page = (SOURCE / "docs/deploying.md").read_text()
        self.assertEqual(unit, re.search(r"(?ms)^```ini\n(.*?)^```$", page).group(1))

    def test_the_unit_starts_the_program_of_its_prefix(self):
        root = self.install("/opt/dovetail")
        unit = (root / "lib/systemd/system/dovetail.service").read_text()
        self.assertIn("\nExecStart=/opt/dovetail/bin/dovetail serve ", unit)
        self.assertTrue((root / "bin" / "dovetail").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
