#include "base/key_text.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace heddle {
namespace {

std::string key_of(const std::vector<std::string>& parts) {
  std::string key;
  append_parts(key, parts);
  return key;
}

TEST(KeyTextTest, DifferentListsGiveDifferentKeys) {
  // Every list of up to three parts of up to two characters, among them those that keys are written with.
  std::vector<std::string> texts = {""};
  for (const char a : std::string("1:;,x")) {
    texts.emplace_back(1, a);
    for (const char b : std::string("1:;,x")) texts.push_back({a, b});
  }
  std::map<std::string, std::vector<std::string>> seen;
  const auto see = [&](const std::vector<std::string>& parts) {
    const auto [at, added] = seen.emplace(key_of(parts), parts);
    EXPECT_TRUE(added) << at->first;
  };
  see({});
  for (const std::string& a : texts) {
    see({a});
    for (const std::string& b : texts) {
      see({a, b});
      for (const std::string& c : texts) see({a, b, c});
    }
  }
  EXPECT_EQ(seen.size(), 1U + 31 + 31 * 31 + 31 * 31 * 31);
}

TEST(KeyTextTest, ANumberIsNotTheTextOfIt) {
  std::string number;
  append_part(number, int64_t{12});
  std::string text;
  append_part(text, std::string_view("12"));
  EXPECT_NE(number, text);
}

}  // namespace
}  // namespace heddle
