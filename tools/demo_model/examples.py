"""Write the held-out examples that are kept with the project: additions and gradings, as JSON lines.

Each line has an id, the prompt, how many tokens the answer may take, and the exact text that greedy
generation produces before EOS if it is right."""

import argparse
import json
import os

import evaluate


def write(path, prefix, cases):
    with open(path, "w", encoding="utf-8") as file:
        for number, (prompt, expected) in enumerate(cases, 1):
            record = {
                "id": f"{prefix}-{number:04}",
                "prompt": prompt,
                "max_tokens": evaluate.MOST_NEW_TOKENS,
                "expect": expected,
            }
            file.write(json.dumps(record) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    folder = parser.parse_args().folder
    cases = evaluate.held_out_cases(1000)
    write(os.path.join(folder, "arithmetic.jsonl"), "add", cases["additions"])
    write(os.path.join(folder, "gradings.jsonl"), "grade", cases["gradings"])


if __name__ == "__main__":
    main()
