#!/usr/bin/env python3
"""Makes the pictures of the server's page: make_page_pictures.py [PROGRAM [MODEL]]

The real model of the tests, unless another is named, answers a question in the page while others
ask, too; Chromium (Debian's package) takes the pictures, docs/images/page-light.webp and
page-dark.webp.
"""

import concurrent.futures
import itertools
import pathlib
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "e2e"))
import real_model
from chromium import Chromium
from running_server import API_KEY, RunningServer

QUESTION = "Write a Python function that returns the n-th Fibonacci number, and say how it works."
OTHERS = ["Tell me a story about a fox. ", "Why is the sky blue? ", "Name ten trees. "]
WIDTH, HEIGHT = 1280, 800
LOADS = 5


def load(server, ended, first):
    """What others ask meanwhile."""
    for turn in itertools.count(first):
        if ended.is_set():
            return
        prompt = OTHERS[turn % len(OTHERS)] * (1 + turn % 7)
        server.request("/v1/chat/completions", {
            "messages": [{"role": "user", "content": prompt}], "max_tokens": 60 + 20 * (turn % 5),
            "seed": turn})


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/dovetail")
    model = sys.argv[2] if len(sys.argv) > 2 else real_model.path()
    if model is None:
        sys.exit(real_model.MISSING)
    server = RunningServer(program, str(model), "--served-model-name", "SmolLM2-135M-Instruct",
                           "--kv-blocks", "160")
    with Chromium(WIDTH, HEIGHT) as browser, concurrent.futures.ThreadPoolExecutor(LOADS) as others:
        browser.open(server.url + "/")
        browser.wait("document.getElementById('key').open")
        browser.run(f"document.getElementById('key-input').value = '{API_KEY}'")
        browser.run("document.querySelector('#key .strong').click()")
        browser.wait("models.length > 0")
        ended = threading.Event()
        loads = [others.submit(load, server, ended, first) for first in range(LOADS)]
        browser.wait("strip.events.length > 75", 120)
        browser.run("conversation.settings = { temperature: 0.2, seed: 3, max_tokens: 300 }")
        browser.run(f"ask({QUESTION!r})")
        browser.wait("answer === null", 300)
        browser.run("log.scrollTop = 0; document.activeElement.blur()")
        for name, dark in (("light", False), ("dark", True)):
            browser.look(WIDTH, HEIGHT, dark)
            browser.picture(ROOT / "docs" / "images" / f"page-{name}.webp")
        ended.set()
        for each in loads:
            each.result()
    server.stop()


if __name__ == "__main__":
    main()
