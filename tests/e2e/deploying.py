"""The proxies of docs/deploying.md, as it configures them, in front of a server: deploying.py PROGRAM MODEL

A proxy that is not installed is skipped; exit code 77 where both are missing.
"""

import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

from running_server import API_KEY, PATIENCE, RunningServer

PROGRAM, MODEL = sys.argv[1], sys.argv[2]
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "deploying.md"
HOST = "llm.example.org"
# nginx is in a folder that not every user's PATH has.
NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
CADDY = shutil.which("caddy")


def block(language):
    return re.search(rf"(?ms)^```{language}\n(.*?)^```$", DOCS.read_text()).group(1)


def replaced(text, *changes):
    """Each change must find its place, so that the test notices when the page says something else."""
    for before, after in changes:
        if before not in text:
            raise AssertionError(f"{before!r} is not in docs/deploying.md")
        text = text.replace(before, after)
    return text


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def content_of(response):
    """Of a response in chunks, which a proxy cuts where it likes."""
    rest = response.split(b"\r\n\r\n", 1)[1]
    content = b""
    while True:
        size, rest = rest.split(b"\r\n", 1)
        length = int(size, 16)
        if length == 0:
            return content
        content += rest[:length]
        rest = rest[length + 2:]


class Proxies(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.port = free_port()
        self.socket = self.folder / "http.sock"

    def serve(self, over_tcp):
        where = ("--port", "0") if over_tcp else ("--unix-socket", str(self.socket))
        self.server = RunningServer(PROGRAM, MODEL, where=where)
        self.addCleanup(self.server.stop)

    def run_proxy(self, *command):
        environment = {**os.environ, "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder / "data"),
                       "XDG_CONFIG_HOME": str(self.folder / "config")}
        log = open(self.folder / "proxy.log", "w+", encoding="utf-8")
        self.addCleanup(log.close)
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect().close()
                return
            except OSError as error:
                if process.poll() is not None or time.monotonic() > end:
                    self.fail(f"{error}\n{(self.folder / 'proxy.log').read_text()}")
                time.sleep(0.02)

    def connect(self):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        try:
            return context.wrap_socket(plain, server_hostname=HOST)
        except OSError:
            plain.close()
            raise

    def ask(self, connection, line, *fields, body=""):
        head = [f"{line} HTTP/1.1", f"Host: {HOST}", *fields]
        if body:
            head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        connection.sendall(("\r\n".join(head) + "\r\n\r\n" + body).encode())

    def answer(self, *request, body=""):
        with self.connect() as connection:
            self.ask(connection, *request, "Connection: close", body=body)
            text = b""
            while more := connection.recv(1 << 16):
                text += more
        return text.decode()

    def hold_to_the_page(self):
        key = f"Authorization: Bearer {API_KEY}"
        self.assertTrue(self.answer("GET /health").startswith("HTTP/1.1 200 "))
        self.assertTrue(self.answer("GET /v1/models").startswith("HTTP/1.1 401 "))
        self.assertTrue(self.answer("GET /v1/models", key).startswith("HTTP/1.1 200 "))
        self.assertIn("\r\nx-request-id: given-1\r\n", self.answer("GET /v1/models", key, "X-Request-Id: given-1").lower())
        self.assertRegex(self.answer("GET /health").lower(), r"\r\nx-request-id: \S+\r\n")
        for path in ("/metrics", "/v1/metrics", "/metrics/", "/load", "/v1/events"):
            self.assertTrue(self.answer(f"GET {path}", key).startswith("HTTP/1.1 403 "), path)
        # A stream arrives while it is still made: the proxy does not hold it until its end.
        body = json.dumps({"prompt": "Q: 12+34=?\nA:", "max_tokens": 400, "ignore_eos": True, "stream": True, "n": 64})
        with self.connect() as connection:
            self.ask(connection, "POST /v1/completions", key, "Connection: close", body=body)
            text = b""
            while b"data: " not in text:
                text += connection.recv(1 << 16)
            with self.server.paused():
                self.assertNotIn(b"[DONE]", text)
            while more := connection.recv(1 << 16):
                text += more
        events = content_of(text)
        self.assertIn(b"data: [DONE]", events)
        self.assertEqual(events.count(b'"finish_reason":"length"'), 64)

    def hold_nginx_to_the_page(self, over_tcp):
        if NGINX is None:
            self.skipTest("nginx is not installed")
        self.serve(over_tcp)
        certificate, key = self.folder / "a.pem", self.folder / "a.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", f"/CN={HOST}"], check=True, capture_output=True)
        server = "server unix:/run/dovetail/http.sock;    # over TCP: server 127.0.0.1:8000;"
        site = replaced(block("nginx"), (server, f"server {self.server.url.removeprefix('http://')};"),
                        ("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl"),
                        ("/etc/ssl/llm.example.org.pem", str(certificate)),
                        ("/etc/ssl/private/llm.example.org.key", str(key)))
        (self.folder / "site.conf").write_text(site)
        paths = "".join(f"{name}_temp_path {self.folder}/{name}; " for name in
                        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        conf = self.folder / "nginx.conf"
        conf.write_text(f"daemon off; master_process off; pid {self.folder}/pid; error_log stderr;\n"
                        f"events {{}}\nhttp {{ access_log off; {paths} include {self.folder}/site.conf; }}\n")
        self.run_proxy(NGINX, "-c", conf)
        self.hold_to_the_page()

    def test_nginx_and_a_socket(self):
        self.hold_nginx_to_the_page(over_tcp=False)

    def test_nginx_over_tcp(self):
        self.hold_nginx_to_the_page(over_tcp=True)

    def test_caddy(self):
        if CADDY is None:
            self.skipTest("caddy is not installed")
        self.serve(over_tcp=False)
        site = replaced(block("caddy"), ("llm.example.org {\n", f"https://{HOST}:{self.port} {{\n\tbind 127.0.0.1\n"),
                        ("unix//run/dovetail/http.sock", f"unix/{self.socket}"))
        conf = self.folder / "Caddyfile"
        conf.write_text("{\n\tadmin off\n\tauto_https disable_redirects\n\tlocal_certs\n\tskip_install_trust\n}\n" + site)
        self.run_proxy(CADDY, "run", "--config", conf, "--adapter", "caddyfile")
        self.hold_to_the_page()


if __name__ == "__main__":
    if NGINX is None and CADDY is None:
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
