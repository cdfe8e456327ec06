"""Start and end of `dovetail serve`: serve_test.py BINARY SOURCE_DIR"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from cases import BINARY, WithFolder
from serving import DEMO, PROMPT, WithServer, environment


class Serve(WithServer):
    def refused(self, *arguments, model="/nowhere.gguf", env=None):
        """The one line of error, without that a model is looked at."""
        done = subprocess.run([BINARY, "serve", model, *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, env=env or environment())
        self.assertIn(done.returncode, (1, 2))
        self.assertNotIn("nowhere.gguf", done.stderr)
        return done.stderr

    # Sampling

    def test_options_say_what_requests_leave_out(self):
        _, url = self.start("--temperature", "0", "--top-k", "7")
        with urllib.request.urlopen(url + "/v1/models", timeout=60) as answer:
            defaults = json.load(answer)["data"][0]["sampling_defaults"]
        self.assertEqual((defaults["temperature"], defaults["top_k"]), (0, 7))

        def text(**fields):
            with self.request(url, max_tokens=16, **fields) as answer:
                return json.load(answer)["choices"][0]["text"]

        likeliest = text()
        self.assertEqual([text(seed=seed) for seed in range(6)], [likeliest] * 6)
        # What a request says goes before it.
        self.assertGreater(len({text(seed=seed, temperature=2, top_k=0) for seed in range(6)}), 1)

    def test_options_of_sampling_have_their_ranges(self):
        self.assertIn("--top-p", self.refused("--top-p", "0"))

    # Names

    def test_the_model_has_several_names(self):
        config = self.folder / "names.toml"
        config.write_text('[serve]\nserved-model-name = "from, file"\n')
        for options, names in ((("--served-model-name", "a, b"), ["a", "b"]),
                               (("--config", config), ["from", "file"])):
            _, url = self.start(*options)
            with urllib.request.urlopen(url + "/v1/models", timeout=60) as answer:
                self.assertEqual([model["id"] for model in json.load(answer)["data"]], names)
            with self.request(url, model=names[1], max_tokens=1) as answer:
                self.assertEqual(json.load(answer)["model"], names[0])
        for wrong in ("a,,b", "a,a", "", " "):
            self.assertIn("--served-model-name", self.refused("--served-model-name", wrong))

    # Closed pipes

    def test_a_log_without_a_reader_costs_no_stream(self):
        process, url = self.start()
        stream = self.request(url, max_tokens=200, stream=True)
        first = stream.readline()
        process.stderr.close()
        process.send_signal(signal.SIGINT)  # whose line in the log finds no reader
        text = first + stream.read()
        self.assertTrue(text.endswith(b"data: [DONE]\n\n"), text[-200:])
        self.assertIn(b'"finish_reason":"length"', text)
        self.assertEqual(process.wait(timeout=120), 0)

    def test_both_outputs_in_one_pipe_that_closes_early(self):
        reading, writing = os.pipe()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen([BINARY, "serve", DEMO, "--port", str(port)], stdout=writing, stderr=writing,
                                   env=environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(writing)
        os.read(reading, 1)  # as head -1: gone before most lines were written
        os.close(reading)
        url = f"http://127.0.0.1:{port}"
        while True:
            self.assertIsNone(process.poll())
            try:
                with urllib.request.urlopen(url + "/health", timeout=60):
                    break
            except urllib.error.URLError:
                pass
        stream = self.request(url, max_tokens=200, stream=True)
        first = stream.readline()
        process.send_signal(signal.SIGINT)
        self.assertTrue((first + stream.read()).endswith(b"data: [DONE]\n\n"))
        self.assertEqual(process.wait(timeout=120), 0)

    # The log

    def log_of(self, *options):
        """What a server logs, with some requests."""
        process, url = self.start(*options, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        with self.request(url, max_tokens=2, banana=1):
            pass
        for path in ("/v1/models", "/no\"thing?api_key=secret", "/health"):
            try:
                urllib.request.urlopen(url + path, timeout=60).close()
            except urllib.error.HTTPError as error:
                error.close()
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.request(url, max_tokens=1, temperature="a\nb")
        refused.exception.close()
        process.send_signal(signal.SIGINT)
        text = "".join(self.first_lines) + process.stderr.read()
        self.assertEqual(process.wait(timeout=120), 0)
        self.assertEqual(process.stdout.read(), "")
        self.assertNotIn("secret", text)
        return text.splitlines()

    def test_the_log_as_text(self):
        lines = self.log_of()
        stamp = r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] "
        for line in lines:
            self.assertRegex(line, stamp + r"\[(info|warning)\] ")
        text = "\n".join(lines)
        self.assertRegex(text, r'\[info\] req-\w+ POST /v1/completions 200 in .* ignored "banana": \d+ tokens in')
        self.assertRegex(text, r'\[warning\] req-\w+ GET "/no\\"thing" 404 in .*; unknown_path: "there is no ')
        self.assertRegex(text, r'\[warning\] req-\w+ POST /v1/completions 400 in .*: "temperature: expected a number')
        self.assertNotIn("GET /health", text)  # what monitors ask is for debugging
        self.assertIn("[info] draining: ", text)

    def test_the_log_as_json(self):
        lines = [json.loads(line) for line in self.log_of("--log-requests", "json", "--log-level", "debug")]
        for line in lines:
            self.assertEqual(list(line)[:2], ["time", "level"])
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertTrue("message" in line or "status" in line, line)
        requests = [line for line in lines if "status" in line]
        self.assertEqual([(line["status"], line["level"]) for line in requests],
                         [(200, "info"), (200, "info"), (404, "warning"), (200, "debug"), (400, "warning")])
        self.assertEqual(requests[0]["ignored"], "banana")
        self.assertEqual(requests[2]["path"], '/no"thing')
        self.assertIn("temperature: expected a number", requests[4]["error"]["message"])

    def test_the_level_of_the_log(self):
        path = self.folder / "http.sock"
        process = subprocess.Popen([BINARY, "serve", DEMO, "--unix-socket", path, "--log-level", "error"],
                                   stderr=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stderr.close)
        while True:
            self.assertIsNone(process.poll())
            try:
                self.ask(path, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                break
            except (FileNotFoundError, ConnectionRefusedError):
                pass
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.stderr.read(), "")
        self.assertEqual(process.wait(timeout=120), 0)
        self.assertIn("--log-level: 'loud' is not valid, expected error, warning, info, debug",
                      self.refused("--log-level", "loud"))

    # Sockets in the file system

    def ask(self, path, text):
        """What comes on a connection to a socket until it ends."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(path))
            connection.sendall(text.encode())
            answer = b""
            while more := connection.recv(1 << 16):
                answer += more
        return answer.decode()

    def test_a_unix_socket(self):
        path = self.folder / "http.sock"
        with socket.socket(socket.AF_UNIX) as left:  # of a process that has ended
            left.bind(str(path))
        process, url = self.start("--unix-socket-mode", "660", where=("--unix-socket", path))
        self.assertEqual(url, f"unix:{path}")
        self.assertEqual(path.stat().st_mode & 0o7777, 0o660)
        self.assertIn("another program has it", self.refused("--unix-socket", path))
        body = json.dumps({"prompt": PROMPT, "max_tokens": 4, "stream": True, "ignore_eos": True})
        answer = self.ask(path, "POST /v1/completions HTTP/1.1\r\nHost: llm.example\r\nConnection: close\r\n"
                                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}")
        self.assertTrue(answer.startswith("HTTP/1.1 200 OK\r\n"), answer)
        self.assertIn("data: [DONE]", answer)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=120), 0)
        self.assertFalse(path.exists())

    def test_what_a_unix_socket_is_not(self):
        path = self.write("file", "text")
        self.assertIn(f"socket {path}: a file that is no socket is there", self.refused("--unix-socket", path))
        self.assertEqual(path.read_text(), "text")
        long = self.folder / ("x" * 120)
        self.assertIn(f"socket {long}: the path has ", self.refused("--unix-socket", long))
        self.assertIn("--unix-socket: the path is empty", self.refused("--unix-socket", ""))
        for option in ("--host", "--port"):
            self.assertIn(f"{option}: the server listens on one address",
                          self.refused("--unix-socket", self.folder / "s", option, "1"))
        config = self.write("a.toml", "[serve]\nport = 1\n")
        self.assertIn("--port: the server", self.refused("--unix-socket", self.folder / "s", "--config", config))
        self.assertIn("--unix-socket-mode: there is no socket", self.refused("--unix-socket-mode", "600"))
        for mode in ("888", "1777", "rw", ""):
            self.assertIn(f"--unix-socket-mode: '{mode}' is not valid, expected octal digits, 0 to 777",
                          self.refused("--unix-socket", self.folder / "s", "--unix-socket-mode", mode))

    # What is refused before a model is loaded

    def test_an_empty_key_is_refused(self):
        self.assertIn("--api-key: the key is empty", self.refused("--api-key", ""))
        self.assertIn("--api-key", self.refused("--api-key="))
        for text in ('api-key = ""', '[serve]\napi-key = ""'):
            with self.subTest(text=text):
                self.assertIn("api-key: the key is empty", self.refused("--config", self.write("a.toml", text)))
        self.assertIn("DOVETAIL_API_KEY is set but empty", self.refused(env=environment(DOVETAIL_API_KEY="")))

    def test_a_config_is_a_regular_file(self):
        os.mkfifo(self.folder / "pipe")
        for path in ("/dev/null", "/dev/zero", self.folder, self.folder / "pipe"):
            with self.subTest(path=path):
                self.assertIn(f"{path} is no regular file", self.refused("--config", path))
        self.assertIn("the name is empty", self.refused("--config", ""))

    def test_a_taken_port_is_found_first(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.assertIn(f"cannot listen on 127.0.0.1 port {port}", self.refused("--port", port))
            self.assertIn("host 256.0.0.1: cannot be resolved", self.refused("--host", "256.0.0.1"))

    def test_an_open_address_without_a_key_warns(self):
        for options, warns in ((["--host", "0.0.0.0"], True), (["--host", "127.0.0.1"], False),
                               (["--host", "0.0.0.0", "--api-key", "secret"], False)):
            with self.subTest(options=options):
                done = subprocess.run([BINARY, "serve", "/nowhere.gguf", "--port", "0", *options], text=True,
                                      capture_output=True, timeout=60, env=environment())
                self.assertEqual("other machines can reach 0.0.0.0 and no key is asked for" in done.stderr, warns)

    # Ends

    def test_a_second_signal_ends_with_its_number(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number=number):
                process, url = self.start("--max-num-seqs", "1")
                stream = self.request(url, max_tokens=240, stream=True, n=100)
                stream.readline()
                process.send_signal(signal.SIGINT)
                self.assertTrue(any("draining" in line for line in process.stderr))
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    self.request(url, max_tokens=1)
                self.assertEqual(refused.exception.code, 503)
                refused.exception.close()
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=120), 128 + number)
                stream.close()

    def test_a_model_that_is_shortened_is_named(self):
        model = self.folder / "model"
        shutil.copytree(DEMO, model, ignore=shutil.ignore_patterns("*.gguf"))
        process, url = self.start(model=model)
        weights = max(model.iterdir(), key=lambda path: path.stat().st_size)
        os.truncate(weights, 0)
        with self.assertRaises(OSError):
            self.request(url, max_tokens=50).read()
        error = process.stderr.read()
        self.assertEqual(process.wait(timeout=120), 1)
        self.assertRegex(error, rf"^dovetail: {weights}: the file was shortened, .*\n$")


class SecondRateInput(WithFolder):
    def error(self, *arguments, text=None):
        done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, input=text, timeout=120)
        self.assertEqual(done.returncode, 1)
        error = done.stderr.decode()
        self.assertEqual(len(error.splitlines()), 1, error)
        return error

    def test_lines_without_an_end(self):
        limit = "the line is too long, expected at most 16777216 bytes"
        self.assertIn(f"/dev/zero:1: {limit}", self.error("run", DEMO, "--input", "/dev/zero"))
        long = self.write("long.jsonl", b'{"prompt": "a"}\n{"prompt": "' + b"x" * 100_000_000 + b'"}\n')
        self.assertIn(f"{long}:2: {limit}", self.error("run", DEMO, "--input", long))
        self.assertIn(f"standard input:2: {limit}", self.error("run", DEMO, "--input", "-", text=long.read_bytes()))

    def test_more_sequences_than_can_be_simulated(self):
        for count in (2**16 + 1, 2**32 - 1):
            done = subprocess.run([BINARY, "simulate", "--max-num-seqs", str(count)], capture_output=True, timeout=120)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"--max-num-seqs: '{count}' is out of range, expected 1 to 65536", done.stderr.decode())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
