#include "dialects/selector.h"

#include <gtest/gtest.h>

namespace heddle::dialects {
namespace {

using Op = Selector::Op;

TEST(Selector, TextAndBack) {
  const std::vector<std::string> values = {"a", "b\"c", "\\", "é", "x]y", "t\n"};
  for (const Op op : {Op::kIn, Op::kPairIn, Op::kNotIn, Op::kStartsWithAny, Op::kContainsAny, Op::kContainsNone}) {
    for (const char* prefix : {"", "DCU-"}) {
      const bool lowered = op == Op::kContainsAny || op == Op::kContainsNone;
      const Selector selector{op, "model", values, "", lowered ? prefix : ""};
      const auto back = parse_selector(selector_text(selector));
      ASSERT_TRUE(back.has_value()) << selector_text(selector);
      EXPECT_EQ(*back, selector);
    }
  }
  const Selector equals{Op::kEquals, "type", {"card"}, "card", ""};
  EXPECT_EQ(selector_text(equals), R"(device.attributes["accelerator.heddle.dev"].?type.orValue("card") == "card")");
  EXPECT_EQ(parse_selector(selector_text(equals)), equals);
  EXPECT_EQ(
      selector_text({Op::kContainsNone, "model", {"a100"}, "", ""}),
      R"(!(has(device.attributes["accelerator.heddle.dev"].model) && ["a100"].exists(t, device.attributes["accelerator.heddle.dev"].model.lowerAscii().contains(t))))");
}

TEST(Selector, AnythingElseIsNotOurs) {
  for (const char* text :
       {"", "true", "!", "[", "[]", "[1]", "!(true)", "device.driver == \"x\"",
        R"(device.attributes["other.dev"].?type.orValue("card") == "card")",
        R"(device.attributes["accelerator.heddle.dev"].?type.orValue("card") == "card" )",
        R"(device.attributes["accelerator.heddle.dev"].?type.orValue("card") == "card" || true)",
        R"(device.attributes["accelerator.heddle.dev"].?a || true.orValue("") == "")", R"(["a"].exists(t, true))",
        R"(["a" , "b"].exists(t, device.attributes["accelerator.heddle.dev"].?m.orValue("").startsWith(t)))"}) {
    const auto parsed = parse_selector(text);
    // The attribute's name is checked by who knows the names.
    const bool plain = parsed && parsed->attribute.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string::npos;
    EXPECT_FALSE(plain) << text;
  }
}

}  // namespace
}  // namespace heddle::dialects
