// Anything that a tenant can do to the bytes of its usage file, and what damage can do to a limits file: no crash, and
// every number that comes out within its range.
//
// The input is a list of changes to whole files: u32 where, u64 what; the first byte says which file, and whether its
// checksum is made right again and its end is cut.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "guard/broker.h"
#include "guard/files.h"
#include "guard/layout.h"
#include "guard/ledger.h"

namespace {

using namespace heddle;         // NOLINT(google-build-using-namespace): a program of one file
using namespace heddle::guard;  // NOLINT(google-build-using-namespace)

constexpr int64_t kMostBytes = int64_t{1} << 44;

void require(bool good) {
  if (!good) std::abort();
}

const ClaimLimits& limits() {
  static const ClaimLimits made{
      "uid", "gpu", {{"GPU-1", int64_t{1} << 30, 30, false, 0}, {"GPU-2", int64_t{8} << 30, 100, true, 0}}, {}, 0, 0};
  return made;
}

struct Change {
  uint32_t at = 0;
  uint64_t word = 0;
};

std::vector<Change> changes_of(const uint8_t* data, size_t size) {
  std::vector<Change> changes;
  for (; size >= 12 && changes.size() < 64; data += 12, size -= 12) {
    Change change;
    std::memcpy(&change.at, data, 4);
    std::memcpy(&change.word, data + 4, 8);
    changes.push_back(change);
  }
  return changes;
}

void check_limits(const std::vector<Change>& changes, unsigned how) {
  std::string content = encode_limits(limits()).value();
  for (const Change& change : changes) {
    std::memcpy(content.data() + change.at % (content.size() - 8), &change.word, 8);
  }
  if ((how & 2) != 0) {
    heddle_guard_limits file{};
    std::memcpy(&file, content.data(), sizeof(file));
    file.checksum = checksum_of(file);
    std::memcpy(content.data(), &file, sizeof(file));
  }
  if ((how & 4) != 0 && !changes.empty()) content.resize(changes[0].word % (content.size() + 1));
  for (uint32_t device = 0; device < 20; ++device) {
    const DeviceHint hint = hint_in(content, device, 5000000000);
    require(hint.rate >= 0 && hint.rate < 2 && hint.charge >= 0 && hint.charge < 3);
  }
  const auto read = decode_limits(content);
  if (!read) return;
  require(!read->devices.empty() && read->devices.size() <= HEDDLE_GUARD_MAX_DEVICES);
  require(read->priority >= 0 && read->priority <= 1000);
  for (const DeviceLimit& device : read->devices) {
    require(!device.uuid.empty() && device.memory_bytes > 0 && device.memory_bytes <= kMostBytes);
    require(device.cores_percent >= 0 && device.cores_percent <= 100);
  }
  require(encode_limits(*read).has_value());
}

struct UsageFile {
  UsageFile() {
    char name[] = "/tmp/heddle-fuzz-XXXXXX";
    fd = UniqueFd(::mkostemp(name, O_CLOEXEC));
    path = name;
  }
  ~UsageFile() { ::unlink(path.c_str()); }
  UsageFile(const UsageFile&) = delete;
  UsageFile& operator=(const UsageFile&) = delete;
  UniqueFd fd;
  std::string path;
};

void check_report(const UsageReport& report) {
  require(!report.devices.empty() && report.devices.size() <= HEDDLE_GUARD_MAX_DEVICES);
  require(report.processes.size() <= HEDDLE_GUARD_SLOTS && report.launches >= 0 && report.throttled_ns >= 0);
  for (const DeviceUsage& device : report.devices) {
    require(device.charged_bytes >= 0 && device.charged_bytes <= kMostBytes && device.context_overhead_bytes >= 0);
    for (const char c : device.uuid) require(c > ' ' && c < 127);
  }
  for (const ProcessUsage& process : report.processes) {
    require(process.launches >= 0 && process.throttled_ns >= 0);
    for (const int64_t bytes : process.charged_bytes) require(bytes >= 0 && bytes <= kMostBytes);
    for (const int64_t busy : process.busy_ns) require(busy >= 0);
  }
}

void check_usage(const std::vector<Change>& changes, unsigned how) {
  static const UsageFile file;
  require(::ftruncate(file.fd.get(), 0) == 0);
  require(create_usage(file.fd.get(), limits()).has_value());
  for (const Change& change : changes) {
    // Half of the changes hit the header, the devices and the first slots, where the numbers are.
    const uint64_t span = (change.at & 1) != 0 ? 70000 : sizeof(heddle_guard_usage) - 8;
    require(::pwrite(file.fd.get(), &change.word, 8, static_cast<off_t>((change.at >> 1) % span)) == 8);
  }
  if ((how & 4) != 0 && !changes.empty()) {
    require(::ftruncate(file.fd.get(), static_cast<off_t>(changes[0].word % (2 * sizeof(heddle_guard_usage)))) == 0);
  }
  if (const auto report = read_usage(file.fd.get())) check_report(*report);
  CardBroker broker;
  for (uint32_t device = 0; device < 20; ++device) {
    const auto activity = read_activity(file.fd.get(), device);
    if (!activity) continue;
    require(activity->want_ns >= 0 && activity->charged_ns >= 0 && activity->measured_ns >= 0);
    const TenantView hostile{"a", 0.3, true, activity->want_ns, activity->charged_ns, 7, 1000000000LL * device, 0};
    const TenantView other{"b", 0.5, true, 5000000000, 0, -1, 0, 0};
    const auto hints = broker.tick(5000000000, {hostile, other});
    require(hints[0].rate >= 0.3 && hints[0].rate <= 1 && hints[0].charge > 0 && hints[0].charge < 2);
    require(hints[1].rate >= 0.5 && hints[1].rate <= 0.8001 && hints[1].charge == 1);
  }
  (void)free_slots_of_dead(file.path, [](const SlotOwner& owner) { return owner.pid % 2 == 0; });
  (void)tell_host_pids(file.path, [](const SlotOwner& owner) { return owner.pid; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const unsigned how = data[0];
  const std::vector<Change> changes = changes_of(data + 1, size - 1);
  if ((how & 1) != 0) {
    check_limits(changes, how);
  } else {
    check_usage(changes, how);
  }
  return 0;
}
