#include "agent/supervise.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/file.h"
#include "base/unique_fd.h"

namespace heddle::agent {
namespace {

struct Allowance {
  bool granted = false;
  bool whole_card = false;
  int64_t bytes = 0;
};

Allowance allowance_of(const std::vector<Grant>& grants, const std::string& owner, const std::string& card_uuid) {
  Allowance sum;
  if (owner.empty()) return sum;
  for (const Grant& grant : grants) {
    if (grant.owner != owner || grant.card_uuid != card_uuid) continue;
    sum.granted = true;
    sum.whole_card = sum.whole_card || grant.whole_card;
    sum.bytes += grant.memory_bytes;
  }
  return sum;
}

// What one owner does on one card.
struct OwnerUse {
  int64_t bytes = 0;
  bool guarded = false;  // one of its processes is
  const CardProcesses::Entry* suspect = nullptr;

  void add(const CardProcesses::Entry& entry) {
    bytes += std::max<int64_t>(entry.memory_bytes, 0);
    guarded = guarded || entry.guarded;
    const auto rank = [](const CardProcesses::Entry& of) { return std::pair(!of.guarded, of.memory_bytes); };
    if (suspect == nullptr || rank(entry) > rank(*suspect)) suspect = &entry;
  }
};

Finding finding(Finding::Kind kind, const CardProcesses::Entry& entry, const std::string& card_uuid, int64_t granted) {
  return {kind, entry.process, card_uuid, entry.memory_bytes, granted, false};
}

}  // namespace

std::vector<Finding> judge(const std::vector<CardProcesses>& cards, const std::vector<Grant>& grants,
                           int64_t slack_bytes) {
  std::vector<Finding> findings;
  for (const CardProcesses& card : cards) {
    std::map<std::string, OwnerUse> by_owner;
    for (const CardProcesses::Entry& entry : card.entries) {
      const Allowance allowed = allowance_of(grants, entry.process.owner, card.card_uuid);
      if (!allowed.granted) {
        findings.push_back(finding(Finding::Kind::kUngranted, entry, card.card_uuid, 0));
        continue;
      }
      if (!entry.guarded && !allowed.whole_card) {
        findings.push_back(finding(Finding::Kind::kUnguarded, entry, card.card_uuid, allowed.bytes));
      }
      by_owner[entry.process.owner].add(entry);
    }
    for (const auto& [owner, use] : by_owner) {
      const Allowance allowed = allowance_of(grants, owner, card.card_uuid);
      const int64_t slack = use.guarded ? slack_bytes : 0;
      if (allowed.whole_card || use.bytes <= allowed.bytes + slack) continue;
      findings.push_back(finding(Finding::Kind::kBeyondGrant, *use.suspect, card.card_uuid, allowed.bytes));
    }
  }
  return findings;
}

Supervisor::Supervisor(SupervisorOptions options, SupervisorPorts ports)
    : options_(options), ports_(std::move(ports)) {}

std::vector<CardProcesses> Supervisor::observe(const std::vector<vendors::CardStatus>& cards,
                                               const std::vector<Grant>& grants) {
  std::vector<CardProcesses> observed;
  for (const vendors::CardStatus& card : cards) {
    CardProcesses& seen = observed.emplace_back(CardProcesses{card.uuid, {}});
    for (const vendors::CardProcess& process : card.processes) {
      std::optional<ProcessIdentity> identity = ports_.identify(process.pid);
      if (!identity) continue;
      CardProcesses::Entry entry{*std::move(identity), process.memory_bytes};
      const Allowance allowed = allowance_of(grants, entry.process.owner, card.uuid);
      if (ports_.is_guarded && allowed.granted && !allowed.whole_card) {
        entry.guarded = ports_.is_guarded(entry.process);
      }
      seen.entries.push_back(std::move(entry));
    }
  }
  return observed;
}

Supervisor::Outcome Supervisor::look(const std::vector<vendors::CardStatus>& cards, const std::vector<Grant>& grants,
                                     const std::set<std::string>& report_only) {
  const std::vector<CardProcesses> observed = observe(cards, grants);
  Outcome outcome;
  std::set<Key> seen_now;
  std::set<Key> reported_now;
  std::set<int64_t> ended;
  for (Finding& found : judge(observed, grants, options_.slack_bytes)) {
    Key key{found.card_uuid, found.process.pid, found.process.start_time, found.kind};
    seen_now.insert(key);
    if (!seen_.contains(key)) {
      outcome.look_again_soon = true;
      continue;
    }
    const Policy policy = found.kind == Finding::Kind::kUnguarded ? options_.unguarded : options_.policy;
    const bool before = ended.contains(found.process.pid);
    const bool may_end = policy == Policy::kEnforce && !report_only.contains(found.card_uuid);
    found.ended = before || (may_end && ports_.end(found.process));
    if (found.ended) ended.insert(found.process.pid);
    if (!reported_.contains(key)) ports_.report(found);
    reported_now.insert(std::move(key));
    outcome.current.push_back(std::move(found));
  }
  seen_ = std::move(seen_now);
  reported_ = std::move(reported_now);
  return outcome;
}

std::string describe(const Finding& finding) {
  std::string process = fmt::format("process {} ({})", finding.process.pid, finding.process.command);
  switch (finding.kind) {
    case Finding::Kind::kUngranted:
      return fmt::format("{} uses card {} without a grant", process, finding.card_uuid);
    case Finding::Kind::kBeyondGrant:
      return fmt::format("{} and its pod use more of card {} than the {} MiB that were granted", process,
                         finding.card_uuid, finding.granted_bytes >> 20);
    case Finding::Kind::kBeyondShare:
      return fmt::format(
          "{} and its pod had {} % of the time of card {}, by the vendor's account, where {} % were theirs", process,
          finding.used_percent, finding.card_uuid, finding.share_percent);
    case Finding::Kind::kUnguarded:
      return fmt::format(
          "{} uses card {} without the guard that holds its limits: it is linked statically or against another libc "
          "than "
          "glibc, was started without the container's /etc/ld.so.preload, or goes past the driver's library; run it "
          "with "
          "glibc in the container as it was made, or ask for a whole card",
          process, finding.card_uuid);
  }
  return process;
}

std::optional<ProcessIdentity> identify_process(const std::string& proc, int64_t pid) {
  const Result<std::string> stat = read_file(fmt::format("{}/{}/stat", proc, pid), 4096);
  if (!stat) return std::nullopt;
  // "<pid> (<command, any bytes>) <state> <field 4> ... <field 22: start time> ..."
  const size_t open = stat->find('(');
  const size_t close = stat->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessIdentity identity;
  identity.pid = pid;
  identity.command = stat->substr(open + 1, close - open - 1);
  std::string_view rest = std::string_view(*stat).substr(close + 1);
  bool ended = false;
  int64_t threads = 0;
  for (int field = 3; field <= 22; ++field) {
    const size_t start = rest.find_first_not_of(' ');
    if (start == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(start);
    const std::string_view value = rest.substr(0, rest.find(' '));
    if (field == 3) ended = value == "Z" || value == "X";
    if (field == 20) std::from_chars(value.data(), value.data() + value.size(), threads);
    if (field == 22) std::from_chars(value.data(), value.data() + value.size(), identity.start_time);
    rest.remove_prefix(value.size());
  }
  // A zombie holds nothing, unless only its first thread has ended and others go on.
  if (ended && threads <= 1) return std::nullopt;
  return identity;
}

bool end_process(const std::string& proc, const ProcessIdentity& process) {
  // The descriptor is opened first and the start time compared then: the pid cannot be given to another process in
  // between.
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0)));
  if (!fd.valid()) return false;
  const std::optional<ProcessIdentity> now = identify_process(proc, process.pid);
  if (!now || now->start_time != process.start_time) return false;
  return ::syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0) == 0;
}

}  // namespace heddle::agent
