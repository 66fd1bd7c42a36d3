#include "catalog/reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle::catalog {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::unique_ptr<Tree> parsed(std::string_view text) {
  auto tree = Tree::parse(text, "x.yaml");
  EXPECT_TRUE(tree) << tree.error().text();
  return tree ? std::move(*tree) : nullptr;
}

TEST(Reader, ReadsEveryKindOfValue) {
  const auto tree = parsed(
      "name: a\n"
      "number: -7\n"
      "size: 40960Mi\n"
      "on: true\n"
      "one: x\n"
      "many: [x, 'y']\n"
      "map: {a: 1, b: 2}\n");
  const Value root = tree->root();
  EXPECT_EQ(root.required("name").text(), "a");
  EXPECT_EQ(root["number"].integer(), -7);
  EXPECT_EQ(root["size"].bytes(), int64_t{40960} << 20);
  EXPECT_EQ(root["on"].flag(), true);
  EXPECT_THAT(root["one"].texts(), ElementsAre("x"));
  EXPECT_THAT(root["many"].texts(), ElementsAre("x", "y"));
  EXPECT_THAT(root["map"].integer_map(), ElementsAre(Pair("a", 1), Pair("b", 2)));
  EXPECT_FALSE(root["absent"].present());
  EXPECT_FALSE(root["absent"]["deeper"].integer());
  EXPECT_TRUE(tree->finish());
}

TEST(Reader, NamesFileLineFieldAndNearestKeyOfAllTroublesAtOnce) {
  const auto tree = parsed(
      "models:\n"
      "  - name: a\n"
      "    memmory: 1Gi\n"
      "  - memory: lots\n"
      "count: 3.5\n"
      "zzzzzzzz: 1\n");
  const Value root = tree->root();
  root["models"].each([](const Value& model) {
    (void)model.required("name").text();
    (void)model["memory"].bytes();
  });
  (void)root["count"].integer();
  const auto done = tree->finish();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kInvalidArgument);
  EXPECT_EQ(done.error().text(),
            "x.yaml:3: models[0].memmory: is not a known key; did you mean 'memory'?\n"
            "x.yaml:4: models[1].name: is missing\n"
            "x.yaml:4: models[1].memory: must be a number of bytes, such as 40960Mi\n"
            "x.yaml:5: count: must be a whole number within 64 bits\n"
            "x.yaml:6: zzzzzzzz: is not a known key");
}

TEST(Reader, RefusesValuesOfAnotherType) {
  struct Case {
    const char* text;
    void (*read)(const Value&);
    const char* said;
  };
  const Case cases[] = {
      {"a: [1]", [](const Value& r) { (void)r["a"].text(); }, "x.yaml:1: a: must be a text, not a list"},
      {"a: ''", [](const Value& r) { (void)r["a"].text(); }, "a: must not be empty"},
      {"a: '1'", [](const Value& r) { (void)r["a"].integer(); }, "a: must be a whole number"},
      {"a:", [](const Value& r) { (void)r["a"].text(); }, "x.yaml:1: a: has no value: write one, or leave it out"},
      {"a: ~", [](const Value& r) { (void)r["a"].integer(); }, "x.yaml:1: a: has no value"},
      {"a: [x, null]", [](const Value& r) { (void)r["a"].texts(); }, "x.yaml:1: a[1]: has no value"},
      {"a: {b: ~, c: 1}", [](const Value& r) { (void)r["a"].integer_map(); }, "x.yaml:1: a.b: has no value"},
      {"a: 910", [](const Value& r) { (void)r["a"].text(); }, "a: must be a text: write it in quotes, \"910\""},
      {"a: -1.5", [](const Value& r) { (void)r["a"].text(); }, "write it in quotes, \"-1.5\""},
      {"a: 1e3", [](const Value& r) { (void)r["a"].text(); }, "write it in quotes, \"1e3\""},
      {"a: .5", [](const Value& r) { (void)r["a"].text(); }, "write it in quotes, \".5\""},
      {"a: 0x1F", [](const Value& r) { (void)r["a"].text(); }, "write it in quotes, \"0x1F\""},
      {"a: .inf", [](const Value& r) { (void)r["a"].text(); }, "write it in quotes, \".inf\""},
      {"a: True", [](const Value& r) { (void)r["a"].text(); }, "write it in quotes, \"True\""},
      {"a: [x, 1]", [](const Value& r) { (void)r["a"].texts(); }, "a[1]: must be a text"},
      {"a: 9223372036854775808", [](const Value& r) { (void)r["a"].integer(); }, "a: must be a whole number"},
      {"a: 7", [](const Value& r) { (void)r["a"].integer_in(1, 6); }, "a: must be within 1 and 6, not 7"},
      {"a: 'true'", [](const Value& r) { (void)r["a"].flag(); }, "a: must be true or false"},
      {"a: -1Mi", [](const Value& r) { (void)r["a"].bytes(); }, "a: must be a number of bytes"},
      {"a: 100m", [](const Value& r) { (void)r["a"].bytes(); }, "a: must be a number of bytes"},
      {"a: x", [](const Value& r) { r["a"].each([](const Value&) {}); }, "a: must be a list, not a text"},
      {"a: x", [](const Value& r) { (void)r["a"].integer_map(); }, "a: must be a map, not a text"},
      {"a: {b: 1}", [](const Value& r) { (void)r["a"].texts(); }, "a: must be a list, not a map"},
      {"a: x", [](const Value& r) { (void)r["a"]["b"]; }, "a: must be a map"},
      {"'a b': x", [](const Value& r) { r["a b"].wrong("hm"); }, "[\"a b\"]: hm"},
  };
  for (const Case& c : cases) {
    const auto tree = parsed(c.text);
    c.read(tree->root());
    const auto done = tree->finish();
    ASSERT_FALSE(done) << c.text;
    EXPECT_THAT(done.error().text(), HasSubstr(c.said)) << c.text;
  }
}

TEST(Reader, TakesTextsThatOnlyLookLikeNumbers) {
  for (const char* text :
       {"1g.5gb", "13.0.1", "inf", "nan", "0x", "0xg", "-a", "+a", "'910'", "\"true\"", "tRue", "12 GB"}) {
    const auto tree = parsed(fmt::format("a: {}", text));
    EXPECT_NE(tree->root()["a"].text(), "") << text;
    EXPECT_TRUE(tree->finish()) << text;
  }
}

TEST(Reader, RefusesWhatIsNotOneMap) {
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += "{a: ";
  deep += "1" + std::string(40, '}');
  std::string bomb = "a0: &a0 [x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += fmt::format("a{0}: &a{0} [{1}, {1}, {1}]\n", i, last);
  }
  const std::pair<std::string, const char*> cases[] = {
      {"", "x.yaml:1: must be one YAML map"},
      {"- a", "x.yaml:1: must be one YAML map"},
      {"a: 1\n---\nb: 2", "must be one YAML map"},
      {"a: 1\nb: 2\na: 3", "x.yaml:3: the key 'a' is there twice"},
      {"a: [", "x.yaml:1: "},
      {"\n{a: b}, c", "x.yaml:2: nothing may follow the end of a document"},  // yaml-cpp 0.7 alone reads it for ever
      {"? [a]\n: 1", "a key that is not a text"},
      {deep, "nested more than 32 levels deep"},
      {bomb, "more than a million values"},
  };
  for (const auto& [text, said] : cases) {
    const auto tree = Tree::parse(text, "x.yaml");
    ASSERT_FALSE(tree) << text;
    EXPECT_EQ(tree.error().code, Code::kInvalidArgument);
    EXPECT_THAT(tree.error().text(), HasSubstr(said)) << text;
  }
}

TEST(Reader, FindsTheNearestWord) {
  EXPECT_EQ(nearest("memmory", {"name", "memory", "source"}), "memory");
  EXPECT_EQ(nearest("zzzzzz", {"name", "memory"}), "");
  EXPECT_EQ(nearest("Nvidia", {"nvidia", "amd"}), "nvidia");
  EXPECT_EQ(nearest("x", {}), "");
}

}  // namespace
}  // namespace heddle::catalog
