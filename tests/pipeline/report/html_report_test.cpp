#include "pipeline/report/html_report.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <iterator>

#include "example_run.h"
#include "pipeline/report/collect_report.h"
#include "pipeline/report/report_style.h"
#include "pipeline/report/xml_text.h"
#include "support/temp_folder.h"
#include "xml_check.h"

namespace dovetail::pipeline {
namespace {

using testing::HasSubstr;
using testing::Not;

ReportData example_report(std::uint64_t records) {
  const test::TempFolder folder;
  const auto store = example_store(folder / "run.db", records);
  ReportData data = collect_report(*store, example_infos()).value();
  data.title = "Sums";
  data.made = "today";
  data.records = records;
  data.accepted = 7;
  data.accepted_means = "verdict.correct.score >= 4";
  data.wall_us = 100'000'000;
  data.currency = "EUR";
  data.endpoints = example_endpoints(60);
  data.key_figures = {{"Accuracy", "71.3%", "answers that equal the truth"}};
  return data;
}

struct XmlCase {
  const char* page;
  bool well_formed;
};

class XmlFault : public testing::TestWithParam<XmlCase> {};

TEST_P(XmlFault, IsFound) {
  EXPECT_EQ(!xml_fault(GetParam().page).has_value(), GetParam().well_formed) << GetParam().page;
}

INSTANTIATE_TEST_SUITE_P(
    Pages, XmlFault,
    testing::Values(XmlCase{"<a/>", true}, XmlCase{"<!DOCTYPE html>\n<a b=\"c\">x&lt;</a>\n", true},
                    XmlCase{"<a><b></a></b>", false}, XmlCase{"<a>", false},
                    XmlCase{"<a/><b/>", false}, XmlCase{"<a>x < y</a>", false},
                    XmlCase{"<a>&nbsp;</a>", false}, XmlCase{"<a>a & b</a>", false},
                    XmlCase{"<a b=c/>", false}, XmlCase{"<a b=\"1\" b=\"2\"/>", false},
                    XmlCase{"<a b=\"<\"/>", false}, XmlCase{"<a>\x01</a>", false},
                    XmlCase{"<a>\xff</a>", false}, XmlCase{"<a/>x", false},
                    XmlCase{"<a b=\"1\"c=\"2\"/>", false}, XmlCase{"<a>\xef\xbf\xbf</a>", false}));

TEST(Escaped, LeavesNothingThatMeansSomething) {
  EXPECT_EQ(escaped("</script><b a=\"1\" c='2'>&amp;"),
            "&lt;/script&gt;&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;");
  EXPECT_EQ(escaped("a\xff\x01\x7f"
                    "b"),
            "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
            "b");
  EXPECT_EQ(escaped("a\r\nb\rc\td"), "a\nb\nc\td");
  EXPECT_EQ(escaped("\xef\xbf\xbf"), "\xef\xbf\xbd");
}

RC_GTEST_PROP(Escaped, IsWellFormedInTextsAndAttributes, (const std::string& text)) {
  RC_ASSERT(!xml_fault(fmt::format("<a b=\"{0}\">{0}</a>", escaped(text))).has_value());
}

TEST(HtmlReport, IsWellFormedAndSelfContained) {
  const std::string page = html_report(example_report(300));
  EXPECT_EQ(xml_fault(page), std::nullopt);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, Not(HasSubstr("href=\"http")));
  EXPECT_THAT(page, HasSubstr("default-src &#39;none&#39;"));
  EXPECT_EQ(std::string(kReportStyle).find_first_of("<&"), std::string::npos);
}

TEST(HtmlReport, TellsWhatHappened) {
  const std::string page = html_report(example_report(300));
  for (const char* part :
       {"<h1>Sums</h1>",
        "<dt>Accuracy</dt><dd>71.3%</dd><dd class=\"more\">answers that equal the truth</dd>",
        "<dt>Records</dt><dd>293</dd>",
        "<dt>Dropped</dt><dd>7</dd>",
        "<dt>Accepted</dt><dd>7</dd><dd class=\"more\">verdict.correct.score &gt;= 4</dd>",
        "<dt>Time</dt><dd>1m40s</dd><dd class=\"more\">3 records/s</dd>",
        " EUR</dd>",
        "nothing ready",
        "cooling down",
        "at its limit",
        "window full",
        "class=\"limit\"",
        "<b>Latency</b>",
        "<b>Answers</b>",
        "<b>Prompts</b>",
        "<b>correct</b>",
        "score, mean ",
        "<th scope=\"row\">kind</th>",
        "answer: no JSON at position",
        "cooking &lt;fast &amp; &quot;slow&quot;&gt;",
        "<summary>Record ",
        "<h2>Dropped records</h2>",
        "<summary>Record 40 <span>answer: no JSON at position 280: found &quot;40&quot;</span>",
        "<dt>dropped because</dt><dd><span class=\"bad\">answer: no JSON at position 280",
        "&lt; ",
        "<code>00000000000012340000000000005678</code>"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST(HtmlReport, OfNothingIsWellFormed) {
  EXPECT_EQ(xml_fault(html_report(ReportData())), std::nullopt);
  ReportData data = example_report(0);
  EXPECT_EQ(xml_fault(html_report(data)), std::nullopt);
  data.endpoints = {{"idle", "", Activity()}};
  EXPECT_THAT(html_report(data), HasSubstr("Nothing was recorded."));
}

// Whatever stands in names, values and errors.
RC_GTEST_PROP(HtmlReport, IsWellFormedWhateverTheDataSays, ()) {
  const auto text = [] {
    return *rc::gen::element<std::string>("</script>", "<b>", "\"'&", "]]>", "\x01\x1b[31m",
                                          "\xff\xfe", "-->", "", "<![CDATA[", "\xef\xbf\xbf") +
           *rc::gen::arbitrary<std::string>();
  };
  ReportData data;
  data.title = text();
  data.made = text();
  data.accepted = 1;
  data.accepted_means = text();
  data.currency = text();
  data.cost = 5;
  data.key_figures = {{text(), text(), text()}};
  ColumnReport column;
  column.info = {text(), text(), text(), {}};
  column.states[0] = 3;
  column.asked = 1;
  column.latency_us.add(5);
  column.records_dropped = 1;
  column.origins[1] = 1;
  for (int i = 0; i < 3; ++i) column.texts.add(text());
  column.texts.add("a");
  column.texts.add("a");
  RubricReport& rubric = column.rubrics.emplace_back();
  rubric.name = text();
  rubric.scores.add(Json(text()).dump(-1, ' ', false, Json::error_handler_t::replace));
  data.columns.push_back(column);
  data.errors.push_back({0, text(), 1, 1});
  data.origins.push_back({text(), text()});
  Activity activity;
  activity.sample(0, 1, 2, SlotCause::kTaking);
  activity.end(5000);
  data.endpoints.push_back({text(), text(), activity});
  const Json verdict = {{text(), {{"score", text()}, {"reasoning", text()}}}};
  data.samples.push_back({1,
                          "",
                          {{0, CellState::kValue, text(), "", 0},
                           {0, CellState::kValue, verdict, "", 0},
                           {0, CellState::kValue, {{text(), text()}}, "", 0},
                           {0, CellState::kValue, nullptr, text(), 3},
                           {0, CellState::kFailed, nullptr, text(), 0}}});
  data.drops = {{0, text(), 1, 1}, {std::nullopt, text(), 1, 1}};
  data.first_dropped = {data.samples[0]};
  data.first_dropped[0].reason = text();
  const auto fault = xml_fault(html_report(data));
  RC_ASSERT(fault == std::nullopt);
}

TEST(HtmlReport, IsWrittenWholeOrNotAtAll) {
  const test::TempFolder folder;
  const ReportData data = example_report(20);
  ASSERT_TRUE(write_html_report(data, folder / "report.html"));
  std::ifstream in(folder / "report.html", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), html_report(data));
  EXPECT_FALSE(std::filesystem::exists(folder / "report.html.part"));

  const Status nowhere = write_html_report(data, folder / "no/report.html");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, ErrorKind::kIo);
  EXPECT_THAT(nowhere.error().message, HasSubstr("no/report.html: cannot write the report: No "));
}

}  // namespace
}  // namespace dovetail::pipeline
