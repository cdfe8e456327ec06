#pragma once

#include <gtest/gtest.h>

#include <string>

#include "pipeline/config/pipeline_spec.h"

namespace dovetail::pipeline {

// The column `c` of a file with the seed columns `a` and `b` and the models `m`.
inline ColumnDescription one_column(const std::string& fields) {
  const auto spec = parse_pipeline(
      "records: 1\nseed: {path: x.csv}\nmodels: {m: {path: x}}\ncolumns:\n  - {name: c, " + fields +
          "}",
      "/tmp/f.yaml", [](const SeedSpec&, const std::filesystem::path&) {
        return Result<std::vector<std::string>>(std::vector<std::string>{"a", "b"});
      });
  EXPECT_TRUE(spec) << spec.error().message;
  return spec.value().columns.back();
}

}  // namespace dovetail::pipeline
