#include "pipeline/sample/seed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "support/temp_folder.h"

namespace dovetail::pipeline {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

Result<std::unique_ptr<SeedSource>> open(const test::TempFolder& folder, const std::string& spec,
                                         std::uint64_t run_seed = 1) {
  const auto parsed = parse_seed(ordered_json::parse(spec), "/seed");
  if (!parsed) return fail(parsed.error());
  return open_seed(*parsed, folder.path(), run_seed);
}

std::string rows_of(const SeedSource& seed) {
  std::string text;
  for (std::uint64_t i = 0; i < seed.count(); ++i) {
    const auto row = seed.row(i);
    text += row ? row->dump() : row.error().message;
    text += '\n';
  }
  return text;
}

TEST(SeedCsv, Reads) {
  struct Case {
    const char* content;
    const char* rows;
  };
  const Case cases[] = {
      {"a,b\n1,x\n2,y\n", "{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":\"y\"}\n"},
      {"a,b\r\n1,x\r\n2,y", "{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":\"y\"}\n"},
      {"\xEF\xBB\xBF"
       "a\n\"x\ny\"\n\n\"q\"\"r\"\n\"\"\n",
       "{\"a\":\"x\\ny\"}\n{\"a\":\"q\\\"r\"}\n{\"a\":\"\"}\n"},
      {"a,b\n1,\n,2.5\n", "{\"a\":1,\"b\":null}\n{\"a\":null,\"b\":2.5}\n"},
      {"zip,n,t\n01234,-7,true\n9,1e3,FALSE\n",
       "{\"zip\":\"01234\",\"n\":-7.0,\"t\":true}\n{\"zip\":\"9\",\"n\":1000.0,\"t\":false}\n"},
      {"\"a,b\",c\n\"1,2\",\"\"\n", "{\"a,b\":\"1,2\",\"c\":\"\"}\n"},
      {"a\n99999999999999999999\n", "{\"a\":1e+20}\n"},
      {"a,b\nnan,1.\ninf,.5\n", "{\"a\":\"nan\",\"b\":\"1.\"}\n{\"a\":\"inf\",\"b\":\".5\"}\n"},
      {"a\n\xC3\xA9\xE2\x82\xAC\n", "{\"a\":\"\xC3\xA9\xE2\x82\xAC\"}\n"},
  };
  for (const Case& c : cases) {
    const test::TempFolder folder;
    folder.write("x.csv", c.content);
    const auto seed = open(folder, R"({"path": "x.csv"})");
    ASSERT_TRUE(seed) << c.content << seed.error().message;
    EXPECT_EQ(rows_of(**seed), c.rows) << c.content;
  }
}

TEST(SeedCsv, ErrorsNameFileLineAndColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "x.csv: empty; valid: a header line"},
      {"a,b\n", "no rows are left of 0; valid: a file with rows"},
      {"a,b\n1,2\n3\n", "x.csv:3:1: 1 fields; valid: 2, as many as the header has"},
      {"a,b\n\"1\n\",2\n3,4,5\n", "x.csv:4:1: 3 fields"},
      {"a,b\n1,\"2\n3,4\n", "x.csv:2:3: a quoted field that does not end"},
      {"a,b\n1,\xC3\xA9\"q\"\n", "x.csv:2:4: a quote inside of an unquoted field"},
      {"a,b\n\"1\"x,2\n", "x.csv:2:4: text behind a closing quote"},
      {"a,b\r1,2\r", "x.csv:1:4: a carriage return without line feed"},
      {"a,a\n1,2\n", "x.csv:1: column 2 is named 'a'; valid: names that differ"},
      {"a,\n1,2\n", "x.csv:1: column 2 is named ''"},
      {"a,b\n1,2\n\xFFx,2\n", "x.csv:3:1: byte 0xff is no UTF-8"},
      {"a\n\"l1\nl2 \xC3\"\n", "x.csv:3:4: byte 0xc3 is no UTF-8"},
      {"\xFF\xFE"
       "a\0,\0",
       "x.csv: UTF-16; valid: text in UTF-8"},
  };
  for (const auto& [content, message] : cases) {
    const test::TempFolder folder;
    folder.write("x.csv", content);
    const auto seed = open(folder, R"({"path": "x.csv"})");
    ASSERT_FALSE(seed) << content;
    EXPECT_THAT(seed.error().message, HasSubstr(message)) << content;
  }
}

TEST(SeedCsv, TypesAndDelimiterAndColumns) {
  const test::TempFolder folder;
  folder.write("x.tsv", "a\tb\tc\n1\t2\tx,y\n3\t\tz\n");
  const auto seed = open(
      folder, R"({"path": "x.tsv", "types": {"a": "str", "b": "float"}, "columns": ["b", "a"]})");
  ASSERT_TRUE(seed) << seed.error().message;
  EXPECT_EQ(rows_of(**seed), "{\"b\":2.0,\"a\":\"1\"}\n{\"b\":null,\"a\":\"3\"}\n");
  const auto plain = open(folder, R"({"path": "x.tsv", "infer_types": false})");
  EXPECT_EQ((*plain)->row(0)->dump(), R"({"a":"1","b":"2","c":"x,y"})");
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"path": "x.tsv", "types": {"c": "int"}})", "x.tsv:2:1: column 'c': 'x,y'; valid: int"},
      {R"({"path": "x.tsv", "types": {"cc": "int"}})", "no column 'cc'; valid: a, b, c"},
      {R"({"path": "x.tsv", "columns": ["d"]})", "columns: no column 'd'; valid: a, b, c"},
  };
  for (const auto& [spec, message] : wrong) {
    const auto failed = open(folder, spec);
    ASSERT_FALSE(failed) << spec;
    EXPECT_THAT(failed.error().message, HasSubstr(message));
  }
}

std::string slow_csv(const std::vector<std::vector<std::string>>& rows, char delimiter,
                     const std::string& line_end, bool quote_all) {
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) text += delimiter;
      bool quote = quote_all || row[i].empty();
      for (const char c : row[i]) quote |= c == '"' || c == '\n' || c == '\r' || c == delimiter;
      if (quote) text += '"';
      for (const char c : row[i]) {
        if (c == '"') text += '"';
        text += c;
      }
      if (quote) text += '"';
    }
    text += line_end;
  }
  return text;
}

TEST(SeedCsv, RoundTripsAgainstASlowWriter) {
  EXPECT_TRUE(rc::check([] {
    const std::string letters = "ab,;\"\n\r \t0";
    const auto field = rc::gen::container<std::string>(rc::gen::elementOf(letters));
    const auto width = *rc::gen::inRange<std::size_t>(1, 5);
    const auto rows = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::vector<std::string>>>(
        rc::gen::container<std::vector<std::string>>(width, field)));
    const char delimiter = *rc::gen::element(',', ';', '\t');
    const std::string line_end = *rc::gen::element<std::string>("\n", "\r\n");
    std::vector<std::vector<std::string>> all(1);
    for (std::size_t i = 0; i < width; ++i) all[0].push_back(fmt::format("c{}", i));
    all.insert(all.end(), rows.begin(), rows.end());
    std::string text = slow_csv(all, delimiter, line_end, *rc::gen::arbitrary<bool>());
    if (*rc::gen::arbitrary<bool>()) text.resize(text.size() - line_end.size());

    const test::TempFolder folder;
    folder.write("x.csv", text);
    ordered_json spec = {{"path", "x.csv"}, {"infer_types", false}};
    spec["delimiter"] = std::string(1, delimiter);
    const auto seed = open(folder, spec.dump());
    RC_ASSERT(seed.has_value());
    RC_ASSERT((*seed)->count() == rows.size());
    for (std::size_t i = rows.size(); i-- > 0;) {
      const auto row = (*seed)->row(i);
      RC_ASSERT(row.has_value());
      for (std::size_t j = 0; j < width; ++j) {
        RC_ASSERT((*row)[fmt::format("c{}", j)].get<std::string>() == rows[i][j]);
      }
    }
  }));
}

TEST(SeedCsv, RecordsLargerThanABlock) {
  const test::TempFolder folder;
  std::string text = "a,b\n";
  std::vector<std::string> fields;
  for (const std::size_t size : {10UL, 3000000UL, 5UL, 1048576UL, 70000UL, 0UL}) {
    fields.emplace_back(size, 'x');
    if (size > 100) fields.back()[size / 2] = '\n';
    text += "\"" + fields.back() + "\",1\n";
  }
  folder.write("x.csv", text);
  const auto seed = open(folder, R"({"path": "x.csv"})");
  ASSERT_TRUE(seed) << seed.error().message;
  ASSERT_EQ((*seed)->count(), fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto row = (*seed)->row(i);
    ASSERT_TRUE(row) << row.error().message;
    EXPECT_TRUE((*row)["a"] == fields[i]) << i;
  }
}

TEST(SeedJsonl, Reads) {
  const test::TempFolder folder;
  folder.write(
      "x.jsonl",
      "\xEF\xBB\xBF{\"a\": 1, \"b\": {\"c\": [1, 2]}}\r\n\n   \n{\"d\": null, \"a\": \"\\u00e9\"}");
  const auto seed = open(folder, R"({"path": "x.jsonl"})");
  ASSERT_TRUE(seed) << seed.error().message;
  EXPECT_THAT((*seed)->columns(), ElementsAre("a", "b", "d"));
  EXPECT_EQ(
      rows_of(**seed),
      "{\"a\":1,\"b\":{\"c\":[1,2]},\"d\":null}\n{\"a\":\"\xC3\xA9\",\"b\":null,\"d\":null}\n");
}

TEST(SeedJsonl, ErrorsNameFileLineAndColumn) {
  const std::string deep = std::string(70, '[') + std::string(70, ']');
  const std::pair<std::string, const char*> cases[] = {
      {"{\"a\": 1}\n{\"a\": }\n", "x.jsonl:2:7: syntax error"},
      {"{\"a\": 1}\n\n[1]\n", "x.jsonl:3:1: no object; valid: one JSON object on each line"},
      {"{\"a\": 1} {\"b\": 2}\n", "x.jsonl:1:10: syntax error"},
      {"7\n", "x.jsonl:1:1: no object"},
      {"{\"a\": 1e999}\n", "x.jsonl:1:"},
      {"{\"a\": " + deep + "}\n", "values nested more than 64 deep"},
      {"{\"a\": \"\xFF\"}\n", "x.jsonl:1:8: byte 0xff is no UTF-8"},
      {"{\"a\": \"x\n\"}\n", "x.jsonl:1:"},
      {"", "no rows are left of 0"},
  };
  for (const auto& [content, message] : cases) {
    const test::TempFolder folder;
    folder.write("x.jsonl", content);
    const auto seed = open(folder, R"({"path": "x.jsonl"})");
    ASSERT_FALSE(seed) << content;
    EXPECT_THAT(seed.error().message, HasSubstr(message)) << content;
  }
}

TEST(SeedFiles, ReadsFolders) {
  const test::TempFolder folder;
  folder.write("docs/b.md", "B\n");
  folder.write("docs/a/c.md", "\xC3\xA9");
  folder.write("docs/skip.bin", "\xFF");
  const auto seed = open(folder, R"({"path": "docs/**/*.md"})");
  ASSERT_TRUE(seed) << seed.error().message;
  EXPECT_EQ(rows_of(**seed),
            "{\"path\":\"docs/a/c.md\",\"name\":\"c.md\",\"content\":\"\xC3\xA9\",\"size\":2}\n"
            "{\"path\":\"docs/b.md\",\"name\":\"b.md\",\"content\":\"B\\n\",\"size\":2}\n");
  const auto all = open(folder, R"({"path": "docs", "content": false})");
  ASSERT_TRUE(all);
  EXPECT_EQ((*all)->count(), 3U);
  EXPECT_EQ((*all)->row(2)->dump(), R"({"path":"docs/skip.bin","name":"skip.bin","size":1})");
  const auto binary = open(folder, R"({"path": "docs"})");
  ASSERT_TRUE(binary);
  EXPECT_THAT((*binary)->row(2).error().message, HasSubstr("docs/skip.bin: no UTF-8"));
  const auto filtered = open(
      folder, R"({"path": "docs", "content": false, "filter": "size > 1 and name != 'b.md'"})");
  ASSERT_TRUE(filtered) << filtered.error().message;
  EXPECT_EQ((*filtered)->count(), 1U);
}

TEST(Seed, SeveralFilesAreOne) {
  const test::TempFolder folder;
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    folder.write(fmt::format("part-{:03}.csv", i),
                 fmt::format("n,t\n{},a\n{},b", 2 * i, 2 * i + 1));
    expected +=
        fmt::format("{{\"n\":{},\"t\":\"a\"}}\n{{\"n\":{},\"t\":\"b\"}}\n", 2 * i, 2 * i + 1);
  }
  const auto seed = open(folder, R"({"path": "part-*.csv"})");
  ASSERT_TRUE(seed) << seed.error().message;
  EXPECT_EQ(rows_of(**seed), expected);
  folder.write("part-100.csv", "t,n\n1,2\n");
  EXPECT_THAT(open(folder, R"({"path": "part-*.csv"})").error().message,
              HasSubstr("part-100.csv:1: another header than in part-000.csv"));
}

std::string numbers(int count) {
  std::string text = "n\n";
  for (int i = 0; i < count; ++i) text += std::to_string(i) + "\n";
  return text;
}

std::vector<int> values_of(const SeedSource& seed, std::uint64_t from, std::uint64_t to) {
  std::vector<int> values;
  for (std::uint64_t i = from; i < to; ++i) values.push_back((*seed.row(i))["n"].get<int>());
  return values;
}

TEST(Seed, SelectsAndShufflesAndWraps) {
  const test::TempFolder folder;
  folder.write("x.csv", numbers(100));
  const auto range = open(folder, R"({"path": "x.csv", "range": {"start": 10, "end": 13}})");
  ASSERT_TRUE(range) << range.error().message;
  EXPECT_THAT(values_of(**range, 0, (*range)->count()), ElementsAre(10, 11, 12));
  const auto past = open(folder, R"({"path": "x.csv", "range": {"start": 98, "end": 130}})");
  EXPECT_THAT(values_of(**past, 0, (*past)->count()), ElementsAre(98, 99));

  std::vector<int> together;
  for (int i = 0; i < 7; ++i) {
    const auto part = open(
        folder, fmt::format(R"({{"path": "x.csv", "partition": {{"index": {}, "of": 7}}}})", i));
    ASSERT_TRUE(part) << part.error().message;
    for (const int n : values_of(**part, 0, (*part)->count())) together.push_back(n);
  }
  std::vector<int> all(100);
  for (int i = 0; i < 100; ++i) all[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(together, all);

  const auto filtered = open(
      folder, R"({"path": "x.csv", "filter": "n % 10 == 3", "range": {"start": 1, "end": 4}})");
  EXPECT_THAT(values_of(**filtered, 0, (*filtered)->count()), ElementsAre(13, 23, 33));

  const auto shuffled = open(folder, R"({"path": "x.csv", "order": "shuffled", "wrap": true})");
  ASSERT_TRUE(shuffled);
  auto first = values_of(**shuffled, 0, 100);
  auto second = values_of(**shuffled, 100, 200);
  EXPECT_NE(first, all);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, values_of(**open(folder, R"({"path": "x.csv", "order": "shuffled"})"), 0, 100));
  EXPECT_NE(first,
            values_of(**open(folder, R"({"path": "x.csv", "order": "shuffled"})", 2), 0, 100));
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, all);
  EXPECT_EQ(second, all);

  const auto once = open(folder, R"({"path": "x.csv"})");
  EXPECT_THAT(
      (*once)->row(100).error().message,
      HasSubstr("seed 'x.csv': record 100 of 100 rows; valid: at most 100 records, or wrap"));
  const auto again = open(folder, R"({"path": "x.csv", "wrap": true})");
  EXPECT_THAT(values_of(**again, 99, 102), ElementsAre(99, 0, 1));
}

TEST(Seed, AChangedFileIsAnError) {
  const test::TempFolder folder;
  folder.write("x.csv", numbers(10));
  const auto seed = open(folder, R"({"path": "x.csv"})");
  ASSERT_TRUE((*seed)->row(3));
  std::ofstream(folder.path() / "x.csv", std::ios::app) << "11\n";
  const auto row = (*seed)->row(3);
  ASSERT_FALSE(row);
  EXPECT_THAT(row.error().message,
              HasSubstr("x.csv: has changed since it was read first (22 bytes then, 25 now)"));
  EXPECT_NE((*seed)->fingerprint(), (*open(folder, R"({"path": "x.csv"})"))->fingerprint());
}

TEST(Seed, RowsFromSeveralThreads) {
  const test::TempFolder folder;
  folder.write("x.csv", numbers(2000));
  const auto seed = open(folder, R"({"path": "x.csv", "order": "shuffled"})");
  const auto expected = values_of(**seed, 0, 2000);
  std::vector<std::vector<int>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = values_of(**seed, 0, 2000); });
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

TEST(Seed, ErrorsOfTheDescription) {
  const test::TempFolder folder;
  folder.write("x.csv", numbers(3));
  const std::pair<const char*, const char*> cases[] = {
      {R"({"path": "y.csv"})", "seed 'y.csv': no such file or folder in"},
      {R"({"path": "*.jsonl"})", "no file in"},
      {R"({"path": "x.parquet"})", "/seed/path: \"x.parquet\"; valid: a path that ends in .csv"},
      {R"({"pth": "x.csv"})", "/seed/pth: unknown key, did you mean path?"},
      {R"({"path": "x.csv", "order": "shufled"})",
       "/seed/order: \"shufled\"; valid: ordered, shuffled (did you mean 'shuffled'?)"},
      {R"({"path": "x.csv", "range": {"start": 2, "end": 2}})",
       "/seed/range/end: 2; valid: more than start"},
      {R"({"path": "x.csv", "range": {"start": 3}})",
       "no rows are left of 3; valid: a range or partition"},
      {R"({"path": "x.csv", "partition": {"index": 2, "of": 2}})",
       "/seed/partition/index: 2; valid: an integer from 0 to 1"},
      {R"({"path": "x.csv", "range": {}, "partition": {"index": 0, "of": 2}})",
       "/seed/partition: {\"index\":0,\"of\":2}; valid: only one"},
      {R"({"path": "x.csv", "filter": "m > 1"})",
       "/seed/filter: condition 'm > 1': unknown column 'm'; valid: n"},
      {R"({"path": "x.csv", "filter": "n >"})", "/seed/filter: condition 'n >'"},
      {R"({"path": "x.csv", "filter": "n > 'a'"})", "seed 'x.csv', row 0: /seed/filter"},
      {R"({"path": "x.csv", "filter": "n > 7"})",
       "no rows are left of 0; valid: a filter with rows"},
      {R"({"path": "x.csv", "delimiter": "ab"})", "/seed/delimiter: \"ab\"; valid: one ASCII"},
      {R"({"path": "x.csv", "types": {"n": "integer"}})",
       "/seed/types/n: \"integer\"; valid: str, int, float, bool"},
      {R"({"path": "x.csv", "format": "json"})",
       "/seed/format: \"json\"; valid: csv, jsonl, files (did you mean 'jsonl'?)"},
  };
  for (const auto& [spec, message] : cases) {
    const auto seed = open(folder, spec);
    ASSERT_FALSE(seed) << spec;
    EXPECT_THAT(seed.error().message, HasSubstr(message));
  }
}

TEST(SeedMutation, BrokenFilesEndInRowsOrInAnErrorWithItsPlace) {
  const std::string csv =
      "id,\"na,me\",t\r\n1,\"a \"\"b\"\"\nc\",true\r\n2,\xC3\xA9,\r\n\"3\",,false\n";
  const std::string jsonl =
      "{\"a\": 1, \"b\": [true, {\"c\": \"\\u00e9\"}]}\n{\"a\": -2.5e3}\n\n{\"d\": \"\xC3\xA9\"}\n";
  const std::string_view pieces[] = {"\"",
                                     "\"\"",
                                     ",",
                                     "\n",
                                     "\r",
                                     "\r\n",
                                     "\xFF",
                                     "{",
                                     "}",
                                     "[",
                                     "\\u",
                                     "\\",
                                     "1e999",
                                     "\xEF\xBB\xBF",
                                     std::string_view("\0", 1),
                                     ":"};
  std::mt19937 random(17);
  const auto below = [&](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  const test::TempFolder folder;
  int fine = 0;
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const bool json = round % 2 == 1;
    std::string text = json ? jsonl : csv;
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const std::size_t at = below(text.size() + 1);
      const std::size_t span = std::min<std::size_t>(below(12), text.size() - at);
      switch (below(5)) {
        case 0:
          text.erase(at, span);
          break;
        case 1:
          text.insert(at, pieces[below(std::size(pieces))]);
          break;
        case 2:
          text.insert(below(text.size() + 1), text.substr(at, span));
          break;
        case 3:
          if (at < text.size()) text[at] = static_cast<char>(random());
          break;
        default:
          text.resize(at);
      }
    }
    const std::string name = json ? "x.jsonl" : "x.csv";
    folder.write(name, text);
    const auto seed = open(folder, R"({"path": ")" + name + "\"}");
    if (!seed) {
      ++refused;
      EXPECT_THAT(seed.error().message, HasSubstr(name));
      continue;
    }
    ++fine;
    for (std::uint64_t i = 0; i < (*seed)->count(); ++i) {
      const auto row = (*seed)->row(i);
      ASSERT_TRUE(row) << row.error().message << "\n" << text;
      EXPECT_EQ(row->size(), (*seed)->columns().size());
      EXPECT_NO_THROW((void)row->dump());
    }
  }
  EXPECT_GT(fine, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace dovetail::pipeline
