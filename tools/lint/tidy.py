"""Runs clang-tidy over the sources of src/ that a build folder compiles, and remembers which have passed: tidy.py BUILD_FOLDER

The folder is one of a unity build: sources that are read together share the time that their headers take.

A source that has passed is not looked at again until it, a header of the project that it includes, the settings or the
tool change. What is remembered lies in $XDG_CACHE_HOME/dovetail-lint (or ~/.cache/dovetail-lint). Exit code 1: something
is wrong.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

TIDY = pathlib.Path(__file__).parents[2] / "build/venv/bin/clang-tidy"
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.M)
# Unity sources name the others by their whole paths.
HERE = str(pathlib.Path.cwd()).encode()
ROOTS = [pathlib.Path("."), pathlib.Path("src"), pathlib.Path("include")]


class Keys:
    """A hash of a source and all that it includes of the project."""

    def __init__(self, base):
        self.base = base
        self.texts = {}

    def text(self, path):
        if path not in self.texts:
            data = path.read_bytes().replace(HERE, b"")
            names = [name.decode().lstrip("/") for name in INCLUDE.findall(data)]
            places = [root / name for root in [path.parent, *ROOTS] for name in names]
            included = sorted({place for place in places if place.is_file()})
            self.texts[path] = (data, included)
        return self.texts[path]

    def key(self, source):
        seen, due = {source}, [source]
        while due:
            for place in self.text(due.pop())[1]:
                if place not in seen:
                    seen.add(place)
                    due.append(place)
        digest = hashlib.sha256(self.base)
        for path in sorted(seen):
            digest.update(str(path).encode() + b"\0" + hashlib.sha256(self.text(path)[0]).digest())
        return digest.hexdigest()


def tidy(build, source):
    # Newer than the compiler: it knows warnings of its own, and finds libstdc++ 12 using what has become deprecated.
    done = subprocess.run([TIDY, "--quiet", "-p", build, "--extra-arg=-Wno-unknown-warning-option",
                           "--extra-arg=-Wno-deprecated-declarations", source], capture_output=True, text=True)
    return done.returncode == 0, done.stdout


def main():
    build = pathlib.Path(sys.argv[1])
    commands = json.loads((build / "compile_commands.json").read_text())
    compiled = sorted({pathlib.Path(os.path.relpath(entry["file"])) for entry in commands})
    sources = [path for path in compiled if path.is_relative_to("src") or path.is_relative_to(build / "src")]
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    keys = Keys(version + pathlib.Path(".clang-tidy").read_bytes())
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    passed = home / "dovetail-lint"
    passed.mkdir(parents=True, exist_ok=True)
    due = [(source, passed / keys.key(source)) for source in sources]
    due = [(source, stamp) for source, stamp in due if not stamp.exists()]
    status = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (_, stamp), (ok, said) in zip(due, pool.map(lambda one: tidy(build, one[0]), due)):
            print(said, end="", flush=True)
            if ok:
                stamp.touch()
            else:
                status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
