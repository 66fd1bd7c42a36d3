#include "guard/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "base/clock.h"
#include "base/file.h"
#include "base/unique_fd.h"
#include "guard/layout.h"
#include "guard/ledger.h"

namespace heddle::guard {
namespace {

constexpr int kMaxPriority = 1000;
constexpr int64_t kMaxMemory = static_cast<int64_t>(kMaxPages) << HEDDLE_GUARD_PAGE_SHIFT;

bool version_known(uint32_t version) {
  return version >= HEDDLE_GUARD_OLDEST_VERSION && version <= HEDDLE_GUARD_VERSION;
}

template <size_t N>
void put_text(char (&field)[N], const std::string& text) {
  std::memset(field, 0, N);
  std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}

// The text up to its NUL; nothing when there is none or it holds what no identifier has.
template <size_t N>
Result<std::string> get_text(const char (&field)[N], const char* what) {
  const size_t length = strnlen(field, N);
  std::string text(field, length);
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
  if (length == N || !printable) return fail(Code::kInvalidArgument, "not a readable name", what);
  return text;
}

Result<void> check_device(const DeviceLimit& device, const std::string& field) {
  if (device.uuid.empty() || device.uuid.size() >= HEDDLE_GUARD_UUID_BYTES) {
    return fail(Code::kInvalidArgument, "must be the vendor's UUID of at most 95 characters", field + ".uuid");
  }
  if (device.memory_bytes <= 0 || device.memory_bytes > kMaxMemory) {
    return fail(Code::kInvalidArgument, "must be above 0 and below 16Ti; a whole card states its size",
                field + ".memory_bytes");
  }
  if (device.virtual_bytes != 0 &&
      (device.virtual_bytes <= device.memory_bytes || device.virtual_bytes > kMaxMemory || device.whole_card)) {
    return fail(Code::kInvalidArgument, "must be above memory_bytes and below 16Ti, and not of a whole card; 0: none",
                field + ".virtual_bytes");
  }
  if (device.cores_percent < 0 || device.cores_percent > 100) {
    return fail(Code::kInvalidArgument, "must be 0 to 100", field + ".cores_percent");
  }
  if (device.number < -1 || device.number > 65535) {
    return fail(Code::kInvalidArgument, "must be from 0 to 65535, or -1", field + ".number");
  }
  if (device.context_overhead_bytes < 0 || device.context_overhead_bytes > kMaxMemory) {
    return fail(Code::kInvalidArgument, "must be 0 or more", field + ".context_overhead_bytes");
  }
  return {};
}

Result<void> check_mask(const ClaimLimits& limits) {
  if (limits.mask_percent == 0) return {};
  if (limits.mask_percent < 0 || limits.mask_percent > 99) {
    return fail(Code::kInvalidArgument, "must be 1 to 99; 0: no mask", "mask_percent");
  }
  if (!limits.mask_pipe.starts_with('/') || limits.mask_pipe.size() >= HEDDLE_GUARD_PATH_BYTES) {
    return fail(Code::kInvalidArgument, "must be an absolute path of at most 127 characters", "mask_pipe");
  }
  const bool paced = std::any_of(limits.devices.begin(), limits.devices.end(), [](const DeviceLimit& device) {
    return device.cores_percent != 0 || device.gives_way || device.whole_card;
  });
  if (paced) return fail(Code::kInvalidArgument, "is beside a share of the time; one of the two holds", "mask_percent");
  return {};
}

Result<void> check_limits(const ClaimLimits& limits) {
  if (limits.claim_uid.size() >= HEDDLE_GUARD_NAME_BYTES) {
    return fail(Code::kInvalidArgument, "longer than 63 characters", "claim_uid");
  }
  if (limits.request.size() >= HEDDLE_GUARD_NAME_BYTES) {
    return fail(Code::kInvalidArgument, "longer than 63 characters", "request");
  }
  if (limits.devices.empty() || limits.devices.size() > HEDDLE_GUARD_MAX_DEVICES) {
    return fail(Code::kInvalidArgument, "must have 1 to 16 entries", "devices");
  }
  if (limits.context_overhead_bytes < 0 || limits.context_overhead_bytes > kMaxMemory) {
    return fail(Code::kInvalidArgument, "must be 0 or more", "context_overhead_bytes");
  }
  if (limits.priority < 0 || limits.priority > kMaxPriority) {
    return fail(Code::kInvalidArgument, "must be 0 to 1000", "priority");
  }
  HEDDLE_CHECK_OK(check_mask(limits));
  std::set<std::string> seen;
  for (size_t i = 0; i < limits.devices.size(); ++i) {
    const std::string field = "devices[" + std::to_string(i) + "]";
    HEDDLE_CHECK_OK(check_device(limits.devices[i], field));
    if (!seen.insert(limits.devices[i].uuid).second) {
      return fail(Code::kInvalidArgument, "is listed twice", field + ".uuid");
    }
  }
  return {};
}

heddle_guard_usage_header header_for(const ClaimLimits& limits) {
  heddle_guard_usage_header header{};
  std::memcpy(header.magic, HEDDLE_GUARD_USAGE_MAGIC, sizeof(header.magic));
  header.version = HEDDLE_GUARD_VERSION;
  header.size = sizeof(heddle_guard_usage);
  header.device_count = static_cast<uint32_t>(limits.devices.size());
  header.slot_count = HEDDLE_GUARD_SLOTS;
  return header;
}

Result<void> write_all(int fd, const void* data, size_t bytes, off_t offset) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::pwrite(fd, p, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail_errno("cannot write the usage file", errno);
    p += written;
    bytes -= static_cast<size_t>(written);
    offset += written;
  }
  return {};
}

// Reads up to `bytes`; gives how many there were.
Result<size_t> read_at(int fd, void* data, size_t bytes, off_t offset) {
  char* p = static_cast<char*>(data);
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(fd, p + done, bytes - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("cannot read the usage file", errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

Result<void> check_header(const heddle_guard_usage_header& header) {
  if (std::memcmp(header.magic, HEDDLE_GUARD_USAGE_MAGIC, sizeof(header.magic)) != 0) {
    return fail(Code::kInvalidArgument, "not a usage file of the guard");
  }
  if (!version_known(header.version)) {
    return fail(Code::kUnsupported, "usage file of version " + std::to_string(header.version) +
                                        "; this program knows " + std::to_string(HEDDLE_GUARD_OLDEST_VERSION) + " to " +
                                        std::to_string(HEDDLE_GUARD_VERSION));
  }
  if (header.size != sizeof(heddle_guard_usage) || header.slot_count != HEDDLE_GUARD_SLOTS ||
      header.device_count == 0 || header.device_count > HEDDLE_GUARD_MAX_DEVICES) {
    return fail(Code::kInvalidArgument, "the usage file's header is damaged");
  }
  return {};
}

// Opens without following a link and without blocking on what is not a file.
Result<UniqueFd> open_usage(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno == ENOENT) return fail(Code::kNotFound, "no usage file at " + path);
    return fail_errno("cannot open " + path, errno);
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_errno("cannot stat " + path, errno);
  if (!S_ISREG(status.st_mode)) return fail(Code::kInvalidArgument, path + " is not a regular file");
  return fd;
}

// Each value on its own is kept within what a card can have: a tenant can write any bits here.
int64_t bounded_bytes(uint64_t pages) {
  return static_cast<int64_t>(std::min(pages, kMaxPages) << HEDDLE_GUARD_PAGE_SHIFT);
}

int64_t bounded(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX / 4096));
}

int64_t charged_by(uint64_t operation, uint64_t charge) {
  const ledger::Operation op = ledger::unpack_operation(operation);
  const uint64_t pages = ledger::charge_pages(charge);
  // An operation that the total has taken but the slot's own record has not yet.
  const bool behind = !op.pending && op.sequence != ledger::charge_sequence(charge);
  return bounded_bytes(behind ? ledger::add_clamped(pages, op.delta) : pages);
}

UsageReport report_of(const heddle_guard_usage& usage) {
  UsageReport report;
  report.unknown_symbols = bounded(usage.header.unknown_symbols);
  const uint32_t count = usage.header.device_count;
  for (uint32_t d = 0; d < count; ++d) {
    DeviceUsage device;
    device.uuid = get_text(usage.devices[d].uuid, "uuid").value_or("");
    device.charged_bytes = bounded_bytes(ledger::unpack_total(usage.devices[d].total).pages);
    device.context_overhead_bytes = bounded(usage.devices[d].context_overhead_bytes);
    const int64_t addressed = bounded_bytes(ledger::unpack_total(usage.devices[d].addressed_total).pages);
    device.managed_bytes = std::max<int64_t>(addressed - device.charged_bytes, 0);
    report.devices.push_back(std::move(device));
  }
  for (const heddle_guard_slot& slot : usage.slots) {
    if (slot.owner == 0) continue;
    ProcessUsage process;
    process.owner = {ledger::owner_pid(slot.owner), ledger::owner_namespace(slot.owner), slot.start_time};
    process.launches = bounded(slot.launches);
    process.throttled_ns = bounded(slot.throttled_ns);
    for (uint32_t d = 0; d < count; ++d) {
      const heddle_guard_charge& record = slot.devices[d];
      const int64_t charged = charged_by(record.operation, record.charge);
      const int64_t addressed = charged_by(record.addressed_operation, record.addressed_charge);
      const uint64_t resident = slot.managed_resident[d];
      process.charged_bytes.push_back(charged);
      process.managed_bytes.push_back(std::max<int64_t>(addressed - charged, 0));
      process.busy_ns.push_back(bounded(record.busy_ns));
      report.devices[d].managed_resident_bytes +=
          std::min(process.managed_bytes.back(), bounded_bytes(resident == 0 ? 0 : resident - 1));
    }
    report.launches += process.launches;
    report.throttled_ns += process.throttled_ns;
    report.processes.push_back(std::move(process));
  }
  return report;
}

}  // namespace

Result<std::string> encode_limits(const ClaimLimits& limits) {
  HEDDLE_CHECK_OK(check_limits(limits));
  heddle_guard_limits file{};
  std::memcpy(file.magic, HEDDLE_GUARD_LIMITS_MAGIC, sizeof(file.magic));
  file.version = HEDDLE_GUARD_VERSION;
  file.size = sizeof(file);
  if (limits.flags.deny_unlisted_devices) file.flags |= HEDDLE_GUARD_DENY_UNLISTED_DEVICES;
  if (limits.flags.fail_closed) file.flags |= HEDDLE_GUARD_FAIL_CLOSED;
  if (limits.flags.strict_share) file.flags |= HEDDLE_GUARD_STRICT_SHARE;
  if (limits.flags.deny_unknown_symbols) file.flags |= HEDDLE_GUARD_DENY_UNKNOWN_SYMBOLS;
  file.device_count = static_cast<uint32_t>(limits.devices.size());
  file.priority = static_cast<uint32_t>(limits.priority);
  file.mask_percent = static_cast<uint32_t>(limits.mask_percent);
  put_text(file.mask_pipe, limits.mask_pipe);
  put_text(file.claim_uid, limits.claim_uid);
  put_text(file.request, limits.request);
  for (size_t i = 0; i < limits.devices.size(); ++i) {
    const DeviceLimit& from = limits.devices[i];
    heddle_guard_device_limits& to = file.devices[i];
    put_text(to.uuid, from.uuid);
    to.memory_bytes = static_cast<uint64_t>(from.memory_bytes);
    to.cores_percent = static_cast<uint32_t>(from.cores_percent);
    const int64_t overhead =
        from.context_overhead_bytes > 0 ? from.context_overhead_bytes : limits.context_overhead_bytes;
    to.context_overhead_bytes = static_cast<uint64_t>(overhead);
    if (from.whole_card) to.flags |= HEDDLE_GUARD_WHOLE_CARD;
    if (from.gives_way) to.flags |= HEDDLE_GUARD_GIVES_WAY;
    to.virtual_bytes = static_cast<uint64_t>(from.virtual_bytes);
    if (from.number >= 0) to.number_plus_one = static_cast<uint32_t>(from.number) + 1;
  }
  file.checksum = checksum_of(file);
  return std::string(reinterpret_cast<const char*>(&file), sizeof(file));
}

Result<ClaimLimits> decode_limits(std::string_view content) {
  heddle_guard_limits file{};
  if (content.size() < offsetof(heddle_guard_limits, checksum)) {
    return fail(Code::kInvalidArgument, "shorter than a limits file of the guard");
  }
  std::memcpy(&file, content.data(), std::min(content.size(), sizeof(file)));
  if (std::memcmp(file.magic, HEDDLE_GUARD_LIMITS_MAGIC, sizeof(file.magic)) != 0) {
    return fail(Code::kInvalidArgument, "not a limits file of the guard");
  }
  if (!version_known(file.version)) {
    return fail(Code::kUnsupported, "limits file of version " + std::to_string(file.version));
  }
  if (content.size() != sizeof(file) || file.size != sizeof(file) || file.checksum != checksum_of(file) ||
      file.device_count == 0 || file.device_count > HEDDLE_GUARD_MAX_DEVICES) {
    return fail(Code::kInvalidArgument, "the limits file is damaged");
  }
  ClaimLimits limits;
  HEDDLE_TRY(limits.claim_uid, get_text(file.claim_uid, "claim_uid"));
  HEDDLE_TRY(limits.request, get_text(file.request, "request"));
  limits.flags.deny_unlisted_devices = (file.flags & HEDDLE_GUARD_DENY_UNLISTED_DEVICES) != 0;
  limits.flags.fail_closed = (file.flags & HEDDLE_GUARD_FAIL_CLOSED) != 0;
  limits.flags.strict_share = (file.flags & HEDDLE_GUARD_STRICT_SHARE) != 0;
  limits.flags.deny_unknown_symbols = (file.flags & HEDDLE_GUARD_DENY_UNKNOWN_SYMBOLS) != 0;
  limits.priority = static_cast<int>(std::min<uint32_t>(file.priority, kMaxPriority));
  limits.mask_percent = static_cast<int>(std::min<uint32_t>(file.mask_percent, 1000));
  HEDDLE_TRY(limits.mask_pipe, get_text(file.mask_pipe, "mask_pipe"));
  for (uint32_t i = 0; i < file.device_count; ++i) {
    const heddle_guard_device_limits& from = file.devices[i];
    DeviceLimit to;
    HEDDLE_TRY(to.uuid, get_text(from.uuid, "devices.uuid"));
    to.memory_bytes = static_cast<int64_t>(from.memory_bytes);
    to.cores_percent = static_cast<int>(std::min<uint32_t>(from.cores_percent, 1000));
    to.whole_card = (from.flags & HEDDLE_GUARD_WHOLE_CARD) != 0;
    to.context_overhead_bytes = static_cast<int64_t>(from.context_overhead_bytes);
    to.number = int64_t{from.number_plus_one} - 1;
    to.gives_way = (from.flags & HEDDLE_GUARD_GIVES_WAY) != 0;
    to.virtual_bytes = static_cast<int64_t>(from.virtual_bytes);
    limits.devices.push_back(std::move(to));
  }
  HEDDLE_CHECK_OK(check_limits(limits));
  return limits;
}

bool same_limits(std::string_view a, std::string_view b) {
  constexpr size_t kFixed = offsetof(heddle_guard_limits, hints);
  return a.size() == b.size() && a.substr(0, kFixed) == b.substr(0, kFixed);
}

bool has_hints(std::string_view content) {
  uint32_t version = 0;
  if (content.size() != sizeof(heddle_guard_limits)) return false;
  std::memcpy(&version, content.data() + offsetof(heddle_guard_limits, version), sizeof(version));
  return version >= 2;
}

Result<Activity> read_activity(int usage_fd, uint32_t device) {
  heddle_guard_device_usage usage{};
  if (device >= HEDDLE_GUARD_MAX_DEVICES) return fail(Code::kInvalidArgument, "no such device");
  const size_t offset = offsetof(heddle_guard_usage, devices) + device * sizeof(usage);
  HEDDLE_TRY(const size_t got, read_at(usage_fd, &usage, sizeof(usage), static_cast<off_t>(offset)));
  if (got != sizeof(usage)) return fail(Code::kInvalidArgument, "the usage file is cut");
  const auto plausible = [](int64_t value) { return std::clamp<int64_t>(value, 0, INT64_MAX / 4096); };
  return Activity{plausible(usage.want_ns), plausible(usage.charged_ns), plausible(usage.measured_ns)};
}

Result<void> write_hint(int limits_fd, uint32_t device, double rate, double charge, int64_t now_ns) {
  const auto ppm = [](double value, double most) {
    return static_cast<uint64_t>(std::llround(std::clamp(value, 0.0, most) * 1e6));
  };
  const uint64_t word = pack_hint({ppm(rate, 1), ppm(charge, 2)}, now_ns);
  return write_all(limits_fd, &word, sizeof(word),
                   static_cast<off_t>(offsetof(heddle_guard_limits, hints) + device * sizeof(word)));
}

Result<void> create_usage(int fd, const ClaimLimits& limits) {
  HEDDLE_CHECK_OK(check_limits(limits));
  if (::ftruncate(fd, static_cast<off_t>(sizeof(heddle_guard_usage))) != 0) {
    return fail_errno("cannot size the usage file", errno);
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & F_SEAL_SEAL) == 0 &&
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail_errno("cannot seal the usage file", errno);
  }
  std::vector<heddle_guard_device_usage> devices(limits.devices.size());
  for (size_t i = 0; i < devices.size(); ++i) put_text(devices[i].uuid, limits.devices[i].uuid);
  HEDDLE_CHECK_OK(write_all(fd, devices.data(), devices.size() * sizeof(devices[0]),
                            static_cast<off_t>(offsetof(heddle_guard_usage, devices))));
  // The header comes last: a file with a header is whole.
  const heddle_guard_usage_header header = header_for(limits);
  return write_all(fd, &header, sizeof(header), 0);
}

DeviceHint hint_in(std::string_view limits_content, uint32_t device, int64_t now_ns) {
  uint64_t word = 0;
  Hint hint{};
  if (device >= HEDDLE_GUARD_MAX_DEVICES || !has_hints(limits_content)) return {};
  std::memcpy(&word, limits_content.data() + offsetof(heddle_guard_limits, hints) + device * sizeof(word),
              sizeof(word));
  if (!unpack_hint(word, now_ns, &hint)) return {};
  return {static_cast<double>(hint.rate_ppm) / 1e6, static_cast<double>(hint.charge_ppm) / 1e6, true};
}

Result<void> create_usage(const std::string& path, const ClaimLimits& limits) {
  HEDDLE_CHECK_OK(check_limits(limits));
  if (auto existing = open_usage(path, O_RDONLY)) {
    heddle_guard_usage_header header{};
    struct stat status{};
    const auto got = read_at(existing->get(), &header, sizeof(header), 0);
    if (got && *got == sizeof(header) && check_header(header) && header.device_count == limits.devices.size() &&
        ::fstat(existing->get(), &status) == 0 && status.st_size == static_cast<off_t>(sizeof(heddle_guard_usage))) {
      return {};
    }
  }
  const std::string temporary = path + ".new";
  HEDDLE_CHECK_OK(remove_file(temporary));
  UniqueFd fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return fail_errno("cannot create " + temporary, errno);
  HEDDLE_CHECK_OK(create_usage(fd.get(), limits));
  if (::fchmod(fd.get(), 0666) != 0) return fail_errno("cannot open up " + temporary, errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail_errno("cannot put " + path + " in place", errno);
  return {};
}

Result<UsageReport> read_usage(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return fail_errno("cannot stat the usage file", errno);
  if (status.st_size != static_cast<off_t>(sizeof(heddle_guard_usage))) {
    return fail(Code::kInvalidArgument, "the usage file has " + std::to_string(status.st_size) + " bytes instead of " +
                                            std::to_string(sizeof(heddle_guard_usage)));
  }
  auto usage = std::make_unique<heddle_guard_usage>();
  HEDDLE_TRY(const size_t got, read_at(fd, usage.get(), sizeof(*usage), 0));
  if (got != sizeof(*usage)) return fail(Code::kInvalidArgument, "the usage file was cut while it was read");
  HEDDLE_CHECK_OK(check_header(usage->header));
  return report_of(*usage);
}

Result<UsageReport> read_usage(const std::string& path) {
  HEDDLE_TRY(const UniqueFd fd, open_usage(path, O_RDONLY));
  return read_usage(fd.get());
}

namespace {

// A slot's word that the agent may write, and what to write there; nothing: leave the slot.
struct SlotWord {
  size_t offset;
  uint64_t value;
};

// Asks `decide` about each slot in use and writes what it says, in this order. Gives the number of slots written.
Result<int> write_slots(const std::string& path,
                        const std::function<std::vector<SlotWord>(const heddle_guard_slot&)>& decide) {
  HEDDLE_TRY(const UniqueFd fd, open_usage(path, O_RDWR));
  heddle_guard_usage_header header{};
  HEDDLE_TRY(const size_t got, read_at(fd.get(), &header, sizeof(header), 0));
  if (got != sizeof(header)) return fail(Code::kInvalidArgument, "the usage file is shorter than its header");
  HEDDLE_CHECK_OK(check_header(header));
  std::vector<heddle_guard_slot> slots(HEDDLE_GUARD_SLOTS);
  const off_t start = static_cast<off_t>(offsetof(heddle_guard_usage, slots));
  const size_t bytes = slots.size() * sizeof(slots[0]);
  HEDDLE_TRY(const size_t read, read_at(fd.get(), slots.data(), bytes, start));
  if (read != bytes) return fail(Code::kInvalidArgument, "the usage file is cut");
  int written = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const heddle_guard_slot& slot = slots[i];
    if (slot.owner == 0) continue;
    const std::vector<SlotWord> words = decide(slot);
    for (const SlotWord& word : words) {
      const off_t offset = start + static_cast<off_t>(i * sizeof(slot) + word.offset);
      HEDDLE_CHECK_OK(write_all(fd.get(), &word.value, sizeof(word.value), offset));
    }
    written += words.empty() ? 0 : 1;
  }
  return written;
}

SlotOwner owner_of(const heddle_guard_slot& slot) {
  return {ledger::owner_pid(slot.owner), ledger::owner_namespace(slot.owner), slot.start_time};
}

}  // namespace

Result<int> free_slots_of_dead(const std::string& path, const std::function<bool(const SlotOwner&)>& is_alive) {
  return write_slots(path, [&](const heddle_guard_slot& slot) -> std::vector<SlotWord> {
    // One that died before it had written its start time is named by the slot's owner.
    const uint64_t name = slot.start_time != 0 ? slot.start_time : slot.owner;
    if (slot.dead_start_time == name || is_alive(owner_of(slot))) return {};
    return {{offsetof(heddle_guard_slot, dead_seen_ns), static_cast<uint64_t>(SystemClock().monotonic_nanos())},
            {offsetof(heddle_guard_slot, dead_start_time), name}};
  });
}

Result<int> tell_host_pids(const std::string& path, const std::function<uint32_t(const SlotOwner&)>& find_pid) {
  return write_slots(path, [&](const heddle_guard_slot& slot) -> std::vector<SlotWord> {
    // The start time is part of the word: a slot that changes hands meanwhile does not take it for its own.
    const auto started = static_cast<uint32_t>(slot.start_time);
    if (slot.start_time == 0) return {};
    if (slot.host_pid != 0 && static_cast<uint32_t>(slot.host_pid) == started) return {};
    const uint32_t pid = find_pid(owner_of(slot));
    if (pid == 0) return {};
    return {{offsetof(heddle_guard_slot, host_pid), uint64_t{pid} << 32 | started}};
  });
}

}  // namespace heddle::guard
