#include "base/clock.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(ClockTest, WritesAsKubernetesDoes) {
  const Time time{1795977226'987654321};
  EXPECT_EQ(format_rfc3339(time), "2026-11-29T18:33:46Z");
  EXPECT_EQ(format_rfc3339_micro(time), "2026-11-29T18:33:46.987654Z");
  EXPECT_EQ(format_rfc3339(Time{-1}), "1969-12-31T23:59:59Z");
  EXPECT_EQ(format_rfc3339(Time{951782400'000000000}), "2000-02-29T00:00:00Z");
}

TEST(ClockTest, ReadsFractionsAndOffsets) {
  const Time whole{1795977226'000000000};
  EXPECT_EQ(parse_rfc3339("2026-11-29T18:33:46Z").value(), whole);
  EXPECT_EQ(parse_rfc3339("2026-11-29T20:33:46+02:00").value(), whole);
  EXPECT_EQ(parse_rfc3339("2026-11-29T13:03:46-05:30").value(), whole);
  EXPECT_EQ(parse_rfc3339("2026-11-29T18:33:46.5Z").value(), whole + Duration::millis(500));
  EXPECT_EQ(parse_rfc3339("2026-11-29T18:33:46.1234567899Z").value().unix_nanos, whole.unix_nanos + 123456789);
  EXPECT_EQ(parse_rfc3339("1969-12-31T23:59:59.9Z").value().unix_nanos, -100'000'000);
}

TEST(ClockTest, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "2026-11-29", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-11-29T24:00:00Z", "2026-11-29T18:33:46",
        "2026-11-29T18:33:46Zx", "2026-11-29T18:33:46.Z", "3000-01-01T00:00:00Z", "2026-11-29T18:33:46+0200"}) {
    const auto time = parse_rfc3339(text);
    ASSERT_FALSE(time.has_value()) << text;
    EXPECT_EQ(time.error().code, Code::kInvalidArgument);
  }
}

TEST(ClockTest, EveryDayOfFourCenturiesSurvivesARoundTrip) {
  for (int64_t day = -100'000; day < 46'097; ++day) {
    const Time time{day * 86'400 * 1'000'000'000};
    ASSERT_EQ(parse_rfc3339(format_rfc3339(time)).value(), time) << day;
  }
}

TEST(ClockTest, ManualClockMovesOnlyByHand) {
  ManualClock clock(Time{5});
  EXPECT_EQ(clock.now(), Time{5});
  clock.advance(Duration::seconds(1));
  EXPECT_EQ(clock.now(), Time{1'000'000'005});
  EXPECT_EQ(clock.monotonic_nanos(), 1'000'000'005);
}

}  // namespace
}  // namespace heddle
