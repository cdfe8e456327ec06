#!/usr/bin/env python3
"""Says which tests the last run of ctest in a build folder skipped, and why: skipped_tests.py BUILD_FOLDER"""

import collections
import pathlib
import re
import sys

MOST_REASONS, MOST_NAMES = 20, 3
# How GoogleTest, unittest and our own scripts say it.
REASONS = (r"(?m)^.*: Skipped\n(.*)$", r"""(?m)\.\.\. skipped (?:'(.*)'|"(.*)")$""", r"(?m)^skipped: (.*)$")


def shared_folder(build):
    cache = build / "CMakeCache.txt"
    found = re.search(r"(?m)^DOVETAIL_SHARED_DIR:\w+=(.+)$", cache.read_text()) if cache.exists() else None
    return found and found[1]


def skipped(log, shared):
    """Names of tests by reason, each in the order of the log."""
    found = collections.defaultdict(dict)
    parts = re.split(r"(?m)^\d+/\d+ Test: (.*)$", log)
    for name, text in zip(parts[1::2], parts[2::2]):
        # What a mutant's first failure leaves undone has none.
        reasons = [reason for pattern in REASONS for match in re.finditer(pattern, text)
                   for reason in match.groups() if reason]
        if not reasons and "\nTest Skipped." in text:
            reasons = ["no reason given"]
        for reason in reasons:
            # Which of its files a test looked for first is all one.
            if shared and (shared in reason or "DOVETAIL_SHARED_DIR" in reason):
                reason = f"no models in {shared}: DOVETAIL_SHARED_DIR names a folder of them"
            found[reason][name] = None
    return found


def main():
    build = pathlib.Path(sys.argv[1])
    log = build / "Testing" / "Temporary" / "LastTest.log"
    found = skipped(log.read_text(errors="replace"), shared_folder(build)) if log.exists() else {}
    if found:
        print("Skipped here, as a whole or in part:")
    for reason, names in list(found.items())[:MOST_REASONS]:
        listed = ", ".join(list(names)[:MOST_NAMES])
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        print(f"  {reason} ({listed}{more})")
    if len(found) > MOST_REASONS:
        print(f"  and for {len(found) - MOST_REASONS} more reasons, which are in {log}")


main()
