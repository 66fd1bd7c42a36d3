// Where a job goes beside what others are promised: boxes of whole cards that queues are guaranteed.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "engine/box_rooms.h"
#include "standalone/daemon.h"
#include "standalone/grants.h"

namespace heddle::standalone {
namespace {

constexpr int kMostTurns = 4;  // each leaves out more cards

// The same, on none of these cards.
void leave_out(const std::set<std::string>& uuids, model::ClaimSpec& spec) {
  spec.requests.at(0).exactly->selectors.push_back(
      fmt::format("!(device.attributes[\"accelerator.heddle.dev\"].uuid in {})", dump_json(nlohmann::json(uuids))));
}

std::string cards_text(size_t count) {
  return count == 1 ? std::string("1 of the cards that it could have is")
                    : fmt::format("{} of the cards that it could have are", count);
}

}  // namespace

Daemon::Try Daemon::place_beside_others(const Job& job, model::ClaimSpec spec, const std::set<int64_t>& gone) {
  std::set<std::string> avoided;
  std::vector<engine::Reason> reasons;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    auto outcome = place(job, spec);
    // The request was understood when it came; what changed since (a model that vanished) is a reason to wait.
    if (!outcome) return Try{{{"Request", outcome.error().text()}}, true, {}};
    auto* assigned = std::get_if<engine::Assigned>(&*outcome);
    if (assigned == nullptr) {
      if (turn > 0) return Try{std::move(reasons), false, {}};
      if (auto* waiting = std::get_if<engine::Waiting>(&*outcome)) return Try{std::move(waiting->reasons), false, {}};
      return Try{std::move(std::get<engine::Infeasible>(*outcome).reasons), true, {}};
    }
    model::Allocation& allocation = assigned->allocations.at(0);
    std::set<std::string> held = cards_held(job, allocation);
    std::set<std::string> kept = cards_kept_whole(job, allocation, gone);
    if (held.empty() && kept.empty()) return Try{{}, false, std::move(allocation)};
    if (!held.empty()) {
      reasons = {{"Held", fmt::format("{} kept for a job that others are evicted for", cards_text(held.size()))}};
    } else {
      reasons = {{"Boxes", fmt::format("{} kept whole for boxes that queues are guaranteed", cards_text(kept.size()))}};
    }
    avoided.merge(held);
    avoided.merge(kept);
    leave_out(avoided, spec);
  }
  return Try{std::move(reasons), false, {}};
}

// Cards that others are to have, where this allocation would use one of them; by uuid.
std::set<std::string> Daemon::cards_held(const Job& job, const model::Allocation& allocation) const {
  std::set<std::string> held;
  for (const auto& [id, cards] : held_) {
    if (id != job.id) held.insert(cards.begin(), cards.end());
  }
  const bool in_the_way =
      std::any_of(allocation.results.begin(), allocation.results.end(), [&](const model::DeviceResult& result) {
        const auto* card = find_card(machine_, result);
        return card != nullptr && held.contains(card->uuid);
      });
  return in_the_way ? held : std::set<std::string>();
}

std::set<std::string> Daemon::cards_in_use() const {
  std::set<std::string> used;
  for (const engine::DeviceUse& use : state_.device_uses()) {
    model::DeviceResult here;
    here.pool = use.device.pool;
    here.device = use.device.device;
    const auto* card = find_card(machine_, here);
    if (card != nullptr && !use.holders.empty()) used.insert(card->uuid);
  }
  return used;
}

// Free cards that the job may not open, where this allocation would break a box that is to be kept; by uuid.
std::set<std::string> Daemon::cards_kept_whole(const Job& job, const model::Allocation& allocation,
                                               const std::set<int64_t>& gone) const {
  std::set<std::string> kept;
  if (!queues_) return kept;
  const queueing::Amounts keep = queues_->tree().keep_intact(JobQueues::key_of(job.id));
  if (std::all_of(keep.begin(), keep.end(), [](int64_t boxes) { return boxes == 0; })) return kept;
  const auto& meters = queues_->meters();
  const auto rooms = engine::BoxRooms::look(state_, {}, meters, queues_->box_holders(jobs_, gone));
  const std::set<std::string> used = cards_in_use();
  std::vector<const vendors::Card*> free;  // first those of the allocation
  for (const model::DeviceResult& result : allocation.results) {
    const auto* card = find_card(machine_, result);
    if (card != nullptr && !used.contains(card->uuid)) free.push_back(card);
  }
  const size_t opened = free.size();
  for (const vendors::Card& card : machine_.cards) {
    if (!used.contains(card.uuid) && std::find(free.begin(), free.end(), &card) == free.end()) free.push_back(&card);
  }
  for (size_t m = 0; m < keep.size(); ++m) {
    if (keep[m] == 0) continue;
    const int64_t may = rooms.may_open(m, machine_.node, keep[m]);
    int64_t open = 0;
    bool breaks = false;
    std::set<std::string> beyond;
    for (size_t i = 0; i < free.size(); ++i) {
      if (!engine::counts(meters[m], free[i]->vendor, free[i]->model) || ++open <= may) continue;
      beyond.insert(free[i]->uuid);
      breaks = breaks || i < opened;
    }
    if (breaks) kept.merge(beyond);
  }
  return kept;
}

}  // namespace heddle::standalone
