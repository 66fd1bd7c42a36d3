#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace heddle {
namespace {

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

TEST(JsonTest, WhatIsNestedDeeperThanAnyObjectIsNoJson) {
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth)).is_array());
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth + 1)).is_discarded());
  EXPECT_TRUE(parse_json(nested(1'000'000)).is_discarded());
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_TRUE(parse_json(objects + "1" + std::string(100'000, '}')).is_discarded());
}

TEST(JsonTest, BracketsInTextAreNotDepth) {
  const std::string brackets(size_t{2} * kMaxJsonDepth, '[');
  EXPECT_EQ(parse_json("\"\\\"" + brackets + "\"").get<std::string>(), "\"" + brackets);
  // Closed ones do not count either.
  std::string many = "[";
  for (int i = 0; i < 2 * kMaxJsonDepth; ++i) many += "[],";
  EXPECT_EQ(parse_json(many + "{}]").size(), 2 * kMaxJsonDepth + 1U);
}

TEST(JsonTest, WhatIsNoJsonIsDiscarded) {
  for (const char* text : {"", "{", "]", "\"", "\"\\", "nul", "{\"a\":1}}"}) {
    EXPECT_TRUE(parse_json(text).is_discarded()) << text;
  }
}

TEST(JsonTest, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(dump_json(nlohmann::json{{"a", "x\xe4\xb8"}}), "{\"a\":\"x\xef\xbf\xbd\"}");
  EXPECT_EQ(dump_json(nlohmann::json{{"a", 1}}, 2), "{\n  \"a\": 1\n}");
}

TEST(TextTest, ACutNeverLeavesHalfACharacter) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += "a\xe4\xb8\xad\xc3\xa9\xf0\x9f\x98\x80";
  for (size_t bytes = 0; bytes <= text.size() + 1; ++bytes) {
    const std::string got = cut_text(text, bytes);
    EXPECT_LE(got.size(), bytes);
    EXPECT_GT(got.size() + 4, std::min(bytes, text.size()));
    EXPECT_TRUE(text.starts_with(got));
    EXPECT_NO_THROW((void)nlohmann::json(got).dump()) << bytes;
  }
}

TEST(TextTest, WhatIsNotUtf8IsReplacedByteByByte) {
  EXPECT_EQ(valid_utf8("a\xe4\xb8z\xff"), "a\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd");
  EXPECT_EQ(valid_utf8("\xe4\xb8\xad\xf0\x9f\x98\x80"), "\xe4\xb8\xad\xf0\x9f\x98\x80");
  EXPECT_EQ(valid_utf8(""), "");
}

}  // namespace
}  // namespace heddle
