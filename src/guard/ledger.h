// The accounting protocol over the shared `usage` file: exact totals in O(1), and no instruction at which a death loses
// or doubles a charge, without any lock shared between processes.
//
// A change of a charge is an operation of a slot and device: first it is written down in the slot (delta, a new
// sequence number, pending), then the total is exchanged by compare-and-swap for one that carries the new sum together
// with the name of the operation (slot, sequence), then the operation is no longer pending, then the slot's charge is
// brought up to that sequence. Whoever replaces the total first ends the pending state of the operation that the total
// names, so an operation whose name has left the total is never pending; this is what tells "applied" from "not yet
// applied" after a death. All steps are idempotent and any process can do them for a slot whose process is gone.
//
// There are two books a device, each with words of its own: of what is charged, and of what is addressed. An account is
// the number of a device in the first book, that number and kAddressed in the second.
//
// The owner of a slot calls change() for one (slot, account) from one thread at a time (a lock private to
// the process); everything else is free of locks. Freestanding: no library, no allocation, no exceptions. Cost: four
// uncontended compare-and-swaps a change.
#pragma once

#include "guard/layout.h"

namespace heddle::guard {

inline constexpr uint64_t kPageBytes = uint64_t{1} << HEDDLE_GUARD_PAGE_SHIFT;
inline constexpr uint64_t kSequenceMask = (uint64_t{1} << 21) - 1;
inline constexpr uint64_t kMaxPages = 0xffffffffu;

// Whole pages, rounded up; saturates at what a total can hold plus one, so that too large a request is always refused.
inline uint64_t pages_of(uint64_t bytes) {
  const uint64_t pages = (bytes >> HEDDLE_GUARD_PAGE_SHIFT) + ((bytes & (kPageBytes - 1)) != 0 ? 1 : 0);
  return pages > kMaxPages ? kMaxPages + 1 : pages;
}

namespace ledger {

inline constexpr uint32_t kAddressed = HEDDLE_GUARD_MAX_DEVICES;
inline constexpr uint32_t kAccounts = 2 * HEDDLE_GUARD_MAX_DEVICES;

inline uint64_t& total_word(heddle_guard_usage& usage, uint32_t account) {
  return account < kAddressed ? usage.devices[account].total : usage.devices[account - kAddressed].addressed_total;
}
inline uint64_t& operation_word(heddle_guard_slot& slot, uint32_t account) {
  return account < kAddressed ? slot.devices[account].operation
                              : slot.devices[account - kAddressed].addressed_operation;
}
inline uint64_t& charge_word(heddle_guard_slot& slot, uint32_t account) {
  return account < kAddressed ? slot.devices[account].charge : slot.devices[account - kAddressed].addressed_charge;
}

inline uint64_t load(const uint64_t& word) {
  return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
}
inline void store(uint64_t& word, uint64_t value) {
  __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
}
inline bool exchange_if(uint64_t& word, uint64_t expected, uint64_t desired) {
  return __atomic_compare_exchange_n(&word, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

struct Total {
  uint64_t pages, slot, sequence;
};

inline Total unpack_total(uint64_t word) {
  return {word >> 32, (word >> 21) & 0x7ff, word & kSequenceMask};
}
inline uint64_t pack_total(uint64_t pages, uint64_t slot, uint64_t sequence) {
  return pages << 32 | slot << 21 | sequence;
}

struct Operation {
  int64_t delta;  // pages
  uint64_t sequence;
  bool pending;
};

inline Operation unpack_operation(uint64_t word) {
  return {static_cast<int64_t>(word) >> 30, (word >> 1) & kSequenceMask, (word & 1) != 0};
}
inline uint64_t pack_operation(int64_t delta, uint64_t sequence, bool pending) {
  return static_cast<uint64_t>(delta) << 30 | sequence << 1 | (pending ? 1u : 0u);
}

inline uint64_t pack_charge(uint64_t pages, uint64_t sequence) {
  return pages << 32 | sequence;
}
inline uint64_t charge_pages(uint64_t word) {
  return word >> 32;
}
inline uint64_t charge_sequence(uint64_t word) {
  return word & kSequenceMask;
}
inline uint64_t next_sequence(uint64_t sequence) {
  return (sequence + 1) & kSequenceMask;
}

inline uint64_t add_clamped(uint64_t pages, int64_t delta) {
  const int64_t sum = static_cast<int64_t>(pages) + delta;
  if (sum < 0) return 0;
  return sum > static_cast<int64_t>(kMaxPages) ? kMaxPages : static_cast<uint64_t>(sum);
}

// The operation that made `total` has been applied: says so in its slot, so that the total may be replaced.
inline void end_applied(heddle_guard_usage& usage, uint32_t account, uint64_t total) {
  const Total t = unpack_total(total);
  if (t.slot >= HEDDLE_GUARD_SLOTS) return;
  uint64_t& word = operation_word(usage.slots[t.slot], account);
  const uint64_t now = load(word);
  const Operation op = unpack_operation(now);
  if (op.pending && op.sequence == t.sequence) exchange_if(word, now, pack_operation(op.delta, op.sequence, false));
}

// Brings a slot's charge up to its operation, which is no longer pending.
inline void bring_up(uint64_t& word, const Operation& op) {
  const uint64_t charge = load(word);
  if (charge_sequence(charge) == op.sequence) return;
  exchange_if(word, charge, pack_charge(add_clamped(charge_pages(charge), op.delta), op.sequence));
}

enum class Outcome { kApplied, kRefused };

// Applies the pending operation (slot, op): once, however many processes do this at a time. `limit` in pages.
inline Outcome apply(heddle_guard_usage& usage, uint32_t slot, uint32_t account, const Operation& op, uint64_t limit) {
  uint64_t& total = total_word(usage, account);
  const uint64_t& operation = operation_word(usage.slots[slot], account);
  for (;;) {
    const uint64_t seen = load(total);
    end_applied(usage, account, seen);
    const Operation now = unpack_operation(load(operation));
    if (!now.pending || now.sequence != op.sequence) return Outcome::kApplied;
    const Total t = unpack_total(seen);
    const uint64_t sum = add_clamped(t.pages, op.delta);
    if (op.delta > 0 && (t.pages > limit || static_cast<uint64_t>(op.delta) > limit - t.pages)) {
      return Outcome::kRefused;
    }
    exchange_if(total, seen, pack_total(sum, slot, op.sequence));
  }
}

// Changes the charge of the caller's own slot by delta pages. kRefused: the sum would pass `limit`, nothing changed.
inline Outcome change(heddle_guard_usage& usage, uint32_t slot, uint32_t account, int64_t delta, uint64_t limit) {
  uint64_t& operation = operation_word(usage.slots[slot], account);
  uint64_t& charge = charge_word(usage.slots[slot], account);
  uint64_t sequence = next_sequence(unpack_operation(load(operation)).sequence);
  // Refused operations use up numbers without changing the total: never take the one that it still names.
  const Total named = unpack_total(load(total_word(usage, account)));
  if (named.slot == slot && named.sequence == sequence) sequence = next_sequence(sequence);
  const Operation op{delta, sequence, true};
  store(operation, pack_operation(delta, sequence, true));
  const Outcome outcome = apply(usage, slot, account, op, limit);
  if (outcome == Outcome::kRefused) {
    store(operation, pack_operation(0, sequence, false));
    bring_up(charge, Operation{0, sequence, false});
    return outcome;
  }
  bring_up(charge, op);
  return outcome;
}

inline uint64_t total_pages(heddle_guard_usage& usage, uint32_t account) {
  return unpack_total(load(total_word(usage, account))).pages;
}

// Finishes or withdraws what a dead process left half done on one account and takes its charge off the total. False:
// the slot is no longer that of `generation` (somebody else freed it), stop.
inline bool clear_dead_account(heddle_guard_usage& usage, uint32_t slot, uint32_t account, uint64_t generation) {
  heddle_guard_slot& owner = usage.slots[slot];
  uint64_t& operation = operation_word(owner, account);
  uint64_t& charge_at = charge_word(owner, account);
  for (;;) {
    // The total is read, and its operation ended, before the slot's own words: an operation that is still pending after
    // that and not named by the total has not been applied.
    const uint64_t total = load(total_word(usage, account));
    end_applied(usage, account, total);
    const uint64_t word = load(operation);
    const uint64_t charge = load(charge_at);
    const Operation op = unpack_operation(word);
    if (load(owner.generation) != generation) return false;
    if (op.pending) {
      if (op.delta <= 0) {
        apply(usage, slot, account, op, kMaxPages);
      } else {
        exchange_if(operation, word, pack_operation(0, op.sequence, false));
      }
      continue;
    }
    if (charge_sequence(charge) != op.sequence) {
      bring_up(charge_at, op);
      continue;
    }
    if (charge_pages(charge) == 0) return true;
    const int64_t delta = -static_cast<int64_t>(charge_pages(charge));
    exchange_if(operation, word, pack_operation(delta, next_sequence(op.sequence), true));
  }
}

// Frees a slot whose process is gone. Any number of processes may do this for the same slot at a time.
inline void free_dead_slot(heddle_guard_usage& usage, uint32_t slot, uint64_t owner, uint64_t generation) {
  heddle_guard_slot& s = usage.slots[slot];
  for (uint32_t account = 0; account < kAccounts; ++account) {
    if (!clear_dead_account(usage, slot, account, generation)) return;
  }
  for (uint32_t device = 0; device < HEDDLE_GUARD_MAX_DEVICES; ++device) {
    store(s.devices[device].outstanding_ns, 0);
    store(s.managed_resident[device], 0);
  }
  const uint64_t started = load(s.start_time);
  if (load(s.generation) != generation) return;
  // A start time of zero means "alive as long as the pid is": so it goes before the slot can be taken again.
  exchange_if(s.start_time, started, 0);
  if (!exchange_if(s.generation, generation, generation + 1)) return;
  exchange_if(s.owner, owner, 0);
}

// The part of [start, end] for which no process of the tenant was charged before, which it is now. The device's clock
// may seem a little ahead of ours, by the same for all intervals of a context; an end or a watermark that is far ahead
// is damage, and would make everything free.
inline double new_device_time(heddle_guard_device_usage& device, int64_t start, int64_t end, int64_t now) {
  constexpr int64_t kAhead = 1000000000;
  if (end > now + kAhead) {
    start -= end - now;
    end = now;
  }
  int64_t& watermark = device.watermark_ns;
  int64_t seen = __atomic_load_n(&watermark, __ATOMIC_RELAXED);
  for (;;) {
    const int64_t from = seen > now + kAhead ? start : seen;
    if (end <= from) return 0;
    if (__atomic_compare_exchange_n(&watermark, &seen, end, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return static_cast<double>(end - (start > from ? start : from));
    }
  }
}

// The longest time for which a process that is gone is taken to have had a device: nobody saw when it ended.
inline constexpr int64_t kMostUnsettled = 10000000000;

// Charges a slot of `generation`, whose process ended by `end`, for what it had on the devices and nobody could charge:
// from the launch to its end, at most. Any number of processes may do this for the same slot at a time; one does.
inline void charge_unsettled(heddle_guard_usage& usage, uint32_t slot, uint64_t generation, int64_t end, int64_t now) {
  for (uint32_t i = 0; i < HEDDLE_GUARD_MAX_DEVICES; ++i) {
    int64_t since = __atomic_load_n(&usage.unsettled[slot][i].since_ns, __ATOMIC_SEQ_CST);
    const double predicted = static_cast<double>(load(usage.slots[slot].devices[i].outstanding_ns));
    if (load(usage.slots[slot].generation) != generation) return;
    if (since == 0 || since >= end) continue;
    // A time that somebody else has charged, or that a later process of this slot has written, is not this one.
    if (!__atomic_compare_exchange_n(&usage.unsettled[slot][i].since_ns, &since, 0, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
      continue;
    }
    const int64_t until = end - since > kMostUnsettled ? since + kMostUnsettled : end;
    const double time = new_device_time(usage.devices[i], since, until, now);
    if (time <= predicted) continue;
    __atomic_fetch_add(&usage.devices[i].left_ns, static_cast<uint64_t>(time - predicted), __ATOMIC_SEQ_CST);
  }
}

// A pid has at most 22 bits on Linux. The generation of the slot is part of the word, so that a helper that was stopped
// for long cannot free a slot that a later process with the same pid has taken.
inline uint64_t pack_owner(uint32_t pid, uint64_t generation, uint32_t pid_namespace) {
  return uint64_t{pid} << 42 | (generation & 0x3ff) << 32 | pid_namespace;
}
inline uint32_t owner_pid(uint64_t owner) {
  return static_cast<uint32_t>(owner >> 42);
}
inline uint32_t owner_namespace(uint64_t owner) {
  return static_cast<uint32_t>(owner);
}

}  // namespace ledger

// FNV-1a, 64 bits, going on from `hash`.
inline constexpr uint64_t kFnvStart = 14695981039346656037u;
inline uint64_t fnv1a(const void* data, uint64_t bytes, uint64_t hash = kFnvStart) {
  const unsigned char* p = static_cast<const unsigned char*>(data);
  for (uint64_t i = 0; i < bytes; ++i) hash = (hash ^ p[i]) * 1099511628211u;
  return hash;
}

// The checksum field of `limits` as it should be: over what does not change while the tenant runs.
inline uint64_t checksum_of(const heddle_guard_limits& limits) {
  const uint64_t zero = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&limits);
  uint64_t hash = fnv1a(bytes, offsetof(heddle_guard_limits, checksum));
  hash = fnv1a(&zero, sizeof(zero), hash);
  constexpr uint64_t kAfter = offsetof(heddle_guard_limits, checksum) + sizeof(uint64_t);
  const uint64_t end = limits.version == 1 ? sizeof(limits) : offsetof(heddle_guard_limits, hints);
  return fnv1a(bytes + kAfter, end - kAfter, hash);
}

// A word of heddle_guard_limits.hints.
struct Hint {
  uint64_t rate_ppm, charge_ppm;
};

inline constexpr int64_t kHintUnit = 10000000;
inline constexpr int64_t kHintLife = 200000000;

inline uint64_t pack_hint(const Hint& hint, int64_t now_ns) {
  return hint.rate_ppm << 44 | hint.charge_ppm << 23 | (static_cast<uint64_t>(now_ns / kHintUnit) & 0x7fffff);
}

// False: nothing was said, or too long ago.
inline bool unpack_hint(uint64_t word, int64_t now_ns, Hint* hint) {
  const uint64_t age = (static_cast<uint64_t>(now_ns / kHintUnit) - word) & 0x7fffff;
  if (word == 0 || age > static_cast<uint64_t>(kHintLife / kHintUnit)) return false;
  *hint = {word >> 44, word >> 23 & 0x1fffff};
  return true;
}

}  // namespace heddle::guard
