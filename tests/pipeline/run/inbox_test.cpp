#include "pipeline/run/inbox.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace dovetail::pipeline {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

std::future<std::vector<int>> take(Inbox<int>& inbox, bool patient) {
  return std::async(std::launch::async,
                    [&inbox, patient] { return inbox.take(hours(1), patient); });
}

TEST(Inbox, WaitsForSomething) {
  Inbox<int> inbox;
  auto taken = take(inbox, false);
  inbox.put(1, false);
  EXPECT_EQ(taken.get(), std::vector<int>{1});
}

TEST(Inbox, WaitsForSomethingUrgentWhereItIsPatient) {
  Inbox<int> inbox;
  auto taken = take(inbox, true);
  inbox.put(1, false);
  EXPECT_EQ(taken.wait_for(milliseconds(20)), std::future_status::timeout);
  inbox.put(2, false);
  inbox.put(3);
  EXPECT_EQ(taken.get(), (std::vector<int>{1, 2, 3}));
}

TEST(Inbox, IsWokenWithoutNews) {
  Inbox<int> inbox;
  auto taken = take(inbox, true);
  inbox.wake();
  EXPECT_TRUE(taken.get().empty());
}

TEST(Inbox, UrgentNewsThatCameBeforeAreNotWaitedFor) {
  Inbox<int> inbox;
  inbox.put(1);
  inbox.put(2, false);
  EXPECT_EQ(inbox.take(hours(1), true), (std::vector<int>{1, 2}));
  inbox.put(3, false);
  EXPECT_EQ(inbox.take(milliseconds(1), true), std::vector<int>{3}) << "after its time";
}

}  // namespace
}  // namespace dovetail::pipeline
