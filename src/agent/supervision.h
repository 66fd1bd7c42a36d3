// The agent's supervision of a node: who is on its cards, by the vendor's account, whose claims that is within, and
// what becomes of who is outside. The judgement itself is supervise.h's.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "agent/compute_audit.h"
#include "agent/events.h"
#include "agent/node_view.h"
#include "agent/preparer.h"
#include "agent/supervise.h"
#include "agent/witness.h"

namespace heddle::agent {

// The pods that use a claim: those it was prepared for, and what the API server says of claims that several share.
std::set<std::string> pods_of(const ClaimRecord& record, const NodeState& state);

// Which grants hold, by pod: from the records, and for claims that several pods share from the pods themselves.
std::vector<Grant> grants_of(const std::vector<ClaimRecord>& records, const NodeState& state);

// Thread rule: look() and note_in_use() are of one thread, note_overuse() of one; the rest of any.
class Supervision {
 public:
  Supervision(const AgentOptions& options, const Preparer& preparer, EventWriter& events, const Logger& log);

  // Before the first look. Processes that were on a card before Heddle could grant it: the card belongs to them until
  // they end. A card that an agent before this one offered, or that a claim holds, was Heddle's: who came to it while
  // no agent ran is an intruder.
  void note_in_use(const std::vector<vendors::CardStatus>& statuses, const NodeState& state);

  // statuses: of the cards that nobody else serves. True when a second look should follow soon.
  bool look(const std::vector<vendors::CardStatus>& statuses, const NodeState& state);

  // What was found by the vendor's account of device time. A process is ended where the policy says so and it has gone
  // on for long: a running kernel cannot be stopped, and a long one is paid back.
  void note_overuse(const std::vector<Overuse>& found, const NodeState& state);

  // With the pod that it is of; nothing when it has ended.
  [[nodiscard]] std::optional<ProcessIdentity> identify(int64_t pid) const;
  // Cards with processes of before.
  [[nodiscard]] std::set<std::string> in_use() const;
  [[nodiscard]] bool is_held(const std::string& card_uuid) const;
  [[nodiscard]] std::vector<Finding> findings() const;  // present ones
  [[nodiscard]] int64_t findings_total() const { return findings_total_; }
  [[nodiscard]] int64_t ended_total() const { return ended_total_; }

 private:
  SupervisorPorts ports();
  bool is_guarded(const ProcessIdentity& process);
  bool end(const ProcessIdentity& process);
  void drop_ended_users();
  void report(const Finding& finding, const NodeState& state);

  const AgentOptions& options_;
  const Preparer& preparer_;
  EventWriter& events_;
  const Logger& log_;
  std::atomic<int64_t> findings_total_ = 0;
  std::atomic<int64_t> ended_total_ = 0;
  // Of the look under way.
  std::vector<Finding> fresh_;
  std::optional<GuardWitness> witness_;
  std::map<std::string, std::vector<std::string>> ledgers_;  // usage files by pod
  Supervisor supervisor_;
  std::set<std::pair<std::string, std::string>> overuse_told_;  // claim and card
  mutable std::mutex mutex_;
  std::map<std::string, std::map<int64_t, uint64_t>> in_use_;  // card -> pid -> start time
  std::vector<Finding> findings_;
  std::vector<Finding> overuse_;
};

}  // namespace heddle::agent
