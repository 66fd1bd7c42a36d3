// The engine's side of preemption by gangs: whether all members have room when others have gone.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/eviction.h"
#include "engine/gang.h"

namespace heddle::engine {

// For one gang; what it needs is worked out once, and what nodes have room for where nobody goes is remembered. All
// that is passed is borrowed, and State and victims must not change meanwhile. Not thread-safe. Cost of fits(): that of
// place_gang, but for the nodes on which nobody goes.
class GangRoomWithout final : public queueing::FitOracle {
 public:
  // Errors: those of place_gang.
  static Result<std::unique_ptr<GangRoomWithout>> make(const State& state, const std::vector<TopologyLevel>& levels,
                                                       const GangRequest& request,
                                                       const std::map<std::string, VictimHoldings>& victims);
  ~GangRoomWithout() override;

  [[nodiscard]] bool single_site() const override { return false; }
  // site is not looked at. A search that is given up counts as no room.
  [[nodiscard]] bool fits(const std::string& site, const std::vector<const queueing::Victim*>& gone) override;
  // The same, of work by its names. A plan of evictions is asked so once more, and sites() is what it makes room on.
  [[nodiscard]] bool fits_without(const std::vector<std::string>& gone);
  // The nodes that its members take, as the last fits() had it.
  [[nodiscard]] const std::set<std::string>& sites() const;

 private:
  struct Inside;
  explicit GangRoomWithout(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

}  // namespace heddle::engine
