"""An OpenAI-compatible endpoint on the loopback that answers by a function, for tests of clients."""

import http.server
import json
import threading


class ScriptedEndpoint:
    """`answer(prompt)` gives the text, a pair of text and finish_reason, or a number: the status of
    a refusal."""

    def __init__(self, answer):
        endpoint = self
        self.lock = threading.Lock()
        self.asked = []  # prompts, in the order of their arrival

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                self.connection.setsockopt(6, 1, 1)  # TCP_NODELAY

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                prompt = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
                with endpoint.lock:
                    endpoint.asked.append(prompt)
                text = answer(prompt)
                if isinstance(text, int):
                    self.reply(text, {"error": {"message": "refused by the script", "type": "test"}})
                    return
                text, reason = text if isinstance(text, tuple) else (text, "stop")
                choice = {"index": 0, "finish_reason": reason}
                if "messages" in body:
                    choice["message"] = {"role": "assistant", "content": text}
                else:
                    choice["text"] = text
                self.reply(200, {"id": "x", "object": "chat.completion", "model": body["model"],
                                 "choices": [choice],
                                 "usage": {"prompt_tokens": 7, "completion_tokens": 3}})

            def reply(self, status, value):
                data = json.dumps(value).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request, client_address):
                pass  # clients of these tests are killed

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def take_asked(self):
        with self.lock:
            asked, self.asked = self.asked, []
        return asked

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.server.shutdown()
        self.server.server_close()
