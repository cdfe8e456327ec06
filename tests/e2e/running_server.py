"""Starts the dovetail program as a server on a free port and stops it again."""

import contextlib
import json
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

API_KEY = "key-of-the-tests"
PATIENCE = 120  # seconds until a test gives up on what it waits for; sanitizers are slow


class RunningServer:
    def __init__(self, program, model, *options, where=("--port", "0")):
        command = [program, "serve", model, *where, "--api-key", API_KEY, *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.log = []
        self.url = None
        listening = threading.Event()
        self.reader = threading.Thread(target=self._read, args=(listening,), daemon=True)
        self.reader.start()
        if not listening.wait(PATIENCE) or self.url is None:
            self.stop()
            raise RuntimeError(f"the server did not start: {' '.join(command)}\n{''.join(self.log)}")

    def _read(self, listening):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"listening on (\S+)", line)
            if found:
                self.url = found.group(1)
                listening.set()
        listening.set()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return code

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stderr.close()

    @contextlib.contextmanager
    def paused(self):
        """Nothing moves in the server meanwhile: what is sent inside comes to it at once, however slow the sender is."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def request(self, path, body=None):
        """Status and text of one request without the client."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json"}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self.url + path, data, headers), timeout=PATIENCE
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metrics(self):
        status, text = self.request("/metrics")
        assert status == 200, text
        samples = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name.removeprefix("dovetail_"): float(value) for name, value in samples}

    def wait_for(self, condition):
        """Waits until condition(metrics) holds; the last metrics."""
        end = time.monotonic() + PATIENCE
        while not condition(metrics := self.metrics()):
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain; the metrics are {metrics}")
            time.sleep(0.01)
        return metrics
