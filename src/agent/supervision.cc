#include "agent/supervision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "agent/cgroup.h"
#include "agent/slices.h"
#include "base/file.h"

namespace heddle::agent {
namespace {

std::string reason_of(const Finding& finding) {
  if (finding.ended) return "HeddleProcessEnded";
  switch (finding.kind) {
    case Finding::Kind::kBeyondShare:
      return "HeddleComputeOveruse";
    case Finding::Kind::kUnguarded:
      return "HeddleUnguardedProcess";
    case Finding::Kind::kUngranted:
    case Finding::Kind::kBeyondGrant:
      break;
  }
  return "HeddleUngrantedProcess";
}

}  // namespace

std::set<std::string> pods_of(const ClaimRecord& record, const NodeState& state) {
  std::set<std::string> pods;
  for (const PodReference& pod : record.pods) pods.insert(pod.uid);
  for (const auto& [uid, pod] : state.pods) {
    if (pod.name_space == record.name_space && std::ranges::find(pod.claims, record.name) != pod.claims.end()) {
      pods.insert(uid);
    }
  }
  return pods;
}

std::vector<Grant> grants_of(const std::vector<ClaimRecord>& records, const NodeState& state) {
  std::vector<Grant> result;
  for (const ClaimRecord& record : records) {
    const FolderPlan plan = plan_folder(record);
    for (const std::string& pod : pods_of(record, state)) {
      for (const GrantedDevice& device : plan.devices) {
        // What is managed may lie on the card as long as there is room: it is taken from nobody.
        result.push_back({pod, device.card_uuid, device.addressable(), device.whole_card()});
      }
    }
  }
  return result;
}

Supervision::Supervision(const AgentOptions& options, const Preparer& preparer, EventWriter& events, const Logger& log)
    : options_(options), preparer_(preparer), events_(events), log_(log), supervisor_(options.supervisor, ports()) {}

SupervisorPorts Supervision::ports() {
  return {[this](int64_t pid) { return identify(pid); },
          [this](const ProcessIdentity& process) { return end(process); },
          [this](const Finding& finding) { fresh_.push_back(finding); },
          [this](const ProcessIdentity& process) { return is_guarded(process); }};
}

bool Supervision::end(const ProcessIdentity& process) {
  const bool ended = end_process(options_.proc, process);
  if (ended) ++ended_total_;
  return ended;
}

bool Supervision::is_guarded(const ProcessIdentity& process) {
  const auto ledgers = ledgers_.find(process.owner);
  if (!witness_ || ledgers == ledgers_.end()) return true;
  return witness_->look(process, ledgers->second) != Guarding::kNo;
}

std::optional<ProcessIdentity> Supervision::identify(int64_t pid) const {
  std::optional<ProcessIdentity> identity = identify_process(options_.proc, pid);
  if (!identity) return std::nullopt;
  if (const auto text = read_file(fmt::format("{}/{}/cgroup", options_.proc, pid), size_t{1} << 20)) {
    if (const auto owner = parse_cgroup(*text)) identity->owner = owner->pod_uid;
  }
  return identity;
}

void Supervision::note_in_use(const std::vector<vendors::CardStatus>& statuses, const NodeState& state) {
  const std::set<std::string> offered = offered_cards(state.slices);
  const std::vector<Grant> granted = grants_of(preparer_.records(), state);
  std::map<std::string, std::map<int64_t, uint64_t>> in_use;
  for (const vendors::CardStatus& card : statuses) {
    if (offered.contains(card.uuid) || is_held(card.uuid)) continue;
    for (const vendors::CardProcess& process : card.processes) {
      const std::optional<ProcessIdentity> identity = identify(process.pid);
      if (!identity) continue;
      const bool ours = std::ranges::any_of(
          granted, [&](const Grant& grant) { return grant.owner == identity->owner && grant.card_uuid == card.uuid; });
      if (!ours) in_use[card.uuid][process.pid] = identity->start_time;
    }
  }
  const std::lock_guard lock(mutex_);
  in_use_ = std::move(in_use);
}

void Supervision::drop_ended_users() {
  const std::lock_guard lock(mutex_);
  for (auto& [uuid, processes] : in_use_) {
    std::erase_if(processes, [this](const auto& process) {
      const std::optional<ProcessIdentity> now = identify_process(options_.proc, process.first);
      return !now || now->start_time != process.second;
    });
  }
  std::erase_if(in_use_, [](const auto& entry) { return entry.second.empty(); });
}

bool Supervision::look(const std::vector<vendors::CardStatus>& statuses, const NodeState& state) {
  drop_ended_users();
  const std::vector<ClaimRecord> records = preparer_.records();
  std::set<std::string> report_only = in_use();
  ledgers_.clear();
  witness_.emplace(options_.proc);
  for (const ClaimRecord& record : records) {
    for (const std::string& pod : pods_of(record, state)) ledgers_[pod].push_back(preparer_.usage_file(record));
    // Whose processes those of a claim with a damaged record are is not known.
    for (const GrantedDevice& device : record.devices) {
      if (record.salvaged()) report_only.insert(device.card_uuid);
    }
  }
  const Supervisor::Outcome outcome = supervisor_.look(statuses, grants_of(records, state), report_only);
  for (const Finding& finding : fresh_) report(finding, state);
  fresh_.clear();
  const std::lock_guard lock(mutex_);
  findings_ = outcome.current;
  return outcome.look_again_soon;
}

void Supervision::report(const Finding& finding, const NodeState& state) {
  ++findings_total_;
  const std::string message = describe(finding) + (finding.ended ? "; it was ended" : "");
  log_.warning(message, {{"pid", finding.process.pid},
                         {"pod", finding.process.owner},
                         {"card", finding.card_uuid},
                         {"ended", finding.ended}});
  const auto pod = state.pods.find(finding.process.owner);
  if (pod != state.pods.end()) {
    events_.on_pod(pod->second, reason_of(finding), message);
  } else if (state.node) {
    events_.on_node(*state.node, reason_of(finding), message);
  }
}

void Supervision::note_overuse(const std::vector<Overuse>& found, const NodeState& state) {
  std::vector<Finding> now;
  std::set<std::pair<std::string, std::string>> seen;
  for (const Overuse& one : found) {
    const std::pair key(one.claim, one.card_uuid);
    const std::optional<ProcessIdentity> process = identify(one.pid);
    if (!process && overuse_told_.contains(key)) seen.insert(key);  // between two of its bursts
    if (!process) continue;
    Finding finding{Finding::Kind::kBeyondShare, *process, one.card_uuid, -1, 0, false, 0, 0};
    finding.used_percent = std::lround(one.used * 100);
    finding.share_percent = std::lround(one.allowed * 100);
    if (one.lasting && options_.supervisor.policy == Policy::kEnforce) finding.ended = end(*process);
    if (finding.ended || !overuse_told_.contains(key)) report(finding, state);
    seen.insert(key);
    now.push_back(std::move(finding));
  }
  overuse_told_ = std::move(seen);
  const std::lock_guard lock(mutex_);
  overuse_ = std::move(now);
}

std::set<std::string> Supervision::in_use() const {
  const std::lock_guard lock(mutex_);
  std::set<std::string> cards;
  for (const auto& [uuid, processes] : in_use_) cards.insert(uuid);
  return cards;
}

bool Supervision::is_held(const std::string& card_uuid) const {
  const std::vector<ClaimRecord> records = preparer_.records();
  return std::ranges::any_of(records, [&](const ClaimRecord& record) {
    return std::ranges::find(record.devices, card_uuid, &GrantedDevice::card_uuid) != record.devices.end();
  });
}

std::vector<Finding> Supervision::findings() const {
  const std::lock_guard lock(mutex_);
  std::vector<Finding> all = findings_;
  all.insert(all.end(), overuse_.begin(), overuse_.end());
  return all;
}

}  // namespace heddle::agent
