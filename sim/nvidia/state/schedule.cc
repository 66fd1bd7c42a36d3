#include "state/schedule.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "state/mig.h"

namespace nvsim {
namespace {

// The processes that take turns: those of the whole card, or those of one GPU instance.
struct Lane {
  CardState& card;
  Schedule& schedule;
  int gpu_instance;
  std::int64_t sms;
};

Lane lane_of(CardState& card, int gpu_instance) {
  if (gpu_instance < 0 || gpu_instance >= kMaxGpuInstances) {
    return {card, card.schedule, -1, card.config.sms};
  }
  return {card, card.mig_schedules[gpu_instance], gpu_instance, profile_of(card, gpu_instance).multiprocessors};
}

const Schedule& schedule_of(const CardState& card, int slot) {
  const int instance = card.slots[slot].gpu_instance;
  return instance < 0 || instance >= kMaxGpuInstances ? card.schedule : card.mig_schedules[instance];
}

struct Active {
  Item* item;
  Queue* queue;
};

using ActiveList = std::array<Active, kMaxStreams>;

Item& item_at(ProcessSlot& slot, int queue, std::uint64_t position) {
  return slot.items[queue][position % kQueueDepth];
}

// Finishes what takes no time at the heads of the queues: events, waits that are met, kernels that have run. Repeats,
// since one queue can free another.
void settle(ProcessSlot& slot, std::int64_t now) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int index = 0; index < kMaxStreams; ++index) {
      Queue& queue = slot.queues[index];
      while (queue.head < queue.tail) {
        const Item& item = item_at(slot, index, queue.head);
        if (item.kind == ItemKind::kKernel) {
          if (item.remaining_ns > 0) {
            break;
          }
          slot.kernels += 1;
        } else if (item.kind == ItemKind::kEvent) {
          Event& event = slot.events[item.target % kMaxEvents];
          event.time_ns = now;
          event.done = std::max(event.done, item.number);
        } else if (slot.queues[item.target % kMaxStreams].head < item.number) {
          break;
        }
        queue.done_ns = now;
        queue.head += 1;
        moved = true;
      }
    }
  }
}

int collect(ProcessSlot& slot, ActiveList& active) {
  int count = 0;
  for (int index = 0; index < kMaxStreams; ++index) {
    Queue& queue = slot.queues[index];
    if (queue.head < queue.tail) {
      Item& item = item_at(slot, index, queue.head);
      if (item.kind == ItemKind::kKernel) {
        active[static_cast<std::size_t>(count++)] = {&item, &queue};
      }
    }
  }
  return count;
}

// Events and waits that are met take no time, but where events are gated they need the card.
bool has_something_due(ProcessSlot& slot) {
  for (int index = 0; index < kMaxStreams; ++index) {
    const Queue& queue = slot.queues[index];
    if (queue.head == queue.tail) {
      continue;
    }
    const Item& item = item_at(slot, index, queue.head);
    if (item.kind == ItemKind::kEvent ||
        (item.kind == ItemKind::kWait && slot.queues[item.target % kMaxStreams].head >= item.number)) {
      return true;
    }
  }
  return false;
}

bool runnable(const Lane& lane, int index) {
  CardState& card = lane.card;
  ActiveList active;
  if ((card.used_mask >> index & 1U) == 0 || card.slots[index].gpu_instance != lane.gpu_instance) {
    return false;
  }
  return collect(card.slots[index], active) > 0 ||
         (card.config.gated_events != 0 && has_something_due(card.slots[index]));
}

bool is_client(const CardState& card, int index) {
  return index >= 0 && card.slots[index].mps_percent != 0;
}

// The slots that have the card while `index` has it: the clients of MPS are one party in the turns.
std::uint64_t party_of(const Lane& lane, int index) {
  if (!is_client(lane.card, index)) {
    return 1ULL << static_cast<unsigned>(index);
  }
  std::uint64_t party = 0;
  for (std::uint64_t left = lane.card.used_mask; left != 0; left &= left - 1) {
    const int other = std::countr_zero(left);
    const bool same = is_client(lane.card, other) && lane.card.slots[other].gpu_instance == lane.gpu_instance;
    party |= same ? 1ULL << static_cast<unsigned>(other) : 0;
  }
  return party;
}

bool party_runnable(const Lane& lane, int index) {
  for (std::uint64_t left = party_of(lane, index); left != 0; left &= left - 1) {
    if (runnable(lane, std::countr_zero(left))) {
      return true;
    }
  }
  return false;
}

// The next party with work after that of `from` in the round, by its first slot; that of `from` comes last. -1: none
// has work.
int next_runnable(const Lane& lane, int from) {
  for (int step = 1; step <= kMaxProcesses; ++step) {
    const int index = (from + step + kMaxProcesses) % kMaxProcesses;
    if ((lane.card.used_mask >> static_cast<unsigned>(index) & 1U) == 0) {
      continue;
    }
    const std::uint64_t party = party_of(lane, index);
    if (party != 0 && std::countr_zero(party) == index && party_runnable(lane, index)) {
      return index;
    }
  }
  return -1;
}

void bill(Bucket* buckets, std::int64_t start, std::int64_t busy) {
  const std::int64_t number = start / kBucketNs;
  Bucket& bucket = buckets[number % kBuckets];
  if (bucket.number != number) {
    bucket.busy_ns = 0;
    bucket.number = number;
  }
  bucket.busy_ns += busy;
}

void give_card(const Lane& lane, int next) {
  CardState& card = lane.card;
  Schedule& schedule = lane.schedule;
  const bool together = is_client(card, schedule.resident) && is_client(card, next);
  const bool other = !together && (schedule.resident != next || schedule.resident_serial != card.slots[next].serial);
  const bool first = schedule.resident < 0;
  schedule.switch_until_ns = schedule.now_ns + (other && !first ? card.config.switch_ns : 0);
  schedule.slice_end_ns = schedule.switch_until_ns + card.config.slice_ns;
  schedule.resident_serial = card.slots[next].serial;
  schedule.resident = next;
  schedule.current = next;
}

std::int64_t bucket_end(std::int64_t now) {
  return (now / kBucketNs + 1) * kBucketNs;
}

// One process of the party that has the card.
struct Runner {
  ProcessSlot* slot;
  ActiveList active;
  int count;
  std::int64_t demand;   // SMs that its kernels can fill
  std::int64_t allowed;  // of them, those that it may
};

Runner runner_of(ProcessSlot& slot, std::int64_t sms) {
  Runner runner{&slot, {}, 0, 0, 0};
  runner.count = collect(slot, runner.active);
  for (int index = 0; index < runner.count; ++index) {
    runner.demand += runner.active[static_cast<std::size_t>(index)].item->sms;
  }
  const std::int64_t percent = slot.mps_percent != 0 ? slot.mps_percent : 100;
  const std::int64_t most =
      slot.mps_percent != 0 ? std::max<std::int64_t>(1, (sms * percent + 99) / 100) : runner.demand;
  runner.allowed = std::min(runner.demand, most);
  return runner;
}

// A time of minutes times SMs of many kernels is more than 64 bits.
__extension__ typedef __int128 Wide;

std::int64_t scaled(std::int64_t time, std::int64_t factor, std::int64_t divisor) {
  return factor == divisor ? time : static_cast<std::int64_t>(static_cast<Wide>(time) * factor / divisor);
}

// Runs the kernels of the party that has the card side by side up to `limit` or the first end among them.
void run_current(const Lane& lane, std::int64_t limit) {
  CardState& card = lane.card;
  Schedule& schedule = lane.schedule;
  const std::uint64_t party = party_of(lane, schedule.current);
  const std::int64_t sms = std::max<std::int64_t>(1, lane.sms);
  std::vector<Runner> runners;
  std::int64_t total = 0;
  for (std::uint64_t left = party; left != 0; left &= left - 1) {
    ProcessSlot& slot = card.slots[std::countr_zero(left)];
    if (card.config.gated_events != 0) {
      settle(slot, schedule.now_ns);
    }
    if (Runner runner = runner_of(slot, sms); runner.count > 0) {
      total += runner.allowed;
      runners.push_back(runner);
    }
  }
  if (runners.empty()) {
    return;
  }
  // When the kernels together want more SMs than there are, each gets its part and takes longer.
  const std::int64_t scale = std::max(total, sms);
  std::int64_t step = std::max<std::int64_t>(1, limit - schedule.now_ns);
  for (const Runner& runner : runners) {
    for (int index = 0; index < runner.count; ++index) {
      const std::int64_t left = runner.active[static_cast<std::size_t>(index)].item->remaining_ns;
      const std::int64_t factor = runner.allowed * sms;
      const Wide needed = (static_cast<Wide>(left) * runner.demand * scale + factor - 1) / factor;
      step = std::min(step, std::max<std::int64_t>(1, static_cast<std::int64_t>(needed)));
    }
  }
  for (const Runner& runner : runners) {
    const std::int64_t done = std::max<std::int64_t>(1, scaled(step, runner.allowed * sms, runner.demand * scale));
    for (int index = 0; index < runner.count; ++index) {
      Item& item = *runner.active[static_cast<std::size_t>(index)].item;
      item.remaining_ns = std::max<std::int64_t>(0, item.remaining_ns - done);
    }
    runner.slot->busy_ns += step;
    bill(runner.slot->buckets, schedule.now_ns, step);
  }
  schedule.busy_ns += step;
  bill(schedule.buckets, schedule.now_ns, step);
  schedule.now_ns += step;
  for (std::uint64_t left = party; left != 0; left &= left - 1) {
    settle(card.slots[std::countr_zero(left)], schedule.now_ns);
  }
}

// Makes sure that the right slot has the card. False: nobody has work.
bool choose(const Lane& lane) {
  Schedule& schedule = lane.schedule;
  const bool has_work = schedule.current >= 0 && party_runnable(lane, schedule.current);
  if (has_work && schedule.now_ns < schedule.slice_end_ns) {
    return true;
  }
  const int next = next_runnable(lane, schedule.current < 0 ? schedule.resident : schedule.current);
  if (next < 0) {
    schedule.current = -1;
    return false;
  }
  give_card(lane, next);
  return true;
}

void advance_lane(const Lane& lane, std::int64_t now) {
  Schedule& schedule = lane.schedule;
  if (schedule.now_ns > now) {
    schedule.now_ns = now;  // the files are older than the last boot
  }
  while (schedule.now_ns < now) {
    if (!choose(lane)) {
      schedule.now_ns = now;
      return;
    }
    if (schedule.switch_until_ns > schedule.now_ns) {
      const std::int64_t end = std::min(now, schedule.switch_until_ns);
      schedule.switch_ns += end - schedule.now_ns;
      schedule.now_ns = end;
      continue;
    }
    run_current(lane, std::min({now, schedule.slice_end_ns, bucket_end(schedule.now_ns)}));
  }
}

}  // namespace

void advance(CardState& card, std::int64_t now) {
  advance_lane(lane_of(card, -1), now);
  for (std::uint32_t left = card.mig.instance_mask; left != 0; left &= left - 1) {
    advance_lane(lane_of(card, std::countr_zero(left)), now);
  }
}

void push(CardState& card, int slot_index, int queue_index, const Item& item) {
  ProcessSlot& slot = card.slots[slot_index];
  Queue& queue = slot.queues[queue_index];
  item_at(slot, queue_index, queue.tail) = item;
  queue.tail += 1;
  const Lane lane = lane_of(card, slot.gpu_instance);
  const Schedule& schedule = lane.schedule;
  const bool others = card.config.gated_events != 0 && schedule.current >= 0 &&
                      (party_of(lane, schedule.current) >> static_cast<unsigned>(slot_index) & 1U) == 0 &&
                      party_runnable(lane, schedule.current);
  if (queue.tail - queue.head == 1 && !others) {
    settle(slot, schedule.now_ns);
  }
}

bool has_room(const ProcessSlot& slot, int queue, std::uint64_t count) {
  return slot.queues[queue].tail - slot.queues[queue].head + count <= kQueueDepth;
}

std::int64_t earliest_end(const CardState& card, int slot_index, int queue_index, std::uint64_t position) {
  const ProcessSlot& slot = card.slots[slot_index];
  const Queue& queue = slot.queues[queue_index];
  std::int64_t work = 0;
  for (std::uint64_t at = queue.head; at < std::min(position, queue.tail); ++at) {
    const Item& item = slot.items[queue_index][at % kQueueDepth];
    work += item.kind == ItemKind::kKernel ? item.remaining_ns : 0;
  }
  return schedule_of(card, slot_index).now_ns + work;
}

unsigned busy_percent(const Bucket* buckets, std::int64_t now, std::int64_t window) {
  const std::int64_t last = now / kBucketNs;
  const std::int64_t whole = std::clamp<std::int64_t>(window / kBucketNs, 1, kBuckets - 2);
  std::int64_t busy = 0;
  for (int index = 0; index < kBuckets; ++index) {
    if (buckets[index].number >= last - whole && buckets[index].number <= last) {
      busy += buckets[index].busy_ns;
    }
  }
  const std::int64_t span = whole * kBucketNs + now % kBucketNs;
  return static_cast<unsigned>(std::clamp<std::int64_t>((busy * 100 + span / 2) / span, 0, 100));
}

}  // namespace nvsim
