// The default policy. With s a node before and s' after a placement, k its kind:
//
//   cost = F(s') - F(s) + 8 * (H(s) - H(s')) + R(s) - R(s') + B(s) - B(s') + E(s) - E(s') + 2 * L_k^2 * (milli asked)
//
// F: fragmentation.h. H: the worth of the holes, holes.h. L: pressure.h, levels cut at 3.
//
// R, rooms: a room of q is q idle cards on one node, with the CPU and memory that pods of q cards ask for on average.
// Pods that need at least q whole cards ask for a part D of all that is asked for, so of what is free n = D * free / q
// rooms should be of that size, and 12 * sqrt(n) more in stock: where few are expected, a few too many come at times,
// and a mean alone leaves large pods waiting in steady state. With S rooms there are, a room of q is worth q * 1000 *
// ((n + 12 * sqrt(n)) / S)^3 / 64, the ratio cut at 3. R is the sum over the q that the mix asks for. So big rooms are
// kept when they become rare, even where pressure would push small pods into them. The ratio is followed in steps of a
// quarter.
//
// B, balance: how much of the idle cards can be used at the mix's ratio of CPU and memory to cards, a weighted mean
// that is close to the scarcest of them
//   B(s) = (0.7 / cards^2 + 0.2 / max(1, cpu / kc)^2 + 0.1 / max(1, memory / km)^2)^(-1/2), 0 without idle cards
// with kc = 0.7 * (CPU asked) / (card milli asked) in the mix, km the same with memory. So CPU costs most where idle
// cards per idle CPU are many, and nothing where all cards are taken. Where CPU and memory are plenty B must not tell
// nodes apart: a mean with less of an edge (harmonic) makes a card of an emptier node cheaper there, work spreads over
// the fleet, and no node is ever whole again. Where nobody asks for cards kc and km are the fleet's own ratios.
//
// E, emptiness: (free milli)^2 / (20 * milli of all cards), so that a milli costs a tenth of the part of its node that
// is free. That decides where nothing above does: the emptier node is the one that departures will make whole.
//
// Before anything is known of the mix, the cost is that of best fit: on a small fleet that is most of its life.
#pragma once

#include <array>

#include "placement/fragmentation.h"
#include "placement/policy.h"
#include "placement/pressure.h"

namespace heddle::placement {

class HeddlePolicy final : public Policy {
 public:
  // Units of value and cost in one card milli.
  static constexpr int kScale = 256;

  void learn(const Mix& mix, const Fleet& fleet) override;
  int observe(const Fleet& fleet) override;
  [[nodiscard]] int64_t value(const StateView& state) override;
  [[nodiscard]] Way cheapest(const StateView& state, int64_t value, const Request& request) override;
  [[nodiscard]] Cost kind_cost(Kind kind, const Request& request) const override;
  [[nodiscard]] Cost alike() const override { return knows_ ? kScale * kAlikeMilli : best_fit_->alike(); }

  // B in cost units.
  [[nodiscard]] int64_t balance(int64_t cpu_milli, int64_t memory_bytes, int64_t card_milli) const;

 private:
  [[nodiscard]] int64_t fragmentation(Fragmentation::Room room, const uint16_t* cards, int count, int64_t total) const;
  // 8 * H + R + E in cost units. total: free milli.
  [[nodiscard]] int64_t worth(const StateView& state, int64_t total) const;

  // While nothing is known of the mix.
  std::unique_ptr<Policy> best_fit_ = make_policy(PolicyName::kBestFit);
  bool knows_ = false;
  Fragmentation fragmentation_;
  double fragmentation_scale_ = 0;               // from weighted milli to cost units
  std::array<int32_t, kWholeCard + 1> worth_{};  // 8 * h in cost units
  double milli_per_cpu_ = 0;                     // 1 / kc
  double milli_per_byte_ = 0;                    // 1 / km
  std::vector<BoundDemand> bound_;
  std::vector<double> kind_price_;  // 2 * L^2 in cost units per milli

  struct RoomDemand {
    int cards = 0;
    int64_t cpu_milli = 0;     // that pods of this many cards ask for on average
    int64_t memory_bytes = 0;  // so do they
    double share = 0;          // of all milli asked, by pods that need this many whole cards or more
    double level = 0;          // (n + 12 * sqrt(n)) / S as last followed
    int64_t worth = 0;         // of one room, in cost units
  };
  static std::vector<RoomDemand> room_demand(const Mix& mix);
  static int64_t rooms(const RoomDemand& demand, int idle, const StateView& state);
  // Follows the levels; the smallest room whose level has changed, or kNoState.
  int follow_rooms(const Fleet& fleet);
  std::vector<RoomDemand> room_demand_;  // by ascending number of cards
};

}  // namespace heddle::placement
