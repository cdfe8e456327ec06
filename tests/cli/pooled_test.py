"""What has no output: `embed`, `rerank`, and their routes. pooled_test.py BINARY SOURCE_DIR"""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from cases import BINARY
from serving import DEMO, WithServer
from wordpiece import tokenizer

GOLDEN = pathlib.Path(sys.argv[2]).resolve() / "tests" / "golden"
QUERY = "where do boats go"
DOCUMENTS = ["the boat went out", "tea is near", "", "boats go out on the tide"]


class Pooled(WithServer):
    def model(self, case):
        folder = self.folder / case.replace("/", "-")
        shutil.copytree(GOLDEN / case, folder)
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
        return folder

    def run_command(self, *arguments, lines=(), code=0):
        done = subprocess.run([BINARY, *map(str, arguments)], input="\n".join(lines), text=True, timeout=120,
                              capture_output=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()] if code == 0 else done.stderr

    def post(self, url, route, **body):
        request = urllib.request.Request(url + route, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def test_documents_come_best_first(self):
        model = self.model("rankers/bert-tiny")
        ranked = self.run_command("rerank", model, "--query", QUERY, lines=DOCUMENTS)
        self.assertEqual(sorted(line["index"] for line in ranked), [0, 1, 2, 3])
        scores = [line["relevance_score"] for line in ranked]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual(len(set(scores)), 4)
        for line in ranked:
            self.assertEqual(line["document"], DOCUMENTS[line["index"]])
            alone = self.run_command("rerank", model, "--query", QUERY, lines=[line["document"], ""])
            self.assertIn(line["relevance_score"], [other["relevance_score"] for other in alone])
        best = self.run_command("rerank", model, "--query", QUERY, "--top-n", 2, lines=DOCUMENTS)
        self.assertEqual(best, ranked[:2])

        _, url = self.start(model=model)
        status, answer = self.post(url, "/v1/rerank", query=QUERY, documents=DOCUMENTS)
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"])
        self.assertEqual([(line["index"], line["relevance_score"], line["document"]["text"])
                          for line in answer["results"]],
                         [(line["index"], line["relevance_score"], line["document"]) for line in ranked])
        status, answer = self.post(url, "/v1/rerank", query=QUERY, documents=DOCUMENTS, top_n=1,
                                   return_documents=False)
        self.assertEqual(answer["results"], [{"index": ranked[0]["index"], "relevance_score": scores[0]}])
        status, answer = self.post(url, "/v2/rerank", query=QUERY, documents=DOCUMENTS, top_n=2)
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["results"], [{"index": line["index"], "relevance_score": line["relevance_score"]}
                                             for line in ranked[:2]])
        self.assertEqual(answer["meta"]["api_version"]["version"], "2")
        # Ollama has no word for what ranks.
        _, answer = self.post(url, "/api/show", model="rankers-bert-tiny")
        self.assertEqual(answer["capabilities"], [])
        for route, body in (("/v1/embeddings", {"input": "a"}), ("/v1/completions", {"prompt": "a"})):
            status, answer = self.post(url, route, **body)
            self.assertEqual(status, 400)
            self.assertIn("it ranks documents", answer["error"]["message"])
        status, answer = self.post(url, "/v1/rerank", query=QUERY, documents=["a", "b" * 70])
        self.assertEqual((status, answer["error"]["param"]), (400, "documents[1]"))

    def test_a_model_does_what_it_is_for(self):
        ranker, embedder = self.model("rankers/bert-tiny"), self.model("embedders/bert-tiny")
        self.assertIn("text 1: model: it ranks documents", self.run_command("embed", ranker, "a", code=1))
        self.assertIn("document 1: model: it ranks no documents",
                      self.run_command("rerank", embedder, "--query", QUERY, lines=["a"], code=1))
        self.assertIn("--query is missing", self.run_command("rerank", ranker, code=2))
        report = subprocess.run([BINARY, "inspect", ranker], text=True, capture_output=True, check=True).stdout
        self.assertRegex(report, r"(?m)^score +the first hidden row, a product of 48, a product of 1$")

    def test_lines_that_cannot_be_embedded_stand_in_their_places(self):
        # A model that puts no token of its own before a text: an empty one has none.
        model = self.folder / "bare"
        shutil.copytree(DEMO, model)
        for name, change in (("tokenizer.json", {"post_processor": None}), ("tokenizer_config.json", {"add_bos_token": False})):
            (model / name).write_text(json.dumps(json.loads((model / name).read_text()) | change))
        done = subprocess.run([BINARY, "embed", model, "--max-model-len", "64"], input=f"12\n\n{'7' * 80}\n345\n",
                              text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        first, empty, long, last = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertIn("no tokens", empty["error"])
        self.assertIn("64", long["error"])
        self.assertEqual((set(empty), set(long)), ({"error"}, {"error"}))
        self.assertEqual([first, last], self.run_command("embed", model, lines=["12", "345"]))
        self.assertIn("2 of 4 lines have no embedding, the first is line 2: prompt: it has no tokens", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("text 1: prompt: it has no tokens", self.run_command("embed", model, "", code=1))
        ranker = self.model("rankers/bert-tiny")
        self.assertIn("text 1: model: it ranks documents", self.run_command("embed", ranker, lines=["a", "b"], code=1))

    def test_texts_for_ollama_are_cut_to_the_context(self):
        model = self.model("embedders/bert-tiny")
        _, url = self.start(model=model)
        _, shown = self.post(url, "/api/show", model="embedders-bert-tiny")
        self.assertEqual(shown["capabilities"], ["embedding"])
        self.assertEqual(shown["details"]["format"], "safetensors")
        context = shown["model_info"]["bert.context_length"]
        # [CLS] and [SEP] stay around as many words as there is room for, beside one for an output.
        _, cut = self.post(url, "/api/embed", input="a " * 200)
        _, fits = self.post(url, "/api/embed", input="a " * (context - 3))
        self.assertEqual(cut["embeddings"], fits["embeddings"])
        self.assertEqual(cut["prompt_eval_count"], context - 1)
        status, answer = self.post(url, "/api/embed", input="a " * 200, truncate=False)
        self.assertEqual(status, 400)
        self.assertRegex(answer["error"], "^input: .*202 tokens")

    def test_many_inputs_are_taken_whatever_the_queue_holds(self):
        model = self.model("embedders/bert-tiny")
        texts = ["boats go out"[: 1 + i % 12] for i in range(2048)]
        own = {text: self.run_command("embed", model, text)[0]["embedding"] for text in sorted(set(texts))}
        _, url = self.start("--max-queued-requests", "8", model=model)
        status, answer = self.post(url, "/v1/embeddings", input=texts)
        self.assertEqual(status, 200, answer)
        self.assertEqual([line["index"] for line in answer["data"]], list(range(2048)))
        for text, line in zip(texts, answer["data"], strict=True):
            self.assertEqual(line["embedding"], own[text])
        status, answer = self.post(url, "/v1/embeddings", input=texts + ["a"])
        self.assertEqual((status, answer["error"]["param"]), (400, "input"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
