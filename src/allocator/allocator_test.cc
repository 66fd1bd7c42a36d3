#include "allocator/allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>

namespace heddle::allocator {
namespace {

using testing::HasSubstr;

Quantity q(const char* text) {
  return Quantity::parse(text).value();
}

// One node with pools made by hand.
class AllocatorTest : public testing::Test {
 protected:
  AllocatorTest() {
    view_.node = "node-1";
    node_scope_ = {.kind = model::NodeScope::Kind::kNode, .node = "node-1", .selector = {}};
    add_class("any", "device.driver == \"d\"");
  }

  void add_class(const std::string& name, const std::string& selector) {
    model::DeviceClass device_class;
    device_class.meta.name = name;
    device_class.selectors.push_back(selector);
    classes_[name] = device_class;
  }

  PoolInfo& add_pool(const std::string& name) {
    pools_.push_back({.driver = "d", .name = name, .invalid = {}, .counters = {}});
    view_.pools.push_back({.pool = &pools_.back(), .devices = {}});
    return pools_.back();
  }

  DeviceInfo& add_device(model::Device device, const model::NodeScope* scope = nullptr) {
    if (pools_.empty()) add_pool("pool");
    Shape shape = make_shape(device).value();
    const std::string name = device.name;
    templates_.push_back(
        std::make_shared<DeviceTemplate>(DeviceTemplate{.common = std::move(device), .own_names = {}}));
    published_.push_back({.name = name, .shared = templates_.back()});
    shape.id = static_cast<uint32_t>(devices_.size());
    DeviceInfo info;
    info.index = static_cast<uint32_t>(devices_.size());
    info.publish(published_.back());
    info.pool = view_.pools.back().pool;
    info.scope = scope == nullptr ? &node_scope_ : scope;
    info.shape = std::make_shared<const Shape>(std::move(shape));
    devices_.push_back(std::move(info));
    view_.pools.back().devices.push_back(&devices_.back());
    return devices_.back();
  }

  static model::Device device(const std::string& name, std::map<std::string, model::AttributeValue> attributes = {}) {
    model::Device result;
    result.name = name;
    result.attributes = std::move(attributes);
    return result;
  }

  static model::Device shared(const std::string& name, const char* memory,
                              std::optional<model::RequestPolicy> policy = {}) {
    model::Device result = device(name);
    result.capacity["memory"] = {.value = q(memory), .policy = std::move(policy)};
    result.allow_multiple_allocations = true;
    return result;
  }

  static model::DeviceRequest request(const std::string& name, int64_t count = 1,
                                      const std::string& mode = "ExactCount") {
    model::DeviceRequest result;
    result.name = name;
    result.exactly = model::DeviceSubRequest{};
    result.exactly->device_class = "any";
    result.exactly->allocation_mode = mode;
    if (mode == "ExactCount") result.exactly->count = count;
    return result;
  }

  static model::DeviceRequest memory_request(const std::string& name, const char* memory) {
    model::DeviceRequest result = request(name);
    result.exactly->capacity["memory"] = q(memory);
    return result;
  }

  // Names of the devices by claim: "a b; c", "no", or the error.
  std::string run(const std::vector<model::ClaimSpec>& specs, uint64_t steps = 10'000) {
    auto allocations = allocate(specs, steps);
    if (!allocations) return std::string(code_name(allocations.error().code)) + ": " + allocations.error().text();
    if (allocations->empty()) return "no";
    std::string text;
    for (const model::Allocation& allocation : *allocations) {
      if (!text.empty()) text += "; ";
      std::string names;
      for (const model::DeviceResult& result : allocation.results) names += (names.empty() ? "" : " ") + result.device;
      text += names;
    }
    return text;
  }

  // Empty: does not fit.
  Result<std::vector<model::Allocation>> allocate(const std::vector<model::ClaimSpec>& specs, uint64_t steps = 10'000) {
    std::vector<ClaimInput> inputs;
    inputs.reserve(specs.size());
    for (const model::ClaimSpec& spec : specs) inputs.push_back({.key = "ns/c", .spec = &spec, .memory_percent = {}});
    QueryCache cache;
    HEDDLE_TRY(auto claims, prepare(inputs, classes_, cache, {}));
    HEDDLE_TRY(const auto solution, solve(view_, claims, FirstFit(), {}, {.steps = steps}));
    std::vector<model::Allocation> allocations;
    SeededRandom random(1);
    for (size_t i = 0; solution && i < claims.size(); ++i) {
      HEDDLE_TRY(model::Allocation allocation, make_allocation(claims[i], *solution, i, "node-1", random));
      allocations.push_back(std::move(allocation));
    }
    return allocations;
  }

  static model::ClaimSpec claim(std::vector<model::DeviceRequest> requests,
                                std::vector<model::DeviceConstraint> constraints = {}) {
    return {.requests = std::move(requests), .constraints = std::move(constraints), .config = {}};
  }

  NodeView view_;
  model::NodeScope node_scope_;
  std::deque<PoolInfo> pools_;
  std::vector<std::shared_ptr<DeviceTemplate>> templates_;
  std::deque<PublishedDevice> published_;
  std::deque<DeviceInfo> devices_;
  ClassMap classes_;
};

TEST_F(AllocatorTest, FirstFitTakesDevicesInOrder) {
  for (const char* name : {"a", "b", "c"}) add_device(device(name));
  EXPECT_EQ(run({claim({request("r", 2)}), claim({request("r")})}), "a b; c");
  EXPECT_EQ(run({claim({request("r", 2)}), claim({request("r", 2)})}), "no");
  devices_[0].held.whole = 1;
  EXPECT_EQ(run({claim({request("r", 2)})}), "b c");
  EXPECT_EQ(run({}), "no") << "no claims: nothing to allocate";
}

TEST_F(AllocatorTest, AMatchConstraintBacktracks) {
  add_device(device("a", {{"x", int64_t{1}}}));
  add_device(device("b", {{"x", int64_t{2}}}));
  add_device(device("c", {{"x", int64_t{2}}}));
  add_device(device("d"));
  const model::DeviceConstraint match{.requests = {}, .match_attribute = "d/x", .distinct_attribute = {}};
  EXPECT_EQ(run({claim({request("r", 2)}, {match})}), "b c");
  EXPECT_EQ(run({claim({request("r"), request("s")}, {match})}), "b c");
  EXPECT_EQ(run({claim({request("r", 3)}, {match})}), "no");
  const model::DeviceConstraint only_r{.requests = {"r"}, .match_attribute = "d/x", .distinct_attribute = {}};
  EXPECT_EQ(run({claim({request("r", 2), request("s", 2)}, {only_r})}), "b c a d");
  const model::DeviceConstraint distinct{.requests = {}, .match_attribute = {}, .distinct_attribute = "d/x"};
  EXPECT_EQ(run({claim({request("r", 2)}, {distinct})}), "a b");
  EXPECT_EQ(run({claim({request("r", 3)}, {distinct})}), "no");
  EXPECT_THAT(run({claim({request("r")}, {model::DeviceConstraint{}})}), HasSubstr("constraints[0]"));
}

TEST_F(AllocatorTest, ValuesOfDifferentKindsDoNotMatch) {
  add_device(device("a", {{"x", int64_t{1}}}));
  add_device(device("b", {{"x", std::string("1")}}));
  add_device(device("c", {{"x", model::Version{"1.0.0"}}}));
  EXPECT_EQ(run({claim({request("r", 2)}, {{.requests = {}, .match_attribute = "d/x", .distinct_attribute = {}}})}),
            "no");
  EXPECT_EQ(run({claim({request("r", 3)}, {{.requests = {}, .match_attribute = {}, .distinct_attribute = "d/x"}})}),
            "a b c");
}

TEST_F(AllocatorTest, TheFirstAlternativeThatLetsAllSucceedIsTaken) {
  for (const char* name : {"a", "b"}) add_device(device(name));
  model::DeviceRequest either;
  either.name = "e";
  either.first_available = {*request("x", 2).exactly, *request("x", 1).exactly};
  either.first_available[0].name = "two";
  either.first_available[1].name = "one";
  EXPECT_EQ(run({claim({either})}), "a b");
  EXPECT_EQ(run({claim({either}), claim({request("r")})}), "a; b") << "the later claim makes the first one step down";
  const auto allocation = allocate({claim({either}), claim({request("r")})}).value().at(0);
  EXPECT_EQ(allocation.results[0].request, "e/one");
}

TEST_F(AllocatorTest, AllTakesEveryMatchingDeviceOrFails) {
  for (const char* name : {"a", "b"}) add_device(device(name, {{"x", int64_t{name[0]}}}));
  EXPECT_EQ(run({claim({request("r", 0, "All")})}), "a b");
  devices_[1].held.whole = 1;
  EXPECT_EQ(run({claim({request("r", 0, "All")})}), "no");
  devices_[1].held.whole = 0;
  const model::DeviceConstraint match{.requests = {}, .match_attribute = "d/x", .distinct_attribute = {}};
  EXPECT_THAT(run({claim({request("r", 0, "All")}, {match})}),
              HasSubstr("cannot add device d/pool/b because a claim constraint would not be satisfied"));
  add_class("none", "device.driver == \"other\"");
  model::DeviceRequest none = request("r", 0, "All");
  none.exactly->device_class = "none";
  EXPECT_EQ(run({claim({none})}), "no") << "All of nothing";
  pools_[0].incomplete = true;
  EXPECT_THAT(run({claim({request("r", 0, "All")})}), HasSubstr("Unavailable"));
  EXPECT_EQ(run({claim({request("r")})}), "no") << "an incomplete pool is passed over";
}

TEST_F(AllocatorTest, TaintsNeedATolerationForTheirEffect) {
  model::Device tainted = device("a");
  tainted.taints = {{.key = "k", .value = "v", .effect = "NoExecute", .added = {}}};
  add_device(tainted);
  EXPECT_EQ(run({claim({request("r")})}), "no");
  model::DeviceRequest tolerant = request("r");
  tolerant.exactly->tolerations = {{.key = "k", .op = "Exists", .value = {}, .effect = "NoSchedule", .seconds = {}}};
  EXPECT_EQ(run({claim({tolerant})}), "no");
  tolerant.exactly->tolerations[0].effect = "";
  EXPECT_EQ(run({claim({tolerant})}), "a");
  EXPECT_EQ(allocate({claim({tolerant})}).value()[0].results[0].tolerations, tolerant.exactly->tolerations);
  templates_[0]->common.taints[0].effect = "None";
  EXPECT_EQ(run({claim({request("r")})}), "a");
}

TEST_F(AllocatorTest, SharesAddUpAndTwoRequestsMayShareADevice) {
  add_device(shared("a", "10Gi"));
  EXPECT_EQ(run({claim({memory_request("r", "6Gi"), memory_request("s", "4Gi")})}), "a a");
  EXPECT_EQ(run({claim({memory_request("r", "6Gi"), memory_request("s", "5Gi")})}), "no");
  EXPECT_EQ(run({claim({memory_request("r", "6Gi")}), claim({request("s")})}), "no") << "no request means all of it";
  devices_[0].held = {.whole = 0, .shares = 1, .alone = 0, .used = {*amount_of(q("5Gi"))}};
  EXPECT_EQ(run({claim({memory_request("r", "5Gi")})}), "a");
  EXPECT_EQ(run({claim({memory_request("r", "5121Mi")})}), "no");
  devices_[0].held = {.whole = 1, .shares = 0, .alone = 0, .used = {}};
  EXPECT_EQ(run({claim({memory_request("r", "1")})}), "no");
  model::DeviceRequest two = memory_request("r", "1Gi");
  two.exactly->count = 2;
  devices_[0].held = {};
  EXPECT_EQ(run({claim({two})}), "no") << "the slots of one request are different devices";
}

TEST_F(AllocatorTest, RequestPoliciesRoundUpOrRefuse) {
  struct Case {
    const char* asked;  // null: nothing
    model::RequestPolicy policy;
    const char* consumed;  // null: does not fit
  };
  using Range = model::RequestPolicy::Range;
  const auto range = [](const char* min, const char* max, const char* step) {
    model::RequestPolicy policy{.default_value = q("4Gi"), .valid_values = {}, .valid_range = {}};
    policy.valid_range = Range{.min = q(min), .max = {}, .step = {}};
    if (max != nullptr) policy.valid_range->max = q(max);
    if (step != nullptr) policy.valid_range->step = q(step);
    return policy;
  };
  const model::RequestPolicy values{.default_value = q("2Gi"), .valid_values = {q("2Gi"), q("4Gi")}, .valid_range = {}};
  const Case cases[] = {
      {nullptr, range("1Gi", nullptr, nullptr), "4Gi"},
      {"1Mi", range("1Gi", nullptr, nullptr), "1Gi"},
      {"1500Mi", range("1Gi", nullptr, nullptr), "1500Mi"},
      {"1500Mi", range("1Gi", nullptr, "1Gi"), "2Gi"},
      {"2Gi", range("1Gi", nullptr, "1Gi"), "2Gi"},
      {"4097Mi", range("1Gi", "4Gi", "1Gi"), nullptr},
      {"5Gi", range("1Gi", "4Gi", nullptr), nullptr},
      {"9Gi", range("1Gi", nullptr, "1Gi"), nullptr},
      {nullptr, values, "2Gi"},
      {"1", values, "2Gi"},
      {"3Gi", values, "4Gi"},
      {"5Gi", values, nullptr},
      {"500m", range("100m", nullptr, "300m"), "700m"},
  };
  for (const Case& test : cases) {
    const Shape shape = make_shape(shared("a", "8Gi", test.policy)).value();
    std::map<std::string, Quantity> asked;
    if (test.asked != nullptr) asked["memory"] = q(test.asked);
    const auto take = consume(shape, asked, std::nullopt);
    ASSERT_TRUE(take.has_value()) << take.error().text();
    EXPECT_EQ(take->possible, test.consumed != nullptr) << (test.asked == nullptr ? "nothing" : test.asked);
    if (test.consumed != nullptr) {
      EXPECT_EQ(take->quantities[0].to_string(), test.consumed) << test.asked;
    }
  }
}

TEST_F(AllocatorTest, WhatCannotBeCountedEndsTheAllocation) {
  model::RequestPolicy policy{.default_value = q("1Gi"), .valid_values = {}, .valid_range = {}};
  policy.valid_range = model::RequestPolicy::Range{.min = q("0"), .max = {}, .step = q("1Gi")};
  add_device(shared("a", "8Gi", policy));
  EXPECT_THAT(run({claim({memory_request("r", "9223372036854775807")})}), HasSubstr("cannot be represented"));
  EXPECT_THAT(run({claim({memory_request("r", "100E")})}), HasSubstr("cannot be represented"));
  model::DeviceRequest other = request("r");
  other.exactly->capacity["none"] = q("1");
  EXPECT_EQ(run({claim({other})}), "no") << "a capacity that the device does not have";
  EXPECT_FALSE(make_shape(shared("b", "1e40")).has_value());
  devices_.clear();
  view_.pools.front().devices.clear();
  add_device(shared("b", "-1"));
  EXPECT_THAT(run({claim({request("r")})}), HasSubstr("negative"));
}

TEST_F(AllocatorTest, CountersExcludePartitionsOfOneCard) {
  PoolInfo& pool = add_pool("p");
  pool.counters = {{"card", "slices", 7 * kUnit, 0}};
  for (const auto& [name, slices] :
       {std::pair("whole", 7), std::pair("half", 4), std::pair("other", 3), std::pair("tiny", 1)}) {
    model::Device partition = device(name);
    partition.consumes_counters = {
        {.counter_set = "card", .counters = {{"slices", Quantity::from_int(slices)}}, .compatibility_groups = {}}};
    add_device(std::move(partition)).counters = {{0, slices * kUnit}};
  }
  EXPECT_EQ(run({claim({request("r")})}), "whole");
  EXPECT_EQ(run({claim({request("r", 2)})}), "half other");
  EXPECT_EQ(run({claim({request("r", 3)})}), "no");
  pool.counters[0].used = 4 * kUnit;
  devices_[1].held.whole = 1;
  EXPECT_EQ(run({claim({request("r")})}), "other");
  EXPECT_EQ(run({claim({request("r", 2)})}), "no");
}

TEST_F(AllocatorTest, AdminAccessTakesWhatIsInUseAndHoldsNothing) {
  add_device(device("a")).held.whole = 1;
  model::DeviceRequest admin = request("r");
  admin.exactly->admin_access = true;
  EXPECT_EQ(run({claim({admin}), claim({admin})}), "a; a");
  EXPECT_EQ(run({claim({admin, admin})}), "no") << "twice for one claim";
  devices_[0].held.whole = 0;
  EXPECT_EQ(run({claim({admin}), claim({request("r")})}), "no") << "in one pod it counts as taken, as upstream has it";
}

TEST_F(AllocatorTest, AClaimHasAtMost32Results) {
  for (int i = 0; i < 40; ++i) add_device(device("d" + std::to_string(i)));
  EXPECT_THAT(run({claim({request("r", 33)})}), HasSubstr("exceeds the claim limit of 32"));
  EXPECT_THAT(run({claim({request("r", 20), request("s", 13)})}), HasSubstr("requests[1]"));
  EXPECT_THAT(run({claim({request("r", 0, "All")})}), HasSubstr("exceeds the claim limit of 32"));
  model::DeviceRequest either;
  either.name = "e";
  either.first_available = {*request("x", 30).exactly, *request("x", 1).exactly};
  either.first_available[0].name = "many";
  either.first_available[1].name = "one";
  const auto allocation = allocate({claim({request("r", 20), either})}).value();
  EXPECT_EQ(allocation.at(0).results.size(), 21U);
  EXPECT_THAT(run({claim({request("r", std::numeric_limits<int64_t>::max()),
                          request("s", std::numeric_limits<int64_t>::max())})}),
              HasSubstr("exceeds the claim limit of 32"));
}

// Ten shares over eight equal cards with room for nine: by device these are 8^9 ways, by kind a few hundred.
TEST_F(AllocatorTest, EqualDevicesAreNotTriedOverAndOver) {
  const auto shape = std::make_shared<const Shape>(make_shape(shared("x", "10Gi")).value());
  for (int i = 0; i < 8; ++i) add_device(shared("d" + std::to_string(i), "10Gi")).shape = shape;
  for (size_t i = 1; i < 8; ++i) {
    devices_[i].held = {.whole = 0, .shares = 1, .alone = 0, .used = {*amount_of(q("4Gi"))}};
  }
  std::vector<model::ClaimSpec> claims(9, claim({memory_request("r", "5Gi")}));
  EXPECT_EQ(run(claims), "d0; d0; d1; d2; d3; d4; d5; d6; d7");
  claims.push_back(claim({memory_request("r", "5Gi")}));
  EXPECT_EQ(run(claims), "no");
}

TEST_F(AllocatorTest, RunningOutOfStepsIsNotANo) {
  for (int i = 0; i < 30; ++i) add_device(device("d" + std::to_string(i), {{"x", int64_t{i}}}));
  const model::DeviceConstraint match{.requests = {}, .match_attribute = "d/x", .distinct_attribute = {}};
  EXPECT_THAT(run({claim({request("r", 5), request("s", 5)}, {match})}, 10), HasSubstr("Exhausted"));
}

TEST_F(AllocatorTest, ConfigurationOfClassAndClaimIsAssembled) {
  for (const char* name : {"a", "b", "c"}) add_device(device(name));
  classes_["any"].config = {{.requests = {}, .driver = "d", .parameters_json = "1"}};
  add_class("other", "device.driver == \"d\"");
  classes_["other"].config = {{.requests = {}, .driver = "d", .parameters_json = "2"}};
  model::DeviceRequest third = request("t");
  third.exactly->device_class = "other";
  model::ClaimSpec spec = claim({request("r"), request("s"), third});
  spec.config = {{.requests = {"s"}, .driver = "d", .parameters_json = "3"},
                 {.requests = {}, .driver = "d", .parameters_json = "4"},
                 {.requests = {"nobody"}, .driver = "d", .parameters_json = "5"},
                 {.requests = {"t", "s", "r"}, .driver = "d", .parameters_json = "6"}};
  const auto configs = allocate({spec}).value().at(0).config;
  std::string text;
  for (const auto& config : configs) {
    text += config.config.parameters_json + (config.from_class ? "class" : "claim") + "(";
    for (const auto& name : config.config.requests) text += name;
    text += ")";
  }
  EXPECT_EQ(text, "1class(rs)2class(t)3claim(s)4claim()6claim()");
}

TEST_F(AllocatorTest, TheNodeSelectorFollowsTheDevices) {
  const auto term = [](const char* key) {
    model::NodeSelectorTerm result;
    result.match_expressions.push_back({.key = key, .op = model::Requirement::Operator::kExists, .values = {}});
    return result;
  };
  const model::NodeScope zone{.kind = model::NodeScope::Kind::kSelector, .node = {}, .selector = {{term("zone")}}};
  const model::NodeScope rack{.kind = model::NodeScope::Kind::kSelector, .node = {}, .selector = {{term("rack")}}};
  const model::NodeScope all{.kind = model::NodeScope::Kind::kAllNodes, .node = {}, .selector = {}};
  add_device(device("a"), &all);
  EXPECT_EQ(allocate({claim({request("r")})}).value()[0].node_selector, std::nullopt);
  add_device(device("b"), &zone);
  add_device(device("c"), &rack);
  add_device(device("d"), &zone);
  const auto merged = allocate({claim({request("r", 4)})}).value()[0].node_selector;
  ASSERT_TRUE(merged.has_value());
  ASSERT_EQ(merged->terms.size(), 1U);
  EXPECT_EQ(merged->terms[0].match_expressions.size(), 2U);
  add_device(device("e"));
  EXPECT_EQ(model::allocated_node(allocate({claim({request("r", 5)})}).value()[0]), "node-1");
}

TEST_F(AllocatorTest, ShareIdsAreNewForEachShareAndRepeatWithTheSeed) {
  add_device(shared("a", "10Gi"));
  const std::vector<model::ClaimSpec> claims = {claim({memory_request("r", "1Gi"), memory_request("s", "1Gi")})};
  const auto first = allocate(claims).value();
  EXPECT_NE(first[0].results[0].share_id, first[0].results[1].share_id);
  EXPECT_EQ(first, allocate(claims).value());
}

}  // namespace
}  // namespace heddle::allocator
