// Supervision from outside: every process that the vendor sees on a card must be within a grant. A process without one
// escaped the way of allocation; one far beyond its grant escaped the guard. (Use of the card's time beyond a share is
// found in compute_audit.h.)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "vendors/vendor.h"

namespace heddle::agent {

enum class Policy { kReport, kEnforce };

struct ProcessIdentity {
  int64_t pid = 0;
  uint64_t start_time = 0;  // field 22 of /proc/<pid>/stat: with the pid it names one process for ever
  std::string owner;        // who it belongs to: a pod uid, a run; empty: nobody known
  std::string command;
};

// What an owner may use of a card. Several of one owner on one card add up.
struct Grant {
  std::string owner;
  std::string card_uuid;
  int64_t memory_bytes = 0;
  bool whole_card = false;  // no limit to exceed
};

struct Finding {
  enum class Kind { kUngranted, kBeyondGrant, kBeyondShare };
  Kind kind = Kind::kUngranted;
  ProcessIdentity process;
  std::string card_uuid;
  int64_t memory_bytes = 0;   // of the process, -1: not known
  int64_t granted_bytes = 0;  // to its owner on this card
  bool ended = false;         // by the policy
  int64_t used_percent =
      0;  // of the card's time by its owner, and what it may use: where the finding is beyond its share
  int64_t share_percent = 0;
};

struct CardProcesses {
  std::string card_uuid;
  struct Entry {
    ProcessIdentity process;
    int64_t memory_bytes = -1;
  };
  std::vector<Entry> entries;
};

// One look, pure. slack_bytes: for each process, what the vendor may count beyond what the guard counts. Of an owner
// that is beyond its grant in sum, the largest process is named.
std::vector<Finding> judge(const std::vector<CardProcesses>& cards, const std::vector<Grant>& grants,
                           int64_t slack_bytes);

struct SupervisorOptions {
  Policy policy = Policy::kReport;
  int64_t slack_bytes = int64_t{256} << 20;
};

// What the supervisor needs from the machine.
struct SupervisorPorts {
  // Nothing when the process is gone.
  std::function<std::optional<ProcessIdentity>(int64_t pid)> identify;
  // Ends exactly this process. True when it was ended.
  std::function<bool(const ProcessIdentity& process)> end;
  // Once for each finding.
  std::function<void(const Finding& finding)> report;
};

// A finding counts when two looks in a row see it: a process that is just ending, or a grant that is just being
// written, is not one. Thread rule: one thread.
class Supervisor {
 public:
  Supervisor(SupervisorOptions options, SupervisorPorts ports);

  struct Outcome {
    std::vector<Finding> current;  // everything wrong now, confirmed
    bool look_again_soon = false;  // something was seen for the first time
  };
  // report_only: cards on which nothing is ended (in use before Heddle came).
  Outcome look(const std::vector<vendors::CardStatus>& cards, const std::vector<Grant>& grants,
               const std::set<std::string>& report_only = {});

 private:
  struct Key {
    std::string card_uuid;
    int64_t pid = 0;
    uint64_t start_time = 0;
    Finding::Kind kind = Finding::Kind::kUngranted;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  const SupervisorOptions options_;
  const SupervisorPorts ports_;
  std::set<Key> seen_;
  std::set<Key> reported_;
};

// The machine's side: /proc and pidfd. owner is left empty.
std::optional<ProcessIdentity> identify_process(const std::string& proc, int64_t pid);
bool end_process(const std::string& proc, const ProcessIdentity& process);

}  // namespace heddle::agent
