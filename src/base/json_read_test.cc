#include "base/json_read.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace heddle {
namespace {

TEST(JsonRead, IsEmptyForWhatIsNoText) {
  const auto object = nlohmann::json::parse(R"({"a": "x", "b": 1, "c": null, "d": {"a": "y"}})");
  EXPECT_EQ(json_text(object, "a"), "x");
  for (const char* name : {"b", "c", "d", "e"}) EXPECT_EQ(json_text(object, name), "") << name;
  for (const char* text : {R"("a")", "[]", "null", "1"})
    EXPECT_EQ(json_text(nlohmann::json::parse(text), "a"), "") << text;
}

}  // namespace
}  // namespace heddle
