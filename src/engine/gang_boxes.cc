// Gangs beside boxes that others are guaranteed: which nodes take how many members so that few boxes break.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

#include "engine/gang_place.h"

namespace heddle::engine {
namespace {

BoxCounts minus(BoxCounts a, const BoxCounts& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

BoxCounts plus(BoxCounts a, const BoxCounts& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

int64_t sum_of(const BoxCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

const allocator::Held& held_in(const Overlay& overlay, const allocator::DeviceInfo& device) {
  for (const auto& [other, held] : overlay.assumption.instead) {
    if (other == &device) return held;
  }
  return device.held;
}

// More members on one node, and what they break more.
struct Step {
  int64_t members = 0;
  int64_t price = 0;
};

bool better(const Step& a, const Step& b) {
  const Int128 left = Int128{a.members} * std::max<int64_t>(b.price, 0);
  const Int128 right = Int128{b.members} * std::max<int64_t>(a.price, 0);
  if (left != right) return left > right;
  return a.price != b.price ? a.price < b.price : a.members > b.members;
}

}  // namespace

// Before this gang, and with what has ended as is assumed.
bool GangSearch::held_by_nobody(size_t node, const allocator::DeviceInfo& device) const {
  const auto freed = freed_.find(node);
  return nobody_holds(freed == freed_.end() ? device.held : held_in(freed->second, device));
}

// Devices that nobody held, and that this gang takes.
BoxCounts GangSearch::opened_on(size_t node, const Overlay& overlay) const {
  BoxCounts opened = boxes_.none();
  for (const auto& [device, held] : overlay.assumption.instead) {
    if (!nobody_holds(held) && held_by_nobody(node, *device)) boxes_.open(*device, opened);
  }
  return opened;
}

BoxCounts GangSearch::broken_so_far() const {
  std::map<std::string, BoxCounts> opened;
  for (const auto& [node, overlay] : taken_) opened[nodes_[node]->view.node] = opened_on(node, overlay);
  return boxes_.broken_by(opened);
}

// What the first, the first two ... members of the group that go there break, beside what is broken already.
Result<std::vector<BoxCounts>> GangSearch::prices_on(size_t node, size_t group) {
  std::vector<BoxCounts> prices;
  if (!groups_[group]->open(*nodes_[node], Leave::kNothing)) return prices;
  const auto taken = taken_.find(node);
  const auto freed = freed_.find(node);
  Overlay trial;
  if (taken != taken_.end()) {
    trial = taken->second;
  } else if (freed != freed_.end()) {
    trial = freed->second;
  }
  const std::string& name = nodes_[node]->view.node;
  BoxCounts opened = opened_on(node, trial);
  const BoxCounts before = boxes_.broken(name, opened);
  std::set<const allocator::DeviceInfo*> seen;
  for (const auto& [device, held] : trial.assumption.instead) {
    if (!nobody_holds(held)) seen.insert(device);
  }
  const auto limit = static_cast<int64_t>(groups_[group]->members.size());
  HEDDLE_TRY(const auto copies, groups_[group]->take(*nodes_[node], trial, limit, Leave::kNothing));
  for (const allocator::Solution& copy : copies) {
    for (const auto& claim : copy.claims) {
      for (const allocator::Pick& pick : claim) {
        if (pick.alternative->spec->admin_access || !held_by_nobody(node, *pick.device)) continue;
        if (seen.insert(pick.device).second) boxes_.open(*pick.device, opened);
      }
    }
    prices.push_back(minus(boxes_.broken(name, opened), before));
  }
  return prices;
}

// Each node first takes those that break nothing. Then, while members are missing, the node and the number come next
// that break the least for each. What members on several nodes break of one wide box is seen only when all are placed.
Result<void> GangSearch::ration(size_t group, const std::vector<size_t>& nodes, int64_t wanted, Spare spare) {
  struct Offer {
    std::vector<BoxCounts> prices;
    int64_t taken = 0;
  };
  rations_.erase(group);
  BoxCounts broken = broken_so_far();
  std::vector<Offer> offers(nodes.size());
  const auto paid = [&](const Offer& offer) {
    return offer.taken == 0 ? boxes_.none() : offer.prices[static_cast<size_t>(offer.taken) - 1];
  };
  const auto best_step = [&](const Offer& offer) {
    Step best;
    const auto room = static_cast<int64_t>(offer.prices.size());
    for (int64_t to = offer.taken + 1; to <= std::min(room, offer.taken + wanted); ++to) {
      const BoxCounts more = minus(offer.prices[static_cast<size_t>(to) - 1], paid(offer));
      const Step step{to - offer.taken, sum_of(more)};
      if (step.price > 0 && (spare == Spare::kLeft || !boxes_.affordable(plus(broken, more)))) break;
      if (best.members == 0 || better(step, best)) best = step;
    }
    return best;
  };
  const auto later = [](const std::pair<Step, size_t>& a, const std::pair<Step, size_t>& b) {
    if (better(a.first, b.first) != better(b.first, a.first)) return better(b.first, a.first);
    return a.second > b.second;
  };
  std::priority_queue<std::pair<Step, size_t>, std::vector<std::pair<Step, size_t>>, decltype(later)> next(later);
  const auto offer_again = [&](size_t i) {
    if (const Step step = best_step(offers[i]); step.members > 0) next.emplace(step, i);
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    HEDDLE_TRY(offers[i].prices, prices_on(nodes[i], group));
    offer_again(i);
  }
  while (wanted > 0 && !next.empty()) {
    const auto [step, i] = next.top();
    next.pop();
    const Step now = best_step(offers[i]);  // fewer are missing, or less may be broken, than when it was offered
    if (now.members != step.members || now.price != step.price) {
      if (now.members > 0) next.emplace(now, i);
      continue;
    }
    broken = minus(std::move(broken), paid(offers[i]));
    offers[i].taken += step.members;
    broken = plus(std::move(broken), paid(offers[i]));
    wanted -= step.members;
    offer_again(i);
  }
  std::map<size_t, int64_t>& rations = rations_[group];
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (offers[i].taken > 0) rations[nodes[i]] = offers[i].taken;
  }
  return {};
}

// Where the members would fit if boxes did not count.
Result<std::optional<Reason>> GangSearch::boxes_short(const GangDomain& domain, int64_t fitting) {
  if (!boxes_.any()) return std::optional<Reason>();
  for (const auto& wanted : {std::vector<bool>(request_.members.size(), true), the_minimum()}) {
    HEDDLE_TRY(const GangAttempt made, fill_domain(domain, wanted, Boxes::kForgotten));
    if (!made.enough) continue;
    const std::string text =
        fmt::format("{}; {} has room, but that {}{}", ask_text(), place_text(domain), boxes_.complaint(broken_so_far()),
                    fitting > 0 ? fmt::format("; a minimum of {} would fit", fitting) : std::string());
    return std::optional(Reason{"Boxes", text});
  }
  return std::optional<Reason>();
}

}  // namespace heddle::engine
