"""Cohere's client, both versions: documents are ranked."""

import unittest

from served import API_KEY, PATIENCE, RANKER, need, ranker

cohere = need("cohere")

QUERY = "where do boats go"
DOCUMENTS = ["the boat went out", "tea is near", "boats go out on the tide"]


class WithCohere(unittest.TestCase):
    def ask(self, client, **more):
        return client(api_key=API_KEY, base_url=ranker().url, timeout=PATIENCE).rerank(
            model=RANKER, query=QUERY, documents=DOCUMENTS, **more
        )

    def test_ranks(self):
        answer = self.ask(cohere.ClientV2)
        scores = [result.relevance_score for result in answer.results]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual(sorted(result.index for result in answer.results), [0, 1, 2])
        self.assertTrue(answer.id)
        self.assertEqual(answer.meta.api_version.version, "2")
        self.assertGreater(answer.meta.tokens.input_tokens, 20)
        best = self.ask(cohere.ClientV2, top_n=1, max_tokens_per_doc=100, priority=3)
        self.assertEqual(best.results, answer.results[:1])

    def test_the_first_version_gives_the_same(self):
        second = self.ask(cohere.ClientV2).results
        first = self.ask(cohere.Client, return_documents=True).results
        self.assertEqual([result.index for result in first], [result.index for result in second])
        self.assertEqual([result.document.text for result in first],
                         [DOCUMENTS[result.index] for result in second])

    def test_documents_are_cut(self):
        cut = self.ask(cohere.ClientV2, max_tokens_per_doc=1).results
        scores = {result.index: result.relevance_score for result in cut}
        # "t" is all that is left of the first two.
        self.assertEqual(scores[0], scores[1])
        self.assertNotEqual(scores[0], scores[2])

    def test_errors_say_why(self):
        with self.assertRaises(cohere.BadRequestError) as refused:
            self.ask(cohere.ClientV2, max_tokens_per_doc=0)
        self.assertIn("max_tokens_per_doc", str(refused.exception.body))
        with self.assertRaises(cohere.NotFoundError):
            cohere.ClientV2(api_key=API_KEY, base_url=ranker().url).rerank(
                model="another", query=QUERY, documents=DOCUMENTS
            )
