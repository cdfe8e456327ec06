"""Random functions with parameters of all kinds, whose arguments are short texts."""

import json
import random

LETTERS = "abcdefghijklmnopqrstuvwxyz"
OPEN = 60  # characters that a value without a bound of its own may take


class RandomTools:
    """What one seed gives. `room`: characters that the arguments of one call may take."""

    def __init__(self, seed, room):
        self.random = random.Random(seed)
        self.room = room

    def tools(self):
        names = self.names(self.random.randint(1, 4))
        return [{"type": "function", "function": self.function(name)} for name in names]

    def function(self, name):
        while True:
            schema = self.object(2)
            if longest(schema) <= self.room:
                return {"name": name, "description": "Runs.", "parameters": schema}

    def names(self, count):
        names = set()
        while len(names) < count:
            letters = self.random.choices(LETTERS, k=self.random.randint(1, 8))
            names.add("".join(letters) + self.random.choice(["", "_x", "-y", "2"]))
        return self.random.sample(sorted(names), count)

    def value(self, depth):
        kinds = [self.string, self.integer, self.number, self.boolean, self.enum, self.optional]
        if depth > 0:
            kinds += [lambda: self.object(depth - 1), lambda: self.array(depth - 1)]
        return self.random.choice(kinds)()

    def object(self, depth):
        names = self.names(self.random.randint(0 if depth < 2 else 1, 3))
        return {
            "type": "object",
            "properties": {name: self.value(depth) for name in names},
            "required": [name for name in names if self.random.random() < 0.6],
            "additionalProperties": False,
        }

    def array(self, depth):
        least = self.random.randint(0, 2)
        return {
            "type": "array", "items": self.value(depth),
            "minItems": least, "maxItems": least + self.random.randint(0, 2),
        }

    def string(self):
        least = self.random.randint(0, 3)
        schema = {"type": "string", "minLength": least}
        schema["maxLength"] = least + self.random.randint(0, 4)
        if self.random.random() < 0.2:
            schema = {"type": "string", "pattern": "^[A-Z]{1,3}-[0-9]{2}$"}
        return schema

    def integer(self):
        least = self.random.randint(-1000, 1000)
        return {
            "type": "integer", "minimum": least, "maximum": least + self.random.randint(0, 500)
        }

    def number(self):
        return {"type": "number", "minimum": -1, "exclusiveMaximum": self.random.randint(0, 50)}

    def boolean(self):
        return {"type": "boolean"}

    def enum(self):
        return {"enum": self.random.sample(["red", "it's \"so\"", "späť", 7, -0.5, None, True], 3)}

    def optional(self):
        return {"anyOf": [self.string(), {"type": "null"}]}


def longest(schema, depth=0):
    """No instance is written in more characters, with all lines indented by four for each depth."""
    if "enum" in schema:
        return max(len(json.dumps(each)) for each in schema["enum"])
    if "anyOf" in schema:
        return max(longest(each, depth) for each in schema["anyOf"])
    kind = schema["type"]
    line = 1 + 4 * (depth + 1)
    if kind == "object":
        return 2 + line + sum(
            line + len(json.dumps(name)) + 3 + longest(each, depth + 1)
            for name, each in schema["properties"].items()
        )
    if kind == "array":
        return 2 + line + schema["maxItems"] * (line + 1 + longest(schema["items"], depth + 1))
    if kind == "string":
        # Any character may be written as an escape, those beyond 16 bits as two.
        return 2 + 12 * schema["maxLength"] if "maxLength" in schema else OPEN
    return {"boolean": 5, "null": 4, "integer": 5, "number": OPEN}[kind]
