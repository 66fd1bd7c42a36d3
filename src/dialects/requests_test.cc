#include <gtest/gtest.h>

#include "dialects/translate.h"

namespace heddle::dialects {
namespace {

constexpr const char* kGood =
    R"([{"container":"main","claimRef":"heddle-main","claimName":"p-main-0123456789","spec":{"devices":{"requests":[{"name":"gpu",)"
    R"("exactly":{"deviceClassName":"heddle-nvidia","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"device.attributes[\"accelerator.heddle.dev\"].?type.orValue(\"card\") == \"card\""}}],"capacity":{"requests":{"memory":"3000Mi","cores":"30"}}}}]}}}])";

TEST(Requests, RoundTrip) {
  const auto requests = parse_requests(kGood);
  ASSERT_TRUE(requests.has_value()) << requests.error().text();
  const auto again = parse_requests(requests_json(*requests));
  ASSERT_TRUE(again.has_value()) << again.error().text();
  ASSERT_EQ(again->size(), 1U);
  EXPECT_EQ(again->front().spec, requests->front().spec);
  EXPECT_EQ(requests_json(*again), requests_json(*requests));
}

std::string with(std::string_view from, std::string_view to) {
  std::string text = kGood;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Requests, WhatNoTranslationWritesIsRefused) {
  const std::string bad[] = {
      "",
      "{}",
      "[]",
      "[1]",
      R"([{"container":"main"}])",
      with("\"main\"", "\"Main\""),
      with("heddle-nvidia", "gpu.nvidia.com"),
      with("\"count\":1", "\"count\":0"),
      with("\"count\":1", "\"count\":33"),
      with("\"count\":1", "\"count\":1,\"adminAccess\":true"),
      with("\"count\":1", "\"count\":1,\"tolerations\":[{\"operator\":\"Exists\"}]"),
      with("\"selectors\":[{", "\"selectors\":[{\"cel\":{\"expression\":\"true\"}},{"),
      with("\"claimRef\"", "\"roundings\":[1],\"claimRef\""),
      with("\"claimRef\"", "\"roundings\":\"x\",\"claimRef\""),
      with("\"claimRef\"", "\"roundings\":[\"" + std::string(600, 'x') + "\"],\"claimRef\""),
      with("ExactCount", "All"),
      with("\"cores\":\"30\"", "\"cores\":\"101\""),
      with("\"cores\":\"30\"", "\"other\":\"1\""),
      with("3000Mi", "0"),
      with("3000Mi", "-1"),
      with("3000Mi", "3145728001"),  // no whole MiB
      with("3000Mi", "2147483648Mi"),
      with("\"count\":1", "\"count\":2"),  // two shares, perhaps of one card
      with("\"name\":\"gpu\"", "\"name\":\"Card\""),
      with("\"devices\":{",
           "\"devices\":{\"config\":[{\"requests\":[\"gpu\"],\"opaque\":{\"driver\":"
           "\"accelerator.heddle.dev\",\"parameters\":{\"apiVersion\":\"heddle.dev/v1alpha1\",\"kind\":"
           "\"ShareConfig\",\"memoryPercent\":50}}}],"),  // memory and a percentage
      with("\"devices\":{", "\"devices\":{\"config\":[{\"opaque\":{\"driver\":\"x\",\"parameters\":{}}}],"),
      with("\"devices\":{", "\"devices\":{\"constraints\":[{\"matchAttribute\":\"a/b\"}],"),
      // Deep enough to exhaust the stack of a recursive writer.
      with("\"devices\":{", "\"x\":" + std::string(60'000, '[') + std::string(60'000, ']') + ",\"devices\":{"),
  };
  for (const std::string& text : bad) EXPECT_FALSE(parse_requests(text).has_value()) << text;
}

TEST(Requests, OneClaimForTwoContainersMustBeTheSameClaim) {
  std::string second = std::string(kGood).substr(1);
  second.replace(second.find("\"main\""), 6, "\"init\"");
  std::string both = kGood;
  both.back() = ',';
  both += second;
  EXPECT_TRUE(parse_requests(both).has_value());
  std::string other = both;
  other.replace(other.rfind("3000Mi"), 6, "4000Mi");
  EXPECT_FALSE(parse_requests(other).has_value());
  std::string renamed = both;
  renamed.replace(renamed.rfind("p-main"), 6, "q-main");
  EXPECT_FALSE(parse_requests(renamed).has_value());
}

}  // namespace
}  // namespace heddle::dialects
