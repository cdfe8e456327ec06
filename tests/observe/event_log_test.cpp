#include "observe/event_log.h"

#include <gtest/gtest.h>

namespace dovetail::observe {
namespace {

TEST(EventLog, KeepsTheNewestAndNumbersThemAll) {
  EventLog log(3);  // the next power of two is kept
  EXPECT_EQ(log.written(), 0U);
  EXPECT_TRUE(log.events().empty());
  for (std::uint64_t id = 0; id < 10; ++id) {
    log.set_time(static_cast<std::int64_t>(100 * id));
    log.write(EventKind::kArrive, id, 1, 2, 3, kRowSampled);
  }
  EXPECT_EQ(log.written(), 10U);
  EXPECT_EQ(log.oldest(), 6U);
  const std::vector<Event> events = log.events();
  ASSERT_EQ(events.size(), 4U);
  for (std::uint64_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].id, 6 + i);
    EXPECT_EQ(events[i].time, static_cast<std::int64_t>(100 * (6 + i)));
    EXPECT_EQ(log.at(6 + i).id, 6 + i);
  }
  EXPECT_EQ(events[0].a, 1U);
  EXPECT_EQ(events[0].b, 2U);
  EXPECT_EQ(events[0].c, 3U);
  EXPECT_EQ(events[0].flags, kRowSampled);
}

}  // namespace
}  // namespace dovetail::observe
