#pragma once

#include <string>
#include <vector>

#include "dialog/answer.h"
#include "dialog/parameters.h"

namespace dovetail::dialog {

struct AnswerPlan::Data {
  CallFormat format;          // its texts with control tokens marked
  ReasoningFormat reasoning;  // so are these; empty: the model does not reason
  ContentFormat content;      // and these; empty: nothing is around the content
  AnswerRequest request;
  std::vector<std::vector<Parameter>> parameters;  // of each tool; for JSON none
  std::vector<std::string> call_marks;             // where calls begin in free text
  std::string structure;
  bool marks = false;
};

// The structure's text.
Result<std::string> write_structure(const AnswerPlan::Data& plan);

}  // namespace dovetail::dialog
