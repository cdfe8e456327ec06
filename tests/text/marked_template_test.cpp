// Texts that templates make know which of their bytes come from the variables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "support/places.h"
#include "text/chat_template.h"
#include "text/golden_tokenizers.h"

namespace dovetail::text {
namespace {

using nlohmann::ordered_json;

// The text with ⟦⟧ around what is untrusted.
std::string shown(const MarkedText& text) {
  std::string out;
  std::size_t done = 0;
  for (const ByteSpan& span : text.untrusted) {
    out += text.text.substr(done, span.begin - done) + "⟦";
    out += text.text.substr(span.begin, span.end - span.begin) + "⟧";
    done = span.end;
  }
  return out + text.text.substr(done);
}

std::string render_shown(const std::string& source, const ordered_json& variables) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return parsed.error().message;
  const auto text = parsed->render_marked(variables);
  return text ? shown(*text) : text.error().message;
}

TEST(MarkedTemplate, KnowsWhereBytesComeFrom) {
  const ordered_json variables = {{"v", "ab"},         {"s", "  c d "},   {"list", {"x", "y"}},
                                  {"d", {{"k", "w"}}}, {"n", 3},          {"yes", true},
                                  {"none", nullptr},   {"lines", "a\nb"}, {"f", "%s{}"}};
  const std::pair<const char*, const char*> cases[] = {
      {"a{{ v }}b", "a⟦ab⟧b"},
      {"{{ '<' + v + '>' }}", "<⟦ab⟧>"},
      {"{{ '<' ~ v ~ n ~ v ~ '>' }}", "<⟦ab⟧3⟦ab⟧>"},
      {"{{ v * 2 ~ '-' * 2 }}", "⟦abab⟧--"},
      {"{{ ('<' ~ v ~ '>')[1:] }}|{{ ('<' ~ v ~ '>')[::-1] }}", "⟦ab⟧>|>⟦ba⟧<"},
      {"{{ ('<' ~ v ~ '>')[2] }}{{ ('<' ~ v)[0] }}{{ ('<' ~ v)|last }}", "⟦b⟧<⟦b⟧"},
      {"{{ ('<' ~ s ~ '> ')|trim }}", "<⟦  c d ⟧>"},
      {"[{{ s|trim }}][{{ s.strip() }}][{{ s.rstrip() }}]", "[⟦c d⟧][⟦c d⟧][⟦  c d⟧]"},
      {"{{ ('<' ~ v ~ '>').lstrip('<a') }}", "⟦b⟧>"},
      {"{{ ('<' ~ s ~ '>').split()|join('|') }}", "<|⟦c⟧|⟦d⟧|>"},
      {"{{ (v ~ ',x,' ~ v).split(',')|join('-') }}", "⟦ab⟧-x-⟦ab⟧"},
      {"{{ (v ~ ',x').rsplit(',', 1)[0] }}", "⟦ab⟧"},
      {"{{ ('1' ~ lines ~ '2').splitlines()|join(';') }}", "1⟦a⟧;⟦b⟧2"},
      {"{{ 'x,y'|replace(',', v) }}{{ v|replace('b', ',') }}", "x⟦ab⟧y⟦a⟧,"},
      {"{{ 'xy'.replace('x', v, 2) }}{{ v.replace('z', '') }}", "⟦ab⟧y⟦ab⟧"},
      {"{{ list|join('<|>') }}{{ v|join('-') }}{{ v.join(['<', '>']) }}", "⟦x⟧<|>⟦ya⟧-⟦b⟧<⟦ab⟧>"},
      {"{{ '<{}|{:>4}|{x}>'.format(v, v, x=n) }}{{ f.format('a') }}", "<⟦ab⟧|⟦  ab⟧|3>⟦%sa⟧"},
      {"{{ v|upper }}{{ 'a'|upper }}{{ v.title() }}{{ 'b'|capitalize }}", "⟦AB⟧A⟦Ab⟧B"},
      {"{{ ('<' ~ v)|upper }}", "⟦<AB⟧"},
      {"{{ v|tojson }}{{ 'x'|tojson }}{{ ['x', v]|tojson }}{{ d|tojson }}{{ [1, n]|tojson }}",
       "⟦\"ab\"⟧\"x\"⟦[\"x\", \"ab\"]{\"k\": \"w\"}⟧[1, 3]"},
      {"{{ {'a': 1}|tojson(indent=v) }}", "⟦{\nab\"a\": 1\n}⟧"},
      {"{{ [v] }}{{ ['x', n] }}{{ d }}{{ (none, yes) }}",
       "⟦['ab']⟧['x', 3]⟦{'k': 'w'}⟧(None, True)"},
      {"{% for k in d %}{{ k }}{% endfor %}{% for k, x in d.items() %}{{ k }}={{ x }}{% endfor %}",
       "⟦kk⟧=⟦w⟧"},
      {"{% for c in '<' ~ v %}({{ c }}){% endfor %}", "(<)(⟦a⟧)(⟦b⟧)"},
      {"{% set x %}<{{ v }}>{% endset %}{{ x }}{% set y | upper %}q{% endset %}{{ y }}", "<⟦ab⟧>Q"},
      {"{% filter trim %} <{{ v }}> {% endfilter %}{% filter upper %}q{% endfilter %}", "<⟦ab⟧>Q"},
      {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(v) }}{{ m('l') }}", "<⟦ab⟧><l>"},
      {"{% for k in dict(d, t=1) %}{{ k }}{% endfor %}", "⟦k⟧t"},
      {"{% set ns = namespace(x='t') %}{{ ns.x }}{% set ns.x = v %}{{ ns.x }}", "t⟦ab⟧"},
      {"{{ q|default(v) }}{{ q|default('t') }}{{ v|default('t') }}{{ v|string }}{{ v|safe }}",
       "⟦ab⟧t⟦ababab⟧"},
      {"{{ list|first }}{{ list|last }}{{ ['t', v]|map('trim')|join }}{{ ('t' ~ v)|reverse }}",
       "⟦xy⟧t⟦abba⟧t"},
      {"{{ [v, 't']|sort|join(',') }}{{ [{'a': v}]|map(attribute='a')|first }}", "⟦ab⟧,t⟦ab⟧"},
      {"{{ v|escape }}{{ v|indent }}{{ v|truncate(3) }}", "⟦ababab⟧"},
      {"{{ v|length }}{{ v == 'ab' }}{{ 'a' in v }}{{ v in ['ab'] }}{{ d['k'] }}{{ v is string }}",
       "2TrueTrueTrue⟦w⟧True"},
      {"{{ {'ab': 't'}[v] }}{{ {v: 't'}['ab'] }}{{ {'ab': 1, v: 't'} }}", "tt⟦{'ab': 't'}⟧"},
      {"{{ strftime_now(v) }}", "⟦ab⟧"},
      {"{% set list = [v, 't'] %}{{ (list + ['u'])|join }}{{ list[::-1]|join }}", "⟦ab⟧tut⟦ab⟧"},
  };
  for (const auto& [source, expected] : cases) {
    EXPECT_EQ(render_shown(source, variables), expected) << source;
  }
}

TEST(MarkedTemplate, AChatTrustsTheTemplateItsTokensAndUsualRoles) {
  const auto parsed = ChatTemplate::parse(
      "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ m.name }}"
      "{{ eos_token }}{% endfor %}{{ role }}{{ tools }}");
  ASSERT_TRUE(parsed);
  const ordered_json chat = {{"messages",
                              {{{"role", "user"}, {"content", "user"}, {"name", "tool"}},
                               {{"role", "developer"}, {"content", {{"role", "user"}}}},
                               {{"role", "end"}, {"content", "x"}}}},
                             {"tools", {{{"role", "user"}}}},
                             {"role", "user"},
                             {"bos_token", "<s>"},
                             {"eos_token", "</s>"}};
  const auto text = parsed->render_chat(chat);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(shown(*text),
            "<s><|user|>⟦usertool⟧</s><|system|>⟦{'role': 'user'}⟧</s><|⟦end⟧|>⟦x⟧</s>"
            "⟦user[{'role': 'user'}]⟧");

  // Contents with marks of their own.
  const ordered_json two = {
      {"messages",
       {{{"role", "user"}, {"content", "hi <there>"}}, {{"role", "user"}, {"content", "yes"}}}}};
  MarkedText written = MarkedText::trusted("hi ");
  written.append_from_outside("<there>");
  const MarkedText contents[] = {written, MarkedText::trusted("yes")};
  const auto own = parsed->render_chat(two, {}, contents);
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(shown(*own), "<|user|>hi ⟦<there>⟧<|user|>yes");
}

TEST(MarkedTemplate, NothingIsMarkedWithoutMarks) {
  const auto parsed = ChatTemplate::parse("{{ v }}{{ [v] }}{{ v|upper }}");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->render({{"v", "a"}}), "a['a']A");
}

// Letters that no template writes, so that each of them in a text came from a variable.
const std::vector<std::string> kLetters = {"Ж", "ф", "千", "𐌰", "ß"};

bool is_from_variable(std::string_view text, std::size_t at) {
  // Upper and lower case of the letters above, by their first bytes.
  const auto byte = static_cast<unsigned char>(text[at]);
  if (text.substr(at, 2) == "ß" || text.substr(at, 3) == "ẞ") return true;
  return byte == 0xD0 || byte == 0xD1 || byte == 0xE5 || byte == 0xF0;
}

void expect_all_marked(const MarkedText& text) {
  for (std::size_t at = 0; at < text.text.size(); ++at) {
    if (!is_from_variable(text.text, at)) continue;
    if (coverage(text.untrusted, at, at + 1) == Coverage::kAll) continue;
    FAIL() << "byte " << at << " of " << shown(text);
  }
}

// The same with every letter of its strings, but for those that templates choose by, replaced.
ordered_json with_letters(const ordered_json& value, std::string_view key, std::mt19937& random) {
  if (value.is_string()) {
    if (key == "role" || key == "type" || key == "bos_token" || key == "eos_token") return value;
    std::string out;
    for (const char c : value.get_ref<const std::string&>()) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      out += letter ? kLetters[random() % kLetters.size()] : std::string(1, c);
    }
    return out;
  }
  ordered_json out = value;
  if (value.is_array()) {
    for (auto& item : out) item = with_letters(item, "", random);
  } else if (value.is_object()) {
    for (auto& [name, item] : out.items()) item = with_letters(item, name, random);
  }
  return out;
}

void collect_strings(const ordered_json& value, std::string& out) {
  if (value.is_string()) out += value.get_ref<const std::string&>() + "\n";
  if (!value.is_structured()) return;
  for (const auto& [key, item] : value.items()) {
    out += key + "\n";
    collect_strings(item, out);
  }
}

// Published templates among them: what they print of their variables is untrusted, the control
// tokens that they write themselves are not.
TEST(MarkedTemplate, GoldenTemplatesMarkWhatIsTheirVariables) {
  std::mt19937 random(5);
  const std::regex control(R"(<[|a-z_/][a-z_|/]*>|\[/?[A-Z_]+\])");
  std::size_t marked = 0;
  std::size_t tokens = 0;
  const std::string path = test::source_dir() + "/tests/golden/templates/cases.json";
  for (const auto& entry : ordered_json::parse(testing::read_file(path))) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    const auto parsed = ChatTemplate::parse(entry["template"].get<std::string>());
    if (!parsed || !entry["variables"].contains("messages")) continue;
    const auto text = parsed->render_chat(with_letters(entry["variables"], "", random));
    if (text) {
      expect_all_marked(*text);
      marked += text->untrusted.size();
    }
    const auto plain = parsed->render_chat(entry["variables"]);
    if (!plain) continue;
    std::string given;
    collect_strings(entry["variables"], given);
    for (std::sregex_iterator at(plain->text.begin(), plain->text.end(), control), none; at != none;
         ++at) {
      if (given.find(at->str()) != std::string::npos) continue;
      ++tokens;
      const auto begin = static_cast<std::size_t>(at->position());
      EXPECT_EQ(coverage(plain->untrusted, begin, begin + at->str().size()), Coverage::kNone)
          << at->str() << " in " << shown(*plain);
    }
  }
  EXPECT_GT(marked, 200U);
  EXPECT_GT(tokens, 200U);
}

// Expressions over strings put together at random, by all that filters, methods and operators do.
class RandomExpression {
 public:
  explicit RandomExpression(std::uint32_t seed) : random_(seed) {}

  std::string text(int depth) {
    if (depth == 0) return pick({"v", "w", "d.k", "list[0]", "'<|x|>'", "' a,b '", "'%s-{}'"});
    const std::string a = text(depth - 1);
    switch (random_() % 8) {
      case 0:
        return "(" + a + " ~ " + text(depth - 1) + ")";
      case 1:
        return "(" + a + " + " + text(depth - 1) + ")";
      case 2:
        return "(" + a + ")" +
               pick({"[1:]", "[:-1]", "[::-1]", "[::2]", "[0]", "[-1]", "[2:5]", "*2"});
      case 3:
        return "(" + a + ")|" + filter();
      case 4:
        return "(" + a + ")." + method();
      case 5:
        return list(depth) + "|" +
               pick({"join", "join('<|>')", "first", "last", "tojson", "string",
                     "map('upper')|join", "join(w)", "sort|join", "unique|join", "max", "min",
                     "reverse|join(',')", "list|string", "select|join",
                     "map('replace', 'a', w)|join"});
      case 6:
        return "'<{}|{:*^9}>'.format((" + a + "), (" + text(depth - 1) + "))";
      default:
        return "m((" + a + "))";
    }
  }

 private:
  std::string pick(std::initializer_list<const char*> choices) {
    return *(choices.begin() + random_() % choices.size());
  }
  std::string filter() {
    return pick({"trim",
                 "upper",
                 "lower",
                 "title",
                 "capitalize",
                 "tojson",
                 "string",
                 "safe",
                 "escape",
                 "indent",
                 "indent(2, true)",
                 "replace('a', w)",
                 "replace(',', '')",
                 "default('x')",
                 "truncate(3, true, '')",
                 "reverse",
                 "list|join(',')",
                 "first",
                 "last",
                 "length|string",
                 "default(w)"});
  }
  std::string method() {
    return pick({"strip()", "lstrip()", "rstrip(w)", "upper()", "lower()", "title()",
                 "capitalize()", "split()|join('|')", "split(',')|join(w)", "rsplit(' ', 1)|join",
                 "splitlines()|join", "replace('a', 'b')", "replace(',', w)", "format(w, w)",
                 "join(list)"});
  }
  std::string list(int depth) {
    switch (random_() % 4) {
      case 0:
        return "[" + text(depth - 1) + ", " + text(depth - 1) + "]";
      case 1:
        return "list";
      case 2:
        return "d.values()";
      default:
        return "(" + text(depth - 1) + ")|list";
    }
  }

  std::mt19937 random_;
};

TEST(MarkedTemplate, WhateverATemplateDoesItsVariablesAreMarked) {
  const ordered_json variables = {
      {"v", " Ж千,ф "}, {"w", "ß𐌰"}, {"d", {{"k", "фЖ"}, {"千", "Ж"}}}, {"list", {"Ж", "千 ф"}}};
  std::size_t rendered = 0;
  std::size_t exact = 0;
  for (std::uint32_t seed = 0; seed < 4000; ++seed) {
    RandomExpression random(seed);
    const std::string expression = random.text(1 + static_cast<int>(seed % 4));
    std::string source = "{% macro m(x) %}[{{ x }}]{% endmacro %}";
    source += seed % 3 == 0   ? "{% set x %}{{ " + expression + " }}{% endset %}{{ x }}"
              : seed % 3 == 1 ? "{% for c in " + expression + " %}{{ c }}{% endfor %}"
                              : "{{ " + expression + " }}";
    const auto parsed = ChatTemplate::parse(source);
    ASSERT_TRUE(parsed) << source << ": " << parsed.error().message;
    const auto marked = parsed->render_marked(variables);
    const auto plain = parsed->render(variables);
    ASSERT_EQ(marked ? marked->text : marked.error().message,
              plain ? *plain : plain.error().message)
        << source;
    if (!marked) continue;
    ++rendered;
    exact += !marked->all_trusted() &&
             coverage(marked->untrusted, 0, marked->text.size()) == Coverage::kPart;
    expect_all_marked(*marked);
    if (HasFatalFailure()) FAIL() << source;
  }
  EXPECT_GT(rendered, 2000U);
  EXPECT_GT(exact, 500U);
}

// Marks count for the bound of work, so that they are bounded in memory as texts are.
TEST(MarkedTemplate, MarksAreBounded) {
  const std::string source =
      "{% set ns = namespace(x=v|join(',')) %}{% for i in range(100000) %}"
      "{% set ns.x = ns.x ~ '' %}{% endfor %}";
  const auto parsed = ChatTemplate::parse(source);
  ASSERT_TRUE(parsed);
  const auto text = parsed->render_marked({{"v", std::string(1'000'000, 'a')}});
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, ::testing::HasSubstr("steps"));
}

}  // namespace
}  // namespace dovetail::text
