// Supervision from outside: every process that the vendor sees on a card must be within a grant, and under the guard
// where the grant has limits. A process without a grant escaped the way of allocation; one beyond its grant escaped the
// guard, and one that the guard is not in could. (Use of the card's time beyond a share is found in compute_audit.h.)
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
  enum class Kind {
    kUngranted,
    kBeyondGrant,
    kBeyondShare,
    kUnguarded,  // within a grant that has limits, and the guard that holds them is not in it
  };
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
    bool guarded = true;  // what is not known counts as guarded
  };
  std::vector<Entry> entries;
};

// One look, pure. slack_bytes: what the vendor may count of an owner on a card beyond what its guard counts (code that
// was loaded since the guard last looked, a first context that is being measured); once, however many processes it has,
// and only where one of them is guarded: who counts nothing has nothing to be counted differently. Of an owner that is
// beyond its grant in sum, the largest of its unguarded processes is named, else the largest.
std::vector<Finding> judge(const std::vector<CardProcesses>& cards, const std::vector<Grant>& grants,
                           int64_t slack_bytes);

struct SupervisorOptions {
  Policy policy = Policy::kReport;
  int64_t slack_bytes = int64_t{256} << 20;
  Policy unguarded = Policy::kReport;  // of processes whose only fault is that no guard is in them
};

// What the supervisor needs from the machine.
struct SupervisorPorts {
  // Nothing when the process is gone.
  std::function<std::optional<ProcessIdentity>(int64_t pid)> identify;
  // Ends exactly this process. True when it was ended.
  std::function<bool(const ProcessIdentity& process)> end;
  // Once for each finding.
  std::function<void(const Finding& finding)> report;
  // Whether the guard is in it; asked of processes of owners with limits. Empty: not known of any.
  std::function<bool(const ProcessIdentity& process)> is_guarded = {};
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
  std::vector<CardProcesses> observe(const std::vector<vendors::CardStatus>& cards, const std::vector<Grant>& grants);
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

// A finding in words: "process 7 (python3) uses card GPU-1 without a grant".
std::string describe(const Finding& finding);

// The machine's side: /proc and pidfd. owner is left empty.
std::optional<ProcessIdentity> identify_process(const std::string& proc, int64_t pid);
bool end_process(const std::string& proc, const ProcessIdentity& process);

}  // namespace heddle::agent
