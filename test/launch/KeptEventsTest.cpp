// What attempts leave for the trace of the one that comes to the end.
#include "runtime/launch/KeptEvents.h"
#include "test/launch/TempFolder.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <tuple>

using namespace pipec;
using namespace pipec::runtime;
namespace fs = std::filesystem;

namespace {

class KeptEventsTest : public test::TempFolder {
protected:
  static std::vector<trace::Event> eventOf(int64_t step) {
    trace::Event event;
    event.step = step;
    event.start = 10 * step;
    event.end = 10 * step + 3;
    return {event};
  }
  using Row = std::tuple<int64_t, int32_t, plan::Time, plan::Time>; // step, attempt, start, end
  static std::vector<Row> all(const KeptEvents &kept, int64_t lastStep) {
    std::vector<trace::Event> events;
    Status status = kept.all(eventOf(lastStep), events);
    EXPECT_TRUE(status.ok()) << status.message;
    std::vector<Row> rows;
    for (const trace::Event &event : events)
      rows.emplace_back(event.step, event.attempt, event.start, event.end);
    return rows;
  }
};

TEST_F(KeptEventsTest, GoOnInTheNextAttempt) {
  KeptEvents first(folder, 1, 0, 0, 5000);
  for (int64_t step : {5, 10, 100})
    ASSERT_TRUE(first.keep(step, eventOf(step - 1)).ok());
  // It got no further than to the checkpoint after 10 steps, and began again 2 us after the first start.
  KeptEvents second(folder, 1, 2, 10, 7000);
  EXPECT_EQ(all(second, 11), (std::vector<Row>{{4, 0, 40, 43}, {9, 0, 90, 93}, {11, 2, 2'000'110, 2'000'113}}));
  second.clear();
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(KeptEventsTest, AFirstAttemptBeginsWithNothingAndTouchesNobodyElses) {
  ASSERT_TRUE(KeptEvents(folder, 1, 0, 0, 5000).keep(5, eventOf(4)).ok());
  ASSERT_TRUE(KeptEvents(folder, 11, 0, 0, 5000).keep(5, eventOf(3)).ok());
  EXPECT_EQ(all(KeptEvents(folder, 1, 0, 20, 6000), 20), (std::vector<Row>{{20, 0, 200, 203}}));
  EXPECT_EQ(all(KeptEvents(folder, 11, 1, 20, 6000), 20),
            (std::vector<Row>{{3, 0, 30, 33}, {20, 1, 1'000'200, 1'000'203}}));
}

TEST_F(KeptEventsTest, WhatIsDamagedIsNamed) {
  ASSERT_TRUE(KeptEvents(folder, 0, 0, 0, 0).keep(5, eventOf(4)).ok());
  const std::string path = fs::directory_iterator(folder)->path().string();
  std::ofstream(path) << "{}";
  std::vector<trace::Event> events;
  Status status = KeptEvents(folder, 0, 1, 5, 0).all({}, events);
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_NE(status.message.find(path + ": is damaged"), std::string::npos) << status.message;
  EXPECT_EQ(KeptEvents(folder + "/none", 0, 0, 0, 0).keep(5, {}).code, Code::Run);
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); // which nobody ever opens to write
  status = KeptEvents(folder, 0, 1, 5, 0).all({}, events);
  EXPECT_NE(status.message.find(path + ": cannot be read: is a FIFO"), std::string::npos) << status.message;
}

} // namespace
