"""Writes the table of samplers' parameters in docs/pipelines.md, made from docs/pipeline.schema.json.

sampler_table.py           writes it
sampler_table.py --check   exit code 1 if it is not what the schema says"""

import json
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
BEGIN = "<!-- samplers: made by tools/docs/sampler_table.py from pipeline.schema.json -->\n"
END = "<!-- samplers: end -->\n"


def bounds(schema):
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    if low is not None:
        return f" of at least {low:g}"
    return f" of at most {high:g}" if high is not None else ""


def kind(schema):
    """What a value may be, in words."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    name = schema.get("type")
    if name == "array":
        size = schema.get("minItems"), schema.get("maxItems")
        items = schema.get("items", {})
        of = {"string": "texts", "integer": "whole numbers", "number": "numbers"}.get(items.get("type"), "values")
        count = f"{size[0]} " if size[0] == size[1] and size[0] else ""
        return f"list of {count}{of}{bounds(items)}"
    words = {"number": "number", "integer": "whole number", "string": "text", "boolean": "`true` or `false`",
             "object": "mapping"}
    return words[name] + bounds(schema)


def table(schema):
    definitions = schema["$defs"]
    lines = ["| sampler | parameter | value | meaning |", "| --- | --- | --- | --- |"]
    for sampler in definitions["sampler_kind"]["enum"]:
        params = definitions[f"params_{sampler}"]
        first = f"**{sampler}**: {params['description']}"
        for name, value in params["properties"].items():
            must = " (required)" if name in params.get("required", []) else ""
            default = f"; default `{json.dumps(value['default'])}`" if "default" in value else ""
            cells = [first, f"`{name}`{must}", kind(value) + default, value["description"]]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
            first = ""
    return "\n".join(lines) + "\n"


def main(arguments):
    schema = json.loads((DOCS / "pipeline.schema.json").read_text())
    page = DOCS / "pipelines.md"
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{page}: no place for the table; expected the lines\n{BEGIN}{END}")
    made = f"{before}{begin}\n{table(schema)}\n{end}{after}"
    if made == text:
        return 0
    if "--check" in arguments:
        print(f"{page}: the table of samplers is not what pipeline.schema.json says; "
              "run tools/docs/sampler_table.py", file=sys.stderr)
        return 1
    page.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
