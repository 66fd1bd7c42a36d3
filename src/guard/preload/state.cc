#include "guard/preload/state.h"

#include <stdlib.h>
#include <string.h>

#include "guard/preload/vendor.h"

namespace heddle::guard {

__thread bool Entry::inside_ __attribute__((tls_model("initial-exec"))) = false;

namespace {

// Published as one block, so that two threads may load at a time and a fork in the middle leaves nothing half done.
struct Loaded {
  Config config;
  Process* process;
  int8_t rule_of_ordinal[64];  // 0: not asked yet; rule + 1; -1: unlisted
};
Loaded* loaded = nullptr;

constexpr const char* kContainerFolder = "/run/heddle";
using vendor::kPathBytes;
constexpr int64_t kBurstNs = 20000000;
constexpr int64_t kReopenNs = 1000000;
constexpr int64_t kOutstandingNs = 2000000;

bool join(char* out, const char* folder, const char* name) {
  const size_t a = strlen(folder);
  const size_t b = strlen(name);
  if (a + b + 2 > kPathBytes) return false;
  memcpy(out, folder, a);  // NOLINT(bugprone-not-null-terminated-result): the name follows
  out[a] = '/';
  memcpy(out + a + 1, name, b + 1);
  return true;
}

bool take_limits(const heddle_guard_limits& file, long bytes, Config& config) {
  if (bytes != static_cast<long>(sizeof(file)) || memcmp(file.magic, HEDDLE_GUARD_LIMITS_MAGIC, 8) != 0) return false;
  if (file.version < HEDDLE_GUARD_OLDEST_VERSION || file.version > HEDDLE_GUARD_VERSION) return false;
  if (file.size != sizeof(file) || file.checksum != checksum_of(file)) return false;
  if (file.device_count == 0 || file.device_count > HEDDLE_GUARD_MAX_DEVICES) return false;
  config.device_count = file.device_count;
  config.deny_unlisted = (file.flags & HEDDLE_GUARD_DENY_UNLISTED_DEVICES) != 0;
  config.deny_unknown = (file.flags & HEDDLE_GUARD_DENY_UNKNOWN_SYMBOLS) != 0;
  config.burst_ns = file.burst_ns != 0 ? static_cast<int64_t>(file.burst_ns) : kBurstNs;
  config.reopen_ns = file.reopen_ns != 0 ? static_cast<int64_t>(file.reopen_ns) : kReopenNs;
  config.outstanding_ns = file.outstanding_ns != 0 ? static_cast<int64_t>(file.outstanding_ns) : kOutstandingNs;
  if (file.mask_percent > 99 || memchr(file.mask_pipe, 0, sizeof(file.mask_pipe)) == nullptr) return false;
  config.mask_percent = file.mask_percent;
  memcpy(config.mask_pipe, file.mask_pipe, sizeof(config.mask_pipe));
  for (uint32_t i = 0; i < file.device_count; ++i) {
    const heddle_guard_device_limits& from = file.devices[i];
    DeviceRule& to = config.devices[i];
    if (memchr(from.uuid, 0, sizeof(from.uuid)) == nullptr || !vendor::parse_identity(from.uuid, to.uuid)) return false;
    if (from.cores_percent > 100) return false;
    to.whole_card = (from.flags & HEDDLE_GUARD_WHOLE_CARD) != 0;
    to.limit_bytes = from.memory_bytes;
    to.limit_pages = from.memory_bytes >> HEDDLE_GUARD_PAGE_SHIFT;
    to.virtual_pages = from.virtual_bytes >> HEDDLE_GUARD_PAGE_SHIFT;
    if (to.limit_pages > kMaxPages || to.virtual_pages > kMaxPages) return false;
    if (to.virtual_pages <= to.limit_pages || to.whole_card) to.virtual_pages = 0;
    if (to.whole_card) to.limit_pages = kMaxPages;
    to.context_bytes = from.context_overhead_bytes;
    to.number_plus_one = from.number_plus_one;
    to.cores_percent = from.cores_percent == 100 ? 0 : from.cores_percent;
    to.gives_way = (from.flags & HEDDLE_GUARD_GIVES_WAY) != 0 && to.cores_percent == 0 && !to.whole_card;
    config.any_compute_limit = config.any_compute_limit || to.paced();
    config.announces = config.announces || (!to.paced() && !to.whole_card);
  }
  return true;
}

// After a reboot the clocks in the file mean nothing; the processes in it are gone and are swept like others.
void start_clocks(heddle_guard_usage& usage) {
  char id[64];
  const long got = read_whole("/proc/sys/kernel/random/boot_id", id, sizeof(id));
  const uint64_t boot = fnv1a(id, got > 0 ? static_cast<uint64_t>(got) : 0);
  const uint64_t seen = ledger::load(usage.header.boot);
  if (seen == boot || !ledger::exchange_if(usage.header.boot, seen, boot) || seen == 0) return;
  for (heddle_guard_device_usage& device : usage.devices) {
    __atomic_store_n(&device.virtual_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&device.watermark_ns, 0, __ATOMIC_RELAXED);
  }
}

heddle_guard_usage* map_usage(const char* path, uint32_t device_count) {
  auto* usage = static_cast<heddle_guard_usage*>(map_shared_file(path, sizeof(heddle_guard_usage)));
  if (usage == nullptr) return nullptr;
  const heddle_guard_usage_header& header = usage->header;
  if (memcmp(header.magic, HEDDLE_GUARD_USAGE_MAGIC, 8) == 0 && header.version >= HEDDLE_GUARD_OLDEST_VERSION &&
      header.version <= HEDDLE_GUARD_VERSION && header.size == sizeof(heddle_guard_usage) &&
      header.device_count == device_count && header.slot_count == HEDDLE_GUARD_SLOTS) {
    start_clocks(*usage);
    return usage;
  }
  unmap(usage, sizeof(heddle_guard_usage));
  return nullptr;
}

// Limits that others' software told the container of, over a usage file that its processes make.
void load_foreign_limits(Config& config) {
  char path[kPathBytes];
  if (!vendor::limits_of_environment(config, path)) return;
  config.mode = Config::Mode::kActive;
  config.deny_unlisted = true;
  config.burst_ns = kBurstNs;
  config.reopen_ns = kReopenNs;
  config.outstanding_ns = kOutstandingNs;
  heddle_guard_usage_header header{};
  memcpy(header.magic, HEDDLE_GUARD_USAGE_MAGIC, sizeof(header.magic));
  header.version = HEDDLE_GUARD_VERSION;
  header.size = sizeof(heddle_guard_usage);
  header.device_count = config.device_count;
  header.slot_count = HEDDLE_GUARD_SLOTS;
  make_shared_file(path, sizeof(heddle_guard_usage), &header, sizeof(header));
  config.usage = map_usage(path, config.device_count);
  if (config.usage != nullptr) return;
  log_line("memory is refused: the usage file cannot be made: ", path);
  config.mode = Config::Mode::kClosed;
  config.any_compute_limit = false;
}

void load_config(Config& config) {
  char path[kPathBytes];
  heddle_guard_limits file;
  const char* folder = kContainerFolder;
  if (is_absent("/run/heddle/limits")) {
    // Only without the container's own file: a tenant cannot point elsewhere.
    folder = getenv("HEDDLE_GUARD_DIR");
    if (folder == nullptr || !join(path, folder, "limits") || is_absent(path)) return load_foreign_limits(config);
  }
  if (!join(path, folder, "limits")) return;
  const long got = read_whole(path, &file, sizeof(file));
  if (!take_limits(file, got, config)) {
    log_line("memory is refused: the limits file is damaged or of an unknown version: ", path);
    memset(&config, 0, sizeof(config));
    config.mode = Config::Mode::kClosed;
    return;
  }
  config.mode = Config::Mode::kActive;
  vendor::lower_by_environment(config);
  const bool strict = (file.flags & HEDDLE_GUARD_STRICT_SHARE) != 0 || config.keeps_to_share;
  const bool hinted = file.version >= 2 && !strict && config.any_compute_limit;
  const auto* page = hinted ? static_cast<const heddle_guard_limits*>(map_readable_file(path, sizeof(file))) : nullptr;
  config.hints = page != nullptr ? page->hints : nullptr;
  if (!join(path, folder, "usage")) return;
  config.usage = map_usage(path, config.device_count);
  if (config.usage != nullptr) return;
  const bool closed = (file.flags & HEDDLE_GUARD_FAIL_CLOSED) != 0;
  log_line(closed ? "memory is refused: the usage file is missing or damaged: "
                  : "memory is not limited: the usage file is missing or damaged: ",
           path);
  config.mode = closed ? Config::Mode::kClosed : Config::Mode::kOpen;
  config.any_compute_limit = false;
  config.announces = false;
}

// What a process works with when the kernel has no memory left for us: memory is refused, the rest passes.
Loaded emergency = {
    {Config::Mode::kClosed, true, false, false, 0, {}, 0, 0, 0, nullptr, false, nullptr, 0, {}, false}, nullptr, {}};

Loaded& load_state() {
  auto* mine = static_cast<Loaded*>(map_private(sizeof(Loaded), OnFork::kKeep));
  auto* own = static_cast<Process*>(map_private(vendor::process_bytes(), OnFork::kWipe));
  if (mine == nullptr || own == nullptr) {
    __atomic_store_n(&emergency.process, &vendor::spare_process(), __ATOMIC_RELEASE);
    return emergency;
  }
  mine->process = own;
  load_config(mine->config);
  Loaded* expected = nullptr;
  if (__atomic_compare_exchange_n(&loaded, &expected, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return *mine;
  unmap(mine->config.usage, sizeof(heddle_guard_usage));
  unmap(own, vendor::process_bytes());
  unmap(mine, sizeof(Loaded));
  return *expected;
}

Loaded& state() {
  Loaded* now = __atomic_load_n(&loaded, __ATOMIC_ACQUIRE);
  return now != nullptr ? *now : load_state();
}

bool same_bytes(const unsigned char (&a)[16], const void* b) {
  return memcmp(a, b, 16) == 0;
}

// True when the slot's process is certainly gone.
bool slot_is_dead(const heddle_guard_slot& slot, uint64_t owner, uint32_t own_namespace) {
  const uint64_t started = ledger::load(slot.start_time);
  if (ledger::load(slot.dead_start_time) == (started != 0 ? started : owner)) return true;
  if (ledger::owner_namespace(owner) != own_namespace) return false;
  const uint32_t pid = ledger::owner_pid(owner);
  if (pid_is_free(pid)) return true;
  const ProcessState now = process_state(pid);
  return now.known && (now.ended || (started != 0 && now.start_time != started));
}

void raise_to(uint64_t& word, uint64_t value) {
  for (uint64_t seen = ledger::load(word); seen < value; seen = ledger::load(word)) {
    if (ledger::exchange_if(word, seen, value)) return;
  }
}

void lower_to(uint64_t& word, uint64_t value) {
  for (uint64_t seen = ledger::load(word); seen > value; seen = ledger::load(word)) {
    if (ledger::exchange_if(word, seen, value)) return;
  }
}

// Frees the slot of a process that is gone, and charges what it left behind.
void free_slot(heddle_guard_usage& usage, uint32_t index, uint64_t owner, uint64_t generation) {
  const heddle_guard_slot& slot = usage.slots[index];
  const int64_t now = now_ns();
  const auto seen = static_cast<int64_t>(ledger::load(slot.dead_seen_ns));
  const bool told = seen > 0 && seen < now && ledger::load(slot.dead_start_time) == ledger::load(slot.start_time);
  ledger::charge_unsettled(usage, index, generation, told ? seen : now, now);
  ledger::free_dead_slot(usage, index, owner, generation);
  lower_to(usage.header.slot_hint, index);
}

// Takes a free slot; -1 when all are taken. Each caller starts at a place of its own, so the first try nearly always
// works.
int take_slot(heddle_guard_usage& usage, uint32_t pid, uint32_t pid_namespace) {
  for (int tries = 0; tries < 2 * HEDDLE_GUARD_SLOTS; ++tries) {
    const uint64_t at = __atomic_fetch_add(&usage.header.slot_hint, 1, __ATOMIC_RELAXED);
    const auto index = static_cast<uint32_t>(at % HEDDLE_GUARD_SLOTS);
    heddle_guard_slot& slot = usage.slots[index];
    if (ledger::load(slot.owner) != 0) continue;
    // Before it is ours: whoever looks for the dead must not miss it.
    raise_to(usage.header.slots_used, uint64_t{index} + 1);
    const uint64_t mine = ledger::pack_owner(pid, ledger::load(slot.generation), pid_namespace);
    if (ledger::exchange_if(slot.owner, 0, mine)) return static_cast<int>(index);
  }
  return -1;
}

// A program that was replaced by exec held a slot under the pid and the start time that this one has now. The driver
// gave back all that it had.
void free_slots_of_former_image(heddle_guard_usage& usage, uint32_t pid, uint32_t pid_namespace, uint64_t started) {
  const uint64_t used = ledger::load(usage.header.slots_used);
  for (uint32_t i = 0; started != 0 && i < used && i < HEDDLE_GUARD_SLOTS; ++i) {
    const heddle_guard_slot& slot = usage.slots[i];
    const uint64_t generation = ledger::load(slot.generation);
    const uint64_t owner = ledger::load(slot.owner);
    if (ledger::owner_pid(owner) != pid || ledger::owner_namespace(owner) != pid_namespace) continue;
    // A start time of zero: it died, or was replaced, before it had written one.
    const uint64_t its = ledger::load(slot.start_time);
    if (its != started && its != 0) continue;
    free_slot(usage, i, owner, generation);
  }
}

// At its start a process frees what the dead left, but of many that start at once only one does.
void sweep_at_start(heddle_guard_usage& usage) {
  constexpr uint64_t kDistance = 50000000;
  const auto now = static_cast<uint64_t>(now_ns());
  const uint64_t last = ledger::load(usage.header.swept_ns);
  if (last <= now && now - last < kDistance) return;
  if (ledger::exchange_if(usage.header.swept_ns, last, now)) sweep_dead();
}

heddle_guard_slot* claim_slot(Process& own) {
  const Lock lock(own.slot_lock);
  heddle_guard_usage& usage = *config().usage;
  const uint32_t taken = __atomic_load_n(&own.slot_plus_one, __ATOMIC_ACQUIRE);
  if (taken != 0) return &usage.slots[taken - 1];
  const uint32_t pid = own_pid();
  const uint32_t pid_namespace = own_pid_namespace();
  if (pid_namespace == 0) return nullptr;
  const uint64_t started = process_state(0).start_time;
  free_slots_of_former_image(usage, pid, pid_namespace, started);
  sweep_at_start(usage);
  int index = take_slot(usage, pid, pid_namespace);
  if (index < 0 && sweep_dead()) index = take_slot(usage, pid, pid_namespace);
  if (index < 0) {
    log_line("memory is refused: more processes than the usage file has slots");
    return nullptr;
  }
  heddle_guard_slot& slot = usage.slots[index];
  ledger::store(slot.dead_start_time, 0);
  ledger::store(slot.host_pid, 0);
  ledger::store(slot.launches, 0);
  ledger::store(slot.throttled_ns, 0);
  ledger::store(slot.dead_seen_ns, 0);
  for (heddle_guard_charge& device : slot.devices) {
    ledger::store(device.outstanding_ns, 0);
    ledger::store(device.busy_ns, 0);
  }
  for (heddle_guard_unsettled& device : usage.unsettled[index]) __atomic_store_n(&device.since_ns, 0, __ATOMIC_SEQ_CST);
  ledger::store(slot.start_time, started);
  __atomic_store_n(&own.slot_plus_one, static_cast<uint32_t>(index) + 1, __ATOMIC_RELEASE);
  return &slot;
}

// At the end of the process the driver answers no more; what it did not tell by now is charged up to here.
__attribute__((destructor)) void charge_own_unsettled() {
  const Loaded* s = __atomic_load_n(&loaded, __ATOMIC_ACQUIRE);
  if (s == nullptr || s->config.usage == nullptr) return;
  const uint32_t taken = __atomic_load_n(&s->process->slot_plus_one, __ATOMIC_ACQUIRE);
  if (taken == 0) return;
  heddle_guard_usage& usage = *s->config.usage;
  const int64_t now = now_ns();
  ledger::charge_unsettled(usage, taken - 1, ledger::load(usage.slots[taken - 1].generation), now, now);
}

}  // namespace

const Config& config() {
  return state().config;
}
Process& process() {
  return *state().process;
}

heddle_guard_slot* own_slot() {
  const Loaded& s = state();
  if (s.config.usage == nullptr) return nullptr;
  const uint32_t taken = __atomic_load_n(&s.process->slot_plus_one, __ATOMIC_ACQUIRE);
  return taken != 0 ? &s.config.usage->slots[taken - 1] : claim_slot(*s.process);
}

heddle_guard_unsettled* own_unsettled(int rule) {
  const Loaded& s = state();
  const uint32_t taken = __atomic_load_n(&s.process->slot_plus_one, __ATOMIC_ACQUIRE);
  return s.config.usage != nullptr && taken != 0 ? &s.config.usage->unsettled[taken - 1][rule] : nullptr;
}

int rule_of_identity(const void* identity) {
  const Config& c = config();
  for (uint32_t i = 0; i < c.device_count; ++i) {
    if (same_bytes(c.devices[i].uuid, identity)) return static_cast<int>(i);
  }
  return kUnlisted;
}

int rule_of_number(uint32_t number) {
  const Config& c = config();
  for (uint32_t i = 0; i < c.device_count; ++i) {
    if (c.devices[i].number_plus_one == number + 1) return static_cast<int>(i);
  }
  return kUnlisted;
}

bool known_rule(int ordinal, int* rule) {
  const Loaded& s = state();
  if (ordinal < 0 || ordinal >= static_cast<int>(sizeof(s.rule_of_ordinal))) return false;
  const int8_t known = __atomic_load_n(&s.rule_of_ordinal[ordinal], __ATOMIC_RELAXED);
  *rule = known > 0 ? known - 1 : kUnlisted;
  return known != 0;
}

void keep_rule(int ordinal, int rule) {
  Loaded& s = state();
  if (ordinal < 0 || ordinal >= static_cast<int>(sizeof(s.rule_of_ordinal))) return;
  __atomic_store_n(&s.rule_of_ordinal[ordinal], static_cast<int8_t>(rule >= 0 ? rule + 1 : -1), __ATOMIC_RELAXED);
}

namespace {

// Where the driver's objects lie, as far as they have called so far. A driver stays loaded (driver_table.h).
struct Range {
  uintptr_t start, end;
};
Range driver_ranges[8];
uint32_t driver_range_count = 0;

bool is_ours(const LoadedObject& object) {
  LoadedObject own;
  return object_of(reinterpret_cast<const void*>(&is_in_driver), &own) && own.dynamic == object.dynamic;
}

}  // namespace

bool is_in_driver(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  constexpr uint32_t kMost = sizeof(driver_ranges) / sizeof(driver_ranges[0]);
  const uint32_t taken = __atomic_load_n(&driver_range_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < kMost && i < taken; ++i) {
    const uintptr_t end = __atomic_load_n(&driver_ranges[i].end, __ATOMIC_ACQUIRE);
    if (at < end && at >= __atomic_load_n(&driver_ranges[i].start, __ATOMIC_RELAXED)) return true;
  }
  LoadedObject object;
  if (!object_of(address, &object) || !(vendor::is_of_driver(object) || is_ours(object))) return false;
  const uint32_t place = __atomic_fetch_add(&driver_range_count, 1, __ATOMIC_ACQ_REL);
  if (place >= kMost) {
    __atomic_store_n(&driver_range_count, kMost, __ATOMIC_RELEASE);
    return true;
  }
  // The end last: until then the entry matches nothing.
  __atomic_store_n(&driver_ranges[place].start, object.start, __ATOMIC_RELAXED);
  __atomic_store_n(&driver_ranges[place].end, object.end, __ATOMIC_RELEASE);
  return true;
}

bool accounted(int rule) {
  return rule >= 0 && config().usage != nullptr;
}

bool refused(int rule) {
  const Config& c = config();
  if (c.mode == Config::Mode::kClosed) return true;
  return c.mode == Config::Mode::kActive && rule == kUnlisted && c.deny_unlisted;
}

bool sweep_dead() {
  heddle_guard_usage* usage = config().usage;
  if (usage == nullptr) return false;
  const uint32_t own_namespace = own_pid_namespace();
  const uint64_t used = ledger::load(usage->header.slots_used);
  const uint32_t mine = __atomic_load_n(&process().slot_plus_one, __ATOMIC_ACQUIRE);
  bool freed = false;
  for (uint32_t i = 0; i < used && i < HEDDLE_GUARD_SLOTS; ++i) {
    heddle_guard_slot& slot = usage->slots[i];
    // The generation first: what is read after it is of this owner or of a later one, which the ledger notices.
    const uint64_t generation = ledger::load(slot.generation);
    const uint64_t owner = ledger::load(slot.owner);
    if (owner == 0 || i + 1 == mine || !slot_is_dead(slot, owner, own_namespace)) continue;
    free_slot(*usage, i, owner, generation);
    freed = true;
  }
  return freed;
}

namespace {

enum class Book { kCharged, kAddressed };

bool change_own(int rule, Book book, int64_t pages, uint64_t limit) {
  if (own_slot() == nullptr) return false;
  Process& own = process();
  const auto device = static_cast<uint32_t>(rule);
  const uint32_t account = book == Book::kAddressed ? device + ledger::kAddressed : device;
  const Lock lock(own.charge_lock[device]);
  return ledger::change(*config().usage, own.slot_plus_one - 1, account, pages, limit) == ledger::Outcome::kApplied;
}

void give_back(int rule, Book book, uint64_t pages) {
  change_own(rule, book, -static_cast<int64_t>(pages), kMaxPages);
}

bool address(int rule, uint64_t pages, Take take) {
  const uint64_t limit = take == Take::kForced ? kMaxPages : config().devices[rule].virtual_pages;
  return pages <= limit && change_own(rule, Book::kAddressed, static_cast<int64_t>(pages), limit);
}

bool has_virtual(int rule) {
  return config().devices[rule].virtual_pages != 0;
}

}  // namespace

bool charge_once(int rule, uint64_t pages, Take take) {
  if (refused(rule)) return take == Take::kForced;
  if (!accounted(rule) || pages == 0) return true;
  const uint64_t limit = take == Take::kForced ? kMaxPages : config().devices[rule].limit_pages;
  if (pages > limit) return false;
  // What is addressed first, and last when it is given back: it is never less than what is charged.
  if (has_virtual(rule) && !address(rule, pages, take)) return false;
  if (change_own(rule, Book::kCharged, static_cast<int64_t>(pages), limit)) return true;
  if (has_virtual(rule)) give_back(rule, Book::kAddressed, pages);
  return false;
}

bool charge(int rule, uint64_t pages, Take take) {
  if (charge_once(rule, pages, take)) return true;
  if (!accounted(rule) || pages > config().devices[rule].limit_pages) return false;
  const bool swept = sweep_dead();
  const bool shrunk = vendor::reclaim();
  return (swept || shrunk) && charge_once(rule, pages, take);
}

void uncharge(int rule, uint64_t pages) {
  if (!accounted(rule) || pages == 0) return;
  give_back(rule, Book::kCharged, pages);
  if (has_virtual(rule)) give_back(rule, Book::kAddressed, pages);
}

bool charge_beyond(int rule, uint64_t pages) {
  if (!accounted(rule) || !has_virtual(rule) || pages > config().devices[rule].virtual_pages) return false;
  if (address(rule, pages, Take::kLimited)) return true;
  const bool swept = sweep_dead();
  const bool shrunk = vendor::reclaim();
  return (swept || shrunk) && address(rule, pages, Take::kLimited);
}

void uncharge_beyond(int rule, uint64_t pages) {
  if (accounted(rule) && has_virtual(rule) && pages != 0) give_back(rule, Book::kAddressed, pages);
}

}  // namespace heddle::guard
