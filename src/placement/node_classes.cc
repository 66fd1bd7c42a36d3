#include "placement/node_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace heddle::placement {
namespace {

Result<void> check(const Node& node) {
  if (node.cpu_milli < 0) return fail(Code::kInvalidArgument, "is negative", "cpu_milli");
  if (node.memory_bytes < 0) return fail(Code::kInvalidArgument, "is negative", "memory_bytes");
  if (node.free_milli.size() > kMaxCards) {
    return fail(Code::kInvalidArgument, fmt::format("a node has at most {} cards", kMaxCards), "free_milli");
  }
  for (const uint16_t milli : node.free_milli) {
    if (milli > kWholeCard) return fail(Code::kInvalidArgument, "a card has at most 1000 milli", "free_milli");
  }
  return {};
}

Cards sorted_cards(const Node& node) {
  Cards cards;
  cards.count = static_cast<int>(node.free_milli.size());
  // Insertion sort: a few cards, nearly in order.
  for (size_t i = 0; i < node.free_milli.size(); ++i) {
    size_t at = i;
    for (; at > 0 && cards.milli[at - 1] < node.free_milli[i]; --at) cards.milli[at] = cards.milli[at - 1];
    cards.milli[at] = node.free_milli[i];
  }
  return cards;
}

uint64_t hash_of(const Node& node, const Cards& cards) {
  uint64_t hash = static_cast<uint64_t>(node.cpu_milli) * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 29) ^ static_cast<uint64_t>(node.memory_bytes)) * 0xff51afd7ed558ccd;
  for (int i = 0; i < cards.count; ++i) {
    hash = (hash ^ cards.milli[static_cast<size_t>(i)]) * 0xc4ceb9fe1a85ec53;
    hash ^= hash >> 31;
  }
  return hash;
}

bool same_state(const NodeClass& state, const Node& node, const Cards& cards) {
  return state.cpu_milli == node.cpu_milli && state.memory_bytes == node.memory_bytes &&
         state.cards.count == cards.count &&
         std::equal(cards.milli.begin(), cards.milli.begin() + cards.count, state.cards.milli.begin());
}

int64_t free_cards(const Node& node) {
  int64_t sum = 0;
  for (const uint16_t milli : node.free_milli) sum += milli;
  return sum;
}

}  // namespace

uint32_t NodeClasses::slot_for(const Node& node) {
  KindPool& pool = pools_[node.kind];
  const Cards cards = sorted_cards(node);
  const uint64_t hash = hash_of(node, cards);
  const auto [begin, end] = pool.slots_by_hash.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (same_state(pool.classes[it->second], node, cards)) return it->second;
  }
  uint32_t slot = static_cast<uint32_t>(pool.classes.size());
  if (pool.free_slots.empty()) {
    pool.classes.emplace_back();
    pool.changed.push_back(0);
  } else {
    slot = pool.free_slots.back();
    pool.free_slots.pop_back();
  }
  NodeClass& state = pool.classes[slot];
  state.cpu_milli = node.cpu_milli;
  state.memory_bytes = node.memory_bytes;
  state.kind = node.kind;
  state.cards = cards;
  state.value_of = 0;
  pool.changed[slot] = ++changes_;
  pool.slots_by_hash.emplace(hash, slot);
  return slot;
}

void NodeClasses::enter(NodeId id) {
  Entry& entry = nodes_[id];
  if (entry.node.kind >= pools_.size()) {
    pools_.resize(size_t{entry.node.kind} + 1);
    totals_.card_milli_of_kind.resize(pools_.size(), 0);
  }
  entry.slot = slot_for(entry.node);
  std::vector<NodeId>& nodes = pools_[entry.node.kind].classes[entry.slot].nodes;
  nodes.insert(std::lower_bound(nodes.begin(), nodes.end(), id, std::greater<>()), id);
  const int64_t cards = free_cards(entry.node);
  totals_.cpu_milli += entry.node.cpu_milli;
  totals_.memory_bytes += entry.node.memory_bytes;
  totals_.card_milli += cards;
  totals_.card_milli_of_kind[entry.node.kind] += cards;
  totals_.largest_cpu_milli = std::max(totals_.largest_cpu_milli, entry.node.cpu_milli);
  totals_.largest_card_milli = std::max(totals_.largest_card_milli, cards);
}

void NodeClasses::leave(NodeId id) {
  const Entry& entry = nodes_[id];
  KindPool& pool = pools_[entry.node.kind];
  NodeClass& state = pool.classes[entry.slot];
  const int64_t cards = free_cards(entry.node);
  totals_.cpu_milli -= entry.node.cpu_milli;
  totals_.memory_bytes -= entry.node.memory_bytes;
  totals_.card_milli -= cards;
  totals_.card_milli_of_kind[entry.node.kind] -= cards;
  state.nodes.erase(std::lower_bound(state.nodes.begin(), state.nodes.end(), id, std::greater<>()));
  if (!state.nodes.empty()) return;
  const auto [begin, end] = pool.slots_by_hash.equal_range(hash_of(entry.node, state.cards));
  for (auto it = begin; it != end; ++it) {
    if (it->second != entry.slot) continue;
    pool.slots_by_hash.erase(it);
    break;
  }
  pool.free_slots.push_back(entry.slot);
  pool.changed[entry.slot] = ++changes_;
}

Result<NodeId> NodeClasses::add(const Node& node) {
  HEDDLE_CHECK_OK(check(node));
  const auto id = static_cast<NodeId>(nodes_.size());
  nodes_.push_back({node, 0, true});
  enter(id);
  return id;
}

Result<void> NodeClasses::set(NodeId id, const Node& node) {
  if (!has(id)) return fail(Code::kNotFound, fmt::format("there is no node {}", id));
  HEDDLE_CHECK_OK(check(node));
  leave(id);
  nodes_[id].node = node;
  enter(id);
  return {};
}

Result<void> NodeClasses::remove(NodeId id) {
  if (!has(id)) return fail(Code::kNotFound, fmt::format("there is no node {}", id));
  leave(id);
  nodes_[id].present = false;
  return {};
}

Result<void> NodeClasses::take(const Choice& choice, const Request& request) {
  return change(choice, request, -1);
}

Result<void> NodeClasses::give_back(const Choice& choice, const Request& request) {
  return change(choice, request, 1);
}

Result<void> NodeClasses::change(const Choice& choice, const Request& request, int sign) {
  if (!has(choice.node)) return fail(Code::kNotFound, fmt::format("there is no node {}", choice.node));
  Node& node = nodes_[choice.node].node;
  const int64_t cpu = node.cpu_milli + sign * request.cpu_milli;
  const int64_t memory = node.memory_bytes + sign * request.memory_bytes;
  if (cpu < 0 || memory < 0) return fail(Code::kConflict, "that much CPU or memory is not free");
  if (choice.cards.size() != static_cast<size_t>(request.cards)) {
    return fail(Code::kConflict, "the choice names another number of cards than the request");
  }
  for (size_t i = 0; i < choice.cards.size(); ++i) {
    const uint16_t card = choice.cards[i];
    if (card >= node.free_milli.size() || (i > 0 && card <= choice.cards[i - 1])) {
      return fail(Code::kConflict, "the choice names a card that is not there, or one twice");
    }
    const int milli = node.free_milli[card] + sign * request.milli;
    if (milli < 0 || milli > kWholeCard) return fail(Code::kConflict, fmt::format("card {} has not that much", card));
  }
  leave(choice.node);
  node.cpu_milli = cpu;
  node.memory_bytes = memory;
  for (const uint16_t card : choice.cards) {
    node.free_milli[card] = static_cast<uint16_t>(node.free_milli[card] + sign * request.milli);
  }
  enter(choice.node);
  return {};
}

void NodeClasses::touch(int idle) {
  for (KindPool& pool : pools_) {
    for (size_t slot = 0; slot < pool.classes.size(); ++slot) {
      NodeClass& state = pool.classes[slot];
      if (state.nodes.empty() || idle_cards(state.view()) < idle) continue;
      state.value_of = 0;
      pool.changed[slot] = ++changes_;
    }
  }
}

std::vector<StateNodes> NodeClasses::states() const {
  std::vector<StateNodes> all;
  for (const KindPool& pool : pools_) {
    for (const NodeClass& state : pool.classes) {
      if (!state.nodes.empty()) all.push_back({state.view(), static_cast<int64_t>(state.nodes.size())});
    }
  }
  return all;
}

}  // namespace heddle::placement
