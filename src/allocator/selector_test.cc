#include "allocator/selector.h"

#include <gtest/gtest.h>

namespace heddle::allocator {
namespace {

model::Device card() {
  model::Device device;
  device.name = "gpu-0";
  device.attributes = {{"vendor", std::string("nvidia")},
                       {"model", std::string("H100 \"SXM\"")},
                       {"index", int64_t{3}},
                       {"healthy", true},
                       {"driverVersion", model::Version{"550.1.0"}},
                       {"resource.kubernetes.io/numaNode", int64_t{1}}};
  return device;
}

TEST(SelectorTest, SupportedForms) {
  struct Case {
    const char* expression;
    bool matches;
  };
  const Case cases[] = {
      {R"(device.driver == "d")", true},
      {R"(device.driver == 'd')", true},
      {R"(device.driver in ["x", "d"])", true},
      {R"(device.driver in [])", false},
      {R"(device.driver == "D")", false},
      {R"(device.driver == "d" && device.attributes["d"].vendor == "nvidia")", true},
      {R"(device.attributes["d"].vendor == "amd" && device.driver == "d")", false},
      {"  device . attributes [ \"d\" ] . vendor\n == \"nvidia\"  ", true},
      {R"(device.attributes["d"].model == "H100 \"SXM\"")", true},
      {R"(device.attributes["d"].model == 'H100 "SXM"')", true},
      {R"(device.attributes["d"].index == 3)", true},
      {R"(device.attributes["d"].index == -3)", false},
      {R"(device.attributes["d"].index in [1, 2, 3])", true},
      {R"(device.attributes["d"].index == "3")", false},
      {R"(device.attributes["d"].healthy == true)", true},
      {R"(device.attributes["d"].healthy in [false])", false},
      {R"(device.attributes["resource.kubernetes.io"].numaNode == 1)", true},
      {R"(device.attributes["d"].numaNode == 1)", false},
      {R"(device.attributes["other"].vendor == "nvidia")", false},
      {R"(device.attributes["d"].missing == "x")", false},
      {R"(device.attributes["d"].driverVersion == "550.1.0")", false},
  };
  for (const Case& test : cases) {
    const auto selector = Selector::compile(test.expression);
    ASSERT_TRUE(selector.has_value()) << test.expression << ": " << selector.error().text();
    EXPECT_EQ(selector->matches("d", card()), test.matches) << test.expression;
  }
}

TEST(SelectorTest, EverythingElseIsRefused) {
  const char* cases[] = {
      "",
      "  ",
      "true",
      "device",
      R"(device.driver != "d")",
      R"(device.driver == "d" || device.driver == "e")",
      R"(device.driver == "d" &&)",
      R"(device.driver == "d" device.driver == "d")",
      R"(device.driver == "d)",
      R"(device.driver == 3)",
      R"(device.drivers == "d")",
      R"(device.driver == "\x64")",
      R"(device.attributes["d"]["vendor"] == "x")",
      R"(device.attributes["d"].index > 1)",
      R"(device.attributes["d"].index == 1.5)",
      R"(device.attributes["d"].index == 1u)",
      R"(device.attributes["d"].index == 0x10)",
      R"(device.attributes["d"].index == 99999999999999999999)",
      R"(device.attributes["d"].index in [1,])",
      R"(device.attributes["d"].index index [1])",
      R"(device.attributes[""].index == 1)",
      R"(device.capacity["d"].memory == 1)",
      R"(!(device.driver == "d"))",
      R"(device.driver.startsWith("d"))",
  };
  for (const char* expression : cases) {
    const auto selector = Selector::compile(expression);
    ASSERT_FALSE(selector.has_value()) << expression;
    EXPECT_TRUE(selector.error().code == Code::kUnsupported || selector.error().code == Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace heddle::allocator
