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

TEST(QueueText, WhatNoQueueNamesIsInUnassigned) {
  const char* pods = R"({"items":[{"metadata":{"namespace":"n","name":"p"},"status":{"conditions":[
    {"type":"heddle.dev/Allocated","status":"False","reason":"Capacity","message":"no room; number 1 in queue unassigned"}]}}]})";
  const std::string text = queue_text(kQueues, pods, "unassigned", Output::kTable).value();
  EXPECT_THAT(text, HasSubstr("unassigned: work of namespaces that no queue names"));
  EXPECT_THAT(text, HasSubstr("unassigned  1         n/p  Capacity  no room\n"));
  const json out = json::parse(queue_text(kQueues, pods, "unassigned", Output::kJson).value());
  EXPECT_EQ(out["queues"].size(), 0U);
  EXPECT_EQ(out["pods"][0]["pod"], "n/p");
  EXPECT_THAT(queue_text(R"({"items":[]})", "", "unassigned", Output::kTable).value(),
              HasSubstr("There is no AcceleratorQueue: all work is in queue unassigned"));
}

// ESC and CSI, the latter as one character of the second set of controls.
TEST(QueueText, NothingOfATenantReachesTheTerminalAsAControl) {
  const char* pods = R"({"items":[{"metadata":{"namespace":"n","name":"p"},"status":{"conditions":[
    {"type":"heddle.dev/Allocated","status":"False","reason":"X","message":"a\u001b[2Jb\u009b2Jc\nd\u00e4; number 1 in queue a"}]}}]})";
  EXPECT_THAT(queue_text(kQueues, pods, "a", Output::kTable).value(), HasSubstr("a?[2Jb?2Jc?d\xC3\xA4\n"));
  const json out = json::parse(queue_text(kQueues, pods, "a", Output::kJson).value());
  EXPECT_EQ(out["pods"][0]["message"],
            "a\x1b[2Jb\xC2\x9b"
            "2Jc\nd\xC3\xA4");
}

}  // namespace
}  // namespace heddle::cli
