#!/usr/bin/env python3
"""Compares the tokenizers with llama.cpp's test vocabularies.

    check_vocabularies.py FOLDER [TEST_PROGRAM]

FOLDER holds ggml-vocab-*.gguf with .inp and .out beside them: `models` of llama.cpp's source, which
the source archive of the package llama-cpp-python has under vendor/. TEST_PROGRAM is
build/release/tests/text/dovetail_text_test unless given. Prints a line for each vocabulary, and what
the test says of those that differ; fails where one does. Needs Python alone.
"""

import os
import pathlib
import subprocess
import sys

TEST = "LlamaVocabularies.GiveTheIdsOfTheModelsTokenizers"


def main():
    if len(sys.argv) not in (2, 3) or not pathlib.Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    root = pathlib.Path(__file__).resolve().parents[2]
    program = sys.argv[2] if len(sys.argv) == 3 else root / "build/release/tests/text/dovetail_text_test"
    environment = dict(os.environ, DOVETAIL_LLAMA_VOCABULARIES=str(pathlib.Path(sys.argv[1]).resolve()))
    run = subprocess.run([str(program), "--gtest_filter=" + TEST], env=environment, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
    lines = run.stdout.splitlines()
    found = [line.removeprefix("vocabulary ") for line in lines if line.startswith("vocabulary ")]
    print("\n".join(found))
    if run.returncode != 0 or not found:
        print("\n".join(line for line in lines if not line.startswith("vocabulary ")))
        sys.exit(1)


main()
