#include "study/overhead.h"

#include <gtest/gtest.h>

#include "cores/laws/play.h"

namespace dovetail::study {
namespace {

Overhead measure(const std::string& machine, const std::vector<cores::Job>& jobs,
                 const cores::DispatchOptions& options = {}) {
  const cores::Played played = cores::play(machine, jobs, options);
  return overhead_of(*cores::Topology::parse(machine), played.spans, played.waits);
}

TEST(Overhead, IsNothingWhereNothingWaits) {
  const Overhead none =
      measure("1x(1C2V)", {{0, cores::kMatrixTask, 0, 10}, {1, cores::kVectorTask, 5, 10}});
  EXPECT_EQ(none.any, 0.0);
  EXPECT_EQ(overhead_of(*cores::Topology::parse("1x(1L)"), {}, {}).any, 0.0);
}

TEST(Overhead, IsNothingWhereAllLanesOfTheKindAreBusy) {
  const Overhead none =
      measure("1x(1C2V)", {{0, cores::kMatrixTask, 0, 10}, {1, cores::kMatrixTask, 0, 10}});
  EXPECT_EQ(none.any, 0.0);
}

// A vector task of 30 runs; a task of all lanes is ready from 10 on and runs 10: of 40, 20 are
// lost, for the matrix lane and for the other vector lane.
TEST(Overhead, CountsIdleLanesBesideAMixedTaskThatWaits) {
  const Overhead lost =
      measure("1x(1C2V)", {{0, cores::kVectorTask, 0, 30}, {1, cores::k1C2V, 10, 10}});
  EXPECT_DOUBLE_EQ(lost.matrix, 0.5);
  EXPECT_DOUBLE_EQ(lost.vector, 0.5);
  EXPECT_DOUBLE_EQ(lost.any, 0.5);
  EXPECT_DOUBLE_EQ(lost.all, 0.5);
}

// While the mixed task waits, a matrix task of 20 that is sure to end in time uses its lane.
TEST(Overhead, BackfillingTakesSomeOfItAway) {
  const std::vector<cores::Job> jobs = {{0, cores::kVectorTask, 0, 30, 1, false, 30},
                                        {1, cores::k1C2V, 10, 10},
                                        {2, cores::kMatrixTask, 10, 20, 1, false, 20}};
  cores::DispatchOptions options;
  const Overhead with = measure("1x(1C2V)", jobs, options);
  options.backfills = false;
  const Overhead without = measure("1x(1C2V)", jobs, options);
  EXPECT_DOUBLE_EQ(with.matrix, 0.0);
  EXPECT_DOUBLE_EQ(with.vector, 0.5);
  EXPECT_DOUBLE_EQ(with.all, 0.0);
  EXPECT_GT(without.matrix, 0.0);
}

}  // namespace
}  // namespace dovetail::study
