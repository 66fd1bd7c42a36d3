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
  if (arrivals_++ % kObserveEvery == 0) observe();
}

void Placer::observe() {
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

void Placer::forget_requests() {
  requests_ = RequestTable();
  learner_ = MixLearner();
  remembered_.clear();
}

// Brings what is remembered of the request up to date.
void Placer::refresh(RequestId id) {
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
}

std::optional<Choice> Placer::choose(RequestId id) {
  refresh(id);
  const std::optional<Found> found = options_.policy == PolicyName::kRandom ? any(id) : cheapest(id);
  if (!found) return std::nullopt;
  return Choice{found->node, pick_cards(id, *found)};
}

std::optional<Choice> Placer::choose_on(NodeId node, RequestId id) {
  if (!nodes_.has(node) || !allows(requests_[id], nodes_.node(node).kind)) return std::nullopt;
  refresh(id);
  const Kind kind = nodes_.node(node).kind;
  const uint32_t slot = nodes_.slot_of(node);
  if (remembered_[id].by_kind[kind].by_slot[slot] == kImpossible) return std::nullopt;
  return Choice{node, pick_cards(id, {0, kind, slot, node})};
}

// The least cost beyond `above`; INT64_MAX: there is none.
int64_t Placer::cheapest_above(RequestId id, int64_t above) const {
  int64_t least = INT64_MAX;
  const Remembered& known = remembered_[id];
  for (size_t kind = 0; kind < known.by_kind.size(); ++kind) {
    if (known.by_kind[kind].by_slot.empty()) continue;
    const int64_t extra = policy_->kind_cost(static_cast<Kind>(kind), requests_[id]);
    for (const Cost cost : known.by_kind[kind].by_slot) {
      if (cost != kImpossible && cost + extra > above) least = std::min(least, cost + extra);
    }
  }
  return least;
}

// All classes that cost more than `above`.
void Placer::price(RequestId id, std::vector<Priced>& out, int64_t above) const {
  const Remembered& known = remembered_[id];
  for (size_t kind = 0; kind < known.by_kind.size(); ++kind) {
    const std::vector<Cost>& costs = known.by_kind[kind].by_slot;
    if (costs.empty()) continue;
    const int64_t extra = policy_->kind_cost(static_cast<Kind>(kind), requests_[id]);
    for (size_t slot = 0; slot < costs.size(); ++slot) {
      if (costs[slot] == kImpossible || costs[slot] + extra <= above) continue;
      out.push_back({costs[slot] + extra, static_cast<Kind>(kind), static_cast<uint32_t>(slot), id});
    }
  }
}

// Classes of one cost: their nodes in the order of their numbers.
Result<bool> Placer::visit_level(std::span<const Priced> level, const Take& take) {
  const auto nodes_of = [this](const Priced& at) -> const std::vector<NodeId>& {
    return nodes_.pools()[at.kind].classes[at.slot].nodes;  // descending
  };
  std::vector<size_t> left;
  left.reserve(level.size());
  for (const Priced& at : level) left.push_back(nodes_of(at).size());
  for (;;) {
    std::optional<size_t> first;
    for (size_t i = 0; i < level.size(); ++i) {
      if (left[i] == 0) continue;
      if (!first || nodes_of(level[i])[left[i] - 1] < nodes_of(level[*first])[left[*first] - 1]) first = i;
    }
    if (!first) return false;
    const Priced& at = level[*first];
    const NodeId node = nodes_of(at)[--left[*first]];
    HEDDLE_TRY(const bool taken, take({node, pick_cards(at.request, {at.cost, at.kind, at.slot, node})}));
    if (taken) return true;
  }
}

// In the order of cost.
Result<bool> Placer::visit_levels(std::span<const Priced> levels, const Take& take) {
  for (auto from = levels.begin(); from != levels.end();) {
    const auto to = std::find_if(from, levels.end(), [&](const Priced& at) { return at.cost != from->cost; });
    HEDDLE_TRY(const bool taken, visit_level({from, to}, take));
    if (taken) return true;
    from = to;
  }
  return false;
}

Result<bool> Placer::visit_alike(std::span<const Priced> levels, const Take& take, const Score& score,
                                 std::vector<NodeId>& tried) {
  std::vector<std::pair<int64_t, Choice>> places;
  HEDDLE_TRY([[maybe_unused]] const bool full, visit_levels(levels, [&](const Choice& choice) -> Result<bool> {
               places.emplace_back(score(choice), choice);
               return places.size() == kMostAlike;
             }));
  std::stable_sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [disturbance, choice] : places) {
    HEDDLE_TRY(const bool taken, take(choice));
    if (taken) return true;
    tried.push_back(choice.node);
  }
  return false;
}

// The cheapest place is nearly always taken, so the others are put in order only when it is not.
Result<bool> Placer::visit(std::span<const RequestId> variants, const Take& take, const Score& score) {
  int64_t least = INT64_MAX;
  for (const RequestId id : variants) {
    refresh(id);
    least = std::min(least, cheapest_above(id, INT64_MIN));
  }
  if (least == INT64_MAX) return false;
  const auto by_cost = [](const Priced& a, const Priced& b) { return a.cost < b.cost; };
  const int64_t most = least + (score ? policy_->alike() : 0);
  std::vector<Priced> level;
  for (const RequestId id : variants) price(id, level, least - 1);
  std::erase_if(level, [&](const Priced& at) { return at.cost > most; });
  std::vector<NodeId> tried;
  bool taken = false;
  if (score) {
    std::stable_sort(level.begin(), level.end(), by_cost);
    HEDDLE_TRY(taken, visit_alike(level, take, score, tried));
  } else {
    HEDDLE_TRY(taken, visit_level(level, take));
  }
  if (taken) return true;
  std::vector<Priced> rest;
  for (const RequestId id : variants) price(id, rest, score ? least - 1 : least);
  std::stable_sort(rest.begin(), rest.end(), by_cost);
  return visit_levels(rest, [&](const Choice& choice) -> Result<bool> {
    if (std::find(tried.begin(), tried.end(), choice.node) != tried.end()) return false;
    return take(choice);
  });
}

}  // namespace heddle::placement
