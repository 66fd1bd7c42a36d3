/* The two files that a guarded container sees, as plain C: `limits`, which the agent writes and the container can only
 * read, and `usage`, the one file that the processes of the tenant share and write. Nothing here is shared between
 * tenants. Both carry a version; a reader accepts its own version and the one before.
 * Version 2 differs from 1 in the second page of `limits`, which the agent writes again and again and the checksum
 * leaves out, and in the fields of `usage` that it is made from.
 *
 * All integers are in the byte order of the machine; times are nanoseconds of CLOCK_MONOTONIC; a page is 4096 bytes.
 * Fields marked `reserved` are written as zero and ignored by a reader. */
#ifndef HEDDLE_GUARD_LAYOUT_H
#define HEDDLE_GUARD_LAYOUT_H
/* NOLINTBEGIN(readability-identifier-naming): C's names */

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  HEDDLE_GUARD_VERSION = 2,
  HEDDLE_GUARD_OLDEST_VERSION = 1,
  HEDDLE_GUARD_MAX_DEVICES = 16,
  HEDDLE_GUARD_SLOTS = 2048,
  HEDDLE_GUARD_UUID_BYTES = 96,
  HEDDLE_GUARD_NAME_BYTES = 64,
  HEDDLE_GUARD_PATH_BYTES = 128,
  HEDDLE_GUARD_PAGE_SHIFT = 12
};

#define HEDDLE_GUARD_LIMITS_MAGIC "HDLLIMIT"
#define HEDDLE_GUARD_USAGE_MAGIC "HDLUSAGE"

/* heddle_guard_limits.flags */
enum {
  /* Devices that are not listed are refused memory. Without it they pass unlimited and unaccounted. */
  HEDDLE_GUARD_DENY_UNLISTED_DEVICES = 1u << 0,
  /* When `usage` is missing, unwritable or damaged, memory is refused. Without it memory passes unlimited. */
  HEDDLE_GUARD_FAIL_CLOSED = 1u << 1,
  /* Entry points of the driver that the guard does not know cannot be looked up if their names speak of memory,
   * contexts or work. */
  HEDDLE_GUARD_DENY_UNKNOWN_SYMBOLS = 1u << 2,
  /* The share of the device's time is never exceeded: nothing is borrowed, and time that neighbours took out of an
   * interval counts. Without it the hints of the agent apply while they are fresh. */
  HEDDLE_GUARD_STRICT_SHARE = 1u << 3
};

/* heddle_guard_device_limits.flags */
enum {
  /* The whole card: memory is accounted but neither limited nor shown smaller. */
  HEDDLE_GUARD_WHOLE_CARD = 1u << 0,
  /* Without a limit of the compute share: the tenant may use what the agent's hints say, nothing where they say 0, and
   * all while they say nothing. A guard that does not know this goes on without a limit. */
  HEDDLE_GUARD_GIVES_WAY = 1u << 1
};

struct heddle_guard_device_limits {
  char uuid[HEDDLE_GUARD_UUID_BYTES]; /* as the vendor prints it ("GPU-...", "MIG-..."), ended by NUL */
  uint64_t memory_bytes;              /* the most that may be charged at a time; 0 allows nothing */
  uint64_t context_overhead_bytes;    /* what the driver takes for one context; 0: not known, measured where possible */
  uint32_t cores_percent;             /* share of the device's time; 0 and 100 set no limit */
  uint32_t flags;
  uint32_t number_plus_one; /* by which the vendor's runtime tells the device where it has no uuid (Ascend: the physical
                               id), and 1; 0: not said */
  uint32_t reserved0;
  uint64_t virtual_bytes; /* the most that may be addressed at a time: what is charged, and managed memory beyond it; 0:
                             no more than memory_bytes. A guard that does not know this keeps to memory_bytes */
  uint8_t reserved[56];
};

struct heddle_guard_limits {
  char magic[8];
  uint32_t version;
  uint32_t size;     /* bytes of this struct */
  uint64_t checksum; /* FNV-1a (64 bits) over the first page (version 1: the whole struct) with this field zero: against
                        damage, not against malice */
  uint32_t flags;
  uint32_t device_count;
  char claim_uid[HEDDLE_GUARD_NAME_BYTES];
  char request[HEDDLE_GUARD_NAME_BYTES];
  /* The control law (0: the built-in value): burst credit, reopening distance, cap on predicted work, hardware slice.
   */
  uint64_t burst_ns;
  uint64_t reopen_ns;
  uint64_t outstanding_ns;
  uint64_t slice_ns;
  uint32_t priority;     /* for the agent alone: 0 is the best, and what files from before this field say */
  uint32_t mask_percent; /* of the multiprocessors of each device, held by NVIDIA's MPS; 0: no mask */
  char mask_pipe[HEDDLE_GUARD_PATH_BYTES]; /* the folder of the MPS control daemon as the tenant sees it */
  uint8_t reserved0[184];
  struct heddle_guard_device_limits devices[HEDDLE_GUARD_MAX_DEVICES];
  uint8_t reserved1[512];
  /* From here on the agent's, while the tenant runs: one word for each device, written in one piece.
   *   rate:20 (millionths of the device's time that this tenant may use now)
   *   charge:21 (millionths of a measured interval that count; the rest was taken by neighbours)
   *   stamp:23 (CLOCK_MONOTONIC in units of 10 ms: a word that is older than 200 ms does not count)
   * 0: nothing was ever said. */
  uint64_t hints[HEDDLE_GUARD_MAX_DEVICES];
  uint8_t reserved_peers[3968];
};

/* The charge of one process on one device is changed by operations that any process can finish, so that a death at any
 * instruction loses nothing (ledger.h holds the protocol):
 *   heddle_guard_device_usage.total   pages:32 | slot:11 | sequence:21   the sum, and which operation made it
 *   heddle_guard_charge.operation     delta:34 (signed pages) | sequence:21 | pending:1
 *   heddle_guard_charge.charge        pages:32 | sequence:21             the charge as of that operation
 * Bits are named from the top: see ledger.h for the exact positions. Where a device has virtual memory, the words named
 * `addressed` hold in the same way what is charged and managed memory beyond it together; else they are zero. */
struct heddle_guard_charge {
  uint64_t operation;
  uint64_t charge;
  uint64_t outstanding_ns; /* predicted work that this process has handed to the device and not yet settled */
  uint64_t busy_ns;        /* device time settled so far */
  uint64_t addressed_operation;
  uint64_t addressed_charge;
};

struct heddle_guard_slot {
  uint64_t owner;           /* pid:22 | low bits of generation:10 | inode of its pid namespace:32; 0: free */
  uint64_t generation;      /* raised each time the slot is freed */
  uint64_t start_time;      /* of the process, as field 22 of /proc/<pid>/stat; 0: not written yet */
  uint64_t dead_start_time; /* written by the agent: the process with this start time is gone; while start_time is 0:
                               the owner, as above, that is gone */
  uint64_t launches;
  uint64_t throttled_ns; /* time that launches were held back */
  uint64_t host_pid;     /* written by the agent: host pid:32 | low bits of the start time of the process meant:32 */
  uint64_t dead_seen_ns; /* written by the agent before dead_start_time: when it looked and found the process gone */
  struct heddle_guard_charge devices[HEDDLE_GUARD_MAX_DEVICES];
  /* Of the managed memory beyond what is charged: pages that the vendor's account had on the device when the process
   * last looked, and 1; 0: not known. */
  uint64_t managed_resident[HEDDLE_GUARD_MAX_DEVICES];
  uint8_t reserved1[64];
};

struct heddle_guard_device_usage {
  char uuid[HEDDLE_GUARD_UUID_BYTES]; /* the same device as the entry of `limits` with this index */
  uint64_t context_overhead_bytes;    /* measured once by the first process that could; 0: not yet */
  uint64_t measuring; /* slot of the process that measures it just now, and 1:32 | low bits of its generation:32;
                         0: nobody. A guard that does not know this measures beside others */
  uint64_t reserved0[2];
  uint64_t total;
  uint64_t addressed_total;
  uint64_t reserved1[6];
  int64_t virtual_ns;   /* the tenant's virtual clock on this device: launches are admitted while it is not ahead */
  int64_t watermark_ns; /* device time up to here is already charged */
  int64_t want_ns;      /* when a launch last asked to be admitted, or until when the device has work of this tenant */
  int64_t charged_ns;   /* device time that the clock was charged with, ever */
  int64_t measured_ns;  /* length of the intervals that this was made from */
  uint64_t left_ns;     /* device time of processes that are gone: the next launch puts it on the clock */
  uint64_t reserved2[2];
  uint64_t reserved3[32];
};

struct heddle_guard_usage_header {
  char magic[8];
  uint32_t version;
  uint32_t size; /* bytes of the whole file */
  uint32_t device_count;
  uint32_t slot_count;
  uint64_t boot;            /* FNV-1a of the boot id for which the clocks in this file hold */
  uint64_t slot_hint;       /* where the search for a free slot starts */
  uint64_t slots_used;      /* no slot from here on was ever taken */
  uint64_t swept_ns;        /* when a process last looked for the dead at its start */
  uint64_t unknown_symbols; /* how many of the driver's entry points the last process to load it did not know */
  uint64_t reserved[504];
};

/* What a process has on a device and nobody could charge yet: when it is gone, this is. */
struct heddle_guard_unsettled {
  int64_t since_ns; /* when the first of it was launched; 0: there is none */
  uint64_t reserved;
};

struct heddle_guard_usage {
  struct heddle_guard_usage_header header;
  struct heddle_guard_device_usage devices[HEDDLE_GUARD_MAX_DEVICES];
  uint8_t reserved_front[53248];
  struct heddle_guard_slot slots[HEDDLE_GUARD_SLOTS];
  struct heddle_guard_unsettled unsettled[HEDDLE_GUARD_SLOTS][HEDDLE_GUARD_MAX_DEVICES];
};

#ifdef __cplusplus
#define HEDDLE_GUARD_ASSERT(condition) static_assert(condition, #condition)
#else
#define HEDDLE_GUARD_ASSERT(condition) _Static_assert(condition, #condition)
#endif

HEDDLE_GUARD_ASSERT(sizeof(struct heddle_guard_device_limits) == 192);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_device_limits, memory_bytes) == 96);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_device_limits, context_overhead_bytes) == 104);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_device_limits, cores_percent) == 112);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_device_limits, flags) == 116);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_device_limits, virtual_bytes) == 128);
HEDDLE_GUARD_ASSERT(sizeof(struct heddle_guard_limits) == 8192);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_limits, version) == 8);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_limits, checksum) == 16);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_limits, flags) == 24);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_limits, claim_uid) == 32);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_limits, request) == 96);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_limits, burst_ns) == 160);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_limits, priority) == 192);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_limits, mask_percent) == 196);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_limits, mask_pipe) == 200);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_limits, devices) == 512);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_limits, hints) == 4096);
HEDDLE_GUARD_ASSERT(sizeof(struct heddle_guard_charge) == 48);
HEDDLE_GUARD_ASSERT(sizeof(struct heddle_guard_slot) == 1024);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_slot, start_time) == 16);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_slot, dead_start_time) == 24);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_slot, dead_seen_ns) == 56);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_slot, devices) == 64);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_slot, managed_resident) == 832);
HEDDLE_GUARD_ASSERT(sizeof(struct heddle_guard_device_usage) == 512);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_device_usage, total) == 128);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_device_usage, addressed_total) == 136);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_device_usage, virtual_ns) == 192);
HEDDLE_GUARD_ASSERT(sizeof(struct heddle_guard_usage_header) == 4096);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_usage_header, boot) == 24);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_usage, devices) == 4096);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_usage, slots) == 65536);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_device_usage, left_ns) == 232);
HEDDLE_GUARD_ASSERT(sizeof(struct heddle_guard_unsettled) == 16);
HEDDLE_GUARD_ASSERT(offsetof(struct heddle_guard_usage, unsettled) == 65536 + 2097152);
HEDDLE_GUARD_ASSERT(sizeof(struct heddle_guard_usage) == 2686976);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */
#endif
