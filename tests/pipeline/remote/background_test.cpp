#include "pipeline/remote/background.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace dovetail::pipeline {
namespace {

using ::testing::ElementsAre;

TEST(Background, DoesWhatIsPostedInOrderAndTheRestInItsTime) {
  auto background = *Background::create();
  std::vector<int> done;
  std::promise<void> all;
  const Micros begin = Background::now();
  background->post_at(begin + 40'000, [&] {
    done.push_back(4);
    EXPECT_GE(Background::now(), begin + 40'000);
    all.set_value();
  });
  background->post_at(begin + 20'000, [&] {
    done.push_back(3);
    EXPECT_GE(Background::now(), begin + 20'000);
  });
  background->post([&] {
    done.push_back(1);
    background->post([&] { done.push_back(2); });
  });
  all.get_future().wait();
  EXPECT_THAT(done, ElementsAre(1, 2, 3, 4));
}

TEST(Background, EndsWithWhatIsPostedButNotWithWhatIsForLater) {
  int posted = 0;
  int later = 0;
  {
    auto background = *Background::create();
    background->post_at(Background::now() + 3600 * kOneSecond, [&] { ++later; });
    for (int i = 0; i < 100; ++i) background->post([&] { ++posted; });
  }
  EXPECT_EQ(posted, 100);
  EXPECT_EQ(later, 0);
}

}  // namespace
}  // namespace dovetail::pipeline
