#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/json_validator.h"
#include "grammar/support.h"

namespace dovetail::grammar::test {

// A schema with texts that it must allow, which are instances, and such that it must not.
struct SchemaCase {
  std::string schema;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

inline void check(const std::vector<SchemaCase>& cases, const SchemaOptions& options = {}) {
  for (const SchemaCase& c : cases) {
    const Json schema = Json::parse(c.schema);
    const auto grammar = Grammar::from_json_schema(schema, options);
    ASSERT_TRUE(grammar) << c.schema << ": " << grammar.error().message;
    const Matcher matcher = matcher_of(*grammar);
    for (const std::string& text : c.good) {
      EXPECT_TRUE(accepts(matcher, text)) << c.schema << " on " << text;
      // The table itself is right: what is good is an instance.
      EXPECT_TRUE(is_instance(schema, schema, Json::parse(text))) << c.schema << " on " << text;
    }
    for (const std::string& text : c.bad) {
      EXPECT_FALSE(accepts(matcher, text)) << c.schema << " on " << text;
    }
  }
}

}  // namespace dovetail::grammar::test
