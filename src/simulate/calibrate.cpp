#include "simulate/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

#include "simulate/csv.h"

namespace dovetail::simulate {
namespace {

constexpr std::size_t kTerms = 4;
using Terms = std::array<double, kTerms>;

Terms terms_of(const schedule::StepLoad& load) {
  return {1.0, static_cast<double>(load.prefill_tokens), static_cast<double>(load.decode_rows),
          load.context_tokens};
}

struct Normal {
  std::array<Terms, kTerms> matrix{};
  Terms right{};
  double squares = 0.0;
};

// Solves for the chosen terms alone; nothing where they cannot be told apart.
std::optional<Terms> solve(const Normal& normal, unsigned chosen) {
  std::array<std::array<double, kTerms + 1>, kTerms> rows{};
  std::array<std::size_t, kTerms> terms{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < kTerms; ++i) {
    if ((chosen >> i & 1U) != 0) terms[count++] = i;
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) rows[i][j] = normal.matrix[terms[i]][terms[j]];
    rows[i][count] = normal.right[terms[i]];
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t pivot = i;
    for (std::size_t j = i; j < count; ++j) {
      if (std::abs(rows[j][i]) > std::abs(rows[pivot][i])) pivot = j;
    }
    std::swap(rows[i], rows[pivot]);
    const double scale = normal.matrix[terms[i]][terms[i]];
    if (!(std::abs(rows[i][i]) > 1e-12 * scale)) return std::nullopt;
    for (std::size_t j = 0; j < count; ++j) {
      if (j == i) continue;
      const double factor = rows[j][i] / rows[i][i];
      for (std::size_t k = i; k <= count; ++k) rows[j][k] -= factor * rows[i][k];
    }
  }
  Terms solution{};
  for (std::size_t i = 0; i < count; ++i) solution[terms[i]] = rows[i][count] / rows[i][i];
  return solution;
}

double error_of(const Normal& normal, const Terms& x) {
  double error = normal.squares;
  for (std::size_t i = 0; i < kTerms; ++i) {
    error -= 2.0 * x[i] * normal.right[i];
    for (std::size_t j = 0; j < kTerms; ++j) error += x[i] * normal.matrix[i][j] * x[j];
  }
  return error;
}

}  // namespace

Result<std::vector<MeasuredStep>> parse_steps(std::string_view text, std::string_view name) {
  const Result<CsvTable> table = parse_csv(
      text, name, {"prefill_tokens", "decode_rows", "context_tokens", "microseconds"}, {});
  if (!table) return fail(table.error());
  constexpr double kMost = 4294967295.0;
  std::vector<MeasuredStep> steps;
  for (const CsvRow& row : table->rows) {
    for (std::size_t i = 0; i < 4; ++i) {
      const double most = i < 2 ? kMost : 1e18;
      if (!(row.values[i] >= 0.0 && row.values[i] <= most))
        return fail(ErrorKind::kInvalid, "{}:{}: {}: {} is out of range, expected 0 to {}", name,
                    row.line, table->columns[i], row.values[i], most);
    }
    if (row.values[3] == 0.0 || row.values[0] + row.values[1] == 0.0)
      return fail(ErrorKind::kInvalid,
                  "{}:{}: a step of {} tokens in {} microseconds, expected more than 0 of both",
                  name, row.line, row.values[0] + row.values[1], row.values[3]);
    steps.push_back({{static_cast<std::uint32_t>(row.values[0]),
                      static_cast<std::uint32_t>(row.values[1]), row.values[2]},
                     row.values[3]});
  }
  return steps;
}

// With four terms every set of those that are not zero can be tried.
Result<Calibration> calibrate(std::span<const MeasuredStep> steps) {
  constexpr std::size_t kFewest = 8;
  if (steps.size() < kFewest)
    return fail(ErrorKind::kInvalid, "steps: {} are too few to learn from, expected at least {}",
                steps.size(), kFewest);
  Normal normal;
  for (const MeasuredStep& step : steps) {
    Terms terms = terms_of(step.load);
    for (double& term : terms) term /= step.microseconds;
    for (std::size_t i = 0; i < kTerms; ++i) {
      for (std::size_t j = 0; j < kTerms; ++j) normal.matrix[i][j] += terms[i] * terms[j];
      normal.right[i] += terms[i];
    }
    normal.squares += 1.0;
  }
  std::optional<Terms> best;
  for (unsigned chosen = 1; chosen < 1U << kTerms; ++chosen) {
    const std::optional<Terms> candidate = solve(normal, chosen);
    if (!candidate || *std::min_element(candidate->begin(), candidate->end()) < 0.0) continue;
    if (!best || error_of(normal, *candidate) < error_of(normal, *best)) best = candidate;
  }
  if (!best || (*best)[1] + (*best)[2] == 0.0)
    return fail(ErrorKind::kInvalid,
                "steps: they look all alike, expected some with different numbers of tokens");
  Calibration result;
  result.cost = {(*best)[0], (*best)[1], (*best)[2], (*best)[3], 0};
  std::vector<double> errors;
  for (const MeasuredStep& step : steps)
    errors.push_back(std::abs(result.cost.predict(step.load) / step.microseconds - 1.0));
  std::sort(errors.begin(), errors.end());
  result.median_error = errors[errors.size() / 2];
  result.worst_error = errors[errors.size() * 9 / 10];
  return result;
}

}  // namespace dovetail::simulate
