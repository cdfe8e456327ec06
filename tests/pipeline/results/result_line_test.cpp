#include "pipeline/results/result_line.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "pipeline/sample/csv.h"
#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

using Strings = std::vector<std::string>;

struct CsvCase {
  const char* name;
  Json row;
  std::string line;
};

class CsvLine : public testing::TestWithParam<CsvCase> {};

TEST_P(CsvLine, Is) {
  const Strings columns{"a", "b"};
  std::string line;
  append_csv_line(GetParam().row, columns, line);
  EXPECT_EQ(line, GetParam().line + "\r\n");
}

INSTANTIATE_TEST_SUITE_P(
    Rows, CsvLine,
    testing::Values(CsvCase{"Plain", {{"a", "x"}, {"b", 7}}, "x,7"},
                    CsvCase{"OrderIsTheColumns", {{"b", 7}, {"a", "x"}}, "x,7"},
                    CsvCase{"NullIsNothing", {{"a", nullptr}, {"b", 1}}, ",1"},
                    CsvCase{"AbsentIsNothing", {{"a", true}}, "true,"},
                    CsvCase{"EmptyTextIsQuoted", {{"a", ""}, {"b", ""}}, R"("","")"},
                    CsvCase{"Comma", {{"a", "x,y"}, {"b", 1.5}}, R"("x,y",1.5)"},
                    CsvCase{"Quote", {{"a", R"(say "hi")"}, {"b", false}}, R"("say ""hi""",false)"},
                    CsvCase{"LineEnds", {{"a", "x\ny"}, {"b", "x\ry"}}, "\"x\ny\",\"x\ry\""},
                    CsvCase{"Nested",
                            {{"a", {{"k", {1, "x"}}}}, {"b", Json::array()}},
                            R"("{""k"":[1,""x""]}",[])"},
                    CsvCase{"NoNumber",
                            {{"a", std::numeric_limits<double>::quiet_NaN()},
                             {"b", std::numeric_limits<double>::infinity()}},
                            ","},
                    CsvCase{"BadUtf8", {{"a", "x\xff"}, {"b", 1}}, "x\xef\xbf\xbd,1"},
                    CsvCase{"WideNumbers",
                            {{"a", std::numeric_limits<std::uint64_t>::max()}, {"b", -3}},
                            "18446744073709551615,-3"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CsvLine, HeaderIsQuotedLikeText) {
  std::string line;
  append_csv_header(Strings{"a", "b \"c\"", "d,e"}, line);
  EXPECT_EQ(line, "a,\"b \"\"c\"\"\",\"d,e\"\r\n");
}

TEST(CsvLine, OnlyNullIsNoBlankLine) {
  std::string line;
  append_csv_line(Json{{"a", nullptr}}, Strings{"a"}, line);
  EXPECT_EQ(line, "\"\"\r\n");
}

TEST(JsonLine, IsOneLine) {
  std::string line;
  append_json_line(Json{{"a", "x\ny"}, {"b", {1, nullptr}}}, line);
  EXPECT_EQ(line, "{\"a\":\"x\\ny\",\"b\":[1,null]}\n");
}

TEST(JsonLine, DroppedHasReasonAndRow) {
  std::string line;
  append_dropped_line(12, "a: \"bad\"", Json{{"a", nullptr}}, line);
  EXPECT_EQ(line, "{\"record\":12,\"reason\":\"a: \\\"bad\\\"\",\"row\":{\"a\":null}}\n");
}

RC_GTEST_PROP(CsvLine, IsReadBack, (const Strings& texts)) {
  Json row = Json::object();
  Strings columns, expected;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    columns.push_back(std::to_string(i));
    row[columns.back()] = texts[i];
    expected.push_back(text::repair_utf8(texts[i]));
  }
  RC_PRE(!texts.empty());
  std::string line;
  append_csv_line(row, columns, line);
  CsvRecord record;
  parse_csv_record(line, ',', true, record);
  RC_ASSERT(record.error == "");
  RC_ASSERT(record.fields == expected);
  RC_ASSERT(record.consumed == line.size());
}

// A row is the same line whether it comes from a model or from the store.
RC_GTEST_PROP(CsvLine, SurvivesTheStore, (const std::string& text, double number)) {
  const Json row{{"a", text}, {"b", number}, {"c", {{"nested", text}}}};
  const Json stored = Json::parse(row.dump(-1, ' ', false, Json::error_handler_t::replace));
  const Strings columns{"a", "b", "c"};
  std::string fresh, read;
  append_csv_line(row, columns, fresh);
  append_csv_line(stored, columns, read);
  RC_ASSERT(fresh == read);
  fresh.clear();
  read.clear();
  append_json_line(row, fresh);
  append_json_line(stored, read);
  RC_ASSERT(fresh == read);
}

}  // namespace
}  // namespace dovetail::pipeline
