"""Whole chat templates, our own text around the published prompt formats, on whole conversations."""

import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent / "templates"
BUILT_IN = FOLDER.parents[2] / "src" / "text" / "templates"


def message(role, content, **fields):
    return {"role": role, "content": content, **fields}


def call(name, arguments, **fields):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **fields}


SYSTEM = message("system", "Answer in one line.\n")
HELLO = message("user", "  Hello, <world> & \"all\"!\n")
TURNS = [
    message("user", "First?"),
    message("assistant", " One. "),
    message("user", "Zwei — zwölf 日本 😀?"),
    message("assistant", "<think>\nTwo, surely.\n</think>\n\nTwo."),
    message("user", "Third?"),
]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather.\nOf one place.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City, e.g. Zürich"},
                "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                "days": {"type": "array", "items": {"type": "integer"}},
                "detail": {"type": ["boolean", "null"]},
            },
            "required": ["place"],
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "",
        "parameters": {"type": "object", "properties": {}},
    },
}
CALL = call("get_weather", {"place": "Zürich", "days": [1, 2], "detail": None}, id="abcdef123")
CALL_TWO = call("clock", {}, id="ghijkl456")
TOOL_TURNS = [
    message("user", "Weather in Zürich?"),
    message("assistant", None, tool_calls=[CALL]),
    message("tool", '{"sky": "clear", "temp": 21.5}', tool_call_id="abcdef123"),
    message("assistant", "Clear."),
    message("user", "And now?"),
]
TWO_CALLS = [
    message("user", "Both."),
    message("assistant", "At once.", tool_calls=[CALL, CALL_TWO]),
    message("tool", "clear", tool_call_id="abcdef123"),
    message("tool", "14:07", tool_call_id="ghijkl456"),
]
THINKING_TOOLS = [
    message("user", "Weather?"),
    message("assistant", "", reasoning_content="\nNeed a tool.\n", tool_calls=[CALL]),
    message("tool", "clear"),
    message("assistant", "<think>\nGot it.\n</think>\n\nClear."),
]
PARTS = [
    message("system", [{"type": "text", "text": "Look."}]),
    message("user", [{"type": "image"}, {"type": "text", "text": " What is it? "}]),
]
ODD_ORDER = [message("user", "a"), message("user", "b")]
LLAMA = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
SPM = {"bos_token": "<s>", "eos_token": "</s>"}
GEMMA = {"bos_token": "<bos>", "eos_token": "<eos>"}
DEEPSEEK = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}
OPEN = {"add_generation_prompt": True}
TOOLS = {"tools": [WEATHER, CLOCK]}

# (template, what, messages, further variables, error or None)
CHATS = [
    ("chatml", "one", [HELLO], OPEN, None),
    ("chatml", "turns", [SYSTEM, *TURNS], {}, None),
    ("llama3", "one", [HELLO], LLAMA | OPEN, None),
    ("llama3", "system_turns", [SYSTEM, *TURNS], LLAMA | OPEN, None),
    ("llama3", "closed", [SYSTEM, HELLO], LLAMA, None),
    ("llama3_tools", "plain", [HELLO], LLAMA | OPEN, None),
    ("llama3_tools", "dated", [SYSTEM, *TURNS], LLAMA | OPEN | {"date_string": "26 Jul 2024"}, None),
    ("llama3_tools", "tools_in_user", [SYSTEM, *TOOL_TURNS], LLAMA | OPEN | TOOLS, None),
    ("llama3_tools", "tools_in_system", [SYSTEM, *TOOL_TURNS], LLAMA | OPEN | TOOLS | {"tools_in_user_message": False}, None),
    ("llama3_tools", "custom_tools", TOOL_TURNS, LLAMA | {"custom_tools": [CLOCK]}, None),
    ("llama3_tools", "builtin", [HELLO, message("assistant", "", tool_calls=[call("search", {"query": "a", "in": "b"})]), message("ipython", {"hits": [1, "é"]})], LLAMA | OPEN | {"builtin_tools": ["search", "code_interpreter"]}, None),
    ("llama3_tools", "two_calls", TWO_CALLS, LLAMA | TOOLS, "One call to a tool at a time!"),
    ("llama3_tools", "no_user", [SYSTEM], LLAMA | TOOLS, "there is none!"),
    ("qwen2_tools", "plain", [HELLO], OPEN, None),
    ("qwen2_tools", "system_turns", [SYSTEM, *TURNS], OPEN, None),
    ("qwen2_tools", "tools", [SYSTEM, *TOOL_TURNS], OPEN | TOOLS, None),
    ("qwen2_tools", "two_calls", TWO_CALLS, OPEN | TOOLS, None),
    ("qwen3", "plain", [HELLO], OPEN, None),
    ("qwen3", "thinking_off", [SYSTEM, *TURNS], OPEN | {"enable_thinking": False}, None),
    ("qwen3", "thinking_on", [SYSTEM, *TURNS], OPEN | {"enable_thinking": True}, None),
    ("qwen3", "history_loses_thoughts", [*TURNS[:4]], {}, None),
    ("qwen3", "tools", [SYSTEM, *TOOL_TURNS], OPEN | TOOLS, None),
    ("qwen3", "two_calls", TWO_CALLS, OPEN | TOOLS, None),
    ("qwen3", "tools_thinking", THINKING_TOOLS, TOOLS, None),
    ("qwen3", "tool_arguments_text", [HELLO, message("assistant", "Hm.", tool_calls=[{"name": "clock", "arguments": '{"a":1}'}])], TOOLS, None),
    ("mistral", "turns", TURNS, SPM, None),
    ("mistral", "system", [SYSTEM, *TURNS], SPM | OPEN, None),
    ("mistral", "odd_order", ODD_ORDER, SPM, "roles must go user/assistant"),
    ("mistral", "tool_role", [HELLO, message("tool", "x")], SPM, "Only the user and assistant roles"),
    ("mistral_tools", "plain", [SYSTEM, *TURNS], SPM, None),
    ("mistral_tools", "tools", [SYSTEM, *TOOL_TURNS], SPM | TOOLS, None),
    ("mistral_tools", "two_calls", TWO_CALLS, SPM | TOOLS, None),
    ("mistral_tools", "result_object", [HELLO, message("assistant", "", tool_calls=[CALL]), message("tool", {"content": 21.5}, tool_call_id="abcdef123")], SPM, None),
    ("mistral_tools", "short_id", [HELLO, message("assistant", "", tool_calls=[CALL | {"id": "x"}])], SPM, "9 characters"),
    ("mistral_tools", "odd_order", ODD_ORDER, SPM, "must alternate"),
    ("gemma", "turns", TURNS, GEMMA | OPEN, None),
    ("gemma", "system", [SYSTEM, HELLO], GEMMA | OPEN, None),
    ("gemma", "parts", PARTS, GEMMA | OPEN, None),
    ("gemma", "odd_order", ODD_ORDER, GEMMA, "Roles must go"),
    ("gemma", "number_content", [message("user", 3)], GEMMA, "not known"),
    ("phi3", "open", [SYSTEM, *TURNS], OPEN | {"eos_token": "<|endoftext|>"}, None),
    ("phi3", "closed", [message("system", ""), *TURNS[:2]], {"eos_token": "<|endoftext|>"}, None),
    ("phi4", "turns", [SYSTEM, *TURNS], OPEN, None),
    ("deepseek", "plain", [HELLO], DEEPSEEK | OPEN, None),
    ("deepseek", "turns", [SYSTEM, message("system", "More."), *TURNS], DEEPSEEK | OPEN, None),
    ("deepseek", "tools", TOOL_TURNS, DEEPSEEK | OPEN | TOOLS, None),
    ("deepseek", "two_calls", TWO_CALLS, DEEPSEEK | OPEN, None),
    ("deepseek-v3.1", "turns", [SYSTEM, message("system", "More."), *TURNS], OPEN, None),
    ("deepseek-v3.1", "tools", TOOL_TURNS, OPEN | TOOLS | {"thinking": True}, None),
    ("deepseek-v3.1", "parts", PARTS, OPEN, None),
    ("deepseek-v3.2", "turns", [SYSTEM, message("developer", "More."), *TURNS], OPEN | {"thinking": True}, None),
    ("deepseek-v3.2", "tools", [SYSTEM, *TOOL_TURNS], OPEN | TOOLS, None),
    ("deepseek-v3.2", "tools_thinking", [*THINKING_TOOLS, message("user", "So?")], OPEN | TOOLS | {"enable_thinking": True}, None),
    ("deepseek-v3.2", "two_calls", TWO_CALLS, OPEN | {"thinking": True}, None),
    ("deepseek-v3.2", "parts", PARTS, {}, None),
    ("deepseek-v4", "turns", [SYSTEM, message("developer", "More."), *TURNS], OPEN, None),
    ("deepseek-v4", "tools", [SYSTEM, *TOOL_TURNS], OPEN | TOOLS | {"thinking": False}, None),
    ("deepseek-v4", "tools_thinking", [*THINKING_TOOLS, message("user", "So?")], OPEN | TOOLS, None),
    ("deepseek-v4", "two_calls_swapped", [*TWO_CALLS[:2], *TWO_CALLS[:1:-1]], OPEN | {"drop_thinking": False}, None),
    ("deepseek-v4", "parts", PARTS, {}, None),
    ("zephyr", "turns", [SYSTEM, *TURNS], SPM | OPEN, None),
    ("zephyr", "closed", TURNS[:2], SPM, None),
    ("typed_tools", "plain", [SYSTEM, HELLO], OPEN, None),
    ("typed_tools", "tools", TOOL_TURNS, OPEN | TOOLS | {"reasoning_effort": "high"}, None),
    ("typed_tools", "closed_with_thought", [HELLO, message("assistant", "Yes.", thinking="Why not?")], TOOLS, None),
    ("documents", "none", [SYSTEM, *TURNS], LLAMA | OPEN, None),
    ("documents", "two", [HELLO, message("tool", "raw")], LLAMA | {"documents": [{"id": 1, "title": "A", "text": "Alpha\nbeta"}, {"title": "é", "pages": [1, 2.0], "_score": 0.5}]}, None),
    ("documents", "parts", PARTS[1:], LLAMA | OPEN, None),
    ("function_tags", "no_tools", [SYSTEM, *TURNS], LLAMA | OPEN, None),
    ("function_tags", "tools", TOOL_TURNS, LLAMA | OPEN | TOOLS, None),
    ("function_tags", "runs_code", TWO_CALLS, LLAMA | {"tools": [{"type": "code_interpreter"}, CLOCK, {"type": "code_interpreter"}]}, None),
    ("function_tags", "empty_tools", [HELLO], LLAMA | {"tools": []}, None),
    ("think_modes", "default", TURNS, OPEN, None),
    ("think_modes", "off", [SYSTEM, *TURNS], OPEN | {"enable_thinking": False}, None),
    ("think_modes", "system_flag", [message("system", "Be brief. /no_think"), *TURNS[:2]], {"today": "1 May 2025"}, None),
    ("think_modes", "system_flag_on", [message("system", "/think"), HELLO], OPEN | {"enable_thinking": False}, None),
    ("think_modes", "no_user", [SYSTEM], OPEN, "needs a user turn"),
]  # fmt: skip


def cases():
    # transformers always passes these four, so that `tools is defined` holds even without tools.
    always = {"messages": None, "tools": None, "documents": None, "add_generation_prompt": False}
    for template, what, messages, variables, error in CHATS:
        folder = BUILT_IN if (BUILT_IN / f"{template}.jinja").exists() else FOLDER
        text = (folder / f"{template}.jinja").read_text(encoding="utf-8")
        yield f"{template}/{what}", text, always | variables | {"messages": messages}, error
