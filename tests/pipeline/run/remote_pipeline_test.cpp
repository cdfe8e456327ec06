#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "pipeline/remote/endpoint/test_endpoint.h"
#include "pipeline/run/pipeline_job.h"
#include "pipeline/sample/temp_folder.h"

namespace dovetail::pipeline {
namespace {

// A whole pipeline over HTTP: what one endpoint writes another one judges, and neither behaves.
TEST(RemotePipeline, MakesADatasetWithEndpointsThatFail) {
  const TestEndpoint writer([](const TestRequest& request) {
    TestReply reply = chat_reply("re: " + last_message(request), 7, 3);
    reply.delay = std::chrono::milliseconds(2);
    if (request.number % 20 == 3) reply.drop_after = 40;
    return reply;
  });
  const TestEndpoint judge(refusing_above(12, std::chrono::milliseconds(1), "good"));
  const std::string yaml = fmt::format(R"(
records: 400
models:
  writer: {{endpoint: "{}", model: w, max_parallel: 16}}
  judge: {{endpoint: ["{}"], model: j, max_parallel: 16, sampling: {{temperature: 0}}}}
columns:
  - {{name: number, type: sampler, sampler: integer, params: {{low: 1, high: 1000000}}}}
  - {{name: text, type: llm-text, model: writer, prompt: "say {{{{ number }}}}"}}
  - {{name: verdict, type: llm-judge, model: judge, prompt: "{{{{ text }}}}", answer: option,
     rubrics: [{{name: q, description: "How is it?", options: [good, bad]}}]}}
)",
                                       writer.url("/v1"), judge.url("/v1"));
  const TempFolder folder;
  auto spec = parse_pipeline(yaml, folder.path() / "p.yaml", {});
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  JobOptions options;
  options.store = folder.path() / "run.db";
  auto job = PipelineJob::open(*std::move(spec), options);
  ASSERT_TRUE(job.has_value()) << job.error().message;
  const Status started = (*job)->start_models();
  ASSERT_TRUE(started.has_value()) << started.error().message;
  std::vector<Json> rows;
  JobPorts ports;
  ports.emit = [&](const FinishedRecord& record) -> Status {
    EXPECT_EQ(record.reason, "");
    EXPECT_EQ(record.record, rows.size());
    rows.push_back(record.row);
    return {};
  };
  const auto progress = (*job)->run(ports);
  ASSERT_TRUE(progress.has_value()) << progress.error().message;
  EXPECT_EQ(progress->finished, 400U);
  ASSERT_EQ(rows.size(), 400U);
  for (const Json& row : rows) {
    EXPECT_EQ(row["text"], fmt::format("re: say {}", row["number"].get<std::int64_t>()));
    EXPECT_EQ(row["verdict"]["q"]["score"], "good");
  }
  EXPECT_GE(writer.requests(), 420);
  EXPECT_EQ((*job)->model_states()[0][0].in_flight, 0U);
}

}  // namespace
}  // namespace dovetail::pipeline
