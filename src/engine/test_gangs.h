// For tests of gangs: a fleet that they are placed on.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/gang.h"
#include "engine/test_fleet.h"

namespace heddle::engine::test {

class GangFleet : public testing::Test {
 protected:
  GangFleet() { state_.upsert_class(make_class()); }

  void add_node(const std::string& name, int cards, const std::map<std::string, std::string>& labels = {}) {
    model::Node node = make_node(name);
    for (const auto& [key, value] : labels) node.meta.labels[key] = value;
    state_.upsert_node(node);
    state_.upsert_slice(make_slice(name, cards, 80000 * kMiB));
  }

  // So many nodes in each of so many racks, racks in super nodes by pairs.
  void add_racks(int racks, int nodes, int cards) {
    for (int rack = 0; rack < racks; ++rack) {
      for (int node = 0; node < nodes; ++node) {
        add_node("n" + std::to_string(rack) + "-" + std::to_string(node), cards,
                 {{"heddle.dev/rack", "r" + std::to_string(rack)},
                  {"heddle.dev/super-node", "s" + std::to_string(rack / 2)}});
      }
    }
  }

  static GangRequest gang(int size, const Ask& ask) {
    GangRequest request;
    request.name = "g";
    request.minimum = size;
    for (int i = 0; i < size; ++i) request.members.push_back(member(i, ask));
    return request;
  }

  static GangMember member(int index, const Ask& ask) {
    GangMember out;
    out.request.claims.push_back(make_claim("ns/m" + std::to_string(index), ask));
    out.shape = ask.memory + "/" + ask.cores + "/" + std::to_string(ask.count);
    return out;
  }

  GangOutcome place(const GangRequest& request) {
    auto outcome = place_gang(state_, default_topology(), request, random_);
    EXPECT_TRUE(outcome.has_value()) << outcome.error().text();
    return outcome ? *std::move(outcome) : GangOutcome(Waiting{});
  }

  // Grants it, and gives the nodes by member; empty: it was not placed.
  std::vector<std::string> grant(const GangRequest& request) {
    const GangOutcome outcome = place(request);
    std::vector<std::string> nodes;
    const auto* assigned = std::get_if<GangAssigned>(&outcome);
    if (assigned == nullptr) return nodes;
    EXPECT_EQ(assigned->members.size(), request.members.size());
    for (size_t i = 0; i < assigned->members.size(); ++i) {
      nodes.push_back(assigned->members[i] ? assigned->members[i]->node : "-");
      for (size_t claim = 0; assigned->members[i] && claim < request.members[i].request.claims.size(); ++claim) {
        state_.upsert_claim(
            granted(request.members[i].request.claims[claim], assigned->members[i]->allocations[claim]));
      }
    }
    EXPECT_TRUE(state_.over_commits().empty());
    return nodes;
  }

  static std::string reason(const GangOutcome& outcome) {
    const auto* waiting = std::get_if<Waiting>(&outcome);
    const auto* infeasible = std::get_if<Infeasible>(&outcome);
    if (waiting != nullptr) return waiting->reasons.at(0).message;
    return infeasible != nullptr ? infeasible->reasons.at(0).message : "placed";
  }

  void take(const std::string& node, int cards) {
    PlacementRequest request;
    request.pinned_node = node;
    const ClaimRequest claim = make_claim("ns/held-" + node, {.count = cards});
    request.claims.push_back(claim);
    const auto outcome = state_.place(request, random_);
    ASSERT_TRUE(outcome && std::holds_alternative<Assigned>(*outcome));
    state_.upsert_claim(granted(claim, std::get<Assigned>(*outcome).allocations[0]));
  }

  State state_;
  SeededRandom random_{7};
};

}  // namespace heddle::engine::test
