#!/usr/bin/env python3
"""The include check finds what it is there to find."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import include_order


class IncludeOrder(unittest.TestCase):
    def check(self, path, include):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "src" / path
            file.parent.mkdir(parents=True)
            file.write_text(f'#pragma once\n#include "{include}"\n')
            return list(include_order.problems(pathlib.Path(folder)))

    def test_down_itself_and_base_are_fine(self):
        for path, include in [("engine/a.h", "kv/b.h"), ("kv/a.h", "kv/b.h"), ("base/a.h", "observe/log.h"),
                              ("serve/a.cpp", "dovetail/engine.h"), ("kernels/avx2/a.cpp", "kernels/k.h"),
                              ("study/a.h", "cores/b.h"), ("cli/a.cpp", "study/b.h")]:
            self.assertEqual(self.check(path, include), [], (path, include))

    def test_up_is_wrong(self):
        for path, include in [("kv/a.h", "engine/b.h"), ("load/a.cpp", "text/b.h"), ("schedule/a.h", "dovetail/engine.h"),
                              ("base/a.h", "load/b.h"), ("engine/a.h", "study/b.h"), ("cores/a.h", "study/b.h"), ("kernels/avx2/a.cpp", "model/k.h")]:
            self.assertEqual(len(self.check(path, include)), 1, (path, include))

    def test_unknown_folders_and_relative_paths_are_wrong(self):
        for path, include in [("misc/a.h", "base/b.h"), ("kv/a.h", "b.h"), ("kv/a.h", "../kv/b.h")]:
            self.assertEqual(len(self.check(path, include)), 1, (path, include))


if __name__ == "__main__":
    sys.exit(not unittest.main(exit=False, verbosity=0).result.wasSuccessful())
