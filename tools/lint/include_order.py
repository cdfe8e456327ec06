#!/usr/bin/env python3
"""Checks that a folder of src/ includes only itself and folders below it.

Usage: include_order.py [ROOT]. Prints one line per wrong include, exit code 1 if there is one.
"""

import pathlib
import re
import sys

# From the highest level to the lowest (docs/design.md, "The house"). `base` and `observe` may be used by everyone.
ORDER = ["cli", "study", "pipeline", "serve", "engine", "simulate", "schedule", "kv", "model", "cores", "dialog",
         "text", "grammar", "families", "load", "kernels", "observe", "base"]
ANYWHERE = {"base", "observe"}
# The public API, include/dovetail/: which folder each header speaks for.
PUBLIC = {"sampling_params.h": "base", "request.h": "engine", "engine.h": "engine", "server.h": "serve",
          "pipeline.h": "pipeline", "column_type.h": "pipeline", "cores.h": "cores", "device_executor.h": "cores"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def level_of(target):
    """The folder that an include path belongs to, or None for one outside the house."""
    folder, _, rest = target.partition("/")
    if folder == "dovetail":
        return PUBLIC.get(rest, folder)
    return folder if rest else None


def problems(root):
    src = root / "src"
    for path in sorted(src.rglob("*")):
        if path.suffix not in {".h", ".cpp", ".inc"}:
            continue
        folder = path.relative_to(src).parts[0]
        if folder not in ORDER:
            yield f"{path}: folder '{folder}' has no place in the order of folders"
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = level_of(match.group(1))
            where = f"{path}:{number}"
            if target not in ORDER:
                yield f"{where}: include \"{match.group(1)}\" by its path from src/"
            elif target not in ANYWHERE and ORDER.index(target) < ORDER.index(folder):
                yield f"{where}: {folder}/ may not include {target}/, which is above it"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    found = list(problems(root))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
