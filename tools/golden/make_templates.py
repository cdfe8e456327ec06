"""Renders the chat template cases with jinja2, set up as transformers sets it up.

Writes tests/golden/templates/cases.json: a list of cases, each with
  name       unique, "<group>/<what>"
  template   the template text
  variables  the variables handed to it, in an order that matters to `items` and `tojson`
  now        (only where strftime_now is used) the local time that strftime_now must see
  expected   the rendered text; or
  error      a substring of the error's message; empty where only the failure itself counts
"""

import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

import template_chats
import template_constructs

NOW = "2026-03-05T14:07:09"
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "templates"


class GenerationBlock(jinja2.ext.Extension):
    """`{% generation %}`: marks assistant text for training; renders as its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def strftime_now(pattern):
    return datetime.datetime.fromisoformat(NOW).strftime(pattern)


def render(template, variables):
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[GenerationBlock, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment.from_string(template).render(**variables)


def make_case(name, template, variables, error):
    case = {"name": name, "template": template, "variables": variables}
    if "strftime_now" in template:
        case["now"] = NOW
    try:
        text = render(template, variables)
    except Exception as problem:  # a template may fail in any of Python's ways
        if error is None:
            sys.exit(f"{name}: unexpected {type(problem).__name__}: {problem}")
        if error not in str(problem):
            sys.exit(f"{name}: wanted an error with {error!r}, got {problem}")
        return case | {"error": error}
    if error is not None:
        sys.exit(f"{name}: wanted an error with {error!r}, got {text!r}")
    return case | {"expected": text}


def main():
    cases = [make_case(*case) for case in template_constructs.cases()]
    cases += [make_case(*case) for case in template_chats.cases()]
    names = [case["name"] for case in cases]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        sys.exit(f"repeated names: {sorted(repeated)}")
    OUT.mkdir(parents=True, exist_ok=True)
    text = json.dumps(cases, ensure_ascii=False, indent=1)
    (OUT / "cases.json").write_text(text + "\n", encoding="utf-8")
    print(f"{len(cases)} cases, {sum('error' in case for case in cases)} of them errors")


if __name__ == "__main__":
    main()
