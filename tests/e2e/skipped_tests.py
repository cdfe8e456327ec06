"""That `make test` says what was skipped, from a log as ctest writes it: skipped_tests.py SCRIPT"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

LOG = """Start testing: Jan 01 00:00 UTC
----------------------------------------------------------
1/6 Testing: a.gtest
1/6 Test: a.gtest
Output:
----------------------------------------------------------
/src/a_test.cpp:42: Skipped
a machine of one core
Test Skipped.
2/6 Testing: b.gtest
2/6 Test: b.gtest
/src/b_test.cpp:7: Skipped
there is no "/far/shared/models/x.gguf"
Test Skipped.
3/6 Testing: c.unittest
3/6 Test: c.unittest
test_one (__main__.C.test_one) ... ok
test_two (__main__.C.test_two) ... skipped 'zsh is not installed'
test_three (__main__.C.test_three)
What it does. ... skipped "there's no /far/shared/models/y"
Test Passed.
4/6 Testing: d.script
4/6 Test: d.script
skipped: run "make setup"
Test Skipped.
5/6 Testing: e.silent
5/6 Test: e.silent
Test Skipped.
6/6 Testing: f.passed
6/6 Test: f.passed
a word of what is skipped: nothing here
/src/mutant_test.cpp:127: Skipped

[  SKIPPED ] Behind.TheFirstFailure (0 ms)
Test Passed.
"""


class Skipped(unittest.TestCase):
    def said(self, log):
        with tempfile.TemporaryDirectory() as name:
            build = pathlib.Path(name)
            (build / "CMakeCache.txt").write_text("DOVETAIL_SHARED_DIR:PATH=/far/shared\n")
            if log is not None:
                (build / "Testing" / "Temporary").mkdir(parents=True)
                (build / "Testing" / "Temporary" / "LastTest.log").write_text(log)
            return subprocess.run([sys.executable, sys.argv[1], name], capture_output=True, text=True, check=True).stdout

    def test_each_reason_is_said_once_with_its_tests(self):
        self.assertEqual(self.said(LOG).splitlines(), [
            "Skipped here, as a whole or in part:",
            "  a machine of one core (a.gtest)",
            "  no models in /far/shared: DOVETAIL_SHARED_DIR names a folder of them (b.gtest, c.unittest)",
            "  zsh is not installed (c.unittest)",
            '  run "make setup" (d.script)',
            "  no reason given (e.silent)"])

    def test_many(self):
        log = "".join(f"1/9 Test: t{i}\nx.cpp:1: Skipped\nfor reason {i // 5}\n" for i in range(5 * 22))
        lines = self.said(log).splitlines()
        self.assertEqual(lines[1], "  for reason 0 (t0, t1, t2 and 2 more)")
        self.assertEqual(len(lines), 22)
        self.assertTrue(lines[-1].startswith("  and for 2 more reasons, which are in "))

    def test_nothing_to_say(self):
        self.assertEqual(self.said("1/1 Test: a\nTest Passed.\n"), "")
        self.assertEqual(self.said(None), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
