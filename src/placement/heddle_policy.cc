#include "placement/heddle_policy.h"

#include <algorithm>
#include <cmath>

#include "placement/holes.h"
#include "placement/ways.h"

namespace heddle::placement {
namespace {

constexpr double kHoleWeight = 8;
constexpr double kBalanceWeight = 1;
constexpr double kPressureWeight = 2;
constexpr double kMaxPressure = 3;
constexpr double kRoomWeight = 1.0 / 32;
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
  const auto needs_room = [](const Request& request) { return request.cards > 1 && request.milli == kWholeCard; };
  std::vector<RoomDemand> demand;
  int64_t total = 0;
  for (const MixClass& entry : mix.classes) {
    total += entry.weight * entry.request.card_milli();
    const int cards = entry.request.cards;
    const auto same = [cards](const RoomDemand& other) { return other.cards == cards; };
    if (!needs_room(entry.request) || cards > kMaxCards || std::any_of(demand.begin(), demand.end(), same)) continue;
    demand.push_back({cards, 0, 0});
  }
  for (const MixClass& entry : mix.classes) {
    if (!needs_room(entry.request)) continue;
    const auto milli = static_cast<double>(entry.weight * entry.request.card_milli());
    for (RoomDemand& room : demand)
      room.share += entry.request.cards >= room.cards ? milli / static_cast<double>(total) : 0;
  }
  return demand;
}

void HeddlePolicy::learn(const Mix& mix, const FleetTotals& totals) {
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
  observe(totals);
}

bool HeddlePolicy::follow_rooms(const FleetTotals& totals) {
  bool changed = false;
  rooms_worth_.fill(0);
  for (RoomDemand& demand : room_demand_) {
    double supply = 0;
    for (int idle = demand.cards; idle <= kMaxCards; ++idle) {
      const int held = idle / demand.cards * demand.cards;
      supply += double{kWholeCard} * held * static_cast<double>(totals.nodes_by_idle_cards[static_cast<size_t>(idle)]);
    }
    const double needed = demand.share * static_cast<double>(totals.card_milli);
    const double level = needed <= 0 ? 0 : std::min(kMaxPressure, needed / std::max(1.0, supply));
    if (level > demand.level * kRoomStep || level * kRoomStep < demand.level) {
      demand.level = level;
      changed = true;
    }
    const int64_t worth = rounded(kRoomWeight * kScale * kWholeCard * demand.cards * demand.level * demand.level);
    for (int idle = demand.cards; idle <= kMaxCards; ++idle) {
      rooms_worth_[static_cast<size_t>(idle)] += worth * (idle / demand.cards);
    }
  }
  return changed;
}

bool HeddlePolicy::observe(const FleetTotals& totals) {
  const bool changed = follow_rooms(totals);
  kind_price_.assign(totals.card_milli_of_kind.size(), 0);
  if (bound_.empty()) return changed;
  const auto levels = pressure_levels(bound_, totals.card_milli_of_kind, kMaxPressure);
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
  // 1 / (a/x + b/y + c/z) with one division.
  const double bottom = kCardPart * cpu * memory + kCpuPart * cards * memory + kMemoryPart * cards * cpu;
  return rounded(kBalanceWeight * kScale * cards * cpu * memory / bottom);
}

int64_t HeddlePolicy::fragmentation(Fragmentation::Room room, const uint16_t* cards, int count, int64_t total) const {
  return rounded(static_cast<double>(fragmentation_.weighted(room, cards, count, total)) * fragmentation_scale_);
}

int64_t HeddlePolicy::worth(const uint16_t* cards, int count) const {
  int64_t sum = 0;
  int idle = 0;
  for (int i = 0; i < count; ++i) {
    sum += worth_[cards[i]];
    idle += cards[i] == kWholeCard ? 1 : 0;
  }
  return sum + rooms_worth_[static_cast<size_t>(idle)];
}

int64_t HeddlePolicy::value(const StateView& state) {
  int64_t total = 0;
  for (int i = 0; i < state.count; ++i) total += state.cards[i];
  if (total == 0) return 0;
  const auto room = fragmentation_.room(state.kind, state.cpu_milli, state.memory_bytes);
  return fragmentation(room, state.cards, state.count, total) - worth(state.cards, state.count) -
         balance(state.cpu_milli, state.memory_bytes, total);
}

Way HeddlePolicy::cheapest(const StateView& state, int64_t value, const Request& request) {
  int64_t total = -request.card_milli();
  for (int i = 0; i < state.count; ++i) total += state.cards[i];
  if (total == 0) return {to_cost(-value), 0};
  const int64_t cpu = state.cpu_milli - request.cpu_milli;
  const int64_t memory = state.memory_bytes - request.memory_bytes;
  const auto room = fragmentation_.room(state.kind, cpu, memory);
  const int64_t common = value + balance(cpu, memory, total);
  if (request.cards == 0) {
    const int64_t after =
        fragmentation(room, state.cards, state.count, total) - worth(state.cards, state.count) - common;
    return {to_cost(after), 0};
  }
  Way best;
  Cards left;
  for (int way = next_way(state, request, -1); way >= 0; way = next_way(state, request, way)) {
    take_way(state, request, way, left);
    const int64_t after =
        fragmentation(room, left.milli.data(), left.count, total) - worth(left.milli.data(), left.count) - common;
    const Cost cost = to_cost(after);
    if (cost < best.cost) best = {cost, way};
  }
  return best;
}

Cost HeddlePolicy::kind_cost(Kind kind, const Request& request) const {
  if (kind >= kind_price_.size()) return 0;
  return to_cost(rounded(kind_price_[kind] * static_cast<double>(request.card_milli())));
}

}  // namespace heddle::placement
