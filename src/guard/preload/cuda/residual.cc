#include "guard/preload/cuda/residual.h"

#include <dlfcn.h>

#include "guard/preload/cuda/driver.h"
#include "guard/preload/cuda/measure.h"
#include "guard/preload/elf.h"

namespace heddle::guard {
namespace {

constexpr int64_t kDistance = 1000000000;
constexpr int64_t kSoon = 20000000;
constexpr int kTries = 4;

// The charge of our own slot.
uint64_t charged_pages(int rule) {
  const heddle_guard_slot* slot = own_slot();
  return slot != nullptr ? ledger::charge_pages(ledger::load(slot->devices[rule].charge)) : 0;
}

// What our own slot has of managed memory beyond the limit.
uint64_t managed_pages(int rule) {
  const heddle_guard_slot* slot = own_slot();
  if (slot == nullptr || config().devices[rule].virtual_pages == 0) return 0;
  const uint64_t addressed = ledger::charge_pages(ledger::load(slot->devices[rule].addressed_charge));
  const uint64_t charged = charged_pages(rule);
  return addressed > charged ? addressed - charged : 0;
}

// What NVML says that this process holds; ~0: it does not say.
uint64_t vendor_pages(Account& account, int rule) {
  if (!open_account(account) || !account_device(account, rule)) return ~uint64_t{0};
  ProcessList list;
  if (!list.read(account.nvml, account.devices[rule])) return ~uint64_t{0};
  const uint32_t host = host_pid();
  const uint32_t own = own_pid();
  uint64_t bytes = ~uint64_t{0};
  for (const nvmlProcessInfo_t& entry : list) {
    if (host != 0 && entry.pid == host) return pages_of(entry.usedGpuMemory);
    if (host != 0 && entry.pid == own) bytes = entry.usedGpuMemory;
  }
  // A process without context and memory is not listed.
  if (bytes == ~uint64_t{0}) return host != 0 ? 0 : bytes;
  return pages_of(bytes);
}

struct Measured {
  bool told;
  int64_t beyond;  // pages that the vendor has more than we have charged; less than zero: fewer
};

Measured measure(Account& account, int rule) {
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = charged_pages(rule);
    const uint64_t vendor = vendor_pages(account, rule);
    if (vendor == ~uint64_t{0}) return {false, 0};
    // Another thread that allocated meanwhile makes the two incomparable.
    if (charged_pages(rule) == before) return {true, static_cast<int64_t>(vendor) - static_cast<int64_t>(before)};
  }
  return {false, 0};
}

// With the account locked: it tells what this process holds.
bool tells(Account& account, int rule) {
  return host_pid() != 0 && open_account(account) && account_device(account, rule);
}

constexpr uint64_t kNotTold = ~uint64_t{0};

uint64_t free_memory() {
  size_t free = 0;
  size_t total = 0;
  const auto query = cuda().cuMemGetInfo_v2;
  return query != nullptr && query(&free, &total) == CUDA_SUCCESS ? free : kNotTold;
}

}  // namespace

bool measure_residual(int rule, Take take) {
  if (!accounted(rule)) return true;
  Account& account = cuda_process().account;
  const Lock lock(account.lock);
  account.measured_ns[rule] = now_ns();
  const Measured found = measure(account, rule);
  if (!found.told) return true;
  const int64_t wanted = static_cast<int64_t>(account.residual[rule]) + found.beyond;
  uint64_t pages = wanted > 0 ? static_cast<uint64_t>(wanted) : 0;
  if (const uint64_t managed = managed_pages(rule); managed != 0) {
    // What came onto the device since may be managed pages, as far as there are any: they are not charged.
    const uint64_t grown = pages > account.residual[rule] ? pages - account.residual[rule] : 0;
    const uint64_t resident = grown < managed ? grown : managed;
    pages -= resident;
    ledger::store(own_slot()->managed_resident[rule], resident + 1);
  }
  if (pages > account.residual[rule]) {
    if (!charge_once(rule, pages - account.residual[rule], take)) return false;
  } else {
    uncharge(rule, account.residual[rule] - pages);
  }
  account.residual[rule] = pages;
  __atomic_store_n(&account.estimated, account.estimated & ~(1U << rule), __ATOMIC_RELAXED);
  return true;
}

Growth::Growth(int rule) : rule_(rule), estimates_(false), free_(kNotTold) {
  if (!accounted(rule) || config().devices[rule].whole_card) return;
  {
    Account& account = cuda_process().account;
    const Lock lock(account.lock);
    estimates_ = !tells(account, rule);
  }
  if (estimates_ && current_rule() == rule) free_ = free_memory();
}

bool Growth::settle(Take take) {
  if (!estimates_) return measure_residual(rule_, take);
  Account& account = cuda_process().account;
  const uint64_t now = free_memory();
  const Lock lock(account.lock);
  if (free_ == kNotTold || now >= free_) return true;
  const uint64_t pages = pages_of(free_ - now);
  if (!charge_once(rule_, pages, take)) return false;
  account.residual[rule_] += pages;
  __atomic_store_n(&account.estimated, account.estimated | 1U << rule_, __ATOMIC_RELAXED);
  return true;
}

void Growth::shrink() {
  if (!estimates_) return measure_if_any(rule_);
  Account& account = cuda_process().account;
  const uint64_t now = free_memory();
  const Lock lock(account.lock);
  if (free_ == kNotTold || now == kNotTold || now <= free_) return;
  const uint64_t freed = (now - free_) >> HEDDLE_GUARD_PAGE_SHIFT;
  const uint64_t pages = freed < account.residual[rule_] ? freed : account.residual[rule_];
  account.residual[rule_] -= pages;
  uncharge(rule_, pages);
}

bool wait_until_told(int rule) {
  constexpr int64_t kStep = 5000000;
  constexpr int64_t kLongest = 2500000000;  // the agent looks every two seconds
  Account& account = cuda_process().account;
  const int64_t start = now_ns();
  while (host_pid() == 0 && __atomic_load_n(&account.waited, __ATOMIC_RELAXED) == 0 && now_ns() - start < kLongest) {
    sleep_ns(kStep);
  }
  __atomic_store_n(&account.waited, 1, __ATOMIC_RELAXED);
  const Lock lock(account.lock);
  return tells(account, rule);
}

bool confirm_residual() {
  const uint32_t estimated = __atomic_load_n(&cuda_process().account.estimated, __ATOMIC_RELAXED);
  bool measured = false;
  for (uint32_t i = 0; i < config().device_count; ++i) {
    const int rule = static_cast<int>(i);
    if ((estimated >> i & 1) == 0 || !wait_until_told(rule)) continue;
    measure_residual(rule, Take::kForced);
    measured = true;
  }
  return measured;
}

void measure_kept() {
  CudaProcess& own = cuda_process();
  if (__atomic_load_n(&own.account.keeps, __ATOMIC_RELAXED) == 0) return;
  for (uint32_t rule = 0; rule < config().device_count; ++rule) measure_if_any(static_cast<int>(rule));
}

void measure_if_any(int rule) {
  if (accounted(rule) && __atomic_load_n(&cuda_process().account.residual[rule], __ATOMIC_RELAXED) != 0) {
    measure_residual(rule, Take::kForced);
  }
}

void measure_now_and_then(int rule) {
  if (!accounted(rule)) return;
  const Account& account = cuda_process().account;
  const int64_t last = __atomic_load_n(&account.measured_ns[rule], __ATOMIC_RELAXED);
  const bool estimated = (__atomic_load_n(&account.estimated, __ATOMIC_RELAXED) >> rule & 1) != 0;
  // Nothing to look for before something was loaded.
  if (last == 0 && !estimated) return;
  const int64_t distance = estimated && host_pid() != 0 ? kSoon : kDistance;
  if (now_ns() - last > distance) measure_residual(rule, Take::kForced);
}

void expect_residual() {
  for (int64_t& measured : cuda_process().account.measured_ns) {
    int64_t never = 0;
    __atomic_compare_exchange_n(&measured, &never, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }
}

void add_residual(int rule, uint64_t pages) {
  Account& account = cuda_process().account;
  const Lock lock(account.lock);
  account.residual[rule] += pages;
}

void keep_charged(int rule, uint64_t pages) {
  __atomic_store_n(&cuda_process().account.keeps, 1, __ATOMIC_RELAXED);
  add_residual(rule, pages);
}

void orphan_was_freed(int rule, uint64_t stream) {
  Account& account = cuda_process().account;
  const Lock lock(account.lock);
  const bool several = account.orphans_freed != 0 && account.orphan_stream != stream;
  account.orphan_stream = several ? ~uint64_t{0} : stream;
  __atomic_store_n(&account.orphans_freed, account.orphans_freed | 1U << rule, __ATOMIC_RELAXED);
}

void measure_orphans(Waited what, uint64_t handle) {
  Account& account = cuda_process().account;
  if (__atomic_load_n(&account.orphans_freed, __ATOMIC_RELAXED) == 0) return;
  uint32_t rules = 0;
  {
    const Lock lock(account.lock);
    rules = account.orphans_freed;
    // After another wait it may not be back yet.
    const bool all = what == Waited::kContext || (what == Waited::kStream && handle == account.orphan_stream);
    if (all) __atomic_store_n(&account.orphans_freed, 0, __ATOMIC_RELAXED);
  }
  for (uint32_t rule = 0; rule < config().device_count; ++rule) {
    if ((rules >> rule & 1) != 0) measure_residual(static_cast<int>(rule), Take::kForced);
  }
}

}  // namespace heddle::guard
