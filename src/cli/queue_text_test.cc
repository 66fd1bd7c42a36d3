#include "cli/queue_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace heddle::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kQueues = R"({"items":[
 {"metadata":{"name":"a"},"spec":{"parent":"top","weight":3},
  "status":{"running":2,"waiting":2,"usage":[{"name":"T4 devices","used":"2","entitled":"1500m","guaranteed":"2","limit":"4"},
    {"name":"device memory","used":"32Gi"}],
   "conditions":[{"type":"InForce","status":"True"}]}},
 {"metadata":{"name":"bad"},"spec":{"parent":"nowhere"},
  "status":{"conditions":[{"type":"InForce","status":"False","message":"spec.parent: there is no queue nowhere"}]}},
 {"metadata":{"name":"r1"},"spec":{"parent":"r2"}},
 {"metadata":{"name":"r2"},"spec":{"parent":"r1"}},
 {"metadata":{"name":"top"},"spec":{}}]})";

constexpr const char* kPods = R"({"items":[
 {"metadata":{"namespace":"n","name":"second"},"status":{"conditions":[{"type":"heddle.dev/Allocated","status":"False",
   "reason":"Limit","message":"queue a: the limit is 4; fits when 1 ends; number 2 in queue a"}]}},
 {"metadata":{"namespace":"n","name":"first"},"status":{"conditions":[{"type":"heddle.dev/Allocated","status":"False",
   "reason":"Capacity","message":"no room; number 1 in queue a"}]}},
 {"metadata":{"namespace":"n","name":"late"},"status":{"conditions":[{"type":"heddle.dev/Allocated","status":"False",
   "reason":"Limit","message":"the limit; behind more than 20 others in queue a"}]}},
 {"metadata":{"namespace":"n","name":"done"},"status":{"conditions":[{"type":"heddle.dev/Allocated","status":"True"}]}},
 {"metadata":{"namespace":"n","name":"other"},"status":{}}]})";

TEST(QueueText, ShowsTheTreeAndWhatIsWrongWithIt) {
  const std::string text = queue_text(kQueues, kPods, "", Output::kTable).value();
  EXPECT_THAT(
      text, HasSubstr("QUEUE  WEIGHT  RUNNING  WAITING  COUNTED        USED  ENTITLED  GUARANTEED  LIMIT  IN FORCE\n"));
  EXPECT_THAT(
      text,
      HasSubstr("top    1       0        0        -              -     -         -           -      not looked at yet\n"
                "  a    3       2        2        T4 devices     2     1500m     2           4      yes\n"
                "                                 device memory  32Gi  -         -           -\n"));
  EXPECT_THAT(text, HasSubstr("queue bad: spec.parent: there is no queue nowhere\n"));
  EXPECT_THAT(text, HasSubstr("r1 ")) << "a ring is shown, too";
  EXPECT_THAT(text, HasSubstr("  r2 "));
}

TEST(QueueText, OneQueueComesWithWhatWaitsInOrder) {
  const std::string text = queue_text(kQueues, kPods, "top", Output::kTable).value();
  EXPECT_EQ(text.find("bad"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("QUEUE  POSITION  POD       REASON    WHY\n"
                              "a      1         n/first   Capacity  no room\n"
                              "a      2         n/second  Limit     queue a: the limit is 4; fits when 1 ends\n"
                              "a      later     n/late    Limit     the limit\n"));
  EXPECT_THAT(queue_text(kQueues, "", "top", Output::kTable).value(), HasSubstr("Nothing waits."));
}

TEST(QueueText, JsonHasTheSame) {
  const json out = json::parse(queue_text(kQueues, kPods, "a", Output::kJson).value());
  ASSERT_EQ(out["queues"].size(), 1U);
  EXPECT_EQ(out["queues"][0]["usage"][0]["entitled"], "1500m");
  EXPECT_EQ(out["queues"][0]["inForce"], true);
  EXPECT_EQ(out["pods"][1]["position"], 2);
  EXPECT_TRUE(out["pods"][2]["position"].is_null());
}

TEST(QueueText, WhatIsNotThereIsSaid) {
  EXPECT_EQ(queue_text(kQueues, "", "x", Output::kTable).error().message,
            "there is no queue x; there are a, bad, r1, r2, top");
  EXPECT_THAT(queue_text(R"({"items":[]})", "", "", Output::kTable).value(), HasSubstr("There is no AcceleratorQueue"));
  EXPECT_FALSE(queue_text("x", "", "", Output::kTable).has_value());
}

}  // namespace
}  // namespace heddle::cli
