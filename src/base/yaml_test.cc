#include "base/yaml.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(Yaml, DocumentsWithoutTrouble) {
  for (const char* text : {"", "\n", "# only a comment\n", "a: b", "{a: b}", "---\na: b\n---\n- c\n...\n",
                           "--- \n---\n---\n", "a: &x [1]\nb: *x\n", "{a: b} # c\n"}) {
    EXPECT_FALSE(yaml_trouble(text)) << text;
  }
}

// yaml-cpp 0.7 never comes to the end of these.
TEST(Yaml, TextAfterTheEndOfADocumentIsRefused) {
  for (const char* text : {"{a: b}, c", "{a: b}]", "[a], b", "[1]}", "a: b\n---\n{c: d}, e"}) {
    const auto trouble = yaml_trouble(text);
    ASSERT_TRUE(trouble) << text;
    EXPECT_GE(trouble->line, 1);
    EXPECT_FALSE(trouble->what.empty());
  }
  const auto trouble = yaml_trouble("a: b\n---\n{c: d}, e");
  EXPECT_EQ(trouble->line, 3);
  EXPECT_EQ(trouble->what, "nothing may follow the end of a document but '---'");
}

TEST(Yaml, WhatIsNoYamlIsRefusedWithItsPlace) {
  const auto trouble = yaml_trouble("a: b\nc: [1\n");
  ASSERT_TRUE(trouble);
  EXPECT_GE(trouble->line, 2);
  EXPECT_TRUE(yaml_trouble(std::string(100'000, '['))) << "and not by the end of the stack";
}

}  // namespace
}  // namespace heddle
