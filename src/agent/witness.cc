#include "agent/witness.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/names.h"
#include "base/file.h"

namespace heddle::agent {
namespace {

constexpr size_t kMostMaps = size_t{16} << 20;
constexpr size_t kMostLimits = size_t{1} << 20;

// By the kernel's list of what is mapped into the process.
Guarding maps_guard(const std::string& proc, int64_t pid) {
  const Result<std::string> maps = read_file(fmt::format("{}/{}/maps", proc, pid), kMostMaps);
  // Not for us to read, or longer than anybody's: the slots alone tell.
  if (!maps) return maps.error().code == Code::kNotFound ? Guarding::kUnknown : Guarding::kYes;
  // The memory of a process goes before its files, and with those what the driver holds for it.
  if (maps->empty()) return Guarding::kUnknown;
  return maps->find(fmt::format("/{}", kGuardLibraryName)) != std::string::npos ? Guarding::kYes : Guarding::kNo;
}

bool names(const guard::SlotOwner& slot, const guard::SlotOwner& process) {
  // A slot that was taken just now has no start time yet.
  return slot.pid == process.pid && slot.pid_namespace == process.pid_namespace &&
         (slot.start_time == 0 || slot.start_time == process.start_time);
}

// What the tenant damaged or took away names nobody: a guard counts nothing there either. Of what version the ledger is
// the limits beside it say, which the agent wrote.
bool is_tenants_fault(const std::string& ledger, Code code) {
  if (code != Code::kUnsupported) return code == Code::kInvalidArgument || code == Code::kNotFound;
  const Result<std::string> limits = read_file(ledger.substr(0, ledger.rfind('/') + 1) + "limits", kMostLimits);
  const Result<guard::ClaimLimits> known = limits ? guard::decode_limits(*limits) : tl::unexpected(limits.error());
  return known || known.error().code != Code::kUnsupported;
}

}  // namespace

const GuardWitness::Ledger& GuardWitness::ledger(const std::string& path) {
  const auto known = read_.find(path);
  if (known != read_.end()) return known->second;
  Ledger ledger;
  const Result<guard::UsageReport> report = guard::read_usage(path);
  if (report) {
    for (const guard::ProcessUsage& process : report->processes) ledger.owners.push_back(process.owner);
  }
  ledger.readable = report || is_tenants_fault(path, report.error().code);
  return read_.emplace(path, std::move(ledger)).first->second;
}

Guarding GuardWitness::look(const ProcessIdentity& process, const std::vector<std::string>& ledgers) {
  const std::optional<guard::SlotOwner> itself = guard::slot_owner_of(proc_, process.pid);
  if (!itself || itself->start_time != process.start_time) return Guarding::kUnknown;
  bool unknown = false;
  for (const std::string& path : ledgers) {
    const Ledger& known = ledger(path);
    unknown = unknown || !known.readable;
    const bool named =
        std::ranges::any_of(known.owners, [&](const guard::SlotOwner& slot) { return names(slot, *itself); });
    if (named) return maps_guard(proc_, process.pid);
  }
  if (unknown) return Guarding::kUnknown;
  return maps_guard(proc_, process.pid) == Guarding::kUnknown ? Guarding::kUnknown : Guarding::kNo;
}

}  // namespace heddle::agent
