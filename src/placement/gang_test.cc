#include "placement/gang.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"

namespace heddle::placement {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

// Racks of `per_rack` nodes; two racks are one supernode.
Topology racks(size_t nodes, size_t per_rack) {
  Topology topology{{"rack", "supernode"}, {{}, {}}};
  for (size_t node = 0; node < nodes; ++node) {
    topology.domains[0].push_back(static_cast<Domain>(node / per_rack));
    topology.domains[1].push_back(static_cast<Domain>(node / per_rack / 2));
  }
  return topology;
}

NodeClasses fleet(const std::vector<std::vector<uint16_t>>& cards) {
  NodeClasses nodes;
  for (const auto& free : cards) EXPECT_TRUE(nodes.add({96'000, 384 * kGib, free, 0}));
  return nodes;
}

const Request kCard{1000, kGib, 1, kWholeCard, {}};

std::set<NodeId> nodes_of(const GangPlaced& placed) {
  std::set<NodeId> used;
  for (const GangMember& member : placed.members) used.insert(member.choice.node);
  return used;
}

struct Case {
  const char* what;
  Gang gang;
  std::optional<size_t> level;  // of the domain that is to hold it
  std::set<NodeId> nodes;
};

TEST(Gang, TakesTheNarrowestThenTheFullestDomain) {
  // Rack 0: 2 + 2 free, rack 1: 2 + 1, rack 2: 2 + 2, rack 3: 0 + 1.
  const NodeClasses nodes =
      fleet({{1000, 1000}, {1000, 1000}, {1000, 1000}, {1000, 0}, {1000, 1000}, {1000, 1000}, {0, 0}, {0, 1000}});
  const Topology topology = racks(8, 2);
  const std::vector<Case> cases = {
      {"three fit into the tightest rack", {{{kCard, 3, 3}}, std::nullopt, 0}, 0, {2, 3}},
      {"four need a whole rack", {{{kCard, 4, 4}}, std::nullopt, 0}, 0, {0, 1}},
      {"five need a supernode, the tighter one", {{{kCard, 5, 5}}, std::nullopt, 0}, 1, {4, 5, 7}},
      {"one goes to the rack with the least", {{{kCard, 1, 1}}, std::nullopt, 0}, 0, {7}},
      {"nine go anywhere, the last to a small rest", {{{kCard, 9, 9}}, std::nullopt, 0}, std::nullopt, {0, 1, 2, 4, 7}},
      {"elastic: all four somewhere rather than two close", {{{kCard, 4, 2}}, 0, 0}, 0, {0, 1}},
      {"elastic: as many as fit in one rack", {{{kCard, 6, 2}}, 0, 0}, 0, {0, 1}},
  };
  for (const Case& test : cases) {
    const auto outcome = place_gang(nodes, topology, test.gang);
    ASSERT_TRUE(outcome) << test.what << outcome.error().text();
    const auto* placed = std::get_if<GangPlaced>(&*outcome);
    ASSERT_NE(placed, nullptr) << test.what;
    EXPECT_EQ(placed->level, test.level) << test.what;
    EXPECT_EQ(nodes_of(*placed), test.nodes) << test.what;
  }
}

struct WaitingCase {
  const char* what;
  Gang gang;
  int fitting;
  int missing;
  Shortage shortage;
};

TEST(Gang, SaysWhatIsShort) {
  const NodeClasses nodes = fleet({{1000, 1000}, {1000, 1000}, {1000, 1000}, {1000, 0}});
  const Topology topology = racks(4, 2);
  const std::vector<WaitingCase> cases = {
      {"cards of a rack", {{{kCard, 6, 6}}, 0, std::nullopt}, 4, 2, Shortage::kCards},
      {"cards of the fleet", {{{kCard, 80, 80}}, std::nullopt, 0}, 7, 73, Shortage::kCards},
      {"CPU", {{{{60'000, kGib, 1, 1000, {}}, 3, 3}}, 0, std::nullopt}, 2, 1, Shortage::kCpu},
      {"memory", {{{{1, 300 * kGib, 1, 1000, {}}, 3, 3}}, 0, std::nullopt}, 2, 1, Shortage::kMemory},
      {"a kind that no node has", {{{{1, 1, 1, 1000, {7}}, 2, 2}}, 0, std::nullopt}, 0, 2, Shortage::kKind},
  };
  for (const WaitingCase& test : cases) {
    const auto outcome = place_gang(nodes, topology, test.gang);
    ASSERT_TRUE(outcome) << test.what;
    const auto* waiting = std::get_if<GangWaiting>(&*outcome);
    ASSERT_NE(waiting, nullptr) << test.what;
    EXPECT_EQ(waiting->fitting, test.fitting) << test.what;
    EXPECT_EQ(waiting->missing, test.missing) << test.what;
    EXPECT_EQ(waiting->shortage, test.shortage) << test.what;
    EXPECT_EQ(waiting->cards_short, test.missing) << test.what;
  }
}

TEST(Gang, RefusesWhatCannotBeMeant) {
  const NodeClasses nodes = fleet({{1000}});
  const Topology topology = racks(1, 1);
  for (const Gang& gang : {Gang{}, Gang{{{kCard, 2, 0}}, {}, {}}, Gang{{{kCard, 2, 3}}, {}, {}},
                           Gang{{{kCard, 1, 1}}, 2, {}}, Gang{{{kCard, 1, 1}}, 0, 1}}) {
    const auto outcome = place_gang(nodes, topology, gang);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Code::kInvalidArgument);
  }
  EXPECT_FALSE(place_gang(fleet({{1000}, {1000}}), topology, {{{kCard, 1, 1}}, {}, {}})) << "a node without a place";
}

// The most copies by trying every card for every copy.
int most_copies(Node& node, const Request& request, size_t from, int cards_left) {
  if (cards_left == 0) {
    if (node.cpu_milli < request.cpu_milli || node.memory_bytes < request.memory_bytes) return 0;
    node.cpu_milli -= request.cpu_milli;
    node.memory_bytes -= request.memory_bytes;
    const int rest = 1 + most_copies(node, request, 0, request.cards);
    node.cpu_milli += request.cpu_milli;
    node.memory_bytes += request.memory_bytes;
    return rest;
  }
  int best = 0;
  for (size_t card = from; card < node.free_milli.size(); ++card) {
    if (node.free_milli[card] < request.milli) continue;
    node.free_milli[card] = static_cast<uint16_t>(node.free_milli[card] - request.milli);
    best = std::max(best, most_copies(node, request, card + 1, cards_left - 1));
    node.free_milli[card] = static_cast<uint16_t>(node.free_milli[card] + request.milli);
  }
  return best;
}

struct Instance {
  NodeClasses nodes;
  std::vector<Node> free;
  Topology topology;
  Gang gang;
};

Instance random_instance(SeededRandom& random, size_t groups) {
  Instance made;
  const size_t count = 1 + random.below(6);
  made.topology = racks(count, 1 + random.below(2));
  for (size_t i = 0; i < count; ++i) {
    Node node{static_cast<int64_t>(random.below(6)),
              static_cast<int64_t>(random.below(6)),
              {},
              static_cast<Kind>(random.below(2))};
    for (uint64_t card = random.below(4); card > 0; --card)
      node.free_milli.push_back(static_cast<uint16_t>(random.below(5) * 250));
    EXPECT_TRUE(made.nodes.add(node));
    made.free.push_back(node);
  }
  for (size_t i = 0; i < groups; ++i) {
    Request request{static_cast<int64_t>(1 + random.below(2)),
                    static_cast<int64_t>(random.below(2)),
                    static_cast<int>(random.below(3)),
                    0,
                    {}};
    if (request.cards > 0) request.milli = static_cast<int>(1 + random.below(4)) * 250;
    if (random.below(3) == 0) request.kinds = {1};
    const int size = static_cast<int>(1 + random.below(5));
    made.gang.groups.push_back({request, size, static_cast<int>(1 + random.below(static_cast<uint64_t>(size)))});
  }
  if (random.below(2) == 0) made.gang.required = random.below(2);
  if (random.below(2) == 0) made.gang.preferred = random.below(made.gang.required.value_or(1) + 1);
  return made;
}

// What the widest allowed domain can take at most.
int most_in_a_domain(const Instance& instance) {
  std::map<Domain, int> copies;
  const Request& request = instance.gang.groups[0].request;
  for (size_t id = 0; id < instance.free.size(); ++id) {
    Node node = instance.free[id];
    if (!request.kinds.empty() && node.kind != 1) continue;
    const Domain domain = instance.gang.required ? instance.topology.domains[*instance.gang.required][id] : 0;
    copies[domain] += most_copies(node, request, 0, request.cards);
  }
  int most = 0;
  for (const auto& [domain, count] : copies) most = std::max(most, count);
  return most;
}

// Every member has what it asks for, nothing is taken twice, no group is below its minimum, all are in one domain.
void check_placed(const Instance& instance, const GangPlaced& placed) {
  NodeClasses nodes = instance.nodes;
  std::vector<int> members(instance.gang.groups.size(), 0);
  for (const GangMember& member : placed.members) {
    const Request& request = instance.gang.groups[member.group].request;
    ASSERT_TRUE(nodes.take(member.choice, request));
    ASSERT_TRUE(request.kinds.empty() || instance.free[member.choice.node].kind == 1);
    ++members[member.group];
    if (placed.level) {
      ASSERT_EQ(instance.topology.domains[*placed.level][member.choice.node], placed.domain);
    }
  }
  for (size_t group = 0; group < members.size(); ++group) {
    EXPECT_GE(members[group], instance.gang.groups[group].minimum);
    EXPECT_LE(members[group], instance.gang.groups[group].size);
  }
  if (instance.gang.required) {
    ASSERT_TRUE(placed.level);
    EXPECT_LE(*placed.level, *instance.gang.required);
  }
}

TEST(Gang, OfOneGroupIsPlacedExactlyWhenTryingEverythingPlacesIt) {
  SeededRandom random(17);
  int placed_count = 0;
  for (int round = 0; round < 3000; ++round) {
    const Instance instance = random_instance(random, 1);
    const auto outcome = place_gang(instance.nodes, instance.topology, instance.gang);
    ASSERT_TRUE(outcome) << outcome.error().text();
    const int most = most_in_a_domain(instance);
    const GangGroup& group = instance.gang.groups[0];
    if (const auto* placed = std::get_if<GangPlaced>(&*outcome); placed != nullptr) {
      ++placed_count;
      check_placed(instance, *placed);
      EXPECT_EQ(placed->members.size(), static_cast<size_t>(std::min(most, group.size))) << "round " << round;
    } else {
      EXPECT_LT(most, group.minimum) << "round " << round;
      EXPECT_EQ(std::get<GangWaiting>(*outcome).fitting, most) << "round " << round;
      EXPECT_EQ(std::get<GangWaiting>(*outcome).missing, group.minimum - most) << "round " << round;
    }
  }
  EXPECT_GT(placed_count, 300);
  EXPECT_LT(placed_count, 2700);
}

TEST(Gang, OfSeveralGroupsIsNeverPlacedInPart) {
  SeededRandom random(18);
  for (int round = 0; round < 3000; ++round) {
    const Instance instance = random_instance(random, 1 + random.below(3));
    const auto outcome = place_gang(instance.nodes, instance.topology, instance.gang);
    ASSERT_TRUE(outcome) << outcome.error().text();
    if (const auto* placed = std::get_if<GangPlaced>(&*outcome); placed != nullptr) check_placed(instance, *placed);
  }
}

}  // namespace
}  // namespace heddle::placement
