// What the members of a gang break of the boxes that others are guaranteed, counted while they are placed. Inside the
// engine only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/box_map.h"
#include "engine/gang.h"
#include "engine/state_impl.h"

namespace heddle::engine {

// One count for each of GangRequest::boxes.
using BoxCounts = std::vector<int64_t>;

[[nodiscard]] bool nobody_holds(const allocator::Held& held);

// The most devices that a pod may take, if a node has them.
[[nodiscard]] int64_t most_devices(const PlacementRequest& request);

class BoxKeeper {
 public:
  // All is borrowed. Errors: kInvalidArgument for boxes of no devices. A class that is not known has no devices.
  static Result<BoxKeeper> make(const State::Impl& state, const std::vector<BoxBudget>& budgets);

  [[nodiscard]] bool any() const { return !budgets_->empty(); }
  [[nodiscard]] BoxCounts none() const { return BoxCounts(budgets_->size(), 0); }
  // One more device that nobody held is taken.
  void open(const allocator::DeviceInfo& device, BoxCounts& opened) const;
  // Boxes that break when so many devices are opened, by node.
  [[nodiscard]] BoxCounts broken_by(const std::map<std::string, BoxCounts>& opened) const;
  // The same of one node alone. Of boxes wider than a node that is less than what it adds to other nodes' at most.
  [[nodiscard]] BoxCounts broken(const std::string& node, const BoxCounts& opened) const;
  [[nodiscard]] bool affordable(const BoxCounts& broken) const { return !overdrawn(broken); }
  // "would break 2 boxes of 8 devices, of which ..."; of what is not affordable.
  [[nodiscard]] std::string complaint(const BoxCounts& broken) const;

 private:
  explicit BoxKeeper(const std::vector<BoxBudget>& budgets) : budgets_(&budgets), lost_(budgets.size()) {}
  [[nodiscard]] std::optional<size_t> overdrawn(const BoxCounts& broken) const;

  struct ClassRequest {
    PlacementRequest request;
    std::unique_ptr<Placement> placement;  // of it; null: nothing is of that class
  };

  const std::vector<BoxBudget>* budgets_;
  std::vector<std::unique_ptr<ClassRequest>> classes_;  // by budget; null: any class
  // By budget of wide boxes and number of devices: BoxMap::lost(), once it was asked for.
  mutable std::vector<std::map<int64_t, NodeDevices>> lost_;
};

}  // namespace heddle::engine
