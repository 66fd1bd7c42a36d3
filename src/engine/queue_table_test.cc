// Which objects are in force, which queue work belongs to, and what a bad object is told.
#include "engine/queue_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace heddle::engine {
namespace {

using ::testing::HasSubstr;

class QueueTableTest : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& spec, const std::string& in_force = "null") {
    auto object = read_queue_object(fmt::format(
        R"({{"metadata":{{"name":"{}","uid":"u-{}","creationTimestamp":"2027-01-01T00:00:{:02}Z"}},"spec":{},"status":{{"inForce":{}}}}})",
        name, name, made_++, spec, in_force));
    ASSERT_TRUE(object.has_value()) << object.error().text();
    table_.upsert(std::move(*object));
    table_.settle();
  }
  void put_namespace(const std::string& name, std::map<std::string, std::string> labels) {
    model::Namespace name_space;
    name_space.meta.name = name;
    name_space.meta.labels = std::move(labels);
    table_.upsert(name_space);
  }
  [[nodiscard]] std::string fault(const std::string& name) const {
    const QueueTable::Fault* fault = table_.fault_of_queue(name);
    return fault == nullptr ? "" : fault->text();
  }
  [[nodiscard]] std::string queue_of(const std::string& name_space, const std::string& label = "") const {
    const auto queue = table_.queue_of(name_space, label);
    return queue ? *queue : queue.error().text();
  }
  static std::vector<FleetPart> fleet(const std::string&) {
    return {{"n1", "nvidia", "H100", 8, int64_t{640} << 30, 800, 8},
            {"n2", "nvidia", "T4", 3, int64_t{48} << 30, 300, 3}};
  }
  QueueTable table_;
  int made_ = 0;
};

TEST_F(QueueTableTest, WhatTheFleetHasIsTheGuaranteeOfTheRoot) {
  put("a", R"({"quotas":[{"model":"H100","guaranteed":4},{"counts":"Boxes","boxDevices":8,"limit":1},
                         {"counts":"Memory","limit":"1Ti"},{"counts":"Cores","model":"T4","limit":100}]})");
  const auto config = table_.config(fleet);
  ASSERT_TRUE(queueing::Queues::make(config).has_value());
  EXPECT_EQ(config.queues.front().name, kRootQueue);
  const auto& root = config.queues.front().quotas;
  EXPECT_EQ(root.at("H100 devices").guaranteed, 8000);
  EXPECT_EQ(root.at("boxes of 8 devices").guaranteed, 1);
  EXPECT_EQ(root.at("device memory").guaranteed, int64_t{688} << 30);
  EXPECT_EQ(root.at("T4 device compute").guaranteed, 300);
}

TEST_F(QueueTableTest, DevicesThatAreMissingBreakNoGuarantee) {
  put("a", R"({"quotas":[{"model":"H100","guaranteed":6}]})");
  put("b", R"({"quotas":[{"model":"H100","guaranteed":6}]})");
  EXPECT_EQ(fault("a") + fault("b"), "");
  const auto config = table_.config([](const std::string&) { return std::vector<FleetPart>(); });
  const auto made = queueing::Queues::make(config);
  ASSERT_TRUE(made.has_value()) << made.error().text();
}

TEST_F(QueueTableTest, NamespacesAndLabelsFindTheirQueue) {
  put_namespace("red-1", {{"team", "red"}});
  put_namespace("plain", {});
  put("top", R"({})");
  put("red", R"({"parent":"top","namespaceSelector":{"matchLabels":{"team":"red"}}})");
  put("special", R"({"parent":"top","namespaces":["red-1","plain"]})");
  EXPECT_EQ(queue_of("red-1"), "special") << "by name before by label";
  EXPECT_EQ(queue_of("red-1", "red"), "red");
  EXPECT_EQ(queue_of("elsewhere"), "unassigned");
  EXPECT_THAT(queue_of("plain", "red"), HasSubstr("queue red takes no work of namespace plain: write special"));
  EXPECT_THAT(queue_of("plain", "top"), HasSubstr("queue top has queues below it: write special"));
  EXPECT_THAT(queue_of("elsewhere", "blue"), HasSubstr("there is no queue blue: leave the label out"));
}

TEST_F(QueueTableTest, AFaultNamesFieldAndFixAndLeavesTheLastTreeInForce) {
  put("top", R"({"quotas":[{"guaranteed":4}]})");
  put("a", R"({"parent":"top","quotas":[{"guaranteed":3}],"namespaces":["n"]})");
  EXPECT_EQ(table_.in_force().size(), 2U);
  const uint64_t good = table_.version();
  struct Case {
    const char* name;
    const char* spec;
    const char* text;
  };
  const Case cases[] = {
      {"b", R"({"parent":"top","quotas":[{"vendor":"x","limit":9},{"guaranteed":2}]})",
       "spec.quotas[1].guaranteed: is 2 devices, and queue top is guaranteed 4 devices, of which the others below it "
       "have 3 devices: lower it to 1 devices, or raise that of top to 5 devices"},
      {"b", R"({"parent":"nowhere"})", "spec.parent: there is no queue nowhere: create it, or name another"},
      {"top", R"({"parent":"a","quotas":[{"guaranteed":4}]})",
       "spec.parent: its parents form a ring: name a queue that is not below this one"},
      {"top", R"({"namespaces":["m"],"quotas":[{"guaranteed":4}]})",
       "spec.namespaces: there are queues below this one (a): name them there"},
      {"b", R"({"quotas":[{"limit":-1}]})", "spec.quotas[0].limit: must not be negative"},
      {"b", R"({"quotas":[{"model":"T4","limit":1},{"model":"T4","limit":2}]})",
       "spec.quotas[1]: counts the same as an entry before it: write one entry for T4 devices"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    table_.remove_queue("b");
    put("top", R"({"quotas":[{"guaranteed":4}]})");
    ASSERT_EQ(fault("top") + fault("a"), "");
    put(one.name, one.spec);
    EXPECT_EQ(fault(one.name), one.text);
    EXPECT_EQ(queue_of("n"), "a");
    EXPECT_FALSE(table_.in_force().contains("b"));
    EXPECT_EQ(table_.in_force().at("top").parent, "");
  }
  EXPECT_GT(table_.version(), good);
}

TEST_F(QueueTableTest, AfterARestartTheLastGoodSpecsCount) {
  put("a", R"({"parent":"nowhere","namespaces":["n"]})", R"({"namespaces":["n"],"weight":7})");
  EXPECT_THAT(fault("a"), HasSubstr("there is no queue nowhere"));
  ASSERT_TRUE(table_.in_force().contains("a"));
  EXPECT_EQ(table_.in_force().at("a").weight, 7);
}

TEST_F(QueueTableTest, WhereNothingIsRememberedTheFaultyAndThoseBelowAreLeftOut) {
  put("b", R"({"parent":"bad","namespaces":["n"]})");
  put("c", R"({"namespaces":["m"]})");
  EXPECT_EQ(queue_of("n"), "unassigned");
  EXPECT_EQ(queue_of("m"), "c");
}

TEST_F(QueueTableTest, BoxesAreTheLargestThatDivideWholeDevices) {
  put("a",
      R"({"quotas":[{"counts":"Boxes","boxDevices":4,"limit":1},{"counts":"Boxes","boxDevices":8,"model":"H100","limit":1}]})");
  const auto boxes = [&](int64_t devices, const std::string& model, int64_t cores) {
    queueing::Portion portion;
    portion.model = model;
    portion.milli_devices = devices * 1000;
    portion.cores = cores;
    table_.fill_boxes(portion);
    return portion.shape + "x" + std::to_string(portion.boxes);
  };
  EXPECT_EQ(boxes(8, "H100", 800), "8x1");
  EXPECT_EQ(boxes(8, "", 800), "4x2") << "it may be another model";
  EXPECT_EQ(boxes(12, "H100", 1200), "4x3");
  EXPECT_EQ(boxes(3, "H100", 300), "x0");
  EXPECT_EQ(boxes(8, "H100", 400), "x0") << "shares of devices are no box";
}

// So many members of eight devices each: "1 of 32 in one linkDomain;".
std::string wide_boxes(const QueueTable& table, int members, const std::string& model, const GangLevels& gang,
                       int64_t cores = 800) {
  queueing::Portion member;
  member.model = model;
  member.milli_devices = 8000;
  member.cores = cores;
  std::vector<queueing::Portion> portions(static_cast<size_t>(members), member);
  for (queueing::Portion& portion : portions) table.fill_boxes(portion);
  table.fill_wide_boxes(portions, gang, default_topology());
  std::map<std::string, int64_t> sums;
  for (const queueing::Portion& portion : portions) sums[portion.shape] += portion.boxes;
  std::string text;
  for (const auto& [shape, count] : sums) text += fmt::format("{} of {};", count, shape);
  return text;
}

constexpr const char* kWideBoxes = R"({"quotas":[{"counts":"Boxes","boxDevices":8,"limit":1},
    {"counts":"Boxes","boxDevices":32,"boxLevel":"linkDomain","limit":1},
    {"counts":"Boxes","boxDevices":64,"boxLevel":"linkDomain","model":"H100","limit":1},
    {"counts":"Boxes","boxDevices":16,"boxLevel":"example.com/hall","limit":1},
    {"counts":"Boxes","boxShape":"4x4x4","limit":1}]})";

TEST_F(QueueTableTest, AGangTakesTheLargestWideBoxAsOneUnit) {
  put("a", kWideBoxes);
  const auto boxes = [&](int members, const std::string& model, const std::string& required, int64_t cores = 800) {
    return wide_boxes(table_, members, model, {.required = required}, cores);
  };
  EXPECT_EQ(boxes(4, "H100", "linkDomain"), "1 of 32 in one linkDomain;");
  EXPECT_EQ(boxes(8, "H100", "linkDomain"), "1 of 64 in one linkDomain;");
  EXPECT_EQ(boxes(8, "B200", "linkDomain"), "2 of 32 in one linkDomain;");
  EXPECT_EQ(boxes(3, "H100", "linkDomain"), "3 of 8;") << "24 devices are no box of 32";
  EXPECT_EQ(boxes(4, "H100", ""), "4 of 8;") << "they may lie anywhere";
  EXPECT_EQ(boxes(4, "H100", "rack"), "4 of 8;");
  EXPECT_EQ(boxes(4, "H100", "linkDomain", 400), "0 of ;") << "shares are no box";
  EXPECT_EQ(boxes(8, "", "slice-4x4x4"), "1 of 4x4x4;");
  EXPECT_EQ(boxes(16, "", "slice-4x8x4"), "2 of 4x4x4;") << "it is cut into two";
  EXPECT_EQ(boxes(8, "", "slice-2x4x8"), "8 of 8;") << "as many chips, but in no 4x4x4";
  EXPECT_EQ(boxes(7, "", "slice-4x4x4"), "7 of 8;") << "a host is missing";
  EXPECT_EQ(boxes(4, "", "nvidia.com/gpu.clique"), "1 of 32 in one linkDomain;") << "the label of that level";
  EXPECT_EQ(boxes(4, "", "example.com/hall"), "2 of 16 in one example.com/hall;") << "a label that is no level's";
}

TEST_F(QueueTableTest, SegmentsTakeWideBoxesToo) {
  put("a", kWideBoxes);
  const auto boxes = [&](int members, int64_t segment, const std::string& level = "linkDomain") {
    return wide_boxes(table_, members, "B200", {.required = "zone", .segment = level, .segment_size = segment});
  };
  EXPECT_EQ(boxes(16, 4), "4 of 32 in one linkDomain;");
  EXPECT_EQ(boxes(16, 8), "4 of 32 in one linkDomain;") << "two in each segment";
  EXPECT_EQ(boxes(12, 8), "3 of 32 in one linkDomain;") << "the last segment is shorter";
  EXPECT_EQ(boxes(16, 2), "16 of 8;") << "two segments may lie apart";
  EXPECT_EQ(boxes(14, 4), "14 of 8;") << "a half is left over";
  EXPECT_EQ(boxes(16, 4, "rack"), "16 of 8;");
}

TEST_F(QueueTableTest, WideBoxesOfTheFleetAreAskedFor) {
  put("a", R"({"quotas":[{"counts":"Boxes","boxDevices":8,"limit":1},
                         {"counts":"Boxes","boxDevices":16,"boxLevel":"rack","limit":1}]})");
  const auto config = table_.config(fleet, [](const model::QuotaMeter& meter) { return meter.box_devices / 4; });
  const auto& root = config.queues.front().quotas;
  EXPECT_EQ(root.at("boxes of 8 devices").guaranteed, 1);
  EXPECT_EQ(root.at("boxes of 16 devices of one rack").guaranteed, 4);
  ASSERT_TRUE(queueing::Queues::make(config).has_value());
}

TEST_F(QueueTableTest, ReservationsSayWhoMayUseThem) {
  put("top", R"({})");
  put("a", R"({"parent":"top","namespaces":["n"]})");
  const auto reserve = [&](const std::string& name, const std::string& who) {
    auto object = read_reservation_object(fmt::format(
        R"({{"metadata":{{"name":"{}"}},"spec":{{"start":"2027-01-01T00:00:00Z","end":"2027-01-02T00:00:00Z","amounts":[{{"amount":1}}],{}}}}})",
        name, who));
    table_.upsert(std::move(*object));
    table_.settle();
  };
  reserve("r", R"("queue":"top")");
  reserve("s", R"("namespaces":["m"])");
  reserve("t", R"("queue":"nowhere")");
  EXPECT_TRUE(table_.may_use("r", "n", "a").has_value());
  EXPECT_THAT(table_.may_use("r", "n", kUnassignedQueue).error().text(), HasSubstr("is not for queue unassigned"));
  EXPECT_THAT(table_.may_use("s", "n", "a").error().text(), HasSubstr("is not for namespace n"));
  EXPECT_THAT(table_.may_use("t", "n", "a").error().text(), HasSubstr("there is no reservation t in force"));
  EXPECT_THAT(table_.fault_of_reservation("t")->text(), HasSubstr("spec.queue: there is no queue nowhere in force"));
  EXPECT_EQ(table_.config(fleet).reservations.size(), 2U);
  EXPECT_TRUE(queueing::Queues::make(table_.config(fleet)).has_value());
}

// The pod's word, its queue's, that of the nearest queue above which has one, the default.
TEST_F(QueueTableTest, APolicyIsThatOfThePodOrOfTheNearestQueue) {
  using model::PlacementPolicy;
  model::ObjectMeta pod;
  pod.name_space = "x";
  EXPECT_EQ(table_.policy_for(pod), PlacementPolicy::kPacking);
  put("top", R"({"placementPolicy":"spread"})");
  put("middle", R"({"parent":"top"})");
  put("leaf", R"({"parent":"middle","namespaces":["x"]})");
  put("other", R"({"parent":"middle","namespaces":["x"],"placementPolicy":"best-fit"})");
  put("free", R"({"namespaces":["y"]})");
  EXPECT_EQ(table_.policy_of("leaf"), PlacementPolicy::kSpread);
  EXPECT_EQ(table_.policy_of("other"), PlacementPolicy::kBestFit);
  EXPECT_EQ(table_.policy_of("free"), std::nullopt);
  EXPECT_EQ(table_.policy_of(kUnassignedQueue), std::nullopt);
  EXPECT_EQ(table_.policy_for(pod), PlacementPolicy::kSpread);
  pod.labels["heddle.dev/queue"] = "other";
  EXPECT_EQ(table_.policy_for(pod), PlacementPolicy::kBestFit);
  pod.labels["heddle.dev/placement-policy"] = "least-loaded";
  EXPECT_EQ(table_.policy_for(pod), PlacementPolicy::kLeastLoaded);
  pod.annotations["heddle.dev/placement-policy"] = "packing";
  EXPECT_EQ(table_.policy_for(pod), PlacementPolicy::kPacking);
  // Changed after admission to what is none.
  pod.annotations.clear();
  pod.labels["heddle.dev/placement-policy"] = "binpack";
  EXPECT_EQ(table_.policy_for(pod), PlacementPolicy::kBestFit);
  pod.labels["heddle.dev/queue"] = "nobody";
  EXPECT_EQ(table_.policy_for(pod), PlacementPolicy::kPacking);
  put("top", R"({"placementPolicy":"least-loaded"})");
  pod.labels.clear();
  EXPECT_EQ(table_.policy_for(pod), PlacementPolicy::kLeastLoaded);
}

}  // namespace
}  // namespace heddle::engine
