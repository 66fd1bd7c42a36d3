#include "placement/placer.h"

#include <algorithm>
#include <utility>

#include "placement/ways.h"

namespace heddle::placement {
namespace {

// Arrivals between two looks at what the fleet has left.
constexpr int64_t kObserveEvery = 32;

bool allows(const Request& request, Kind kind) {
  return request.kinds.empty() || std::binary_search(request.kinds.begin(), request.kinds.end(), kind);
}

// The lowest index of a card with exactly this much free that is not taken yet.
uint16_t card_with(const Node& node, uint16_t milli, const std::vector<uint16_t>& taken) {
  for (uint16_t card = 0;; ++card) {
    if (node.free_milli[card] == milli && std::find(taken.begin(), taken.end(), card) == taken.end()) return card;
  }
}

}  // namespace

Placer::Placer(PlacerOptions options)
    : options_(std::move(options)), policy_(make_policy(options_.policy)), random_(options_.seed) {}

void Placer::learn(const Mix& mix) {
  const std::vector<StateNodes> states = nodes_.states();
  policy_->learn(mix, {nodes_.totals(), states});
  ++estimate_;
}

void Placer::arrive(RequestId id) {
  if (estimate_ == 0) learn(options_.known_mix.value_or(Mix{}));
  const bool enough = learner_.add(id);
  if (enough && !options_.known_mix) learn(learner_.mix(requests_));
  if (arrivals_++ % kObserveEvery != 0) return;
  const std::vector<StateNodes> states = nodes_.states();
  if (const int idle = policy_->observe({nodes_.totals(), states}); idle <= kMaxCards) nodes_.touch(idle);
}

void Placer::refresh(RequestId id, Kind kind, KindCosts& costs) {
  KindPool& pool = nodes_.pools()[kind];
  const Request& request = requests_[id];
  const size_t slots = pool.classes.size();
  costs.by_slot.resize(slots, kImpossible);
  for (size_t slot = 0; slot < slots; ++slot) {
    if (pool.changed[slot] <= costs.seen) continue;
    NodeClass& state = pool.classes[slot];
    costs.by_slot[slot] = kImpossible;
    const StateView view = state.view();
    if (state.nodes.empty() || !fits(view, request)) continue;
    if (state.value_of != estimate_) {
      state.value = policy_->value(view);
      state.value_of = estimate_;
    }
    costs.by_slot[slot] = policy_->cheapest(view, state.value, request).cost;
  }
  costs.seen = nodes_.changes();
}

std::optional<Placer::Found> Placer::cheapest(RequestId id) {
  const Request& request = requests_[id];
  const Remembered& known = remembered_[id];
  std::optional<Found> best;
  for (size_t kind = 0; kind < nodes_.pools().size(); ++kind) {
    if (!allows(request, static_cast<Kind>(kind))) continue;
    const std::vector<Cost>& costs = known.by_kind[kind].by_slot;
    Cost least = kImpossible;
    for (const Cost cost : costs) least = std::min(least, cost);
    if (least == kImpossible) continue;
    const int64_t cost = int64_t{least} + policy_->kind_cost(static_cast<Kind>(kind), request);
    if (best && cost > best->cost) continue;
    for (size_t slot = 0; slot < costs.size(); ++slot) {
      if (costs[slot] != least) continue;
      const NodeId node = nodes_.pools()[kind].classes[slot].nodes.back();
      if (best && cost == best->cost && node > best->node) continue;
      best = Found{cost, static_cast<Kind>(kind), static_cast<uint32_t>(slot), node};
    }
  }
  return best;
}

std::optional<Placer::Found> Placer::any(RequestId id) {
  const Remembered& known = remembered_[id];
  const auto for_each = [&](const auto& visit) {
    for (size_t kind = 0; kind < known.by_kind.size(); ++kind) {
      const std::vector<Cost>& costs = known.by_kind[kind].by_slot;
      for (size_t slot = 0; slot < costs.size(); ++slot) {
        if (costs[slot] != kImpossible) visit(kind, slot, nodes_.pools()[kind].classes[slot].nodes);
      }
    }
  };
  uint64_t count = 0;
  for_each([&](size_t, size_t, const std::vector<NodeId>& nodes) { count += nodes.size(); });
  if (count == 0) return std::nullopt;
  uint64_t drawn = random_.below(count);
  std::optional<Found> found;
  for_each([&](size_t kind, size_t slot, const std::vector<NodeId>& nodes) {
    if (!found && drawn < nodes.size()) {
      found = Found{0, static_cast<Kind>(kind), static_cast<uint32_t>(slot), nodes[drawn]};
    }
    drawn -= found ? 0 : nodes.size();
  });
  return found;
}

std::vector<uint16_t> Placer::pick_cards(RequestId id, const Found& found) {
  const Request& request = requests_[id];
  std::vector<uint16_t> cards;
  if (request.cards == 0) return cards;
  const Node& node = nodes_.node(found.node);
  if (options_.policy == PolicyName::kRandom) {
    std::vector<uint16_t> fitting;
    for (size_t card = 0; card < node.free_milli.size(); ++card) {
      if (node.free_milli[card] >= request.milli) fitting.push_back(static_cast<uint16_t>(card));
    }
    while (cards.size() < static_cast<size_t>(request.cards)) {
      const auto at = fitting.begin() + static_cast<std::ptrdiff_t>(random_.below(fitting.size()));
      cards.push_back(*at);
      fitting.erase(at);
    }
  } else {
    const NodeClass& state = nodes_.pools()[found.kind].classes[found.slot];
    const int first = policy_->cheapest(state.view(), state.value, request).first;
    for (int i = first; i < first + request.cards; ++i) {
      cards.push_back(card_with(node, state.cards.milli[static_cast<size_t>(i)], cards));
    }
  }
  std::sort(cards.begin(), cards.end());
  return cards;
}

std::optional<Choice> Placer::choose(RequestId id) {
  if (estimate_ == 0) learn(options_.known_mix.value_or(Mix{}));
  if (remembered_.size() <= id) remembered_.resize(requests_.size());
  Remembered& known = remembered_[id];
  if (known.estimate != estimate_) {
    known.by_kind.clear();
    known.estimate = estimate_;
  }
  known.by_kind.resize(nodes_.pools().size());
  for (size_t kind = 0; kind < known.by_kind.size(); ++kind) {
    if (allows(requests_[id], static_cast<Kind>(kind))) refresh(id, static_cast<Kind>(kind), known.by_kind[kind]);
  }
  const std::optional<Found> found = options_.policy == PolicyName::kRandom ? any(id) : cheapest(id);
  if (!found) return std::nullopt;
  return Choice{found->node, pick_cards(id, *found)};
}

}  // namespace heddle::placement
