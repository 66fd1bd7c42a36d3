// The daemon's view of its cards: what the vendor says, and who is on them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "standalone/daemon.h"
#include "standalone/grants.h"
#include "standalone/process.h"

namespace heddle::standalone {
namespace {

const vendors::CardStatus* status_of(const std::vector<vendors::CardStatus>& statuses, const std::string& uuid) {
  const auto found =
      std::find_if(statuses.begin(), statuses.end(), [&](const auto& status) { return status.uuid == uuid; });
  return found == statuses.end() ? nullptr : &*found;
}

std::string advice(agent::Finding::Kind kind) {
  switch (kind) {
    case agent::Finding::Kind::kBeyondGrant:
    case agent::Finding::Kind::kBeyondShare:
      return "it uses more than its share: the guard is not in it";
    case agent::Finding::Kind::kUnguarded:
      return "it has a share and the guard that holds it there is not in it: a static program, another libc than "
             "glibc, "
             "or a cleared LD_PRELOAD";
    case agent::Finding::Kind::kUngranted:
      break;
  }
  return "no share covers it; start it with `heddle run`";
}

std::string name_of(const Machine& machine, const std::string& uuid) {
  for (const auto& slice : machine.slices) {
    for (const auto& device : slice.devices) {
      model::DeviceResult here;
      here.pool = slice.pool;
      here.device = device.name;
      const auto* card = find_card(machine, here);
      if (card != nullptr && card->uuid == uuid) return device.name;
    }
  }
  return uuid;
}

}  // namespace

agent::SupervisorPorts Daemon::supervisor_ports() {
  agent::SupervisorPorts ports;
  ports.identify = [this](int64_t pid) -> std::optional<agent::ProcessIdentity> {
    auto process = agent::identify_process("/proc", pid);
    if (!process) return process;
    if (const auto found = job_of_process_.find(pid); found != job_of_process_.end()) process->owner = found->second;
    return process;
  };
  ports.end = [this](const agent::ProcessIdentity& process) { return end_outsider(process); };
  ports.report = [this](const agent::Finding& finding) {
    log_.warning(finding.kind == agent::Finding::Kind::kUnguarded
                     ? "a process is on a card without the guard that holds its share"
                     : "a process is on a card without a share that covers it",
                 {{"pid", finding.process.pid},
                  {"command", finding.process.command},
                  {"card", finding.card_uuid},
                  {"memory", finding.memory_bytes},
                  {"granted", finding.granted_bytes},
                  {"ended", finding.ended}});
  };
  ports.is_guarded = [this](const agent::ProcessIdentity& process) {
    const auto ledger = ledgers_.find(process.owner);
    if (!witness_ || ledger == ledgers_.end()) return true;
    return witness_->look(process, {ledger->second}) != agent::Guarding::kNo;
  };
  return ports;
}

// Whoever ran something here before Heddle did is the machine's own user.
bool Daemon::end_outsider(const agent::ProcessIdentity& process) {
  if (options_.policy != agent::Policy::kEnforce || !before_) return false;
  const auto known = before_->find(process.pid);
  if (known != before_->end() && known->second == process.start_time) return false;
  return agent::end_process("/proc", process);
}

void Daemon::note_before(const vendors::Snapshot& snapshot) {
  if (before_) return;
  before_.emplace();
  for (const auto& card : snapshot.statuses) {
    for (const auto& process : card.processes) {
      const auto identity = agent::identify_process("/proc", process.pid);
      if (identity && !job_of_process_.contains(process.pid)) (*before_)[process.pid] = identity->start_time;
    }
  }
}

void Daemon::observe(const vendors::Snapshot& snapshot) {
  const std::lock_guard lock(mutex_);
  trouble_ = snapshot.current ? std::string() : snapshot.trouble;
  statuses_ = snapshot.statuses;
  // Unhealthy cards stay, with the taint that keeps new work off them; so do those that the driver does not report any
  // more.
  machine_.cards = snapshot.inventory.cards;
  const auto slices = machine_slices(machine_.node, machine_.cards, machine_.mps_pipe);
  for (const auto& old : machine_.slices) {
    const bool stays =
        std::any_of(slices.begin(), slices.end(), [&](const auto& slice) { return slice.meta.name == old.meta.name; });
    if (!stays) state_.remove_slice(old.meta.name);
  }
  machine_.slices = slices;
  for (const auto& slice : machine_.slices) state_.upsert_slice(slice);
  supervise(snapshot);
}

void Daemon::supervise(const vendors::Snapshot& snapshot) {
  job_of_process_.clear();
  ledgers_.clear();
  witness_.emplace("/proc");
  std::vector<agent::Grant> grants;
  for (const auto& job : jobs_) {
    if (job.state != JobState::kRunning) continue;
    ledgers_[job.uid] = guard_usage_file(guard_folder(job));
    for (const int64_t pid : descendants(job.runner.pid)) job_of_process_[pid] = job.uid;
    for (const auto& share : card_shares(machine_, job)) {
      // What is managed may lie on the card as long as there is room: it is taken from nobody.
      grants.push_back({job.uid, share.uuid, std::max(share.memory_bytes, share.virtual_bytes), share.whole});
    }
  }
  note_before(snapshot);
  strangers_.clear();
  for (const auto& finding : supervisor_.look(snapshot.statuses, grants).current) {
    strangers_.push_back({finding.process.pid, finding.process.command, name_of(machine_, finding.card_uuid),
                          finding.memory_bytes, advice(finding.kind)});
  }
}

std::vector<agent::LentClaim> Daemon::lent_claims() {
  const std::lock_guard lock(mutex_);
  std::vector<agent::LentClaim> claims;
  for (const auto& job : jobs_) {
    if (job.state != JobState::kRunning) continue;
    const std::string folder = guard_folder(job);
    agent::LentClaim claim{{job.uid, guard_limits_file(folder), guard_usage_file(folder)}, {}, {job.uid}};
    for (const auto& share : card_shares(machine_, job)) {
      claim.cards.push_back(share.uuid);
      const bool gives_way = share.cores == 0 && job.request.priority < 0;
      if (share.whole || share.cores >= 100 || (share.cores == 0 && !gives_way)) continue;
      claim.shares[share.uuid] = {static_cast<double>(share.cores) / 100, gives_way};
    }
    claims.push_back(std::move(claim));
  }
  return claims;
}

void Daemon::note_overuse(const std::vector<agent::Overuse>& found) {
  std::set<std::pair<std::string, std::string>> now;
  const std::lock_guard lock(mutex_);
  for (const auto& one : found) {
    now.emplace(one.claim, one.card_uuid);
    const auto process = one.lasting ? agent::identify_process("/proc", one.pid) : std::nullopt;
    const bool ended = process && end_outsider(*process);
    if (!ended && overuse_told_.contains({one.claim, one.card_uuid})) continue;
    log_.warning("a job has more of a card's time than its share, by the driver's account",
                 {{"job", one.claim},
                  {"pid", one.pid},
                  {"card", one.card_uuid},
                  {"percent", std::lround(one.used * 100)},
                  {"share", std::lround(one.allowed * 100)},
                  {"ended", ended}});
  }
  overuse_told_ = std::move(now);
}

std::optional<std::string> Daemon::job_of(int64_t pid) {
  std::map<int64_t, std::string> runners;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& job : jobs_) {
      if (job.state == JobState::kRunning) runners[job.runner.pid] = job.uid;
    }
  }
  for (const int64_t ancestor : ancestors(pid)) {
    if (const auto found = runners.find(ancestor); found != runners.end()) return found->second;
  }
  return std::nullopt;
}

CardView Daemon::card_view(const model::ResourceSlice& slice, const model::Device& device,
                           const std::vector<JobView>& jobs) const {
  CardView card;
  card.name = device.name;
  model::DeviceResult here;
  here.pool = slice.pool;
  here.device = device.name;
  if (const auto* found = find_card(machine_, here); found != nullptr) card.card = *found;
  if (const auto memory = device.capacity.find("memory"); memory != device.capacity.end()) {
    card.memory_bytes = memory->second.value.value().value_or(0);
  }
  if (const auto* status = status_of(statuses_, card.card.uuid); status != nullptr) {
    card.used_bytes = status->memory_used_bytes;
    card.utilization_percent = status->utilization_percent;
  }
  for (const auto& job : jobs) {
    for (const auto& share : job.shares) {
      if (share.card != device.name) continue;
      card.granted_bytes += share.memory_bytes;
      card.granted_cores += share.cores;
      card.holders.push_back({job.job.id, share.memory_bytes, share.cores});
    }
  }
  return card;
}

}  // namespace heddle::standalone
