// What a pipeline file may say of columns whose types a program has added.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/config/pipeline_spec.h"

namespace dovetail::pipeline {
namespace {

ColumnType glue() {
  ColumnType type;
  type.name = "glue";
  type.version = "1";
  type.fields = {{"column", ColumnFieldKind::kColumn, true},
                 {"others", ColumnFieldKind::kColumns},
                 {"text", ColumnFieldKind::kTemplate},
                 {"retries"},
                 {"need"}};
  type.open = [](const Json& fields) -> Result<OpenedColumn> {
    OpenedColumn opened;
    if (fields.contains("need")) {
      if (!fields["need"].is_string()) {
        return fail(ErrorKind::kUnsupported, "/need: {}; valid: a string", fields["need"].dump());
      }
      if (fields["need"] == "nothing") return fail(ErrorKind::kInvalid, "needs something");
      if (fields["need"] == "throw") throw std::runtime_error("no file");
      if (fields["need"] == "throw 7") throw 7;
      if (fields["need"] == "no maker") return opened;
      opened.needs.push_back({fields["need"].get<std::string>(), "need"});
    }
    opened.make = [](const ColumnCell& cell) { return Json(cell.row.size()); };
    opened.blocks = fields.value("retries", 0) > 1;
    return opened;
  };
  return type;
}

Result<PipelineSpec> parse(const std::string& columns, std::vector<ColumnType> types) {
  return parse_pipeline("records: 1\ncolumns:\n" + columns, "f.yaml", {}, types);
}

std::string error_of(const std::string& columns, std::vector<ColumnType> types = {glue()}) {
  const auto spec = parse(columns, std::move(types));
  if (spec) return "";
  EXPECT_EQ(spec.error().kind, ErrorKind::kInvalid);
  return spec.error().message;
}

const std::string kX = "  - {name: x, type: expression, value: a}\n";

TEST(OwnTypeInFile, ErrorsHavePlaces) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"  - {name: a, type: glue}\n",
       "f.yaml:3:5: /columns/0/column: expected the name of a column here"},
      {"  - {name: a, type: glue, column: 3}\n",
       "f.yaml:3:27: /columns/0/column: 3; valid: a string"},
      {kX + "  - {name: a, type: glue, column: y}\n",
       "f.yaml:4:27: /columns/1/column: there is no column 'y'; there are x, a"},
      {kX + "  - {name: a, type: glue, column: x, others: x}\n",
       "f.yaml:4:38: /columns/1/others: \"x\"; valid: a list"},
      {kX + "  - {name: a, type: glue, column: x, others: [x, 1]}\n",
       "f.yaml:4:38: /columns/1/others: 1 is no name of a column"},
      {kX + "  - {name: a, type: glue, column: x, others: [x, xx]}\n",
       "f.yaml:4:50: /columns/1/others/1: there is no column 'xx'; there are x, a"},
      {kX + "  - {name: a, type: glue, column: x, text: '{{ z }}'}\n",
       "f.yaml:4:38: /columns/1/text: there is no column 'z'; there are x, a"},
      {kX + "  - {name: a, type: glue, column: x, need: z}\n",
       "f.yaml:4:38: /columns/1/need: there is no column 'z'; there are x, a"},
      {kX + "  - {name: a, type: glue, column: x, need: 3}\n",
       "f.yaml:4:38: /columns/1/need: 3; valid: a string"},
      {kX + "  - {name: a, type: glue, column: x, need: nothing}\n",
       "f.yaml:4:5: /columns/1: needs something"},
      {kX + "  - {name: a, type: glue, column: x, need: throw}\n",
       "f.yaml:4:5: /columns/1: open() threw: no file"},
      {kX + "  - {name: a, type: glue, column: x, need: throw 7}\n",
       "f.yaml:4:5: /columns/1: open() threw something that is no std::exception"},
      {kX + "  - {name: a, type: glue, column: x, need: no maker}\n",
       "f.yaml:4:15: /columns/1/type: open() of the type 'glue' gave nothing to make values with"},
      {kX + "  - {name: a, type: glue, column: x, ohters: [x]}\n",
       "f.yaml:4:38: /columns/1/ohters: unknown key, did you mean others?"},
      {kX + "  - {name: a, type: glue, column: x, skip_if: '{{ w }}'}\n",
       "f.yaml:4:38: /columns/1/skip_if: there is no column 'w'; there are x, a"},
      {"  - {name: a, type: glue, column: b}\n  - {name: b, type: glue, column: a}\n",
       "f.yaml:3:5: /columns/0: columns need each other in a circle: a needs b needs a"},
      {"  - {name: a, type: gleu, column: x}\n",
       "f.yaml:3:15: /columns/0/type: \"gleu\"; valid: sampler, expression, llm-text, llm-code, "
       "llm-structured, llm-judge, validation, glue (did you mean 'glue'?)"},
      {"  - {name: a}\n",
       "f.yaml:3:5: /columns/0/type: expected one of sampler, expression, llm-text, llm-code, "
       "llm-structured, llm-judge, validation, glue"},
  };
  for (const auto& [columns, message] : cases) EXPECT_EQ(error_of(columns), message) << columns;
}

TEST(OwnTypeInFile, TypesThatCannotBe) {
  const auto changed = [](auto change) {
    ColumnType type = glue();
    change(type);
    return error_of(kX, {std::move(type)});
  };
  for (const char* name : {"sampler", "expression", "llm-text", "llm-code", "llm-structured",
                           "llm-judge", "validation", "seed"}) {
    EXPECT_EQ(changed([&](ColumnType& type) { type.name = name; }),
              std::string("column type '") + name +
                  "': this type is built in; own types need names other than sampler, expression, "
                  "llm-text, llm-code, llm-structured, llm-judge, validation, seed");
  }
  EXPECT_EQ(changed([](ColumnType& type) { type.name = "a b"; }),
            "\"a b\" is no name of a column type: letters, digits, - and _");
  EXPECT_EQ(changed([](ColumnType& type) { type.name = ""; }),
            "\"\" is no name of a column type: letters, digits, - and _");
  EXPECT_EQ(changed([](ColumnType& type) { type.open = nullptr; }),
            "column type 'glue': open is empty");
  EXPECT_EQ(changed([](ColumnType& type) { type.fields.push_back({"drop"}); }),
            "column type 'glue', field \"drop\": all columns have a key of this name");
  EXPECT_EQ(changed([](ColumnType& type) { type.fields.push_back({"text"}); }),
            "column type 'glue', field \"text\": it is there twice");
  EXPECT_EQ(changed([](ColumnType& type) { type.fields.push_back({"a/b"}); }),
            "column type 'glue', field \"a/b\": expected letters, digits, - and _");
  EXPECT_EQ(error_of(kX, {glue(), glue()}), "column type 'glue': it is there twice");
}

TEST(OwnTypeInFile, NeedsPutItInOrder) {
  const auto spec = parse(
      "  - {name: a, type: glue, column: b, others: [x, y], text: '{{ z }}', need: w, retries: 2}\n"
      "  - {name: b, type: glue, column: x}\n"
      "  - {name: w, type: expression, value: w}\n"
      "  - {name: x, type: expression, value: x}\n"
      "  - {name: y, type: expression, value: y}\n"
      "  - {name: z, type: expression, value: z}\n",
      {glue()});
  ASSERT_TRUE(spec) << spec.error().message;
  const ColumnDescription& last = spec->columns.back();
  EXPECT_EQ(last.name, "a");
  EXPECT_EQ(last.type(), "glue");
  EXPECT_EQ(last.needs, (std::vector<ColumnId>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(last.blocks());
  EXPECT_EQ(last.model(), nullptr);
  EXPECT_EQ(std::get<OwnColumn>(last.what).needs,
            (std::vector<std::string>{"b", "w", "x", "y", "z"}));
}

TEST(OwnTypeInFile, RecipeIsOfFieldsAndVersion) {
  const auto recipe = [](const std::string& fields, const std::string& version = "1") {
    ColumnType type = glue();
    type.version = version;
    const auto spec = parse(kX + "  - {name: a, type: glue, column: x" + fields + "}\n", {type});
    EXPECT_TRUE(spec) << spec.error().message;
    return spec->columns.back().recipe;
  };
  const std::string plain = recipe("");
  for (const char* same : {", drop: true", ", priority: 3"}) EXPECT_EQ(recipe(same), plain);
  for (const char* other : {", retries: 3", ", text: a", ", others: [x]", ", skip_if: 'x'"}) {
    EXPECT_NE(recipe(other), plain) << other;
  }
  EXPECT_NE(recipe("", "2"), plain);
}

}  // namespace
}  // namespace dovetail::pipeline
