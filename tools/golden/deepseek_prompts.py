"""What DeepSeek-V3.1, V3.2 and V4 are asked: a second writing of their formats, for the built-in templates.

Written from what is known of the formats, as lists of turns, and from no template. Writes
tests/golden/templates/built_in.json: a list of cases, each with
  template   the name of the built-in template
  name       unique within the template
  variables  what the template is given
  expected   the prompt

    deepseek_prompts.py                   writes the file
    deepseek_prompts.py --published DIR   compares with the makers' programs, where DIR has copies of
                                          encoding_dsv32.py and encoding_dsv4.py (not kept here): both must write the
                                          same, but for the words that introduce the tools
"""

import argparse
import importlib
import json
import pathlib
import random
import sys

import template_chats as chats

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "templates" / "built_in.json"

BAR = "\uff5c"  # the bar of the control tokens
BOS = f"<{BAR}begin\u2581of\u2581sentence{BAR}>"
EOS = f"<{BAR}end\u2581of\u2581sentence{BAR}>"
USER, ASSISTANT = f"<{BAR}User{BAR}>", f"<{BAR}Assistant{BAR}>"
THINK, THOUGHT = "<think>", "</think>"

# The words that introduce tools are ours; {calls} is the name of a block of calls, {tools} a tool a line.
INTRODUCTIONS = {
    "deepseek-v3.2": """## Tools

These functions can help with what the user asks. To call some of them, write a block of this form in your answer:

{example}

A text stands as it is, without quotes and escapes, and its parameter says string="true". Any other value (a number, \
true, false, null, a list, an object) is JSON, and its parameter says string="false".

What the functions give follows in a block of results. Where you reason, reason about the results, too, before you go on:

{open}
...
{close}

<function_results>
...
</function_results>

<think>...</think>

The functions, one a line, each with the JSON schema of its parameters:
<functions>
{tools}
</functions>
""",
    "deepseek-v4": """## Tools

These tools can help with what the user asks. To call some of them, write a block of this form:

{example}

A text stands as it is, and its parameter says `string="true"`. Any other value (a number, true, false, null, a list, \
an object) is JSON, and its parameter says `string="false"`.

Behind <think> all of your reasoning comes first and ends with </think>; only then come calls or the answer. Behind \
</think> they come at once.

### Available Tool Schemas

{tools}

Call tools by exactly these names, with parameters that fit exactly these schemas.
""",
}
V31_INTRODUCTION = """## Tools

These tools can help with what the user asks:
{tools}
To call some of them, write exactly this, the arguments as one JSON object that fits the parameters:

{open}{call}NAME{sep}ARGUMENTS{end}{close}

Several calls stand between the same {open} and {close}, with nothing between them."""


def as_json(value):
    return json.dumps(value, ensure_ascii=False)


def text_of(content):
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def tag(kind, closing=False, /, **attributes):
    inside = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{'/' if closing else ''}{BAR}DSML{BAR}{kind}{inside}>"


class Marked:
    """V3.2 and V4, which mark calls alike."""

    def __init__(self, template, block, noun):
        self.template, self.block, self.noun = template, block, noun

    def call(self, name, lines):
        return "\n".join([tag("invoke", name=name), "\n".join(lines), tag("invoke", True)])

    def section(self, calls):
        return "\n".join([tag(self.block), *calls, tag(self.block, True)])

    def introduction(self, tools):
        value = tag("parameter", name="$PARAMETER_NAME", string="true|false") + "$PARAMETER_VALUE"
        first = self.call(f"${self.noun}_NAME", [value + tag("parameter", True), "..."])
        return INTRODUCTIONS[self.template].format(
            example=self.section([first, self.call(f"${self.noun}_NAME2", ["..."])]),
            open=tag(self.block),
            close=tag(self.block, True),
            tools="\n".join(as_json(tool.get("function", tool)) for tool in tools),
        )

    def calls(self, message):
        if not message.get("tool_calls"):
            return ""
        written = []
        for call in message["tool_calls"]:
            arguments = call["function"]["arguments"]
            if isinstance(arguments, str):
                arguments = {"arguments": arguments} if arguments else {}
            lines = []
            for key, value in arguments.items():
                is_text = isinstance(value, str)
                lines.append(
                    tag("parameter", name=key, string="true" if is_text else "false")
                    + (value if is_text else as_json(value))
                    + tag("parameter", True)
                )
            written.append(self.call(call["function"]["name"], lines))
        return "\n\n" + self.section(written)


V32 = Marked("deepseek-v3.2", "function_calls", "FUNCTION")
V4 = Marked("deepseek-v4", "tool_calls", "TOOL")


def turns_of(messages):
    """(what, the messages of it, the index of the last): tools' results that follow each other are one turn."""
    out = []
    for at, message in enumerate(messages):
        what = message["role"]
        if what == "developer":
            after = messages[at + 1]["role"] if at + 1 < len(messages) else "nothing"
            what = "order" if after in ("system", "developer", "user") else "search"
        if what == "tool" and out and out[-1][0] == "tool":
            out[-1] = ("tool", [*out[-1][1], message], at)
        else:
            out.append((what, [message], at))
    return out


def v32(variables):
    messages, tools = variables["messages"], variables.get("tools")
    thinking = variables.get("thinking", variables.get("enable_thinking", False))
    opens = variables.get("add_generation_prompt", False)
    turns = turns_of(messages)
    last = max((at for what, _, at in turns if what in ("user", "search")), default=-1)
    end = len(messages) - 1
    listing = "\n\n" + V32.introduction(tools) if tools else ""
    due = lambda at: THINK if thinking and at >= last else THOUGHT
    out = [BOS]
    if not turns or turns[0][0] not in ("system", "order", "search"):
        out.append(listing)
    for what, [message, *more], at in turns:
        said = text_of(message.get("content"))
        begins = opens or at != end
        if what in ("system", "order"):
            out += ["\n\n" if what == "order" and at else "", said, "" if at else listing]
        elif what in ("user", "search"):
            head = (("" if at else listing) + "\n\n# The user's message is: ") if what == "search" else ""
            out += [USER, head, said, ASSISTANT + due(at) if begins else ""]
        elif what == "tool":
            results = "".join(f"\n<result>{text_of(each['content'])}</result>" for each in [message, *more])
            out.append(f"\n\n<function_results>{results}\n</function_results>")
            out.append(f"\n\n{due(at)}" if begins else "")
        elif what == "assistant":
            reasoned = text_of(message.get("reasoning_content")) + THOUGHT
            out += [reasoned if thinking and at > last else "", said, V32.calls(message), EOS]
    if opens and turns and turns[-1][0] in ("system", "order", "assistant"):
        out.append(ASSISTANT + (THINK if thinking else THOUGHT))
    return "".join(out)


def v4(variables):
    messages, tools = variables["messages"], variables.get("tools")
    thinking = variables.get("thinking", variables.get("enable_thinking", True))
    keeps = bool(tools) or not variables.get("drop_thinking", True)
    opens = variables.get("add_generation_prompt", False)
    # Results and what users say between two answers are one turn, the results in the order of the calls.
    turns, calls = [], []
    for what, group, _ in turns_of(messages):
        if what == "assistant":
            calls = [call.get("id") for call in group[0].get("tool_calls") or []] or calls
        if what not in ("user", "tool"):
            turns.append((what, group[0], []))
            continue
        blocks = [(each["role"], text_of(each["content"]), each.get("tool_call_id")) for each in group]
        if turns and turns[-1][0] == "user":
            turns[-1][2].extend(blocks)
        else:
            turns.append(("user", None, blocks))
        whole = turns[-1][2]
        place = lambda block: calls.index(block[2]) if block[2] and block[2] in calls else 0
        results = iter(sorted((block for block in whole if block[0] == "tool"), key=place))
        whole[:] = [next(results) if block[0] == "tool" else block for block in whole]
    last = max((at for at, turn in enumerate(turns) if turn[0] in ("user", "search")), default=-1)
    due = lambda at: ASSISTANT + (THINK if thinking and (keeps or at >= last) else THOUGHT)
    listing = "\n\n" + V4.introduction(tools) if tools else ""
    out = [BOS]
    if not turns or turns[0][0] not in ("system", "order", "search"):
        out.append(listing)
    waits = begun = False
    for at, (what, message, blocks) in enumerate(turns):
        said = text_of(message.get("content")) if message else ""
        if what in ("system", "order"):
            out += ["\n\n" if what == "order" and at else "", said, "" if at else listing]
        elif what == "user":
            written = [f"<tool_result>{b[1]}</tool_result>" if b[0] == "tool" else b[1] for b in blocks]
            out += [USER, "\n\n".join(written)]
            waits, begun = True, False
        elif what == "search":
            out += [USER, said, "" if at else listing]
            waits, begun = True, False
        elif what == "latest_reminder":
            out += [f"<{BAR}latest_reminder{BAR}>", said]
        elif what == "assistant":
            reasoned = text_of(message.get("reasoning_content")) + THOUGHT
            reasoned = reasoned if thinking and (keeps or at > last) else ""
            out += [reasoned, said, V4.calls(message), EOS]
            waits = begun = False
        if waits and at + 1 < len(turns) and turns[at + 1][0] in ("assistant", "latest_reminder"):
            out.append(due(at))
            waits, begun = False, True
    if opens and not begun:
        out.append(due(last))
    return "".join(out)


def v31(variables):
    messages, tools = variables["messages"], variables.get("tools")
    thinking = variables.get("thinking", variables.get("enable_thinking", False))
    mark = lambda name: f"<{BAR}{name.replace(' ', chr(0x2581))}{BAR}>"
    systems = [text_of(each["content"]) for each in messages if each["role"] == "system"]
    out = [BOS, "\n\n".join(systems)]
    if tools:
        described = ""
        for tool in tools:
            function = tool.get("function", tool)
            described += f"\n### {function['name']}\n"
            described += f"Description: {function['description']}\n" if function.get("description") else ""
            described += f"\nParameters: {as_json(function.get('parameters') or {})}\n"
        marks = dict(open="tool calls begin", close="tool calls end", call="tool call begin", sep="tool sep",
                     end="tool call end")
        marks = {key: mark(name) for key, name in marks.items()}
        out.append("\n\n" + V31_INTRODUCTION.format(tools=described, **marks))
    before = ""
    for message in messages:
        role, said = message["role"], text_of(message.get("content"))
        if role == "system":
            continue
        if role == "user":
            out += [USER, said]
        elif role == "tool":
            out += [mark("tool output begin"), said, mark("tool output end")]
        elif role == "assistant":
            out += [ASSISTANT + THOUGHT if before == "user" else "", said.partition(THOUGHT)[2] if THOUGHT in said else said]
            if message.get("tool_calls"):
                out.append(mark("tool calls begin"))
                for call in message["tool_calls"]:
                    function = call["function"]
                    arguments = function["arguments"]
                    arguments = arguments if isinstance(arguments, str) else as_json(arguments)
                    out += [mark("tool call begin"), function["name"], mark("tool sep"), arguments, mark("tool call end")]
                out.append(mark("tool calls end"))
            out.append(EOS)
        before = role
    if variables.get("add_generation_prompt") and before == "user":
        out.append(ASSISTANT + (THINK if thinking else THOUGHT))
    return "".join(out)


WRITERS = {"deepseek-v3.1": v31, "deepseek-v3.2": v32, "deepseek-v4": v4}

M = chats.message
FIRST = {**chats.CALL, "id": "a"}
SECOND = {**chats.CALL_TWO, "id": "b"}
ODD = chats.call("odd", {"s": "</x>\n\"q\" é", "n": -1.5, "o": {"k": [None, True, "ü"]}, "e": ""}, id="c")
ROUND = [
    M("user", "Both."),
    M("assistant", "At once.", reasoning_content="Two calls.", tool_calls=[FIRST, SECOND]),
    M("tool", "clear", tool_call_id="a"),
    M("tool", "14:07", tool_call_id="b"),
]
PAST = [M("user", "One?"), M("assistant", "1", reasoning_content="Easy.")]
ON, OFF, OPEN, TOOLS = {"thinking": True}, {"thinking": False}, {"add_generation_prompt": True}, chats.TOOLS

# (name, messages, variables)
CHATS = [
    ("one", [chats.HELLO], OPEN),
    ("one_closed", [chats.HELLO], {}),
    ("one_thinking", [chats.HELLO], OPEN | ON),
    ("one_not_thinking", [chats.HELLO], OPEN | OFF),
    ("other_switch", [chats.HELLO], OPEN | {"enable_thinking": True}),
    ("other_switch_off", [chats.HELLO], OPEN | {"enable_thinking": False}),
    ("turns", [chats.SYSTEM, *chats.TURNS], OPEN),
    ("turns_thinking", [chats.SYSTEM, *PAST, *PAST, M("user", "Two?")], OPEN | ON),
    ("answered", [*PAST, *PAST], ON),
    ("answered_again", PAST, OPEN | ON),
    ("tools_alone", [chats.HELLO], OPEN | TOOLS),
    ("tools_system", [chats.SYSTEM, chats.HELLO], OPEN | TOOLS | ON),
    ("calls", [*PAST, *ROUND], OPEN | TOOLS | ON),
    ("calls_not_thinking", [*PAST, *ROUND], OPEN | TOOLS | OFF),
    ("calls_untold", [*PAST, *ROUND], OPEN | ON),
    ("calls_closed", ROUND, TOOLS | ON),
    ("calls_then_user", [*ROUND, M("user", "Thanks.")], OPEN | TOOLS | ON),
    ("calls_answered", [*ROUND, M("assistant", "So.", reasoning_content="Done."), M("user", "And?")], OPEN | TOOLS | ON),
    ("calls_answered_untold", [*ROUND, M("assistant", "So.", reasoning_content="Done."), M("user", "And?")], OPEN | ON),
    ("calls_twice", [*ROUND, M("assistant", None, tool_calls=[ODD]), M("tool", "x", tool_call_id="c")], OPEN | TOOLS | ON),
    ("results_swapped", [*ROUND[:2], ROUND[3], ROUND[2]], OPEN | TOOLS | OFF),
    ("result_missing", ROUND[:3], OPEN | TOOLS | ON),
    ("result_alone", [M("tool", "late", tool_call_id="z")], OPEN | OFF),
    ("arguments_text", [M("user", "q"), M("assistant", "", tool_calls=[chats.call("f", "no json", id="a")]), M("tool", "r", tool_call_id="a")], OPEN | OFF),
    ("parts", chats.PARTS, OPEN | OFF),
    ("two_users", chats.ODD_ORDER, OPEN | ON),
    ("system_alone", [chats.SYSTEM], OPEN | ON),
    ("system_late", [M("user", "a"), M("system", " (now) "), M("assistant", "b"), M("user", "c")], OPEN | OFF),
    ("system_last", [M("user", "a"), M("system", " (now) ")], OPEN | OFF),
    ("greeting", [M("assistant", "Yes?"), M("user", "a")], OPEN | ON),
]  # fmt: skip
# V3.1 has a developer's message as a system message, which render_chat() makes of it.
DEVELOPERS = [
    ("developer_orders", [M("developer", "Be brief."), chats.HELLO], OPEN | TOOLS | ON),
    ("developer_behind_system", [chats.SYSTEM, M("developer", "Be brief."), chats.HELLO], OPEN | TOOLS | OFF),
    ("developer_searches", [M("developer", "Find it.")], OPEN | TOOLS | ON),
    ("developer_searched", [chats.SYSTEM, M("developer", "Find it."), *ROUND[1:]], OPEN | TOOLS | ON),
    ("developer_searched_bare", [M("developer", "Find it."), *ROUND[1:], M("user", "So?")], OPEN | OFF),
]
V4_CHATS = [
    ("kept", [*PAST, *PAST, M("user", "Two?")], OPEN | ON | {"drop_thinking": False}),
    ("reminder", [chats.SYSTEM, M("latest_reminder", "2026-02-21"), chats.HELLO], OPEN | ON),
    ("reminder_behind", [chats.HELLO, M("latest_reminder", "2026-02-21"), M("assistant", "b"), M("user", "c")], OPEN | ON),
]


def random_chat(dice):
    """A chat such as the makers' programs take: calls have their results, and reasoning where it is due."""
    word = lambda: dice.choice(["", "a", "Zwölf\n", "<b>", " x ", "</think", "日本"])
    messages = [M("system", word())] if dice.random() < 0.5 else []
    for _ in range(dice.randrange(1, 4)):
        messages.append(M("user", "q" + word()))
        for round_ in range(dice.randrange(3)):
            calls = [
                chats.call(f"f{i}", dict.fromkeys(["p", "s"][: dice.randrange(3)], dice.choice(["t\n", 3, None, [1, "é"]])), id=f"{round_}-{i}")
                for i in range(dice.randrange(1, 4))
            ]  # fmt: skip
            messages.append(M("assistant", word(), reasoning_content="r" + word(), tool_calls=calls))
            results = [M("tool", word(), tool_call_id=call["id"]) for call in calls]
            messages += dice.sample(results, len(results))  # in any order
        messages.append(M("assistant", word(), reasoning_content="r" + word()))
    if dice.random() < 0.7:
        while messages[-1]["role"] == "assistant":
            messages.pop()
    variables = {"thinking": dice.random() < 0.5}
    if dice.random() < 0.5:
        variables["tools"] = dice.sample([chats.WEATHER, chats.CLOCK], dice.randrange(1, 3))
    return messages, OPEN | variables


def cases():
    for template, write in WRITERS.items():
        rows = list(CHATS)
        rows += DEVELOPERS if template != "deepseek-v3.1" else []
        rows += V4_CHATS if template == "deepseek-v4" else []
        rows += [(f"random_{seed}", *random_chat(random.Random(seed))) for seed in range(12)]
        for name, messages, variables in rows:
            variables = {"messages": messages} | variables
            yield {"template": template, "name": name, "variables": variables, "expected": write(variables)}


def published(folder):
    """Holds v32() and v4() to the makers' programs, with our words for the tools."""
    sys.path.insert(0, folder)
    count = 0
    for name, marked, write, encoder in (
        ("V3.2", V32, v32, importlib.import_module("encoding_dsv32")),
        ("V4", V4, v4, importlib.import_module("encoding_dsv4")),
    ):
        words = marked.introduction([{"function": {"TOOLS": 1}}]).replace(as_json({"TOOLS": 1}), "\0")
        encoder.render_tools = lambda tools, words=words: words.replace("\0", "\n".join(map(as_json, tools)))
        for seed in range(4000):
            messages, variables = random_chat(random.Random(seed))
            ends = messages[-1]["role"] in ("user", "tool")
            ours = write(variables | {"messages": messages, "add_generation_prompt": ends})
            theirs = json.loads(json.dumps(messages))
            for message in theirs:
                for call in message.get("tool_calls", []):
                    call["function"]["arguments"] = as_json(call["function"]["arguments"])
            if variables.get("tools"):
                if theirs[0]["role"] != "system":
                    theirs.insert(0, M("system", ""))
                theirs[0]["tools"] = variables["tools"]
            mode = "thinking" if variables["thinking"] else "chat"
            wanted = encoder.encode_messages(theirs, thinking_mode=mode)
            if ours != wanted:
                sys.exit(f"{name}, seed {seed}:\n{ours!r}\n{wanted!r}")
            count += 1
    print(f"{count} prompts as the makers' programs write them")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--published", metavar="DIR")
    folder = parser.parse_args().published
    if folder:
        return published(folder)
    written = list(cases())
    OUT.write_text(json.dumps(written, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{len(written)} cases")


if __name__ == "__main__":
    main()
