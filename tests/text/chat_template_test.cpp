#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <thread>

namespace dovetail::text {
namespace {

using nlohmann::ordered_json;

std::string render(std::string_view source,
                   const ordered_json& variables = ordered_json::object()) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return fmt::format("ERROR {}", parsed.error().message);
  const auto text = parsed->render(variables);
  return text ? *text : fmt::format("ERROR {}", text.error().message);
}

struct Case {
  std::string_view source;
  std::string_view expected;
};

void expect_all(std::initializer_list<Case> cases,
                const ordered_json& variables = ordered_json::object()) {
  for (const Case& entry : cases) {
    SCOPED_TRACE(entry.source);
    EXPECT_EQ(render(entry.source, variables), entry.expected);
  }
}

void expect_errors(std::initializer_list<Case> cases,
                   const ordered_json& variables = ordered_json::object()) {
  for (const Case& entry : cases) {
    SCOPED_TRACE(entry.source);
    EXPECT_THAT(render(entry.source, variables),
                testing::StartsWith(fmt::format("ERROR chat template:{}", entry.expected)));
  }
}

TEST(ChatTemplate, NamesWhereParsingFails) {
  expect_errors({
      {"a\n{% if x %}", "2:4: {% if %} is never closed: expected {% endif %}"},
      {"{% for x in y %}\n{% endif %}", "2:4: unexpected 'endif': 'for' is still open"},
      {"{% endfor %}", "1:4: 'endfor' closes nothing"},
      {"é\né{{ 1 + }}", "2:9: expected an expression, found }}"},
      {"{{ 'a }}", "1:4: the string is never closed: expected '"},
      {"x {# y", "1:3: comment {# is never closed"},
      {"{{ x", "1:1: {{ is never closed: expected }}"},
      {"{{ (1] }}", "1:6: unexpected ']': expected ')'"},
      {"{{ a ? b }}", "1:6: unexpected character '?'"},
      {"{% raw %}{{", "1:1: {% raw %} is never closed"},
      {"{{ x is a is b }}", "1:9: there is no test 'a'; valid: !=, ==, boolean, defined, "},
      {"\n  {{ x|nope }}", "2:8: there is no filter 'nope'; valid: abs, capitalize, default, "},
      {"{% include 'a' %}", "1:4: the tag 'include' is not supported"},
      {"{% import 'a' as b %}", "1:4: the tag 'import' is not supported"},
      {"{% extends 'a' %}", "1:4: the tag 'extends' is not supported"},
      {"{% call m() %}", "1:4: the tag 'call' is not supported"},
      {"{% with a = 1 %}", "1:4: the tag 'with' is not supported"},
      {"{% do f() %}", "1:4: the tag 'do' is not supported"},
      {"{% frob %}", "1:4: unknown tag 'frob'"},
      {"{% for x in y recursive %}", "1:15: expected %}, found 'recursive'"},
      {"{{ f(*x) }}", "1:6: * and ** before an argument are not supported"},
      {"{{ f(**x) }}", "1:6: * and ** before an argument are not supported"},
      {"{{ 2 ** 3 }}", "1:6: expected }}, found '**'"},
      {"{{ 0x1F }}", "1:5: expected }}, found 'x1F'"},
      {"{{ '\\101' }}", "1:6: octal escapes in a string are not supported"},
      {"{% break %}", "1:4: 'break' outside of a loop"},
      {"{% set true = 1 %}", "1:8: 'true' cannot be assigned to"},
      {"{{ f(a=1, a=2) }}", "1:11: argument 'a' is given twice"},
      {"{{ 99999999999999999999 }}", "1:4: integer 99999999999999999999"},
  });
}

TEST(ChatTemplate, NamesWhereRenderingFails) {
  const ordered_json variables = {{"s", "text"}, {"n", 1}, {"d", {{"k", 1}}}, {"l", {1, 2}}};
  expect_errors(
      {
          {"{{ missing.field }}", "1:12: 'missing' is undefined"},
          {"\n\n {{ d.x.y }}", "3:9: 'dict' object has no attribute 'x'"},
          {"{{ s.frob() }}", "1:10: 'str' object has no attribute 'frob'"},
          {"{{ s.encode() }}", "1:12: 'str' object has no attribute 'encode'; valid: capitalize, "},
          {"{{ s % n }}", "1:6: % does not format a string here"},
          {"{{ d.items() }}", "1:11: a range, keys(), values() and items() cannot be printed"},
          {"{{ range(3) }}", "1:9: a range, keys(), values() and items() cannot be printed"},
          {"{{ l.index(2) }}", "1:11: 'list' object has no attribute 'index'"},
          {"{{ l|sort(attribute='a,b') }}", "1:6: sort: expected one attribute, found 'a,b'"},
          {"{{ d|dictsort(by='value') }}", "1:6: dictsort has no argument 'by'"},
          {"{{ 2.5|round(-1) }}", "1:8: round: precision -1: expected 0 to 300"},
          {"{{ 2.5|round(method='floor') }}", "1:8: round has no argument 'method'"},
          {"{{ s|replace('', 'x') }}", "1:6: replace: expected a text to replace"},
          {"{{ '{:x}'.format(n) }}", "1:17: format specifier 'x': expected "},
          {"{{ '{:.3}'.format(2.5) }}", "1:18: a precision of a number asks for a type"},
          {"{{ s.rsplit(none, 1) }}", "1:12: rsplit: expected a separator beside maxsplit"},
          {"{% macro m() %}{% endmacro %}{{ m(1) }}",
           "1:34: macro 'm' takes not more than 0 argument(s)"},
          {"{{ l.append(3) }}", "1:12: list.append: a template cannot change its values"},
          {"{{ frob(1) }}", "1:8: 'frob' is undefined"},
          {"{{ n + s }}", "1:6: unsupported operand type(s) for +: 'int' and 'str'"},
          {"{{ n < s }}", "1:6: '<' not supported between instances of 'int' and 'str'"},
          {"{{ n > s }}", "1:6: '>' not supported between instances of 'int' and 'str'"},
          {"{{ 9223372036854775807 + n }}", "1:24: 9223372036854775807 + 1 is beyond 64 bits"},
          {"{{ n // 0 }}", "1:6: integer division or modulo by zero"},
          {"{% for x in n %}{% endfor %}", "1:13: 'int' object is not iterable"},
          {"{% for a, b in [l, [1]] %}{% endfor %}", "1:8: cannot unpack 1 values into 2 names"},
          {"{% set d.k = 2 %}", "1:8: cannot assign attribute 'k': 'd' is no namespace"},
          {"{% if n %}{{ s|nope }}{% endif %}", "1:16: there is no filter 'nope'"},
          {"{{ raise_exception('no ' ~ s) }}", "1:19: no text"},
          {"{{ s|replace('a') }}", "1:6: replace lacks its argument 'new'"},
          {"{{ s|trim(frob=1) }}", "1:6: trim has no argument 'frob'"},
          {"{{ l|map('string') }}", "1:6: a generator cannot be printed"},
      },
      variables);
}

TEST(ChatTemplate, StripsWhiteSpaceAsAsked) {
  expect_all({
      {"  {% if true %}\n  x\n  {% endif %}\ny\n", "  x\ny"},
      {"a {% if true %}\nb{% endif %}", "a b"},
      {"a\n  {%+ if true %}b{% endif %}", "a\n  b"},
      {"{% if true +%}\nb{% endif %}", "\nb"},
      {" a \n {{- 1 -}} \n b", " a1b"},
      {"{{ 1 }}\n\n", "1\n"},
      {"a\r\nb\rc\r\n", "a\nb\nc"},
      {"  {# c #}\nx", "x"},
      {"{% raw -%}  {{ x }} {%- endraw %}\n.", "{{ x }}."},
  });
}

TEST(ChatTemplate, KeepsAssignmentsInTheirScope) {
  expect_all({
      {"{% set x = 0 %}{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}",
       "01020"},
      {"{% if true %}{% set x = 1 %}{% endif %}{{ x }}", "1"},
      {"{% macro m() %}{% set x = 1 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}", "1"},
      {"{% generation %}{% set x = 1 %}a{% endgeneration %}{{ x is defined }}", "aFalse"},
      {"{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}"
       "{{ ns.n }}",
       "6"},
      {"{% macro m() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ m() }}", "2"},
      {"{% for x in [1] %}{% endfor %}{{ x is defined }}{{ loop is defined }}", "FalseFalse"},
  });
}

TEST(ChatTemplate, CountsCodePoints) {
  expect_all({
      {"{{ 'aé😀'|length }}{{ 'aé😀'[1:] }}{{ 'aé😀'[::-1] }}{{ 'é😀'[-1] }}", "3é😀😀éa😀"},
      {"{{ 'café ǆ'.upper() }} {{ 'ΟΔΟΣ ΟΣΑ'|lower }} {{ 'ǆ é'.title() }}", "CAFÉ Ǆ οδοσ οσα ǅ É"},
      {"{{ ' \u3000é\u00A0'.strip() }}.{{ '{:｜^5}'.format('é') }}", "é.｜｜é｜｜"},
      {"{{ ('a' * 200000).startswith('a' * 150000) }}", "True"},
      {"{{ range(0, 9223372036854775807, 4611686018427387904)|list }}", "[0, 4611686018427387904]"},
      {"{{ ['é', '\\n', '\\u200b', 'it\\'s'] }}", "['é', '\\n', '\\u200b', \"it's\"]"},
      {"{{ 'é😀\\u0001'|tojson }}", "\"é😀\\u0001\""},
      {"{{ 'é😀'|tojson(ensure_ascii=true) }}", "\"\\u00e9\\ud83d\\ude00\""},
  });
}

TEST(ChatTemplate, PassesInvalidUtf8Through) {
  const ordered_json variables = {{"s", "a\xFF\xE2\x82z"}};
  expect_all(
      {
          {"{{ s }}", "a\xFF\xE2\x82z"},
          {"{{ s|length }}{{ s[1] }}{{ s[::-1] }}",
           "5\xFFz\x82\xE2\xFF"
           "a"},
          {"{{ s|upper }}{{ s.strip('z') }}",
           "A\xFF\xE2\x82Z"
           "a\xFF\xE2\x82"},
          {"{{ s|tojson(ensure_ascii=true) }}", "\"a\\udcff\\udce2\\udc82z\""},
      },
      variables);
}

TEST(ChatTemplate, BoundsWorkAndMemory) {
  const auto repeated = [](std::string_view start, std::string_view piece, std::string_view end) {
    std::string text(start);
    for (int i = 0; i < 50'000; ++i) text += piece;
    return text.append(end);
  };
  for (const std::string& source :
       {repeated("{{ ", "(", repeated("1", ")", " }}")), repeated("{{ ", "not ", "x }}"),
        repeated("{{ x", ".a", " }}"), repeated("{{ x", "|trim", " }}"),
        repeated("", "{% if x %}", ""), repeated("{{ 1", "+1", " }}")}) {
    EXPECT_THAT(render(source), testing::ContainsRegex("ERROR chat template:1:[0-9]+: .*deeper"))
        << source.substr(0, 20);
  }
  const std::initializer_list<Case> cases = {
      {"{{ 'a' * 99999999999 }}", "longer than"},
      {"{{ range(99999999999) }}", "range too big"},
      {"{{ [1] * 99999999 }}", "more than"},
      {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "macro calls nest deeper than"},
      {"{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
       "{% endfor %}",
       "grows beyond"},
      {"{% set ns = namespace(l=[]) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}{% endfor %}",
       "nest deeper"},
      {"{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(150) %}{% set ns.a = [ns.a, ns.a] "
       "%}"
       "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
       "steps"},
      {"{% set ns = namespace(a=(1,), b=(1,)) %}{% for i in range(20) %}"
       "{% set ns.a = (ns.a, ns.a) %}{% set ns.b = (ns.b, ns.b) %}{% endfor %}"
       "{% set d = {ns.a: 1} %}{% for i in range(99) %}{{ d[ns.b] }}{% endfor %}",
       "steps"},
      {"{% set ns = namespace(a=[1]) %}{% for i in range(150) %}{% set ns.a = [ns.a, ns.a] %}"
       "{% endfor %}{{ ns.a|tojson }}",
       "chat template"},
      {"{{ ('a' * 1200000).split('a' * 600000 + 'b') }}", "steps"},
      {"{{ ('a' * 600000 + 'b') in 'a' * 1200000 }}", "steps"},
      {"{{ ('a' * 1200000)|replace('a' * 600000 + 'b', '') }}", "steps"},
      {"{% set s = 'a' * 16000000 %}{% for i in range(999) %}{{ 'x'|replace(s, '') }}{% endfor %}",
       "steps"},
      {"{% set s = 'a' * 16000000 %}{% for i in range(99) %}{{ s|upper|length }}{% endfor %}",
       "steps"},
      {"{{ ('9' * 1000000)|int }}", "integer 9999999999999999999999999999999999999999... is"},
      {"{{ '{:999999999}'.format(1) }}", "width"},
      {"{{ 'aaaa'|replace('a', 'x' * 16000000) }}", "grows beyond"},
      {"{% for i in range(9) %}{{ 'a' * 4000000 }}{% endfor %}", "output"},
      {"{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}", "nests too deep"},
  };
  for (const Case& entry : cases) {
    SCOPED_TRACE(entry.source);
    const std::string text = render(entry.source);
    EXPECT_THAT(text, testing::StartsWith("ERROR chat template:1:"));
    EXPECT_THAT(text, testing::HasSubstr(entry.expected));
  }
}

TEST(ChatTemplate, TakesTheTimeFromItsOptions) {
  const auto parsed = ChatTemplate::parse("{{ strftime_now('%d %b %Y') }}");
  ASSERT_TRUE(parsed) << parsed.error().message;
  RenderOptions options;
  options.now = [] {
    std::tm time{};
    time.tm_year = 124;
    time.tm_mon = 6;
    time.tm_mday = 26;
    return time;
  };
  EXPECT_EQ(parsed->render(ordered_json::object(), options), "26 Jul 2024");
  EXPECT_THAT(*parsed->render(ordered_json::object()), testing::MatchesRegex("[0-9]+ [A-Z].* 2.*"));
}

TEST(ChatTemplate, MakesDeveloperSystemWhereItDoesNotKnowTheRole) {
  const ordered_json chat = {{"messages",
                              {{{"role", "developer"}, {"content", "Be brief."}},
                               {{"role", "user"}, {"content", "developer"}},
                               {{"role", "developer"}, {"content", "Go on."}}}}};
  const std::string_view as_they_come =
      "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
  const std::string_view turned = "system:Be brief.;user:developer;system:Go on.;";
  const std::string_view kept = "developer:Be brief.;user:developer;developer:Go on.;";
  const std::pair<std::string, std::string_view> cases[] = {
      {"", turned},
      {"{# a developer's words #}", turned},
      {"{% set developer = 1 %}", turned},
      {"{% if 'developers' == 'x' %}{% endif %}", turned},
      {"{% if messages[0].role == \"developer\" %}{% endif %}", kept},
      {"{% if messages[0]['role'] in ['system', 'developer'] %}{% endif %}", kept},
      {"{% set names = {'developer': 'Boss'} %}", kept},
  };
  for (const auto& [before, expected] : cases) {
    SCOPED_TRACE(before);
    const auto parsed = ChatTemplate::parse(before + std::string(as_they_come));
    ASSERT_TRUE(parsed) << parsed.error().message;
    const auto text = parsed->render_chat(chat);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(text->text, expected);
    // Only of a chat: variables of other templates stay as they are.
    EXPECT_EQ(parsed->render(chat), std::string(kept));
  }
  // What is no chat is the template's to judge.
  const auto parsed = ChatTemplate::parse("{{ messages }}");
  EXPECT_EQ(parsed->render_chat({{"messages", {1, {{"content", "x"}}}}})->text,
            "[1, {'content': 'x'}]");
  EXPECT_EQ(parsed->render_chat({{"messages", "developer"}})->text, "developer");
}

TEST(ChatTemplate, RefusesWhatVariablesCannotBe) {
  expect_errors({{"x", "1:1: the variables are array: expected an object"}}, ordered_json::array());
  expect_errors({{"x", "1:1: integer 18446744073709551615"}},
                ordered_json{{"n", 18446744073709551615ull}});
}

TEST(ChatTemplate, RendersOnSeveralThreadsAtOnce) {
  const auto parsed = ChatTemplate::parse(
      "{% macro m(x) %}<{{ x }}>{% endmacro %}{% for i in l %}{{ m(i) }}{% endfor %}");
  ASSERT_TRUE(parsed) << parsed.error().message;
  std::vector<std::thread> threads;
  std::array<std::string, 4> texts;
  for (size_t t = 0; t < texts.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) texts[t] = parsed->render({{"l", {t, t + 1}}}).value_or("error");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < texts.size(); ++t) {
    EXPECT_EQ(texts[t], fmt::format("<{}><{}>", t, t + 1));
  }
}

}  // namespace
}  // namespace dovetail::text
