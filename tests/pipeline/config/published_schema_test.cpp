// docs/pipeline.schema.json is what editors know of pipeline files: it must say what the parser
// does.
#include "pipeline/config/published_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/sampling_table.h"
#include "engine/option_table.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/sample/code_fence.h"
#include "support/places.h"

namespace dovetail::pipeline {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = test::source_dir();
const fs::path kFiles = kSource / "tests/pipeline/config/files";
const std::string kStrange = "zzzzqqqq";

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_TRUE(in) << path;
  return text.str();
}

Json published() { return Json::parse(published_schema()); }

JsonSchema checker() {
  auto schema = JsonSchema::compile(published(), "");
  EXPECT_TRUE(schema) << schema.error().message;
  return schema.value();
}

Result<PipelineSpec> parse(const std::string& yaml, const fs::path& file) {
  return parse_pipeline(yaml, file, [](const SeedSpec& seed, const fs::path&) {
    const bool files = seed.format == SeedFormat::kFiles;
    return Result<std::vector<std::string>>(files ? std::vector<std::string>{"content"}
                                                  : std::vector<std::string>{"person", "age"});
  });
}

struct File {
  std::string name;
  Json root;
};
std::vector<File> sample_files() {
  std::vector<File> files;
  for (const char* name : {"every_key.yaml", "target.yaml"}) {
    const auto document = Document::parse(read(kFiles / name), name);
    EXPECT_TRUE(document) << document.error().message;
    files.push_back({name, document->root()});
  }
  return files;
}

// Follows an object through the published schema, and calls `visit` with each object in it that is
// described there, its pointer, and the pointer of the schema that lists its keys.
class Walk {
 public:
  using Visit = std::function<void(const Json& value, const std::string& pointer,
                                   const std::set<std::string>& closed)>;
  Walk(const Json& schema, Visit visit) : schema_(schema), visit_(std::move(visit)) {}

  void value(const Json& value, const std::string& pointer, const std::set<std::string>& at) {
    std::set<std::string> schemas;
    for (const std::string& one : at) expand(value, one, schemas);
    if (value.is_object()) {
      std::set<std::string> closed;
      for (const std::string& one : schemas) {
        if (node(one).value("additionalProperties", Json()) == Json(false)) closed.insert(one);
      }
      visit_(value, pointer, closed);
      for (const auto& [name, member] : value.items()) {
        children(member, pointer_to(pointer, name), schemas, name);
      }
    } else if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        children(value[i], pointer_to(pointer, i), schemas, std::nullopt);
      }
    }
  }

 private:
  const Json& node(const std::string& pointer) const {
    return schema_.at(Json::json_pointer(pointer));
  }

  void children(const Json& member, const std::string& pointer,
                const std::set<std::string>& schemas, const std::optional<std::string>& name) {
    std::set<std::string> next;
    for (const std::string& one : schemas) {
      const Json& schema = node(one);
      if (!schema.is_object()) continue;
      if (!name) {
        if (schema.contains("items")) next.insert(one + "/items");
      } else if (schema.contains("properties") && schema["properties"].contains(*name)) {
        next.insert(pointer_to(one + "/properties", *name));
      } else if (schema.contains("additionalProperties")) {
        next.insert(one + "/additionalProperties");
      }
    }
    value(member, pointer, next);
  }

  // The schemas that apply to a value by way of one.
  void expand(const Json& value, const std::string& at, std::set<std::string>& into) {
    const Json& schema = node(at);
    if (!schema.is_object() || !into.insert(at).second) return;
    if (schema.contains("$ref")) {
      expand(value, schema["$ref"].get<std::string>().substr(1), into);
    }
    for (const char* list : {"allOf", "anyOf", "oneOf"}) {
      if (!schema.contains(list)) continue;
      for (std::size_t i = 0; i < schema[list].size(); ++i) {
        const std::string branch = fmt::format("{}/{}/{}", at, list, i);
        // Alternatives are told apart by their type, if at all.
        const Json type = node(branch).value("type", Json());
        if (type == Json("array") && !value.is_array()) continue;
        expand(value, branch, into);
      }
    }
    if (schema.contains("if")) {
      const bool holds = JsonSchema::compile(schema["if"], "").value().check(value).has_value();
      const char* next = holds ? "then" : "else";
      if (schema.contains(next)) expand(value, at + "/" + next, into);
    }
  }

  const Json& schema_;
  Visit visit_;
};

// The keys that the parser knows where one that nobody knows is put, or nothing if it takes any.
std::optional<std::set<std::string>> known_keys(const File& file, const std::string& pointer) {
  Json changed = file.root;
  changed[Json::json_pointer(pointer)][kStrange] = 1;
  const auto spec = parse(changed.dump(), kFiles / file.name);
  if (spec) return std::nullopt;
  const std::string& message = spec.error().message;
  const std::string before = "unknown key, expected one of ";
  const std::size_t at = message.find(before);
  if (at == std::string::npos) return std::nullopt;
  std::set<std::string> keys;
  std::istringstream list(message.substr(at + before.size()));
  for (std::string key; std::getline(list >> std::ws, key, ',');) keys.insert(key);
  return keys;
}

TEST(PublishedSchema, IsTheFileInTheDocuments) {
  EXPECT_EQ(published_schema(), read(kSource / "docs/pipeline.schema.json"));
}

// Holds the file's text to `rows`, from the beginning of the properties of `$defs/NAME` to `end`.
// With DOVETAIL_WRITE_DOCS=1 the part is written anew.
void expect_properties(const std::string& name, const Json& rows, const std::string& end) {
  const fs::path path = kSource / "docs/pipeline.schema.json";
  const std::string text = read(path);
  const std::string begin = "\"properties\": {\n";
  const std::size_t from =
      text.find(begin, text.find(fmt::format("\n    \"{}\": {{\n", name))) + begin.size();
  const std::size_t to = text.find(end, from);
  ASSERT_LT(to, text.size());
  std::istringstream lines(rows.dump(2));
  std::string wanted;
  for (std::string line; std::getline(lines, line);) {
    if (line != "{" && line != "}") wanted += fmt::format("      {}\n", line);
  }
  wanted.pop_back();
  if (std::getenv("DOVETAIL_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << text.substr(0, from) + wanted + text.substr(to);
    return;
  }
  EXPECT_EQ(text.substr(from, to - from), wanted) << "write it anew with DOVETAIL_WRITE_DOCS=1";
}

// A bound as it is written: whole numbers without a point.
Json bound(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

TEST(PublishedSchema, HasTheTableOfSamplingParameters) {
  Json rows = Json::object();
  for (const SamplingRow& row : kSamplingRows) {
    rows[std::string(row.name)] = {
        {"description", fmt::format("{}.", row.help)},
        {"type", row.whole() ? "integer" : "number"},
        {row.least_excluded ? "exclusiveMinimum" : "minimum", bound(row.least)},
        {"maximum", bound(row.most)}};
  }
  expect_properties("sampling", rows, ",\n        \"max_tokens\"");
}

TEST(PublishedSchema, HasTheTableOfEngineOptions) {
  Json rows = Json::object();
  for (const engine::OptionRow& row : engine::kOptionRows) {
    if (!row.in_pipelines) continue;
    std::string help = engine::option_help(row);
    std::replace(help.begin(), help.end(), '\n', ' ');
    Json& property = rows[engine::option_name(row)];
    if (row.kind() == engine::OptionKind::kFlag) {
      const bool on = engine::is_on(row);
      if (on) help[0] = static_cast<char>(help[0] + ('a' - 'A'));
      property = {{"description", fmt::format("{}{}.", on ? "false: " : "", help)},
                  {"type", "boolean"},
                  {"default", on}};
    } else {
      property = {{"description", help + "."},
                  {"type", "integer"},
                  {"minimum", bound(row.least)},
                  {"maximum", bound(row.most)}};
    }
  }
  expect_properties("engine", rows, "\n      }");
}

TEST(PublishedSchema, HasTheKeysThatTheParserKnows) {
  const Json schema = published();
  std::map<std::string, std::set<std::string>> used;  // keys by the schema that lists them
  for (const File& file : sample_files()) {
    const auto spec = parse(file.root.dump(), kFiles / file.name);
    ASSERT_TRUE(spec) << spec.error().message;
    Walk walk(schema, [&](const Json& value, const std::string& pointer,
                          const std::set<std::string>& closed) {
      ASSERT_LE(closed.size(), 1U) << pointer;
      const auto known = known_keys(file, pointer);
      if (closed.empty()) {
        EXPECT_FALSE(known) << file.name << pointer << ": the parser lists keys, the schema none";
        return;
      }
      const Json& properties = schema.at(Json::json_pointer(*closed.begin() + "/properties"));
      std::set<std::string> described;
      for (const auto& [name, property] : properties.items()) described.insert(name);
      ASSERT_TRUE(known) << file.name << pointer << ": the schema lists keys, the parser none";
      EXPECT_EQ(*known, described) << file.name << pointer;
      for (const auto& [name, member] : value.items()) used[*closed.begin()].insert(name);
    });
    walk.value(file.root, "", {""});
  }
  // Nothing in the schema has been left out.
  const Json flat = schema.flatten();
  for (const auto& [path, unused] : flat.items()) {
    const std::size_t end = path.rfind("/additionalProperties");
    if (end == std::string::npos || end + 21 != path.size() || unused != Json(false)) continue;
    const std::string at = path.substr(0, end);
    std::set<std::string> described;
    for (const auto& [name, property] : schema.at(Json::json_pointer(at + "/properties")).items()) {
      described.insert(name);
    }
    // Fields that all columns have are used by some of them.
    for (const char* common : {"skip_if", "propagate_skip", "drop", "priority", "on_failure"}) {
      if (described.contains(common)) used[at].insert(common);
    }
    for (const char* common : {"messages", "prompt", "system_prompt", "chat", "sampling", "retries",
                               "cache", "decimals", "decimal_places", "schema_file"}) {
      if (described.contains(common)) used[at].insert(common);
    }
    EXPECT_EQ(used[at], described) << at;
  }
}

TEST(PublishedSchema, TakesTheExamples) {
  const JsonSchema schema = checker();
  std::size_t count = 0;
  const auto check = [&](const std::string& yaml, const std::string& name) {
    const auto document = Document::parse(yaml, name);
    ASSERT_TRUE(document) << document.error().message;
    const Status fits = schema.check(document->root());
    EXPECT_TRUE(fits) << name << ": " << fits.error().message;
    ++count;
  };
  for (const char* folder : {"examples", "tests/pipeline/config/files"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kSource / folder)) {
      // The published schema knows the built-in types, and not those of a program's own; graphs of
      // tasks are something else.
      const std::string of = entry.path().parent_path().filename();
      if (of == "library" || of == "core_groups") continue;
      if (entry.path().extension() == ".yaml") check(read(entry.path()), entry.path().string());
    }
  }
  for (const auto& entry : fs::recursive_directory_iterator(kSource / "docs")) {
    if (entry.path().extension() != ".md") continue;
    for (const CodeBlock& block : find_code_blocks(read(entry.path()))) {
      const bool whole = ("\n" + block.code).find("\ncolumns:") != std::string::npos;
      if (block.language == "yaml" && whole) check(block.code, entry.path().string());
    }
  }
  EXPECT_GE(count, 3U);
}

std::vector<std::string> pointers_of(const Json& value) {
  std::vector<std::string> all;
  const std::function<void(const Json&, const std::string&)> add = [&](const Json& at,
                                                                       const std::string& pointer) {
    if (!pointer.empty()) all.push_back(pointer);
    if (at.is_object()) {
      for (const auto& [name, member] : at.items()) add(member, pointer_to(pointer, name));
    }
    for (std::size_t i = 0; at.is_array() && i < at.size(); ++i) add(at[i], pointer_to(pointer, i));
  };
  add(value, "");
  return all;
}

void erase(Json& root, const std::string& pointer) {
  const Json::json_pointer at(pointer);
  Json& parent = root[at.parent_pointer()];
  if (parent.is_array()) {
    parent.erase(std::stoul(at.back()));
  } else {
    parent.erase(at.back());
  }
}

// What the parser takes must not be marked as wrong in an editor.
TEST(PublishedSchema, RefusesNothingThatTheParserTakes) {
  const std::vector<File> files = sample_files();
  const JsonSchema schema = checker();
  const std::vector<Json> others = {0,
                                    1,
                                    -1,
                                    3.5,
                                    true,
                                    "x",
                                    "{{ topic }}",
                                    Json::array(),
                                    Json::object(),
                                    Json::array({"x"}),
                                    Json{{"x", 1}}};
  std::size_t taken = 0, all = 0;
  for (const File& file : files) {
    const auto check = [&](const Json& changed, const std::string& what) {
      ++all;
      if (!parse(changed.dump(), kFiles / file.name)) return;
      ++taken;
      const Status fits = schema.check(changed);
      EXPECT_TRUE(fits) << file.name << " with " << what << ": " << fits.error().message;
    };
    for (const std::string& pointer : pointers_of(file.root)) {
      Json changed = file.root;
      for (const Json& other : others) {
        changed[Json::json_pointer(pointer)] = other;
        check(changed, pointer + " " + other.dump());
      }
      changed = file.root;
      erase(changed, pointer);
      check(changed, "no " + pointer);
    }
  }
  // Far fewer would say that the changes no longer reach what the parser takes.
  EXPECT_GT(taken, all / 20);
}

}  // namespace
}  // namespace dovetail::pipeline
