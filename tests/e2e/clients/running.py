"""Runs the tests of clients against `dovetail serve`: one server for all of them.

usage: running.py PROGRAM [unittest options]
       running.py PROGRAM NAME...    only these files, for example with_ollama

The model is SmolLM2-135M-Instruct, from a Python package that `make setup` installs; where it is
missing the exit code is 77. Tests of a client whose package is not installed are skipped by name.
What runs this decides which are: build/venv has those that `make test` runs, build/venv-clients
(`make check-clients`) has all. Without either around it, this starts itself in build/venv.
"""

import os
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
VENV = ROOT / "build" / "venv"
SKIPPED = 77  # CMakeLists.txt knows it

if __name__ == "__main__":
    if not Path(sys.prefix).is_relative_to(ROOT / "build"):
        python = VENV / "bin" / "python"
        if not python.exists():
            sys.exit('build/venv is missing: run "make setup"')
        os.execv(python, [str(python), *sys.argv])
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    import served

    if served.MODEL is None:
        print(f"skipped: {served.MISSING}")
        sys.exit(SKIPPED)
    served.PROGRAM = sys.argv[1]
    names = [name for name in sys.argv[2:] if not name.startswith("-")]
    options = [option for option in sys.argv[2:] if option.startswith("-")]
    loader = unittest.TestLoader()
    found = [loader.discover(str(HERE), f"{name}.py") for name in names or ["with_*", "snippets"]]

    class Suite(unittest.TestSuite):
        """All that was found, and then the server's end."""

        def run(self, *arguments, **named):
            try:
                return super().run(*arguments, **named)
            finally:
                served.stop()

    loader.loadTestsFromModule = lambda *_, **__: Suite(found)
    unittest.main(argv=[sys.argv[0], *options], testLoader=loader, verbosity=2,
                  warnings="ignore")
