"""Many streaming completions from one thread, each event with the time of its arrival.

One reader sees all streams in the order in which the server wrote, as far as a client can; threads would add their own.
"""

import json
import selectors
import socket
import time
from urllib.parse import urlsplit

from running_server import API_KEY, PATIENCE


class Stream:
    """One completion: pieces of text with their times, then a finish reason, an error or a bad status."""

    def __init__(self, number, url, body):
        self.number = number
        self.sent = time.monotonic()
        self.status = None
        self.head = None
        self.pieces = []  # (seconds, text)
        self.logprobs = []  # of each token, where they were asked for
        self.finish = None
        self.error = None
        self.usage = None
        self.done = False  # "[DONE]" came
        self.closed = False
        self.ended = None  # when finish came
        self._buffer = b""
        parts = urlsplit(url)
        data = json.dumps(body).encode()
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE)
        self.socket.sendall(
            (
                f"POST /v1/completions HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {API_KEY}\r\n"
                f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
            ).encode()
            + data
        )
        self.socket.setblocking(False)

    @property
    def text(self):
        return "".join(text for _, text in self.pieces)

    def gaps(self):
        """Seconds between events that brought text."""
        times = [seconds for seconds, _ in self.pieces]
        return [b - a for a, b in zip(times, times[1:])]

    def receive(self):
        """Takes what has come; False at the end of the connection."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return True
        now = time.monotonic()
        if not data:
            return False
        self._buffer += data
        if self.status is None:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return True
            self.head = head.decode()
            self.status = int(self.head.split(" ", 2)[1])
            self._buffer = rest
        # Chunk sizes stand on lines of their own and are no events.
        while b"\n" in self._buffer and self.status == 200:
            line, _, self._buffer = self._buffer.partition(b"\n")
            if line.startswith(b"data: "):
                self._event(line[6:].strip().decode(), now)
        return True

    def _event(self, data, now):
        if data == "[DONE]":
            self.done = True
            return
        event = json.loads(data)
        self.error = event.get("error", self.error)
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices", []):
            if choice["text"]:
                self.pieces.append((now, choice["text"]))
            self.logprobs += (choice.get("logprobs") or {}).get("top_logprobs", [])
            if choice["finish_reason"]:
                self.finish = choice["finish_reason"]
                self.ended = now

    def body(self):
        return self._buffer.decode(errors="replace")

    def close(self):
        if not self.closed:
            self.closed = True
            self.socket.close()


def read_all(streams, on_event=None, until=None):
    """Reads until every stream has ended, or until(streams) holds; on_event(stream) after each read. The order of their ends."""
    order = []
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            if not stream.closed:
                selector.register(stream.socket, selectors.EVENT_READ, stream)
        end = time.monotonic() + PATIENCE
        while selector.get_map() and not (until and until(streams)):
            if time.monotonic() > end:
                raise AssertionError("the streams do not end")
            for key, _ in selector.select(1):
                stream = key.data
                if stream.closed:
                    continue
                was_finished = stream.finish is not None
                alive = stream.receive()
                if stream.finish is not None and not was_finished:
                    order.append(stream.number)
                if not alive:
                    selector.unregister(stream.socket)
                    stream.close()
                if on_event:
                    on_event(stream)
                if stream.closed and stream.socket in [k.fileobj for k in selector.get_map().values()]:
                    selector.unregister(stream.socket)
    return order
