// The daemon's jobs in their queues.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/demand.h"
#include "standalone/daemon.h"

namespace heddle::standalone {
namespace {

constexpr Duration kKeepPast = Duration::seconds(10);

}  // namespace

// The same, on none of the models that this allocation is on. False: it says no model that can be left out.
bool Daemon::leave_out_models(const engine::State& state, const model::ClaimSpec& asked,
                              const model::Allocation& allocation, model::ClaimSpec& spec) {
  bool any = false;
  for (const queueing::Portion& portion : engine::granted(state, asked, allocation)) {
    if (portion.model.empty() || portion.model.find_first_of("\"\\") != std::string::npos) continue;
    spec.requests.at(0).exactly->selectors.push_back(
        fmt::format("device.attributes[\"accelerator.heddle.dev\"].model != \"{}\"", portion.model));
    any = true;
  }
  return any;
}

Result<void> Daemon::open_queues() {
  if (options_.queues.empty()) return {};
  HEDDLE_TRY(auto queues, JobQueues::make(options_.queues, options_.queue.starvation_bound));
  queues_.emplace(std::move(queues));
  HEDDLE_TRY(const auto past, ledger_->past());
  return renew_queues(past);
}

Result<void> Daemon::renew_queues(const JobQueues::Past& past) {
  HEDDLE_CHECK_OK(queues_->renew(state_, machine_.cards, jobs_, past, queues_->at_least(clock_.now())));
  hold_again();
  return {};
}

// Finds its queue, which is then a part of its request. Refused: there is none for it, or it can never start there.
Result<std::optional<Refused>> Daemon::join_queue(Job& job) {
  if (!queues_) {
    if (!job.request.reservation.empty()) {
      return std::optional(Refused{{{"Reservation",
                                     "there are no reservations here: leave --reservation out, or start Heddle with "
                                     "`heddle up --queues FILE`"}}});
    }
    if (job.request.queue.empty()) return std::optional<Refused>();
    return std::optional(Refused{{{"Queue",
                                   "there are no queues here: leave --queue out, or start Heddle with "
                                   "`heddle up --queues FILE`"}}});
  }
  auto queue = queues_->queue_for(job.owner, job.request.queue);
  if (!queue) return std::optional(Refused{{{"Queue", queue.error().text()}}});
  job.request.queue = std::move(*queue);
  if (!job.request.reservation.empty()) {
    auto may = queues_->check_reservation(job.owner, job.request.queue, job.request.reservation);
    if (!may) return std::optional(Refused{{{"Reservation", may.error().text()}}});
  }
  if (auto never = queues_->never(state_, machine_.cards, job, queues_->at_least(job.submitted))) {
    return std::optional(Refused{{std::move(*never)}});
  }
  return std::optional<Refused>();
}

model::PlacementPolicy Daemon::policy_of(const Job& job) const {
  constexpr auto kDefault = model::PlacementPolicy::kPacking;
  if (job.request.placement_policy) return *job.request.placement_policy;
  return queues_ ? queues_->policy_of(job).value_or(kDefault) : kDefault;
}

Result<Daemon::Try> Daemon::try_queued(Job& job, Time now) {
  Try result;
  auto spec = claim_spec(job.request, machine_.cards);
  // The request was understood when it came; what changed since (a model that vanished) is a reason to wait.
  if (!spec) return Try{{{"Request", spec.error().text()}}, true, {}};
  const model::ClaimSpec asked = *spec;
  for (int kinds = 0; kinds <= kMostModels; ++kinds) {
    const Try found = place_beside_others(job, *spec);
    if (!found.allocation) return kinds > 0 ? result : found;  // quota's word about the first choice
    const model::Allocation& allocation = *found.allocation;
    auto over = queues_->try_devices(state_, job, asked, allocation, now);
    if (!over) {
      if (auto done = commit(job, allocation); !done) {
        queues_->give_up(job);
        return tl::unexpected<Error>(done.error());
      }
      queues_->start(job, now);
      held_.erase(job.id);
      return Try{};
    }
    if (kinds == 0) result.reasons = {std::move(*over)};
    if (!leave_out_models(state_, asked, allocation, *spec)) return result;
  }
  return result;
}

Result<void> Daemon::schedule_queued() {
  if (queues_->stale(state_)) HEDDLE_CHECK_OK(renew_queues({}));
  const Time now = queues_->at_least(clock_.now());
  HEDDLE_CHECK_OK(place_held(now));
  std::map<int64_t, std::vector<engine::Reason>> tried;
  std::vector<int64_t> without_room;
  {
    auto pass = queues_->tree().pass(now);
    while (const auto offer = pass.next()) {
      const int64_t id = JobQueues::job_of(offer->id);
      HEDDLE_TRY(Try result, try_queued(*live(id), now));
      if (result.reasons.empty()) continue;
      // What no card could serve holds nobody back.
      if (!result.hopeless) {
        pass.refused(std::nullopt);
        without_room.push_back(id);
      }
      tried[id] = std::move(result.reasons);
    }
  }
  const std::vector<int64_t> refused = held_back(tried, now);
  without_room.insert(without_room.end(), refused.begin(), refused.end());
  HEDDLE_CHECK_OK(plan_evictions(without_room, now));
  note_waiting(tried, now);
  note_held(now);
  return {};
}

// Those that quota holds back: others may have to give way for them.
std::vector<int64_t> Daemon::held_back(const std::map<int64_t, std::vector<engine::Reason>>& tried, Time now) const {
  std::vector<int64_t> jobs;
  for (const std::string& queue : queues_->leaves()) {
    for (const std::string& key : queues_->tree().waiting(queue, now)) {
      const int64_t id = JobQueues::job_of(key);
      const auto refusal = tried.contains(id) ? std::nullopt : queues_->tree().refusal(key, now);
      if (refusal && refusal->code != "Reservation") jobs.push_back(id);
    }
  }
  return jobs;
}

// Places and reasons of what waits; what was not offered is held back by quota, or by what starves.
void Daemon::note_waiting(const std::map<int64_t, std::vector<engine::Reason>>& tried, Time now) {
  for (const std::string& queue : queues_->leaves()) {
    int64_t position = 0;
    for (const std::string& key : queues_->tree().waiting(queue, now)) {
      Wait& wait = waits_[JobQueues::job_of(key)];
      wait.position = ++position;
      if (const auto found = tried.find(JobQueues::job_of(key)); found != tried.end()) {
        wait.reasons = found->second;
      } else if (auto refusal = queues_->tree().refusal(key, now)) {
        wait.reasons = {{refusal->code, std::move(refusal->message)}};
      } else {
        wait.reasons = {{"Behind", fmt::format("a job that has waited longer than {} s goes first",
                                               options_.queue.starvation_bound.nanos / 1'000'000'000)}};
      }
    }
  }
}

// What queues have had changes while jobs hold something; a crash may lose a few seconds of it.
Result<void> Daemon::keep_past() {
  if (!queues_) return {};
  const bool busy = std::any_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.allocation.has_value(); });
  const int64_t now = clock_.monotonic_nanos();
  const bool due = now - past_kept_ >= kKeepPast.nanos || stopped_ || shutting_down_;
  if (!due || !(busy || past_moved_)) return {};
  HEDDLE_CHECK_OK(ledger_->keep_past(queues_->past(queues_->at_least(clock_.now()))));
  past_kept_ = now;
  past_moved_ = busy;
  return {};
}

}  // namespace heddle::standalone
