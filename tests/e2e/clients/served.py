"""The server that all tests of clients share, and what they ask of it."""

import importlib
import importlib.util
import json
import shutil
import tempfile
import unittest
from pathlib import Path

from running_server import API_KEY, PATIENCE, RunningServer

NAME = "smollm2"  # as clients call the model
RANKER = "ranker"  # and the one that ranks documents

ROOT = Path(__file__).resolve().parents[3]


def _module_of(path):
    # Other folders have modules of the same names.
    spec = importlib.util.spec_from_file_location(f"other_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _installed_model():
    module = _module_of(ROOT / "scripts" / "real_model.py")
    return module.path(), module.MISSING


MODEL, MISSING = _installed_model()
PROGRAM = None  # set by running.py
_server = None
_ranker = None


def server():
    """Started when it is first asked for."""
    global _server
    if _server is None:
        # Where a client says nothing it gets the likeliest answer: the same one in every run.
        _server = RunningServer(
            PROGRAM, str(MODEL), "--served-model-name", NAME, "--temperature", "0"
        )
    return _server


def ranker():
    """The same of a tiny cross-encoder with random weights, whose tokens are letters."""
    global _ranker
    if _ranker is None:
        wordpiece = _module_of(ROOT / "tests" / "cli" / "wordpiece.py")
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "bert-tiny"
            shutil.copytree(ROOT / "tests" / "golden" / "rankers" / "bert-tiny", model)
            (model / "tokenizer.json").write_text(json.dumps(wordpiece.tokenizer()))
            # The files are mapped by the time that it listens.
            _ranker = RunningServer(PROGRAM, str(model), "--served-model-name", RANKER)
    return _ranker


def stop():
    for running in (_server, _ranker):
        if running is not None:
            running.stop()


def need(package, module=None):
    """The module of a package; where it is not installed, the tests of this file are skipped."""
    try:
        return importlib.import_module(module or package.replace("-", "_"))
    except ModuleNotFoundError as missing:
        raise unittest.SkipTest(f"the package {package} is not installed ({missing})") from None


__all__ = ["API_KEY", "MODEL", "NAME", "PATIENCE", "RANKER", "need", "ranker", "server"]
