"""`dovetail serve` where memory or descriptors run out: serve_limits_test.py BINARY SOURCE_DIR

Limits of address space are set from outside once the server listens, above what it takes by then.
"""

import json
import os
import pathlib
import re
import resource
import select
import socket
import sys
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from serving import WithServer

MIB = 1 << 20
KEY = "key-of-the-tests"
PATIENCE = 60  # seconds until a test gives up on what it waits for
FLOOD = 64 * MIB  # what a client sends at most
BODY = 8 * MIB  # the largest that is taken
BODIES = 256 * MIB  # what all bodies together may take

# What follows the head of a chunked request without ever ending it: how it begins, and what is sent over and over.
ENDLESS = {
    "data": (b"", b"10000\r\n" + b" " * 0x10000 + b"\r\n"),
    "extension": (b"1;", b"x" * 0x10000),
    "digits": (b"0", b"0" * 0x10000),
    "trailers": (b"0\r\n", b"name: value\r\n" * 0x1000),
}


def connect(url):
    connection = socket.create_connection((urllib.parse.urlsplit(url).hostname, urllib.parse.urlsplit(url).port),
                                          timeout=PATIENCE)
    return connection


def head(line, *fields):
    return "\r\n".join([line + " HTTP/1.1", "Host: localhost", *fields, "", ""]).encode()


def status_of(answer):
    found = re.match(rb"HTTP/1\.1 (\d+) ", answer)
    return int(found.group(1)) if found else None


def memory(process, name):
    """A figure of the process in bytes, as the kernel has it."""
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE).group(1)) * 1024


def flood(url, begin, block):
    """The answer to a request that begins so and goes on with `block` until the connection ends or FLOOD was sent."""
    with connect(url) as connection:
        connection.setblocking(False)
        answer, out, sent = b"", memoryview(begin), 0
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if not out and sent < FLOOD:
                out = memoryview(block)
            readable, writable, _ = select.select([connection], [connection] if out else [], [], 1)
            try:
                if readable:
                    more = connection.recv(1 << 16)
                    answer += more
                    if not more:
                        return answer
                if writable:
                    size = connection.send(out)
                    out, sent = out[size:], sent + size
            except ConnectionError:
                return answer
            if not out and sent >= FLOOD and not readable:
                return answer  # all was taken, without an end of it
        return answer


class Limits(WithServer):
    def limit_memory(self, process, more):
        """The process may take so many bytes of address space beyond those that it has."""
        most = memory(process, "VmSize") + more
        resource.prlimit(process.pid, resource.RLIMIT_AS, (most, most))

    def send_unfinished(self, url, count):
        """Connections that sent all but the last byte of as many largest bodies, unless they were refused before."""
        unfinished = head("POST /v1/completions", "Content-Type: application/json", f"Content-Length: {BODY}")
        unfinished += b" " * (BODY - 1)
        connections = []
        for _ in range(count):
            connection = connect(url)
            self.addCleanup(connection.close)
            connections.append(connection)
            try:
                connection.sendall(unfinished)
            except ConnectionError:
                pass  # what was answered is looked at by ended()
        return connections

    def ended(self, connections, least):
        """What came on those connections that the server ended; waits until there are so many."""
        answers = {connection: b"" for connection in connections}
        open_ones = set(connections)
        end = time.monotonic() + PATIENCE
        while len(connections) - len(open_ones) < least and time.monotonic() < end:
            for connection in select.select(list(open_ones), [], [], 1)[0]:
                try:
                    more = connection.recv(1 << 16)
                except ConnectionError:
                    more = b""
                answers[connection] += more
                if not more:
                    open_ones.remove(connection)
        return [answers[connection] for connection in connections if connection not in open_ones]

    def assert_serves(self, process, url):
        """A client that comes again when told to gets its completion."""
        end = time.monotonic() + PATIENCE
        while True:
            self.assertIsNone(process.poll())
            try:
                with self.request(url, max_tokens=2) as response:
                    self.assertEqual(json.load(response)["usage"]["completion_tokens"], 2)
                    return
            except urllib.error.HTTPError as error:
                with error:
                    self.assertEqual((error.code, error.headers["Retry-After"]), (503, "1"))
                self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def health(self, connection):
        connection.sendall(head("GET /health"))
        return status_of(connection.recv(1 << 16))

    def test_requests_without_an_end_take_no_memory(self):
        process, url = self.start("--api-key", KEY)
        self.request(url, KEY, max_tokens=1).close()
        before = memory(process, "VmRSS")
        chunked = "Transfer-Encoding: chunked"
        health = head("GET /health", chunked)
        refused = head("POST /v1/completions", chunked, "Content-Type: application/json")
        taken = head("POST /v1/completions", chunked, "Content-Type: application/json", f"Authorization: Bearer {KEY}")
        cases = [("a head", head("GET /health")[:-2], b"name: value\r\n" * 0x1000, 431)]
        for name, (begin, block) in ENDLESS.items():
            of_body = {"data": 413, "extension": 413, "digits": 400, "trailers": 431}[name]
            cases += [(f"{name}, /health", health + begin, block, 413),
                      (f"{name}, without the key", refused + begin, block, 401),
                      (f"{name}, with the key", taken + begin, block, of_body)]
        for name, begin, block, status in cases:
            with self.subTest(name):
                answer = flood(url, begin, block)
                self.assertLess(memory(process, "VmHWM"), before + FLOOD // 2)
                self.assertEqual(status_of(answer), status, answer[:300])
        self.request(url, KEY, max_tokens=1).close()

    def test_bodies_beyond_their_budget_are_refused(self):
        process, url = self.start()
        kept = connect(url)
        self.addCleanup(kept.close)
        self.assertEqual(self.health(kept), 200)
        self.limit_memory(process, 2 * BODIES)
        count = 3 * BODIES // BODY  # together more than the process may have
        connections = self.send_unfinished(url, count)
        self.assertEqual(self.health(kept), 200)
        answers = self.ended(connections, count - BODIES // BODY)
        self.assertGreaterEqual(len(answers), count - BODIES // BODY)
        for answer in answers:
            self.assertEqual(status_of(answer), 503, answer)
            self.assertIn(b"\r\nRetry-After: 1\r\n", answer)
            self.assertIn(b'"too_many_bodies"', answer)
        for connection in connections:
            connection.close()
        self.assert_serves(process, url)
        self.assertEqual(self.health(kept), 200)

    def test_memory_that_runs_out_ends_single_connections(self):
        process, url = self.start()
        kept = connect(url)
        self.addCleanup(kept.close)
        self.assertEqual(self.health(kept), 200)
        self.limit_memory(process, 12 * BODY)
        connections = self.send_unfinished(url, 24)  # within their budget
        self.assertTrue(self.ended(connections, 1))
        self.assertIsNone(process.poll())
        self.assertEqual(self.health(kept), 200)
        for connection in connections:
            connection.close()
        self.assert_serves(process, url)

    def test_connections_are_accepted_again_once_descriptors_are_free(self):
        process, url = self.start()
        # Some that the process holds come and go, so there may be a few more than seem left.
        most = max(int(name) for name in os.listdir(f"/proc/{process.pid}/fd")) + 16
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (most, hard))
        log, accepted, waiting = b"", [], []
        while b"accepting a connection failed: " not in log:
            self.assertLess(len(accepted), most)
            connection = connect(url)
            self.addCleanup(connection.close)
            connection.sendall(head("GET /health"))
            ready, _, _ = select.select([connection, process.stderr], [], [], PATIENCE)
            self.assertTrue(ready)
            if process.stderr in ready:
                log += os.read(process.stderr.fileno(), 1 << 16)
            if connection in ready:
                self.assertEqual(status_of(connection.recv(1 << 16)), 200)
                accepted.append(connection)
            else:
                waiting.append(connection)
        self.assertGreater(len(accepted), 8)
        for _ in range(8):  # into the kernel's queue
            waiting.append(connect(url))
            self.addCleanup(waiting[-1].close)
            waiting[-1].sendall(head("GET /health"))
        self.assertEqual(self.health(accepted[0]), 200)
        for connection in accepted:
            connection.close()
        for connection in waiting:
            self.assertEqual(status_of(connection.recv(1 << 16)), 200)
            connection.close()
        self.assert_serves(process, url)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
