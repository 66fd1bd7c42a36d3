// Who gives way: jobs that a queue may evict so that another one can start (docs/queueing.md, R1 and R2).
//
// An eviction is in the ledger before anybody is told, with the job that it is for: a daemon that is killed goes on
// with it. What a victim gives back is kept for that job until it has started: its quota in the tree, its cards in
// held_.
#include <fmt/format.h>

#include <algorithm>

#include "engine/kind_quota.h"
#include "standalone/daemon.h"
#include "standalone/grants.h"
#include "standalone/process.h"
#include "standalone/runner.h"

namespace heddle::standalone {
namespace {

constexpr size_t kPlansATurn = 64;  // searches for victims

}  // namespace

// Whether one job has room when others have gone.
class Daemon::Room final : public queueing::FitOracle {
 public:
  Room(Daemon& daemon, const Job& job, Time now) : daemon_(daemon), job_(job), now_(now) {}
  [[nodiscard]] bool single_site() const override { return true; }
  // A search that fails counts as no room.
  [[nodiscard]] bool fits(const std::string& /*site*/, const std::vector<const queueing::Victim*>& gone) override {
    std::vector<std::string> keys;
    keys.reserve(gone.size());
    for (const queueing::Victim* victim : gone) keys.push_back(victim->id);
    return daemon_.room_without(job_, keys, now_).has_value();
  }
  [[nodiscard]] std::optional<std::string> room_now() override {
    return fits({}, {}) ? std::optional<std::string>(JobQueues::kHere) : std::nullopt;
  }

 private:
  Daemon& daemon_;
  const Job& job_;
  Time now_;  // that of the turn: the queues' time does not go on in the middle of it
};

std::optional<model::Allocation> Daemon::room_without(const Job& job, const std::vector<std::string>& gone, Time now) {
  auto spec = claim_spec(job.request, machine_.cards);
  if (!spec) return std::nullopt;
  const model::ClaimSpec asked = *spec;
  std::set<int64_t> ids;
  for (const std::string& key : gone) {
    const Job* other = live(JobQueues::job_of(key));
    if (other == nullptr) continue;
    ids.insert(other->id);
    state_.remove_claim(other->uid);
  }
  std::optional<model::Allocation> room;
  for (int kinds = 0; kinds <= kMostModels; ++kinds) {
    Try found = place_beside_others(job, *spec, ids);
    if (!found.allocation) break;
    if (!queues_->refuses(state_, job, asked, *found.allocation, gone, now)) {
      room = std::move(found.allocation);
      break;
    }
    if (!leave_out_models(state_, asked, *found.allocation, *spec)) break;
  }
  for (const int64_t id : ids) note_claim(*live(id));
  return room;
}

// Looks for victims for those that found no room, in the order of the queues.
Result<void> Daemon::plan_evictions(const std::vector<int64_t>& without_room, Time now) {
  size_t plans = 0;
  std::set<std::string> in_vain;  // equal jobs find no victims either
  for (const int64_t id : without_room) {
    Job& job = *live(id);
    // One that does not wait would have others evicted in vain.
    if (job.state != JobState::kWaiting || job.request.patience == Patience::kRefuse) continue;
    if (const auto vain = in_vain_.find(id); vain != in_vain_.end() && clock_.monotonic_nanos() < vain->second.until)
      continue;
    JobRequest like = job.request;
    like.name.clear();
    like.command.clear();
    like.directory.clear();
    const std::string shape = request_json(like);
    if (in_vain.contains(shape)) continue;
    if (++plans > kPlansATurn) return {};
    HEDDLE_TRY(const bool found, plan_eviction(job, now));
    if (!found) in_vain.insert(shape);
  }
  return {};
}

Result<bool> Daemon::plan_eviction(Job& job, Time now) {
  // One that has its share and has not started its command yet can be told nothing; it starts in a moment.
  std::set<std::string> starting;
  for (const Job& other : jobs_) {
    if (other.state == JobState::kGranted) starting.insert(JobQueues::key_of(other.id));
  }
  Room room(*this, job, now);
  const auto eviction = queues_->plan(job, now, room, starting);
  if (!eviction) return false;
  const auto where = room_without(job, eviction->victims, now);
  if (!where) return false;
  HEDDLE_CHECK_OK(begin_eviction(job, *eviction, now));
  hold_cards(job.id, *where);
  return true;
}

void Daemon::hold_cards(int64_t id, const model::Allocation& where) {
  std::set<std::string>& cards = held_[id];
  for (const model::DeviceResult& result : where.results) {
    if (const auto* card = find_card(machine_, result); card != nullptr) cards.insert(card->uuid);
  }
}

Result<void> Daemon::begin_eviction(const Job& job, const queueing::Eviction& eviction, Time now) {
  const std::string queue = queues_->queue_of(job);
  const bool entitled = queues_->tree().would_be_entitled(eviction.preemptor, eviction.victims);
  std::vector<Ledger::Evicted> told;
  for (const std::string& key : eviction.victims) {
    const Job& victim = *live(JobQueues::job_of(key));
    if (endings_.contains(victim.id) && !victim.eviction) continue;  // it goes anyway, for good
    const std::string others = queues_->queue_of(victim);
    const std::string who = fmt::format("job {} of queue {}", job.id, queue);
    const std::string why = entitled && others != queue
                                ? fmt::format("{} takes back what queue {} borrowed", who, others)
                                : fmt::format("{} has a higher priority", who);
    told.push_back({victim.id, {job.id, why, clock_.now()}});
  }
  if (!told.empty()) HEDDLE_CHECK_OK(ledger_->evict(told));
  for (const Ledger::Evicted& one : told) {
    Job& victim = *live(one.id);
    victim.eviction = one.eviction;
    log_.info("evicting", {{"job", victim.id}, {"for", job.id}, {"why", one.eviction.why}});
    queues_->note_running(victim);
  }
  queues_->begin_eviction(eviction, now);
  for (const Ledger::Evicted& one : told) tell_to_go(*live(one.id));
  return {};
}

void Daemon::tell_to_go(const Job& job) {
  if (endings_.contains(job.id)) return;
  const Duration grace = options_.eviction_grace;
  endings_[job.id] = {"evicted: " + job.eviction->why, clock_.monotonic_nanos() + grace.nanos + kRunnerPatience.nanos};
  ask_to_end(job.runner, grace);
}

// After a restart: victims that were written down are told again.
void Daemon::resume_evictions() {
  for (const Job& job : jobs_) {
    if (job.state == JobState::kRunning && job.eviction) tell_to_go(job);
  }
}

// After a new tree: what is held for those that evictions are under way for. One that has no room any more, such as
// where a card is gone, waits as others do.
void Daemon::hold_again() {
  held_.clear();
  const Time now = queues_->at_least(clock_.now());
  std::map<int64_t, std::vector<std::string>> victims;
  for (const Job& job : jobs_) {
    if (job.state == JobState::kRunning && job.eviction) victims[job.eviction->by].push_back(JobQueues::key_of(job.id));
  }
  for (const auto& [by, those] : victims) {
    const Job* job = live(by);
    if (job == nullptr || job->state != JobState::kWaiting) continue;
    const auto where = room_without(*job, those, now);
    if (!where) continue;
    queues_->begin_eviction({JobQueues::key_of(by), JobQueues::kHere, those}, now);
    hold_cards(by, *where);
  }
}

// Those whose victims have all gone start before all others.
Result<void> Daemon::place_held(Time now) {
  std::vector<int64_t> ready;
  for (const auto& [id, cards] : held_) {
    if (queues_->victims_for(id).empty()) ready.push_back(id);
  }
  for (const int64_t id : ready) {
    queues_->tree().requeue(JobQueues::key_of(id), now);
    HEDDLE_CHECK_OK(try_queued(*live(id), now));
    if (live(id)->state != JobState::kWaiting) {
      in_vain_.erase(id);
    } else {
      Vain& vain = in_vain_[id];
      vain.until = clock_.monotonic_nanos() + engine::pause_after_vain(++vain.times).nanos;
    }
    // Where it did not start, something came in between, such as a card that is sick now: it waits as others do, and is
    // planned for again.
    held_.erase(id);
  }
  return {};
}

// Nothing of an evicted job runs any more.
Result<void> Daemon::end_evicted(Job& job, std::optional<int64_t> exit_code) {
  const bool again = job.request.on_eviction == OnEviction::kRequeue && alive(job.client) && !shutting_down_;
  if (!again) return end_job(job, "evicted: " + job.eviction->why, exit_code);
  HEDDLE_CHECK_OK(ledger_->requeue(job.id));
  log_.info("back in the queue", {{"job", job.id}, {"why", job.eviction->why}});
  endings_.erase(job.id);
  job.state = JobState::kWaiting;
  job.granted = job.started = std::nullopt;
  job.runner = {};
  job.allocation.reset();
  job.eviction.reset();
  ++job.evictions;
  state_.remove_claim(job.uid);
  remove_left_folder(fmt::format("{}/claims/{}", options_.state_dir, job.uid));
  if (!queues_) return {};
  return queues_->requeue(state_, machine_.cards, job, queues_->at_least(clock_.now()));
}

// Those that room is made for go before what else waits in their queues.
void Daemon::note_held(Time now) {
  std::map<std::string, int64_t> places;
  for (const auto& [id, cards] : held_) {
    const Job& job = *live(id);
    const std::string queue = queues_->queue_of(job);
    Wait& wait = waits_[id];
    wait.position = ++places[queue];
    std::vector<std::string> names;
    bool own = false;
    for (const std::string& key : queues_->victims_for(id)) {
      const int64_t victim = JobQueues::job_of(key);
      names.push_back(fmt::format("{}", victim));
      own = own || queues_->queue_of(*live(victim)) != queue;
    }
    wait.reasons = {
        {"Evicting", fmt::format("waits for job{} {} to end: {}", names.size() == 1 ? "" : "s", fmt::join(names, ", "),
                                 own ? fmt::format("it is within what queue {} is guaranteed", queue)
                                     : std::string("it has a higher priority"))}};
  }
  for (const auto& [queue, held] : places) {
    for (const std::string& key : queues_->tree().waiting(queue, now)) waits_[JobQueues::job_of(key)].position += held;
  }
}

}  // namespace heddle::standalone
