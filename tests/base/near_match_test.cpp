#include "base/near_match.h"

#include <gmock/gmock.h>

namespace dovetail {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NearMatches, FindSlips) {
  const std::vector<std::string> names = {"run", "chat", "serve", "inspect", "max-num-seqs"};
  EXPECT_THAT(near_matches("rnu", names), ElementsAre("run"));
  EXPECT_THAT(near_matches("inspct", names), ElementsAre("inspect"));
  EXPECT_THAT(near_matches("max_num_seqs", names), ElementsAre("max-num-seqs"));
  EXPECT_THAT(near_matches("max-seqs", names), IsEmpty());
  EXPECT_THAT(near_matches("xyz", names), IsEmpty());
  EXPECT_THAT(near_matches("", names), IsEmpty());
  EXPECT_THAT(near_matches(std::string(1 << 20, 'x'), names), IsEmpty());
}

TEST(NearMatches, PutTheNearestFirst) {
  EXPECT_THAT(near_matches("top-p", {"top-k", "min-p", "top-p", "stop"}),
              ElementsAre("top-p", "top-k"));
  EXPECT_THAT(near_matches("=<", {"==", "<="}), ElementsAre("<=", "=="));
}

TEST(NearMatches, PutTheOnlyOneThatIsBegunFirst) {
  const std::vector<std::string> names = {"/set", "/system", "/stats", "temperature", "top-k"};
  EXPECT_THAT(begun_or_near("/sys", names), ElementsAre("/system", "/set"));
  EXPECT_THAT(begun_or_near("temp", names), ElementsAre("temperature"));
  EXPECT_THAT(begun_or_near("top_", names), ElementsAre("top-k"));
  EXPECT_THAT(begun_or_near("t", names), IsEmpty());  // two begin so
  EXPECT_THAT(begun_or_near("/sest", names), ElementsAre("/set"));
  EXPECT_THAT(begun_or_near("", {"run"}), IsEmpty());
}

}  // namespace
}  // namespace dovetail
