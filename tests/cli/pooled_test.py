"""What has no output: `embed`, `rerank`, and their routes. pooled_test.py BINARY SOURCE_DIR"""

import json
import pathlib
import shutil
import string
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from cases import BINARY
from serving import WithServer

GOLDEN = pathlib.Path(sys.argv[2]).resolve() / "tests" / "golden"
QUERY = "where do boats go"
DOCUMENTS = ["the boat went out", "tea is near", "", "boats go out on the tide"]


def tokenizer():
    """WordPiece of single characters, with BERT's ids around one text and two."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *string.ascii_lowercase,
              *(f"##{letter}" for letter in string.ascii_lowercase)]
    ids = {token: number for number, token in enumerate(tokens)}
    return {
        "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i in range(4)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": ids},
    }


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
