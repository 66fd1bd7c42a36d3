// What the agent does with the accounts (usage files) of prepared claims: it reads them for metrics, and takes dead
// processes off them. A container that was restarted has a new pid namespace; only from outside is it seen that the old
// one is empty.
#pragma once

#include <string>
#include <vector>

#include "agent/record.h"
#include "base/log.h"

namespace heddle::agent {

struct ClaimAccount {
  ClaimRecord claim;
  std::string usage_file;
};

// True when this process can see the processes of all containers of the node: it is in the first pid namespace, or not
// in a pod. From anywhere else a living process would look dead.
bool sees_all_processes(const std::string& proc, bool in_pod);

// Marks the slots of processes that are gone. Gives the number marked. The list of processes is read only when some
// account has a process in it. What cannot be read is skipped: a tenant may have damaged its file, to its own harm.
int free_dead_processes(const std::vector<ClaimAccount>& accounts, const std::string& proc, const Logger& log);

struct ChargedDevice {
  std::string card_uuid;
  int64_t bytes = 0;
};
// As the tenant's processes wrote it: for display, never for a decision.
std::vector<ChargedDevice> charged(const ClaimAccount& account);

}  // namespace heddle::agent
