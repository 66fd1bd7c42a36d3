#include "agent/account.h"

#include <sys/stat.h>

#include <optional>

#include "guard/files.h"

namespace heddle::agent {
namespace {

constexpr ino_t kFirstPidNamespace = 0xEFFFFFFCU;  // PROC_PID_INIT_INO of the kernel

}  // namespace

bool sees_all_processes(const std::string& proc, bool in_pod) {
  if (!in_pod) return true;
  struct stat info{};
  return ::stat((proc + "/self/ns/pid").c_str(), &info) == 0 && info.st_ino == kFirstPidNamespace;
}

int free_dead_processes(const std::vector<ClaimAccount>& accounts, const std::string& proc, const Logger& log) {
  int freed = 0;
  for (const ClaimAccount& account : accounts) {
    // A list that is older than an account would call its newest processes dead: one list for each account, when
    // needed.
    std::optional<guard::LiveProcesses> live;
    bool failed = false;
    const auto scanned = [&] {
      if (!live && !failed) {
        Result<guard::LiveProcesses> scan = guard::LiveProcesses::scan(proc);
        failed = !scan;
        if (scan) live = *std::move(scan);
      }
      return !failed;
    };
    const Result<int> marked = guard::free_slots_of_dead(
        account.usage_file, [&](const guard::SlotOwner& owner) { return !scanned() || live->contains(owner); });
    // Best effort: without it a process measures less of what the driver took for it.
    static_cast<void>(guard::tell_host_pids(
        account.usage_file, [&](const guard::SlotOwner& owner) { return scanned() ? live->pid_of(owner) : 0; }));
    if (marked && *marked > 0) {
      log.info("took ended processes off an account", {{"claim", account.claim.key()}, {"processes", *marked}});
      freed += *marked;
    }
  }
  return freed;
}

std::vector<ChargedDevice> charged(const ClaimAccount& account) {
  std::vector<ChargedDevice> devices;
  const Result<guard::UsageReport> report = guard::read_usage(account.usage_file);
  if (!report) return devices;
  for (const guard::DeviceUsage& device : report->devices) devices.push_back({device.uuid, device.charged_bytes});
  return devices;
}

}  // namespace heddle::agent
