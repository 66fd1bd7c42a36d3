// The engine's side of preemption: whether a pod has room when others have gone (queueing::FitOracle).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "queueing/preemption.h"

namespace heddle::engine {

// What a victim gives back.
struct VictimHoldings {
  std::vector<std::string> pod_uids;
  std::vector<std::string> claim_uids;  // as the State knows them
};

// For one pod; what it needs is worked out once. Everything that is passed is borrowed, and State and victims must not
// change meanwhile. Not thread-safe. Cost of fits(): the search for devices on that one node.
class RoomWithout final : public queueing::FitOracle {
 public:
  // Errors: those of State::place.
  static Result<std::unique_ptr<RoomWithout>> make(const State& state, const PlacementRequest& request,
                                                   const std::map<std::string, VictimHoldings>& victims);
  ~RoomWithout() override;

  [[nodiscard]] bool single_site() const override { return true; }
  // A search that is given up counts as no room.
  [[nodiscard]] bool fits(const std::string& site, const std::vector<const queueing::Victim*>& gone) override;
  // The first node by name.
  [[nodiscard]] std::optional<std::string> room_now() override;
  // Of the rooms that are kept (State::keep_room). Cost: that of fits() on each node where more is left than is kept.
  [[nodiscard]] bool room_later() override;
  // That room, as a guest's: until the plans of this time are made nobody else is to count on it.
  [[nodiscard]] std::optional<KeptRoom> later_room();

  // What is to be kept for it at the site, where it fits when these have gone. Nothing: it does not.
  [[nodiscard]] std::optional<KeptRoom> room_at(const std::string& site, const std::vector<std::string>& gone);

 private:
  struct Inside;
  explicit RoomWithout(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

}  // namespace heddle::engine
