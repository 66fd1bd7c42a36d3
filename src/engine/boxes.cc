#include "engine/boxes.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/cards.h"

namespace heddle::engine {

bool nobody_holds(const allocator::Held& held) {
  return held.whole == 0 && held.shares == 0;
}

int64_t most_devices(const PlacementRequest& request) {
  constexpr int64_t kAllOfANode = 1 << 20;
  int64_t devices = 0;
  const auto count_of = [](const model::DeviceSubRequest& asked) {
    return asked.allocation_mode == "All" ? kAllOfANode : asked.count.value_or(1);
  };
  for (const ClaimRequest& claim : request.claims) {
    for (const model::DeviceRequest& one : claim.spec.requests) {
      int64_t most = one.exactly ? count_of(*one.exactly) : 0;
      for (const model::DeviceSubRequest& alternative : one.first_available)
        most = std::max(most, count_of(alternative));
      devices += most;
    }
  }
  return devices;
}

Result<BoxKeeper> BoxKeeper::make(const State::Impl& state, const std::vector<BoxBudget>& budgets) {
  BoxKeeper keeper(budgets);
  for (const BoxBudget& budget : budgets) {
    if (budget.box_devices < 1) return fail(Code::kInvalidArgument, "a box has at least one device", "boxes");
    keeper.classes_.emplace_back();
    if (budget.device_class.empty()) continue;
    auto one = std::make_unique<ClassRequest>();
    if (state.classes.contains(budget.device_class)) {
      model::ClaimSpec spec;
      spec.requests.emplace_back();
      spec.requests.front().name = "box";
      spec.requests.front().exactly.emplace();
      spec.requests.front().exactly->device_class = budget.device_class;
      one->request.claims.push_back({"box", "", std::move(spec)});
      HEDDLE_TRY(Placement placement, make_placement(state, one->request));
      one->placement = std::make_unique<Placement>(std::move(placement));
    }
    keeper.classes_.back() = std::move(one);
  }
  return keeper;
}

void BoxKeeper::open(const allocator::DeviceInfo& device, BoxCounts& opened) const {
  for (size_t i = 0; i < budgets_->size(); ++i) {
    const BoxBudget& budget = (*budgets_)[i];
    if (!budget.vendor.empty() && attribute_text(device, "vendor") != budget.vendor) continue;
    if (!budget.model.empty() && attribute_text(device, "model") != budget.model) continue;
    if (classes_[i] != nullptr) {
      const Placement* placement = classes_[i]->placement.get();
      if (placement == nullptr) continue;
      if (!placement->claims.front().requests.front().alternatives.front().query->selects(device)) continue;
    }
    ++opened[i];
  }
}

BoxCounts BoxKeeper::broken(const std::string& node, const BoxCounts& opened) const {
  BoxCounts out = none();
  for (size_t i = 0; i < budgets_->size(); ++i) {
    const BoxBudget& budget = (*budgets_)[i];
    if (budget.map != nullptr) {
      const auto [lost, fresh] = lost_[i].try_emplace(opened[i]);
      if (fresh) lost->second = budget.map->lost(budget.available, opened[i]);
      const auto here = lost->second.find(node);
      if (here != lost->second.end()) out[i] = here->second;
      continue;
    }
    const auto found = budget.available.find(node);
    if (found == budget.available.end()) continue;
    out[i] = found->second / budget.box_devices - std::max<int64_t>(found->second - opened[i], 0) / budget.box_devices;
  }
  return out;
}

BoxCounts BoxKeeper::broken_by(const std::map<std::string, BoxCounts>& opened) const {
  BoxCounts out = none();
  for (const auto& [node, counts] : opened) {
    const BoxCounts here = broken(node, counts);
    for (size_t i = 0; i < out.size(); ++i) out[i] += here[i];
  }
  for (size_t i = 0; i < budgets_->size(); ++i) {
    const BoxBudget& budget = (*budgets_)[i];
    if (budget.map == nullptr) continue;
    NodeDevices left = budget.available;
    for (const auto& [node, counts] : opened) {
      if (const auto found = left.find(node); found != left.end())
        found->second = std::max<int64_t>(found->second - counts[i], 0);
    }
    out[i] = budget.map->count(budget.available) - budget.map->count(left);
  }
  return out;
}

std::optional<size_t> BoxKeeper::overdrawn(const BoxCounts& broken) const {
  for (size_t i = 0; i < budgets_->size(); ++i) {
    if (broken[i] > (*budgets_)[i].spare) return i;
  }
  return std::nullopt;
}

std::string BoxKeeper::complaint(const BoxCounts& broken) const {
  const auto at = overdrawn(broken);
  if (!at) return {};
  const BoxBudget& budget = (*budgets_)[*at];
  const std::string what = budget.map != nullptr ? budget.map->text(broken[*at])
                                                 : fmt::format("{} box{} of {} devices", broken[*at],
                                                               broken[*at] == 1 ? "" : "es", budget.box_devices);
  return fmt::format("would break {} where {} may be: the others are kept whole for boxes that queues are guaranteed",
                     what, budget.spare == 0 ? std::string("none") : std::to_string(budget.spare));
}

}  // namespace heddle::engine
