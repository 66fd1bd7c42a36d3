#include "placement/heddle_policy.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "placement/holes.h"
#include "placement/ways.h"

namespace heddle::placement {
namespace {

constexpr double kHoleWeight = 8;
constexpr double kBalanceWeight = 1;
constexpr double kEmptyWeight = 0.1;
constexpr double kPressureWeight = 2;
constexpr double kMaxPressure = 3;
constexpr double kRoomWeight = 1.0 / 64;
constexpr double kRoomStock = 12;
constexpr double kRoomStep = 1.25;
constexpr double kCardPart = 0.7;  // of the balance
constexpr double kCpuPart = 0.2;
constexpr double kMemoryPart = 0.1;
constexpr double kUsualRatio = 0.7;  // kc and km, as a part of what the mix asks for
constexpr size_t kMaxSizes = 32;     // of shares, in the prices of holes

int64_t rounded(double value) {
  return static_cast<int64_t>(std::floor(value + 0.5));
}

Cost to_cost(int64_t cost) {
  constexpr int64_t kLimit = kImpossible - 1;
  return static_cast<Cost>(std::clamp(cost, -kLimit, kLimit));
}

double ratio(double milli, double other) {
  return other > 0 ? milli / other : 0;
}

}  // namespace

std::vector<HeddlePolicy::RoomDemand> HeddlePolicy::room_demand(const Mix& mix) {
  struct Sum {
    double weight = 0;
    double cpu = 0;
    double memory = 0;
    double milli = 0;
  };
  std::map<int, Sum> by_cards;
  double total = 0;
  for (const MixClass& entry : mix.classes) {
    const Request& request = entry.request;
    const auto weight = static_cast<double>(entry.weight);
    total += weight * static_cast<double>(request.card_milli());
    if (request.cards < 2 || request.cards > kMaxCards || request.milli != kWholeCard) continue;
    Sum& sum = by_cards[request.cards];
    sum.weight += weight;
    sum.cpu += weight * static_cast<double>(request.cpu_milli);
    sum.memory += weight * static_cast<double>(request.memory_bytes);
    sum.milli += weight * static_cast<double>(request.card_milli());
  }
  std::vector<RoomDemand> demand;
  for (auto larger = by_cards.begin(); larger != by_cards.end(); ++larger) {
    const auto& [cards, sum] = *larger;
    double milli = 0;
    for (auto it = larger; it != by_cards.end(); ++it) milli += it->second.milli;
    demand.push_back({cards, rounded(sum.cpu / sum.weight), rounded(sum.memory / sum.weight), milli / total, 0, 0});
  }
  return demand;
}

int64_t HeddlePolicy::rooms(const RoomDemand& demand, int idle, const StateView& state) {
  int64_t rooms = idle / demand.cards;
  if (demand.cpu_milli > 0) rooms = std::min(rooms, state.cpu_milli / demand.cpu_milli);
  if (demand.memory_bytes > 0) rooms = std::min(rooms, state.memory_bytes / demand.memory_bytes);
  return rooms;
}

void HeddlePolicy::learn(const Mix& mix, const Fleet& fleet) {
  knows_ = mix.total > 0;
  best_fit_->learn(mix, fleet);
  const FleetTotals& totals = fleet.totals;
  fragmentation_ = Fragmentation(mix);
  fragmentation_scale_ = mix.total > 0 ? double{kScale} / static_cast<double>(mix.total) : 0;
  const auto sizes = share_sizes(mix, kMaxSizes);
  const auto worth = hole_worth(sizes, share_prices(sizes));
  for (size_t milli = 0; milli < worth.size(); ++milli) {
    worth_[milli] = static_cast<int32_t>(rounded(kHoleWeight * kScale * worth[milli]));
  }
  double cpu = 0;
  double memory = 0;
  double milli = 0;
  for (const MixClass& entry : mix.classes) {
    const auto weight = static_cast<double>(entry.weight);
    cpu += weight * static_cast<double>(entry.request.cpu_milli);
    memory += weight * static_cast<double>(entry.request.memory_bytes);
    milli += weight * static_cast<double>(entry.request.card_milli());
  }
  if (milli > 0) {
    milli_per_cpu_ = ratio(milli, kUsualRatio * cpu);
    milli_per_byte_ = ratio(milli, kUsualRatio * memory);
  } else {
    milli_per_cpu_ = ratio(static_cast<double>(totals.card_milli), static_cast<double>(totals.cpu_milli));
    milli_per_byte_ = ratio(static_cast<double>(totals.card_milli), static_cast<double>(totals.memory_bytes));
  }
  bound_ = bound_demand(mix, totals.card_milli_of_kind.size());
  room_demand_ = room_demand(mix);
  observe(fleet);
}

int HeddlePolicy::follow_rooms(const Fleet& fleet) {
  int changed = kNoState;
  for (RoomDemand& demand : room_demand_) {
    int64_t supply = 0;
    for (const StateNodes& nodes : fleet.states)
      supply += nodes.nodes * rooms(demand, idle_cards(nodes.state), nodes.state);
    const double expected =
        demand.share * static_cast<double>(fleet.totals.card_milli) / (double{kWholeCard} * demand.cards);
    const double needed = expected + kRoomStock * std::sqrt(expected);
    const double level = std::min(kMaxPressure, needed / std::max(1.0, static_cast<double>(supply)));
    if (level <= demand.level * kRoomStep && level * kRoomStep >= demand.level) continue;
    demand.level = level;
    demand.worth = rounded(kRoomWeight * kScale * kWholeCard * demand.cards * std::pow(level, 3));
    changed = std::min(changed, demand.cards);
  }
  return changed;
}

int HeddlePolicy::observe(const Fleet& fleet) {
  const int changed = follow_rooms(fleet);
  const std::vector<int64_t>& free_milli = fleet.totals.card_milli_of_kind;
  kind_price_.assign(free_milli.size(), 0);
  if (bound_.empty()) return changed;
  const auto levels = pressure_levels(bound_, free_milli, kMaxPressure);
  for (size_t kind = 0; kind < levels.size(); ++kind) {
    kind_price_[kind] = kPressureWeight * kScale * levels[kind] * levels[kind];
  }
  return changed;
}

int64_t HeddlePolicy::balance(int64_t cpu_milli, int64_t memory_bytes, int64_t card_milli) const {
  if (card_milli == 0) return 0;
  const double cpu = std::max(1.0, static_cast<double>(cpu_milli) * milli_per_cpu_);
  const double memory = std::max(1.0, static_cast<double>(memory_bytes) * milli_per_byte_);
  const double cards = static_cast<double>(card_milli);
  // (a/x^2 + b/y^2 + c/z^2)^(-1/2) with one division.
  const auto square = [](double value) { return value * value; };
  const double bottom =
      kCardPart * square(cpu * memory) + kCpuPart * square(cards * memory) + kMemoryPart * square(cards * cpu);
  return rounded(kBalanceWeight * kScale * cards * cpu * memory / std::sqrt(bottom));
}

int64_t HeddlePolicy::fragmentation(Fragmentation::Room room, const uint16_t* cards, int count, int64_t total) const {
  return rounded(static_cast<double>(fragmentation_.weighted(room, cards, count, total)) * fragmentation_scale_);
}

int64_t HeddlePolicy::worth(const StateView& state, int64_t total) const {
  const auto free = static_cast<double>(total);
  int64_t sum = rounded(kEmptyWeight * kScale * free * free / (2.0 * kWholeCard * state.count));
  for (int i = 0; i < state.count; ++i) sum += worth_[state.cards[i]];
  const int idle = idle_cards(state);
  for (const RoomDemand& demand : room_demand_) {
    if (idle < demand.cards) break;
    sum += demand.worth * rooms(demand, idle, state);
  }
  return sum;
}

int64_t HeddlePolicy::value(const StateView& state) {
  if (!knows_) return best_fit_->value(state);
  int64_t total = 0;
  for (int i = 0; i < state.count; ++i) total += state.cards[i];
  if (total == 0) return 0;
  const auto room = fragmentation_.room(state.kind, state.cpu_milli, state.memory_bytes);
  return fragmentation(room, state.cards, state.count, total) - worth(state, total) -
         balance(state.cpu_milli, state.memory_bytes, total);
}

Way HeddlePolicy::cheapest(const StateView& state, int64_t value, const Request& request) {
  if (!knows_) return best_fit_->cheapest(state, value, request);
  int64_t total = -request.card_milli();
  for (int i = 0; i < state.count; ++i) total += state.cards[i];
  if (total == 0) return {to_cost(-value), 0};
  StateView after = state;
  after.cpu_milli -= request.cpu_milli;
  after.memory_bytes -= request.memory_bytes;
  const auto room = fragmentation_.room(state.kind, after.cpu_milli, after.memory_bytes);
  const int64_t common = value + balance(after.cpu_milli, after.memory_bytes, total);
  const auto cost = [&] {
    return to_cost(fragmentation(room, after.cards, after.count, total) - worth(after, total) - common);
  };
  if (request.cards == 0) return {cost(), 0};
  Way best;
  Cards left;
  after.cards = left.milli.data();
  for (int way = next_way(state, request, -1); way >= 0; way = next_way(state, request, way)) {
    take_way(state, request, way, left);
    if (const Cost here = cost(); here < best.cost) best = {here, way};
  }
  return best;
}

Cost HeddlePolicy::kind_cost(Kind kind, const Request& request) const {
  if (!knows_ || kind >= kind_price_.size()) return 0;
  return to_cost(rounded(kind_price_[kind] * static_cast<double>(request.card_milli())));
}

}  // namespace heddle::placement
