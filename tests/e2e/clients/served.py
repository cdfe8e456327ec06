"""The server that all tests of clients share, and what they ask of it."""

import importlib
import importlib.util
import unittest
from pathlib import Path

from running_server import API_KEY, PATIENCE, RunningServer

NAME = "smollm2"  # as clients call the model

ROOT = Path(__file__).resolve().parents[3]


def _installed_model():
    # tests/e2e has a module of the same name.
    spec = importlib.util.spec_from_file_location("installed", ROOT / "scripts" / "real_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.path(), module.MISSING


MODEL, MISSING = _installed_model()
PROGRAM = None  # set by running.py
_server = None


def server():
    """Started when it is first asked for."""
    global _server
    if _server is None:
        # Where a client says nothing it gets the likeliest answer: the same one in every run.
        _server = RunningServer(
            PROGRAM, str(MODEL), "--served-model-name", NAME, "--temperature", "0"
        )
    return _server


def stop():
    if _server is not None:
        _server.stop()


def need(package, module=None):
    """The module of a package; where it is not installed, the tests of this file are skipped."""
    try:
        return importlib.import_module(module or package.replace("-", "_"))
    except ModuleNotFoundError as missing:
        raise unittest.SkipTest(f"the package {package} is not installed ({missing})") from None


__all__ = ["API_KEY", "NAME", "PATIENCE", "need", "server"]
