#include "dialog/families.h"

#include <nlohmann/json.hpp>

#include "text/built_in_templates.h"
#include "text/chat_template.h"

namespace dovetail::dialog::test {

namespace {

std::string quoted(const std::string& text) { return "{{ " + Json(text).dump() + " }}"; }

// name and arguments as members of a JSON object.
std::string json_call(const std::string& open, const std::string& close,
                      const std::string& arguments = "arguments") {
  return quoted(open + "{\"name\": \"") + "{{ f.name }}" + quoted("\", \"" + arguments + "\": ") +
         "{{ f.arguments | tojson }}" + quoted("}" + close);
}

// Each parameter between tags; `other` closes the keys of values that are no strings.
std::string tagged_call(const std::string& open, const std::string& middle,
                        const std::string& close, const std::string& key_open,
                        const std::string& key_close, const std::string& value_close,
                        const std::string& other = "") {
  const std::string key = quoted(key_close);
  return quoted(open) + "{{ f.name }}" + quoted(middle) + "{% for k, v in f.arguments.items() %}" +
         quoted(key_open) + "{{ k }}{% if v is string %}" + key + "{{ v }}{% else %}" +
         (other.empty() ? key : quoted(other)) + "{{ v | tojson }}{% endif %}" +
         quoted(value_close) + "{% endfor %}" + quoted(close);
}

std::string plain_call(const std::string& open, const std::string& middle,
                       const std::string& close) {
  return quoted(open) + "{{ f.name }}" + middle + "{{ f.arguments | tojson }}" + quoted(close);
}

constexpr const char* kPythonCall =
    "{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}="
    "{% if v is string %}'{{ v }}'{% else %}{{ v }}{% endif %}"
    "{% if not loop.last %}{{ ', ' }}{% endif %}{% endfor %})";

// A value of Gemma's.
constexpr const char* kBareValue =
    "{% macro bare(v) %}{% if v is string %}<|\"|>{{ v }}<|\"|>{% elif v is mapping %}{{ '{' }}"
    "{% for k, w in v | dictsort %}{{ k }}:{{ bare(w) }}{% if not loop.last %},{% endif %}"
    "{% endfor %}{{ '}' }}{% elif v is sequence %}[{% for w in v %}{{ bare(w) }}"
    "{% if not loop.last %},{% endif %}{% endfor %}]{% else %}{{ v | tojson }}{% endif %}"
    "{% endmacro %}";

// MiniMax M3's: values in elements.
constexpr const char* kElements =
    "{% set ns = ']<]minimax[>[' %}"
    "{% macro element(v) %}{% if v is mapping %}{% for k, w in v.items() %}{{ ns }}<{{ k }}>"
    "{{ element(w) }}{{ ns }}</{{ k }}>{% endfor %}{% elif v is string %}{{ v }}"
    "{% elif v is iterable %}{% for w in v %}{{ ns }}<item>{{ element(w) }}{{ ns }}</item>"
    "{% endfor %}{% else %}{{ v | tojson }}{% endif %}{% endmacro %}";
constexpr const char* kElementCall =
    "{{ ns }}<invoke name=\"{{ f.name }}\">{% for k, v in f.arguments.items() %}{{ ns }}<{{ k }}>"
    "{{ element(v) }}{{ ns }}</{{ k }}>{% endfor %}{{ ns }}</invoke>{{ '\\n' }}";

constexpr const char* kTypedCall =
    "<|open|>call tool=\"{{ f.name }}\" index=\"{{ index + 1 }}\"<|sep|>"
    "{% for k, v in f.arguments.items() %}<|open|>argument key=\"{{ k }}\" type=\""
    "{% if v is string %}string{% elif v is boolean %}boolean{% elif v is none %}null"
    "{% elif v is number %}number{% elif v is mapping %}object{% else %}array{% endif %}\"<|sep|>"
    "{% if v is string %}{{ v }}{% else %}{{ v | tojson }}{% endif %}<|close|>argument<|sep|>"
    "{% endfor %}<|close|>call<|sep|>";

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {.row = "hermes",
       .call = json_call("<tool_call>\n", "\n</tool_call>"),
       .between = "\n",
       .reasoning_open = "<think>",
       .reasoning_close = "</think>"},
      {.row = "hermes",  // compact, and tags that are control tokens
       .call = json_call("<tool_call>", "</tool_call>"),
       .control_tokens = {"<tool_call>", "</tool_call>"}},
      {.row = "qwen3-coder",
       .call = tagged_call("<tool_call>\n<function=", ">\n", "</function>\n</tool_call>",
                           "<parameter=", ">\n", "\n</parameter>\n"),
       .between = "\n",
       .reasoning_open = "<think>",
       .reasoning_close = "</think>"},
      {.row = "seed",
       .call = tagged_call("<seed:tool_call>\n<function=", ">\n", "</function>\n</seed:tool_call>",
                           "<parameter=", ">", "</parameter>\n"),
       .between = "\n",
       .control_tokens = {"<seed:tool_call>", "</seed:tool_call>", "<seed:think>", "</seed:think>"},
       .reasoning_open = "<seed:think>",
       .reasoning_close = "</seed:think>"},
      {.row = "glm",
       .call = tagged_call("<tool_call>", "\n", "</tool_call>", "<arg_key>",
                           "</arg_key>\n<arg_value>", "</arg_value>\n"),
       .between = "\n"},
      {.row = "glm",
       .call = tagged_call("<tool_call>", "", "</tool_call>", "<arg_key>", "</arg_key><arg_value>",
                           "</arg_value>"),
       .control_tokens = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                          "</arg_value>", "<think>", "</think>"},
       .reasoning_open = "<think>",
       .reasoning_close = "</think>"},
      {.row = "hunyuan",
       .call = tagged_call("<tool_call:opensource>", "<tool_sep:opensource>\n",
                           "</tool_call:opensource>\n", "<arg_key:opensource>",
                           "</arg_key:opensource>\n<arg_value:opensource>",
                           "</arg_value:opensource>\n"),
       .section_open = "<tool_calls:opensource>\n",
       .section_close = "</tool_calls:opensource>"},
      {.row = "minimax",
       .call = tagged_call("<invoke name=\"", "\">\n", "</invoke>\n", "<parameter name=\"", "\">",
                           "</parameter>\n"),
       .section_open = "<minimax:tool_call>\n",
       .section_close = "</minimax:tool_call>",
       .control_tokens = {"<minimax:tool_call>", "</minimax:tool_call>"}},
      {.row = "minimax-m3",
       .call = kElementCall,
       .section_open = "]<]minimax[>[<tool_call>\n",
       .section_close = "]<]minimax[>[</tool_call>",
       .control_tokens = {"]<]minimax[>["},
       .reasoning_open = "<mm:think>",
       .reasoning_close = "</mm:think>",
       .macros = kElements},
      {.row = "minimax-m3",  // where it is no control token
       .call = kElementCall,
       .section_open = "]<]minimax[>[<tool_call>\n",
       .section_close = "]<]minimax[>[</tool_call>",
       .macros = kElements},
      {.row = "deepseek-v3.2",
       .call = tagged_call("<｜DSML｜invoke name=\"", "\">\n", "</｜DSML｜invoke>\n",
                           "<｜DSML｜parameter name=\"", "\" string=\"true\">",
                           "</｜DSML｜parameter>\n", "\" string=\"false\">"),
       .section_open = "<｜DSML｜function_calls>\n",
       .section_close = "</｜DSML｜function_calls>",
       .control_tokens = {"｜DSML｜"},
       .reasoning_open = "<think>",
       .reasoning_close = "</think>"},
      {.row = "deepseek-v4",
       .call = tagged_call("<｜DSML｜invoke name=\"", "\">\n", "</｜DSML｜invoke>\n",
                           "<｜DSML｜parameter name=\"", "\" string=\"true\">",
                           "</｜DSML｜parameter>\n", "\" string=\"false\">"),
       .section_open = "<｜DSML｜tool_calls>\n",
       .section_close = "</｜DSML｜tool_calls>"},
      {.row = "deepseek-v3.2",
       .control_tokens = {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>",
                          "<｜Assistant｜>", "｜DSML｜", "<think>", "</think>"},
       .reasoning_open = "<think>",
       .reasoning_close = "</think>",
       .built_in = "deepseek-v3.2"},
      {.row = "deepseek-v4",
       .control_tokens = {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>",
                          "<｜Assistant｜>", "｜DSML｜"},
       .reasoning_open = "<think>",
       .reasoning_close = "</think>",
       .built_in = "deepseek-v4"},
      {.row = "deepseek-v4",  // where it is no control token
       .reasoning_open = "<think>",
       .reasoning_close = "</think>",
       .built_in = "deepseek-v4"},
      {.row = "minicpm",
       .call = tagged_call("<function name=\"", "\">", "</function>", "<param name=\"", "\">",
                           "</param>"),
       .between = "\n"},
      {.row = "deepseek-v3",
       .call = plain_call("<｜tool▁call▁begin｜>function<｜tool▁sep｜>", quoted("\n```json\n"),
                          "\n```<｜tool▁call▁end｜>"),
       .section_open = "<｜tool▁calls▁begin｜>",
       .section_close = "<｜tool▁calls▁end｜>",
       .between = "\n",
       .control_tokens = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
                          "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"}},
      {.row = "deepseek-v3.1",
       .call = plain_call("<｜tool▁call▁begin｜>", quoted("<｜tool▁sep｜>"), "<｜tool▁call▁end｜>"),
       .section_open = "<｜tool▁calls▁begin｜>",
       .section_close = "<｜tool▁calls▁end｜>",
       .control_tokens = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
                          "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"},
       .reasoning_open = "<think>",
       .reasoning_close = "</think>"},
      {.row = "deepseek-v3.1",
       .control_tokens = {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>",
                          "<｜Assistant｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                          "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
                          "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"},
       .reasoning_open = "<think>",
       .reasoning_close = "</think>",
       .built_in = "deepseek-v3.1"},
      {.row = "kimi",
       .call = plain_call("<|tool_call_begin|>functions.",
                          ":{{ index }}<|tool_call_argument_begin|>", "<|tool_call_end|>"),
       .section_open = "<|tool_calls_section_begin|>",
       .section_close = "<|tool_calls_section_end|>",
       .control_tokens = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
                          "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
                          "<|tool_call_end|>"}},
      {.row = "kimi",  // whose ids are the messages'
       .call = quoted("<|tool_call_begin|>") + "{{ id }}" + quoted("<|tool_call_argument_begin|>") +
               "{{ f.arguments | tojson }}" + quoted("<|tool_call_end|>"),
       .section_open = "<|tool_calls_section_begin|>",
       .section_close = "<|tool_calls_section_end|>",
       .control_tokens = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
                          "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
                          "<|tool_call_end|>"}},
      {.row = "kimi-k3",
       .call = kTypedCall,
       .section_open = "<|open|>tools<|sep|>",
       .section_close = "<|close|>tools<|sep|>",
       .control_tokens = {"<|open|>", "<|close|>", "<|sep|>"},
       .reasoning_open = "<|open|>think<|sep|>",
       .reasoning_close = "<|close|>think<|sep|>",
       .content_open = "<|open|>response<|sep|>",
       .content_close = "<|close|>response<|sep|>"},
      {.row = "gemma",
       .call = "<|tool_call>call:{{ f.name }}{{ '{' }}{% for k, v in f.arguments | dictsort %}"
               "{% if not loop.first %},{% endif %}{{ k }}:{{ bare(v) }}{% endfor %}"
               "{{ '}<tool_call|>' }}",
       .control_tokens = {"<|tool_call>", "<tool_call|>", "<|\"|>", "<|channel>", "<channel|>"},
       .reasoning_open = "<|channel>thought\n",
       .reasoning_close = "<channel|>",
       .macros = kBareValue},
      {.row = "mistral-list",
       .call = quoted("{\"name\": \"") + "{{ f.name }}" + quoted("\", \"arguments\": ") +
               "{{ f.arguments | tojson }}" + quoted(", \"id\": \"") + "{{ id }}" + quoted("\"}"),
       .section_open = "[TOOL_CALLS][",
       .section_close = "]",
       .between = ", ",
       .control_tokens = {"[TOOL_CALLS]"}},
      {.row = "mistral-list",  // where it is no control token
       .call = quoted("{\"name\": \"") + "{{ f.name }}" + quoted("\", \"arguments\": ") +
               "{{ f.arguments | tojson }}" + quoted(", \"id\": \"") + "{{ id }}" + quoted("\"}"),
       .section_open = "[TOOL_CALLS][",
       .section_close = "]",
       .between = ", "},
      {.row = "mistral-id",
       .call = plain_call("[TOOL_CALLS]", "[CALL_ID]{{ id }}[ARGS]", ""),
       .control_tokens = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}},
      {.row = "mistral",
       .call = plain_call("[TOOL_CALLS]", "[ARGS]", ""),
       .control_tokens = {"[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"},
       .reasoning_open = "[THINK]",
       .reasoning_close = "[/THINK]"},
      {.row = "solar",
       .call = quoted("<|tool_call:begin|>") + "{{ id }}" +
               plain_call("<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>"),
       .section_open = "<|tool_calls|>",
       .control_tokens = {"<|tool_calls|>", "<|tool_call:begin|>", "<|tool_call:name|>",
                          "<|tool_call:args|>", "<|tool_call:end|>"}},
      {.row = "command",
       .call = quoted("{\"tool_call_id\": \"") + "{{ index }}" + quoted("\", \"tool_name\": \"") +
               "{{ f.name }}" + quoted("\", \"parameters\": ") + "{{ f.arguments | tojson }}" +
               quoted("}"),
       .section_open = "<|START_ACTION|>[\n    ",
       .section_close = "\n]<|END_ACTION|>",
       .between = ",\n    ",
       .control_tokens = {"<|START_ACTION|>", "<|END_ACTION|>", "<|START_RESPONSE|>",
                          "<|END_RESPONSE|>"},
       .content_open = "<|START_RESPONSE|>",
       .content_close = "<|END_RESPONSE|>"},
      {.row = "apriel",
       .call = quoted("{\"name\": \"") + "{{ f.name }}" + quoted("\", \"arguments\": ") +
               "{{ f.arguments | tojson }}" + quoted(", \"id\": \"") + "{{ id }}" + quoted("\"}"),
       .section_open = "<tool_calls>[",
       .section_close = "]</tool_calls>",
       .between = ", "},
      {.row = "minimax-m1",
       .call = json_call("", "\n"),
       .section_open = "<tool_calls>\n",
       .section_close = "</tool_calls>"},
      {.row = "nemotron",
       .call = json_call("", ""),
       .section_open = "<TOOLCALL>[",
       .section_close = "]</TOOLCALL>",
       .between = ", "},
      {.row = "apertus",
       .call = plain_call("{\"", quoted("\": "), "}"),
       .section_open = "<|tools_prefix|>[",
       .section_close = "]<|tools_suffix|>",
       .between = ", ",
       .control_tokens = {"<|tools_prefix|>", "<|tools_suffix|>"}},
      {.row = "phi",
       .call = json_call("", ""),
       .section_open = "<|tool_call|>[",
       .section_close = "]<|/tool_call|>",
       .between = ", ",
       .control_tokens = {"<|tool_call|>", "<|/tool_call|>"}},
      {.row = "phi-single",
       .call = json_call("<|tool_call|>", "<|/tool_call|>"),
       .control_tokens = {"<|tool_call|>", "<|/tool_call|>"}},
      {.row = "granite",
       .call = json_call("", ""),
       .section_open = "<|tool_call|>[",
       .section_close = "]",
       .between = ", ",
       .control_tokens = {"<|tool_call|>"}},
      {.row = "gigachat",
       .call = "{% if loop.first %}" + json_call("<|function_call|>", "") + "{% endif %}",
       .control_tokens = {"<|function_call|>"},
       .parallel = false},
      {.row = "functionary", .call = plain_call("<function=", ">", "</function>")},
      {.row = "lfm2",
       .call = kPythonCall,
       .section_open = "<|tool_call_start|>[",
       .section_close = "]<|tool_call_end|>",
       .between = ", ",
       .control_tokens = {"<|tool_call_start|>", "<|tool_call_end|>"}},
      {.row = "llama",
       .call = "{% if not loop.first %}{{ raise_exception('one call alone') }}{% endif %}" +
               json_call("", "", "parameters"),
       .parallel = false},
      {.row = "pythonic",
       .call = kPythonCall,
       .section_open = "[",
       .section_close = "]",
       .between = ", "},
      {.row = "harmony",
       .call = "{% if loop.first %}" +
               plain_call(" to=functions.", "<|channel|>commentary json<|message|>", "<|call|>") +
               "{% endif %}",
       .control_tokens = {"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>",
                          "<|constrain|>", "<|return|>"},
       .parallel = false,
       .reasoning_open = "<|channel|>analysis<|message|>",
       .reasoning_close = "<|end|>"},
  };
  return all;
}

std::string template_of(const Family& family) {
  if (!family.built_in.empty())
    return std::string(text::find_built_in_template(family.built_in)->text());
  const std::string content = family.content_open.empty()
                                  ? "{{ m.content or '' }}"
                                  : "{% if m.content and m.role == 'assistant' %}" +
                                        quoted(family.content_open) + "{{ m.content }}" +
                                        quoted(family.content_close) +
                                        "{% else %}{{ m.content or '' }}{% endif %}";
  std::string out =
      family.macros +
      "{% if tools %}<|tools|>{% for t in tools %}{{ t | tojson }}{{ '\\n' }}{% endfor %}{% endif "
      "%}"
      "{% for m in messages %}<|{{ m.role }}|>";
  if (!family.reasoning_open.empty() && family.row != "harmony") {
    out += "{% if m.reasoning_content %}" + quoted(family.reasoning_open) +
           "{{ m.reasoning_content }}" + quoted(family.reasoning_close) + "{% endif %}";
  }
  out += content + "{% if m.tool_calls %}" + quoted(family.section_open) +
         "{% for c in m.tool_calls %}{% set f = c.function %}{% set id = c.id %}"
         "{% set index = loop.index0 %}";
  if (!family.between.empty()) {
    out += "{% if not loop.first %}" + quoted(family.between) + "{% endif %}";
  }
  out += family.call + "{% endfor %}" + quoted(family.section_close) +
         "{% endif %}<|over|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
  return out;
}

DialogFormat detect(std::string_view source, std::vector<std::string> control_tokens) {
  const auto parsed = text::ChatTemplate::parse(source);
  TemplateFacts facts;
  facts.source = source;
  facts.control_tokens = std::move(control_tokens);
  facts.render = [&](const Json& variables) -> Result<std::string> {
    if (!parsed) return fail(parsed.error());
    auto rendered = parsed->render_chat(variables);
    if (!rendered) return fail(rendered.error());
    return std::move(rendered->text);
  };
  return DialogFormat::detect(facts);
}

}  // namespace dovetail::dialog::test
