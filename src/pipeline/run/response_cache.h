#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pipeline/config/model_spec.h"
#include "pipeline/run/model_client.h"
#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

// The keys of one column's answers: of all that an answer depends on, the model and where it is,
// how it samples, what it is asked and with which seed. What all requests of the column have in
// common is put into words once.
class ResponseKeys {
 public:
  // The model, and what the column asks of every answer.
  ResponseKeys(const ModelSpec& model, const SamplingSpec& sampling, const Json& schema,
               const AnswerPattern& pattern);

  // Of a request with that sampling, schema and pattern.
  Hash128 of(const ModelRequest& request) const;

 private:
  std::string head_, sampling_, tail_;
};

// An answer as the cache keeps it, and back; nothing where the text is none.
std::string response_text(const ModelAnswer& answer);
std::optional<ModelAnswer> read_response(std::string_view text);

}  // namespace dovetail::pipeline
