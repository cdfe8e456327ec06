#pragma once

#include <string>
#include <vector>

#include "cli/generation.h"
#include "cli/input_record.h"
#include "text/tokenizer.h"

namespace dovetail::cli {

// The JSON lines of a record's answers, one per choice, each with its end of line: index, id and
// metadata where the record has them, choice where n is above 1, text, finish_reason,
// prompt_tokens, completion_tokens, as_expected where the record says what is expected,
// logprobs where asked for, error where it failed.
std::string result_lines(const InputRecord& record, const std::vector<Answer>& answers,
                         const text::Tokenizer& tokenizer);

}  // namespace dovetail::cli
