"""What tests of `dovetail serve` share: the program's arguments are BINARY SOURCE_DIR."""

import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.request

from cases import BINARY, WithFolder

DEMO = pathlib.Path(sys.argv[2]).resolve() / "models" / "demo-arith"
PROMPT = "Q: 12+34=?\nA:"


def environment(**changes):
    return {**{name: value for name, value in os.environ.items() if name != "DOVETAIL_API_KEY"}, **changes}


class WithServer(WithFolder):
    def start(self, *options, model=DEMO, where=("--port", "0"), **arguments):
        """The process and its address; what it has logged by then is self.first_lines."""
        process = subprocess.Popen([BINARY, "serve", model, *where, *options], stderr=subprocess.PIPE, text=True,
                                   env=environment(), **arguments)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stderr.close)
        self.first_lines = []
        for line in process.stderr:
            self.first_lines.append(line)
            if found := re.search(r'listening on ([^\s"]+)', line):
                return process, found.group(1)
        self.fail(f"the server ended with {process.wait()}")

    def request(self, url, key=None, **body):
        body = {"prompt": PROMPT, "ignore_eos": True, **body}
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        return urllib.request.urlopen(urllib.request.Request(
            url + "/v1/completions", json.dumps(body).encode(), headers), timeout=120)
