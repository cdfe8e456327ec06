#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/chat_template.h"

namespace dovetail::text {
namespace {

struct NamesCase {
  const char* source;
  std::vector<std::string> names;
};

TEST(FreeNames, AreWhatATemplateNeeds) {
  const NamesCase cases[] = {
      {"plain", {}},
      {"{{ b }} {{ a.b[c] }} {{ a }}", {"a", "b", "c"}},
      {"{{ range(n) | join(sep) }}", {"n", "sep"}},
      {"{{ x if y is defined else z | upper }}", {"x", "y", "z"}},
      {"{{ 'a' ~ b ~ -c + d * 2 }}{{ e <= f < g and not h }}", {"b", "c", "d", "e", "f", "g", "h"}},
      {"{{ [a, (b, c)] }}{{ {d: e} }}{{ f[g:h:i] }}",
       {"a", "b", "c", "d", "e", "f", "g", "h", "i"}},
      {"{% set a = b %}{{ a }}", {"b"}},
      {"{{ a }}{% set a = 1 %}", {"a"}},
      {"{% set a %}{{ b }}{% endset %}{{ a }}", {"b"}},
      {"{% if a %}{% set b = 1 %}{% else %}{% set b = 2 %}{% endif %}{{ b }}", {"a"}},
      {"{% for x in xs if x > low %}{{ x }}{{ loop.index }}{{ y }}{% else %}{{ x }}{% endfor %}",
       {"low", "x", "xs", "y"}},
      {"{% for k, v in pairs.items() %}{{ k }}{{ v }}{% endfor %}{{ k }}", {"k", "pairs"}},
      {"{% set ns = namespace(n=start) %}{% set ns.n = ns.n + step %}{{ ns.n }}",
       {"start", "step"}},
      {"{% macro m(p, q=r) %}{{ p }}{{ q }}{{ s }}{% endmacro %}{{ m(1) }}{{ p }}",
       {"p", "r", "s"}},
      {"{% set b = a %}{% generation %}{% set c = b %}{% endgeneration %}{{ c }}", {"a", "c"}},
      {"{% filter upper %}{{ a }}{% endfilter %}", {"a"}},
      {"{{ true }}{{ none }}{{ False }}", {}},
  };
  for (const NamesCase& one : cases) {
    const auto parsed = ChatTemplate::parse(one.source);
    ASSERT_TRUE(parsed) << one.source << ": " << parsed.error().message;
    EXPECT_EQ(parsed->free_names(), one.names) << one.source;
  }
}

}  // namespace
}  // namespace dovetail::text
