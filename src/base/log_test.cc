#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/unique_fd.h"

namespace heddle {
namespace {

std::string drain(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::read(fd, buffer.data(), buffer.size())) > 0) text.append(buffer.data(), static_cast<size_t>(got));
  return text;
}

TEST(LogTest, ALineIsOneJsonObjectWithTypedFields) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  const ManualClock clock(Time{1'000'000'000});
  const Logger log("test", LogLevel::kInfo, clock, writer.get());
  log.debug("not shown");
  log.info("hello \"world\"\n", {{"name", "a\x01\xff"},
                                 {"count", size_t{3}},
                                 {"large", std::numeric_limits<int64_t>::max()},
                                 {"flag", true},
                                 {"ratio", 0.5},
                                 {"none", std::numeric_limits<double>::infinity()}});
  const std::string text = drain(reader.get());
  ASSERT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  const auto line = nlohmann::json::parse(text);
  EXPECT_EQ(line["time"], "1970-01-01T00:00:01.000000Z");
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["program"], "test");
  EXPECT_EQ(line["message"], "hello \"world\"\n");
  EXPECT_EQ(line["name"], "a\x01\xef\xbf\xbd");
  EXPECT_EQ(line["count"], 3);
  EXPECT_EQ(line["large"], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(line["flag"], true);
  EXPECT_EQ(line["ratio"], 0.5);
  EXPECT_EQ(line["none"], "inf");
}

TEST(LogTest, LevelsHaveNames) {
  EXPECT_EQ(parse_log_level("warning").value(), LogLevel::kWarning);
  EXPECT_EQ(parse_log_level("loud").error().code, Code::kInvalidArgument);
}

TEST(JsonTextTest, AnyBytesGiveTextThatParsesBack) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string bytes = {static_cast<char>(first), static_cast<char>(second), 'x'};
      std::string json;
      append_json_string(json, bytes);
      const std::string back = nlohmann::json::parse(json).get<std::string>();
      if (first < 0x80 && second < 0x80) {
        EXPECT_EQ(back, bytes);
      }
      EXPECT_EQ(back.back(), 'x');
    }
  }
  std::string json;
  append_json_string(json, "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80 \xed\xa0\x80");
  EXPECT_EQ(nlohmann::json::parse(json).get<std::string>(),
            "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80 \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace heddle
