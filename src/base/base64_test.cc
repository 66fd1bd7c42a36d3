#include "base/base64.h"

#include <gtest/gtest.h>

#include <string>

namespace heddle {
namespace {

TEST(Base64, GoesThereAndBack) {
  EXPECT_EQ(base64_encode("fooba"), "Zm9vYmE=");
  for (const std::string& text :
       {std::string(), std::string("f"), std::string("fo"), std::string("foo"), std::string("\0\xff\x80 ", 4)}) {
    const auto back = base64_decode(base64_encode(text));
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(*back, text);
  }
}

TEST(Base64, WhatIsNoneIsNothing) {
  for (const char* bad : {"a", "abc", "a===", "ab!=", "QUJDR"}) EXPECT_FALSE(base64_decode(bad).has_value()) << bad;
}

}  // namespace
}  // namespace heddle
