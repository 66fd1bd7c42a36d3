// `heddle allocate` on whole objects: the rules of its contract that upstream's tables do not decide, and faults of
// upstream that must not be here, each by its number in kubernetes/kubernetes.
#include "cli/allocation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "codec/codec.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kNodeAndClass = R"(
kind: Node
metadata: {name: n}
---
kind: DeviceClass
metadata: {name: c}
spec: {selectors: [{cel: {expression: 'device.driver == "d"'}}]}
)";

// A slice of driver d on node n. more: further fields of the spec.
std::string slice(const std::string& devices, const std::string& more = "", const std::string& name = "s",
                  int count = 1, const std::string& scope = "nodeName: n") {
  return fmt::format(
      "---\nkind: ResourceSlice\nmetadata: {{name: {}}}\nspec: {{driver: d, {}, pool: {{name: p, generation: 1, "
      "resourceSliceCount: {}}}{}, devices: [{}]}}\n",
      name, scope, count, more, devices);
}

// exactly: further fields of the one request r.
std::string claim(const std::string& name, const std::string& exactly = "", const std::string& results = "") {
  std::string text = fmt::format(
      "---\nkind: ResourceClaim\nmetadata: {{namespace: x, name: {}, uid: {}}}\nspec: {{devices: {{requests: "
      "[{{name: r, exactly: {{deviceClassName: c, {}}}}}]}}}}\n",
      name, name, exactly.empty() ? "allocationMode: ExactCount, count: 1" : exactly);
  if (!results.empty()) text += fmt::format("status: {{allocation: {{devices: {{results: [{}]}}}}}}\n", results);
  return text;
}

std::string one(const std::string& more) {
  return "allocationMode: ExactCount, count: 1, " + more;
}

std::string held(const std::string& device, const std::string& more = "") {
  return "{request: r, driver: d, pool: p, device: " + device + (more.empty() ? "" : ", " + more) + "}";
}

Result<AllocationOutput> ask(const std::string& objects, const allocator::Features& features = {}) {
  return allocate_objects({.objects = kNodeAndClass + objects, .node = "n", .features = features, .seed = 1});
}

// Devices by claim, as "a b; c"; "no"; or "error: ...".
std::string run(const std::string& objects, const allocator::Features& features = {}) {
  const auto output = ask(objects, features);
  if (!output) return "error: " + output.error().text();
  if (!output->refusal.empty()) return "no";
  std::string text;
  const Json list = Json::parse(output->list_json);
  for (const Json& item : list["items"]) {
    if (!text.empty()) text += "; ";
    std::string names;
    for (const Json& result : item["status"]["allocation"]["devices"]["results"]) {
      names += (names.empty() ? "" : " ") + result["device"].get<std::string>();
    }
    text += names;
  }
  return text;
}

constexpr const char* kShared = "{name: a, allowMultipleAllocations: true, capacity: {memory: {value: 10Gi}}}";
constexpr const char* kShare = "shareID: 00000000-0000-4000-8000-000000000001";
const std::string kAskMemory = one("capacity: {requests: {memory: 6Gi}}");

TEST(AllocationRules, AShareWithoutConsumedCapacityTakesNothingButKeepsTheDeviceFromBeingTakenWhole) {
  EXPECT_EQ(run(slice(kShared) + claim("t", "", held("a", kShare)) + claim("w", kAskMemory)), "a");
  const std::string with = std::string(kShare) + ", consumedCapacity: {memory: 5Gi}";
  EXPECT_EQ(run(slice(kShared) + claim("t", "", held("a", with)) + claim("w", kAskMemory)), "no");
  EXPECT_EQ(run(slice("{name: a}") + claim("t", "", held("a", kShare)) + claim("w")), "no") << "no longer shared";
  const std::string empty = std::string(kShare) + ", consumedCapacity: {}";
  EXPECT_EQ(run(slice(kShared) + claim("t", "", held("a", empty)) + claim("w", kAskMemory)), "a");
}

TEST(AllocationRules, AdminResultsHoldNothing) {
  EXPECT_EQ(run(slice("{name: a}") + claim("t", "", held("a", "adminAccess: true")) + claim("w")), "a");
  EXPECT_EQ(run(slice("{name: a}") + claim("t", "", held("a", "adminAccess: false")) + claim("w")), "no");
  const std::string share = std::string(kShare) + ", adminAccess: true, consumedCapacity: {memory: 10Gi}";
  EXPECT_EQ(run(slice(kShared) + claim("t", "", held("a", share)) + claim("w", kAskMemory)), "a");
  const std::string counters = ", sharedCounters: [{name: k, counters: {m: {value: '1'}}}]";
  const std::string partition = "{name: %, consumesCounters: [{counterSet: k, counters: {m: {value: '1'}}}]}";
  const auto named = [&](const char* name) { return std::string(partition).replace(partition.find('%'), 1, name); };
  const std::string pool = slice("", counters, "k", 2) + slice(named("a") + ", " + named("b"), "", "s", 2);
  EXPECT_EQ(run(pool + claim("t", "", held("a", "adminAccess: true")) + claim("w")), "a");
  EXPECT_EQ(run(pool + claim("t", "", held("a")) + claim("w")), "no");
}

TEST(AllocationRules, WithoutConsumableCapacityAShareHoldsTheWholeDevice) {
  const allocator::Features off{.consumable_capacity = false};
  const std::string taken = claim("t", "", held("a", kShare));
  EXPECT_EQ(run(slice(kShared) + taken + claim("w"), off), "no");
  EXPECT_EQ(run(slice(kShared) + claim("w") + claim("v"), off), "no") << "given whole";
  EXPECT_EQ(run(slice(kShared) + claim("w"), off), "a");
  EXPECT_THAT(run(slice(kShared) + claim("w", kAskMemory), off),
              HasSubstr("DRAConsumableCapacity feature is disabled"));
  EXPECT_EQ(run(slice(kShared) + claim("w", one("capacity: {}")), off), "a") << "asks for no capacity";
}

TEST(AllocationRules, WithoutAdminAccessAskingForItIsAnErrorAndNotAskingIsNot) {
  const allocator::Features off{.admin_access = false};
  EXPECT_THAT(run(slice("{name: a}") + claim("w", one("adminAccess: true")), off), HasSubstr("admin access"));
  EXPECT_EQ(run(slice("{name: a}") + claim("w", one("adminAccess: false")), off), "a");
  EXPECT_EQ(run(slice("{name: a}") + claim("w", one("adminAccess: false"))), "a");
}

// Its devices would be read as devices without attributes, and the answer would be a silent "no".
TEST(AllocationRules, ObjectsOfVersionsWithAnotherFormAreRefused) {
  const std::string v1beta1 =
      "---\napiVersion: resource.k8s.io/v1beta1\nkind: ResourceSlice\nmetadata: {name: s}\n"
      "spec: {driver: d, nodeName: n, pool: {name: p, generation: 1, resourceSliceCount: 1}, "
      "devices: [{name: a, basic: {}}]}\n";
  EXPECT_EQ(run(v1beta1 + claim("w")),
            "error: ResourceSlice/s: apiVersion: resource.k8s.io/v1beta1 is not read; write resource.k8s.io/v1");
  std::string v1beta2 = slice("{name: a}") + claim("w");
  v1beta2.insert(v1beta2.find("kind: ResourceSlice"), "apiVersion: resource.k8s.io/v1beta2\n");
  EXPECT_EQ(run(v1beta2), "a");
}

TEST(KnownFaults, N133705AFullSharedDeviceDoesNotHideTheNext) {
  const std::string second = "{name: b, allowMultipleAllocations: true, capacity: {memory: {value: 10Gi}}}";
  const std::string full = std::string(kShare) + ", consumedCapacity: {memory: 10Gi}";
  EXPECT_EQ(run(slice(std::string(kShared) + ", " + second) + claim("t", "", held("a", full)) + claim("w", kAskMemory)),
            "b");
}

TEST(KnownFaults, N139034ASharedDeviceChargesItsCountersForLaterClaims) {
  const std::string counters = ", sharedCounters: [{name: k, counters: {m: {value: '1'}}}]";
  const std::string uses = "consumesCounters: [{counterSet: k, counters: {m: {value: '1'}}}]";
  const std::string pool = slice("", counters, "k", 2) +
                           slice("{name: a, allowMultipleAllocations: true, capacity: {memory: {value: 10Gi}}, " +
                                     uses + "}, {name: b, " + uses + "}",
                                 "", "s", 2);
  const std::string share = std::string(kShare) + ", consumedCapacity: {memory: 10Gi}";
  EXPECT_EQ(run(pool + claim("t", "", held("a", share)) + claim("w")), "no") << "b excludes a, and a is full";
}

TEST(KnownFaults, N138882AllOnDevicesWithCounters) {
  const std::string counters = ", sharedCounters: [{name: k, counters: {m: {value: '2'}}}]";
  const std::string uses = "consumesCounters: [{counterSet: k, counters: {m: {value: '1'}}}]";
  const std::string pool =
      slice("", counters, "k", 2) + slice("{name: a, " + uses + "}, {name: b, " + uses + "}", "", "s", 2);
  EXPECT_EQ(run(pool + claim("w", "allocationMode: All")), "a b");
  EXPECT_EQ(run(pool + claim("w", "allocationMode: All") + claim("v")), "no");
}

TEST(KnownFaults, N131730NearIdenticalDevicesEndSoonWithANo) {
  std::string devices;
  for (int i = 0; i < 40; ++i) {
    devices += fmt::format("{}{{name: d{:02}, attributes: {{root: {{int: {}}}}}}}", i == 0 ? "" : ", ", i, i % 2);
  }
  std::string requests;
  for (int i = 0; i < 21; ++i) {
    requests += fmt::format("{}{{name: r{}, exactly: {{deviceClassName: c, allocationMode: ExactCount, count: 1}}}}",
                            i == 0 ? "" : ", ", i);
  }
  const std::string asked =
      "---\nkind: ResourceClaim\nmetadata: {namespace: x, name: w}\nspec: {devices: {requests: [" + requests +
      "], constraints: [{matchAttribute: d/root}]}}\n";
  const auto output = allocate_objects(
      {.objects = kNodeAndClass + slice(devices) + asked, .node = "n", .features = {}, .seed = 1, .steps = 5000});
  ASSERT_TRUE(output) << output.error().text();
  EXPECT_FALSE(output->refusal.empty());
}

TEST(KnownFaults, N141922CountsThatAddUpPastTheLimit) {
  const std::string two =
      "---\nkind: ResourceClaim\nmetadata: {namespace: x, name: w}\nspec: {devices: {requests: [" +
      std::string(
          "{name: r, exactly: {deviceClassName: c, allocationMode: ExactCount, count: "
          "9223372036854775807}}, {name: q, exactly: {deviceClassName: c, allocationMode: ExactCount, count: "
          "9223372036854775807}}]}}\n");
  EXPECT_THAT(run(slice("{name: a}") + two), HasSubstr("exceeds the claim limit of 32"));
  const std::string fallback =
      "---\nkind: ResourceClaim\nmetadata: {namespace: x, name: w}\nspec: {devices: {requests: [{name: r, "
      "firstAvailable: ["
      "{name: many, deviceClassName: c, allocationMode: ExactCount, count: 9223372036854775807}, "
      "{name: one, deviceClassName: c, allocationMode: ExactCount, count: 1}]}]}}\n";
  EXPECT_EQ(run(slice("{name: a}") + fallback), "a");
}

TEST(KnownFaults, N134434TolerationsAreCopied) {
  const auto output =
      ask(slice("{name: a, taints: [{key: k, effect: NoExecute}]}") +
          claim("w", one("tolerations: [{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]")));
  ASSERT_TRUE(output && output->refusal.empty());
  const Json result = Json::parse(output->list_json)["items"][0]["status"]["allocation"]["devices"]["results"][0];
  EXPECT_EQ(result["tolerations"],
            Json::parse(R"([{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":60}])"));
}

TEST(KnownFaults, N125826ASelectorThatFailsSaysWhereAndHowToGuardIt) {
  const std::string text =
      run(slice("{name: a}") + claim("w", one(R"(selectors: [{cel: {expression: 'device.attributes["d"].x == 1'}}])")));
  EXPECT_THAT(text, HasSubstr("claim x/w: selector #0 on device d/p/a"));
  EXPECT_THAT(text, HasSubstr("no such key: x"));
  EXPECT_THAT(text, HasSubstr("has()"));
}

TEST(KnownFaults, N141118APoolNameOfSeveralNodesIsNotAWholePool) {
  const std::string mine = slice("{name: a}");
  EXPECT_EQ(run(mine + claim("w")), "a");
  EXPECT_EQ(run(mine + slice("{name: a}", "", "t", 1, "nodeName: other") + claim("w")), "no");
  EXPECT_EQ(run(mine + slice("{name: b}", "", "t", 2) + claim("w")), "no") << "slices that disagree about their number";
}

TEST(AllocationRules, WhatTheApiServerFillsInIsFilledIn) {
  const std::string pool = slice("{name: a}, {name: b}");
  EXPECT_EQ(run(pool + claim("w", "count: 2")), "a b");
  EXPECT_EQ(run(pool + claim("w", "allocationMode: ExactCount")), "a");
  EXPECT_EQ(run(pool + claim("w", "tolerations: []")), "a");
  const auto bare = allocate_objects({.objects = kNodeAndClass + pool + claim("w", "count: 2"),
                                      .node = "n",
                                      .features = {},
                                      .seed = 1,
                                      .defaults = allocator::Defaults::kNone});
  ASSERT_FALSE(bare) << "as the upstream allocator, which the API server has gone before";
  EXPECT_THAT(bare.error().text(), HasSubstr("unsupported count mode"));
}

TEST(AllocationRules, ANoSaysWhatStandsInTheWayOfWhichClaim) {
  const std::string pool = slice("{name: a}, {name: b}");
  EXPECT_EQ(ask(pool + claim("w", one("") + "tolerations: []") + claim("v", "count: 3"))->refusal,
            "the claims cannot be allocated together on node n; x/v does not fit even with nothing allocated there: "
            "too few devices of the node match it");
  EXPECT_EQ(ask(pool + claim("w", "", held("a")) + claim("v", "count: 2"))->refusal,
            "the claims cannot be allocated together on node n; x/v would fit if nothing were allocated there: the "
            "devices that match it are taken");
  EXPECT_EQ(ask(pool + claim("w", "count: 2") + claim("v", "count: 1"))->refusal,
            "the claims cannot be allocated together on node n; each of them fits alone");
}

TEST(AllocationRules, WhatCannotBeReadIsNamedByItsFile) {
  const auto out = allocate_objects({.objects = "a: [1", .node = "n", .features = {}, .seed = 1, .source = "all.yaml"});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().field, "all.yaml");
  EXPECT_THAT(out.error().message, HasSubstr("line"));
}

}  // namespace
}  // namespace heddle::cli
