// DeviceTaintRules: their taints count as if the slices had them, whatever comes first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using test::kDriver;
using test::kMiB;
using testing::HasSubstr;

model::DeviceTaintRule rule(const std::string& name, const std::string& effect = "NoSchedule") {
  model::DeviceTaintRule out;
  out.meta.name = name;
  out.has_selector = true;
  out.taint = {.key = "example.com/" + name, .value = "v", .effect = effect, .added = {}};
  return out;
}

model::DeviceTaintRule on_device(model::DeviceTaintRule rule, const std::string& node, const std::string& device) {
  rule.driver = kDriver;
  rule.pool = node + "/nvidia";
  rule.device = device;
  return rule;
}

class TaintRuleTest : public testing::Test {
 protected:
  TaintRuleTest() {
    state_.upsert_class(test::make_class());
    add_node("n1");
  }
  void add_node(const std::string& name) {
    state_.upsert_node(test::make_node(name));
    state_.upsert_slice(test::make_slice(name, 2, 1000 * kMiB));
  }
  Outcome place(std::vector<model::Toleration> tolerations = {}) {
    ClaimRequest claim = test::make_claim("ns/c", {});
    claim.spec.requests[0].exactly->tolerations = std::move(tolerations);
    PlacementRequest request;
    request.claims.push_back(std::move(claim));
    auto outcome = state_.place(request, random_);
    EXPECT_TRUE(outcome.has_value());
    return outcome.value_or(Outcome(Waiting{}));
  }
  std::string device(std::vector<model::Toleration> tolerations = {}) {
    const Outcome outcome = place(std::move(tolerations));
    const auto* assigned = std::get_if<Assigned>(&outcome);
    return assigned == nullptr ? "none" : assigned->allocations.at(0).results.at(0).device;
  }
  std::string reason() {
    const Outcome outcome = place();
    const auto* waiting = std::get_if<Waiting>(&outcome);
    const auto* never = std::get_if<Infeasible>(&outcome);
    const auto& reasons = waiting != nullptr ? waiting->reasons : never != nullptr ? never->reasons : kNone;
    return reasons.empty() ? "" : reasons.front().code + ": " + reasons.front().message;
  }

  const std::vector<Reason> kNone;
  State state_;
  SeededRandom random_{1};
};

TEST_F(TaintRuleTest, KeepsAwayWhoeverDoesNotTolerateIt) {
  state_.upsert_taint_rule(on_device(rule("repair"), "n1", "gpu-0"));
  EXPECT_EQ(device(), "gpu-1");
  const uint64_t before = state_.generation();
  state_.upsert_taint_rule(on_device(rule("wear", "NoExecute"), "n1", "gpu-1"));
  EXPECT_GT(state_.generation(), before);
  EXPECT_EQ(device(), "none");
  EXPECT_THAT(reason(), HasSubstr("Taint: "));
  EXPECT_THAT(reason(), HasSubstr("which the request does not tolerate"));
  EXPECT_EQ(device({{.key = "example.com/wear", .op = "Exists", .value = {}, .effect = {}, .seconds = {}}}), "gpu-1");
  EXPECT_EQ(device({{.key = "example.com/repair", .op = "Equal", .value = "v", .effect = "NoSchedule", .seconds = {}}}),
            "gpu-0");
  EXPECT_EQ(device({{.key = "example.com/repair", .op = "Equal", .value = "w", .effect = {}, .seconds = {}}}), "none");
  // A note keeps nobody away.
  state_.upsert_taint_rule(on_device(rule("wear", "None"), "n1", "gpu-1"));
  EXPECT_EQ(device(), "gpu-1");
  state_.remove_taint_rule("repair");
  EXPECT_EQ(device(), "gpu-0");
}

TEST_F(TaintRuleTest, SelectsByWhatItNames) {
  struct Case {
    const char* name;
    model::DeviceTaintRule rule;
    const char* device;
  };
  const auto with = [](auto change) {
    model::DeviceTaintRule out = rule("r");
    change(out);
    return out;
  };
  const Case cases[] = {
      {"no selector: no device", with([](auto& r) { r.has_selector = false; }), "gpu-0"},
      {"an empty one: all", with([](auto&) {}), "none"},
      {"a driver", with([](auto& r) { r.driver = kDriver; }), "none"},
      {"another driver", with([](auto& r) { r.driver = "gpu.example.com"; }), "gpu-0"},
      {"a pool", with([](auto& r) { r.pool = "n1/nvidia"; }), "none"},
      {"another pool", with([](auto& r) { r.pool = "n1"; }), "gpu-0"},
      {"a device of any pool", with([](auto& r) { r.device = "gpu-0"; }), "gpu-1"},
      {"an empty name names no device", with([](auto& r) { r.device = ""; }), "gpu-0"},
  };
  for (const Case& test : cases) {
    state_.upsert_taint_rule(test.rule);
    EXPECT_EQ(device(), test.device) << test.name;
  }
  state_.remove_taint_rule("r");
  EXPECT_EQ(device(), "gpu-0");
}

TEST_F(TaintRuleTest, WhatChangesNothingStartsNobody) {
  const model::DeviceTaintRule one = on_device(rule("r"), "n1", "gpu-0");
  state_.upsert_taint_rule(one);
  const uint64_t before = state_.generation();
  state_.upsert_taint_rule(one);
  state_.remove_taint_rule("other");
  EXPECT_EQ(state_.generation(), before);
}

// Whatever comes in whatever order: the same as a fleet whose slices have the taints themselves.
TEST(TaintRules, CountAsTheTaintsOfSlicesInAnyOrder) {
  SeededRandom random(7);
  for (int life = 0; life < 50; ++life) {
    State state;
    state.upsert_class(test::make_class());
    std::map<std::string, model::DeviceTaintRule> rules;
    std::map<std::string, model::ResourceSlice> slices;
    for (int step = 0; step < 30; ++step) {
      const std::string node = "n" + std::to_string(random.below(3));
      const std::string name = "r" + std::to_string(random.below(3));
      switch (random.below(5)) {
        case 0:
        case 1:
          state.upsert_node(test::make_node(node));
          slices[node] = test::make_slice(node, 1 + static_cast<int>(random.below(3)), 1000 * kMiB);
          state.upsert_slice(slices[node]);
          break;
        case 2:
          if (slices.erase(node) > 0) state.remove_slice(node + "-heddle-nvidia-0");
          break;
        case 3:
          rules[name] = rule(name);
          if (random.below(2) == 0) rules[name].pool = node + "/nvidia";
          if (random.below(2) == 0) rules[name].device = "gpu-" + std::to_string(random.below(3));
          state.upsert_taint_rule(rules[name]);
          break;
        default:
          rules.erase(name);
          state.remove_taint_rule(name);
      }
      State plain;
      plain.upsert_class(test::make_class());
      for (const auto& [other, slice] : slices) {
        model::ResourceSlice merged = slice;
        for (model::Device& device : merged.devices) {
          for (const auto& [id, one] : rules) {
            if (one.selects_in(merged.driver, merged.pool) && one.device.value_or(device.name) == device.name)
              device.taints.push_back(one.taint);
          }
        }
        plain.upsert_node(test::make_node(other));
        plain.upsert_slice(std::move(merged));
      }
      for (const auto& [other, slice] : slices) {
        PlacementRequest request;
        request.claims.push_back(test::make_claim("ns/c", {}));
        request.pinned_node = other;
        SeededRandom one(1);
        SeededRandom two(1);
        const auto a = state.place(request, one).value();
        const auto b = plain.place(request, two).value();
        ASSERT_EQ(a.index(), b.index()) << life << "/" << step << " " << other;
        if (const auto* assigned = std::get_if<Assigned>(&a)) {
          EXPECT_EQ(assigned->allocations, std::get<Assigned>(b).allocations);
        }
      }
    }
  }
}

}  // namespace
}  // namespace heddle::engine
