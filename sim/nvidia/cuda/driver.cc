#include "cuda/driver.h"

#include <pthread.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "cuda/pool.h"
#include "state/mig.h"

namespace nvsim {
namespace {

void after_fork_in_child() {
  driver().view.close_in_child();
}

// The cards in the driver's own order: the fastest first, or by PCI address.
std::vector<Card*> ordered_cards(MachineView& view) {
  std::vector<Card*> cards;
  for (const auto& card : view.cards()) {
    cards.push_back(card.get());
  }
  const char* order = secure_getenv("CUDA_DEVICE_ORDER");
  if (order == nullptr || std::string_view(order) != "PCI_BUS_ID") {
    std::stable_sort(cards.begin(), cards.end(), [](Card* left, Card* right) {
      const auto speed = [](const CardConfig& config) { return std::uint64_t{config.sms} * config.sm_clock_mhz; };
      return speed(left->config()) > speed(right->config());
    });
  }
  return cards;
}

// A compute instance that this process may use.
struct Instance {
  Card* card = nullptr;
  int gpu = -1;
  int compute = -1;
};

std::vector<Instance> instances_of(Card& card) {
  std::vector<Instance> found;
  const Card::Lock lock(card);
  const CardState& state = card.state();
  for (int gpu = 0; gpu < kMaxGpuInstances; ++gpu) {
    for (int compute = 0; compute < kMaxComputeInstances; ++compute) {
      if (has_compute_instance(state, gpu, compute) && may_use(card.folder(), card.config(), gpu, compute)) {
        found.push_back({&card, gpu, compute});
      }
    }
  }
  return found;
}

bool is_partitioned(Card* card) {
  return __atomic_load_n(&card->state().mig.current, __ATOMIC_RELAXED) != 0;
}

// "MIG-<uuid>", or as before R470 "MIG-GPU-<uuid of the card>/<gpu instance>/<compute instance>".
std::optional<Instance> instance_of_entry(const std::vector<Card*>& cards, const std::string& entry) {
  for (Card* card : cards) {
    for (const Instance& one : is_partitioned(card) ? instances_of(*card) : std::vector<Instance>()) {
      const CardConfig& config = card->config();
      const std::string old =
          std::string("MIG-") + config.uuid + "/" + std::to_string(one.gpu) + "/" + std::to_string(one.compute);
      if (strcasecmp(entry.c_str(), mig_uuid(config, one.gpu, one.compute).c_str()) == 0 ||
          strcasecmp(entry.c_str(), old.c_str()) == 0) {
        return one;
      }
    }
  }
  return std::nullopt;
}

// One entry of CUDA_VISIBLE_DEVICES: an index, or the beginning of a UUID that fits one card.
Card* card_of_entry(const std::vector<Card*>& cards, std::string_view entry) {
  std::size_t index = 0;
  const auto result = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (result.ec == std::errc() && result.ptr == entry.data() + entry.size()) {
    return index < cards.size() ? cards[index] : nullptr;
  }
  Card* found = nullptr;
  for (Card* card : cards) {
    const std::string_view uuid = card->config().uuid;
    if (entry.size() >= 5 && entry.size() <= uuid.size() &&
        strncasecmp(card->config().uuid, std::string(entry).c_str(), entry.size()) == 0) {
      if (found != nullptr) {
        return nullptr;
      }
      found = card;
    }
  }
  return found;
}

// A process has one instance at most, and beside it no card: as the driver, the first one that is named or found.
std::vector<Card*> only(const Instance& instance) {
  instance.card->choose_instance(instance.gpu, instance.compute);
  return {instance.card};
}

// What is seen where nothing is named: the cards that are whole, else the first instance.
std::vector<Card*> unnamed(const std::vector<Card*>& cards) {
  std::vector<Card*> whole;
  std::copy_if(cards.begin(), cards.end(), std::back_inserter(whole), [](Card* card) { return !is_partitioned(card); });
  for (auto card = cards.begin(); whole.empty() && card != cards.end(); ++card) {
    if (const std::vector<Instance> found = instances_of(**card); !found.empty()) {
      return only(found.front());
    }
  }
  return whole;
}

// As the real driver: the list ends at the first entry that names no card, and a card named twice is none at all.
std::vector<Card*> visible_cards(MachineView& view) {
  std::vector<Card*> cards = ordered_cards(view);
  const char* variable = getenv("CUDA_VISIBLE_DEVICES");
  if (variable == nullptr) {
    return unnamed(cards);
  }
  std::vector<Card*> visible;
  std::string_view rest = variable;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    std::string_view entry = rest.substr(0, comma);
    entry.remove_prefix(std::min(entry.find_first_not_of(' '), entry.size()));
    if (entry.starts_with("MIG-") || entry.starts_with("mig-")) {
      const auto instance = instance_of_entry(cards, std::string(entry));
      return instance ? only(*instance) : visible;
    }
    Card* card = card_of_entry(cards, entry);
    if (card != nullptr && is_partitioned(card)) {
      // A card that is cut stands for its first instance, where it comes first.
      const std::vector<Instance> found = visible.empty() ? instances_of(*card) : std::vector<Instance>();
      return found.empty() ? visible : only(found.front());
    }
    if (card == nullptr) {
      break;
    }
    if (std::find(visible.begin(), visible.end(), card) != visible.end()) {
      return {};
    }
    visible.push_back(card);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return visible;
}

// A process is a client of MPS when the control daemon of the folder is there; else it goes on by itself, as with the
// vendor. 0: it is none.
std::uint32_t mps_percent() {
  const char* folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::string control = std::string(folder != nullptr ? folder : "/tmp/nvidia-mps") + "/control";
  if (access(control.c_str(), F_OK) != 0) {
    return 0;
  }
  const char* text = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  const double percent = text != nullptr ? std::strtod(text, nullptr) : 100;
  return percent > 0 && percent < 100 ? static_cast<std::uint32_t>(std::ceil(percent)) : 100;
}

CUresult initialise() {
  Driver& self = driver();
  const std::lock_guard guard(self.mutex);
  if (self.ready) {
    return CUDA_SUCCESS;
  }
  if (!self.opened) {
    const int error = self.view.open();
    if (error == EPROTO) {
      return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    }
    if (error != 0) {
      return CUDA_ERROR_NO_DEVICE;
    }
    self.mark.set();
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
    self.opened = true;
  }
  if (self.view.machine().init_fault != 0) {
    return CUDA_ERROR_NO_DEVICE;
  }
  const std::uint32_t percent = mps_percent();
  for (Card* card : visible_cards(self.view)) {
    card->join_mps(percent);
    auto device = std::make_unique<Device>();
    device->card = card;
    device->ordinal = static_cast<int>(self.devices.size());
    self.devices.push_back(std::move(device));
  }
  self.ready = !self.devices.empty();
  return self.ready ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

}  // namespace

Driver& driver() {
  // Never destroyed: other threads may still be in a call when the process ends.
  static Driver* instance = new Driver();
  return *instance;
}

CUresult check_ready() {
  const Driver& self = driver();
  return self.ready && !self.mark.in_child() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

Device* device_at(CUdevice ordinal) {
  const auto& devices = driver().devices;
  return ordinal >= 0 && static_cast<std::size_t>(ordinal) < devices.size()
             ? devices[static_cast<std::size_t>(ordinal)].get()
             : nullptr;
}

CUresult check_card(Device& device) {
  return device.card->lost() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

std::vector<Context*>& context_stack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

CUresult current_context(Context*& context) {
  if (context_stack().empty() || context_stack().back() == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  context = context_stack().back();
  const std::lock_guard guard(driver().mutex);
  return driver().contexts.contains(context) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

std::uint64_t usable_bytes(Device& device) {
  return device.card->usable_bytes(device.card->gpu_instance());
}

std::uint32_t device_sms(Device& device) {
  return device.card->sms(device.card->gpu_instance(), device.card->compute_instance());
}

CUresult charge(Device& device, std::uint64_t bytes) {
  Card& card = *device.card;
  const Card::Lock lock(card);
  if (!lock.ok() || !card.attach() || !card.make_room(bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  card.slot().memory_bytes += bytes;
  return CUDA_SUCCESS;
}

CUresult charge_managed(Device& device, std::uint64_t bytes) {
  Card& card = *device.card;
  const Card::Lock lock(card);
  if (!lock.ok() || !card.attach()) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  card.slot().managed_bytes += bytes;
  card.bring_in();
  return CUDA_SUCCESS;
}

void uncharge_managed(Device& device, std::uint64_t bytes) {
  Card& card = *device.card;
  const Card::Lock lock(card);
  if (lock.ok() && card.slot_index() >= 0) {
    ProcessSlot& slot = card.slot();
    slot.managed_resident = std::min(slot.managed_resident, slot.managed_bytes - std::min(bytes, slot.managed_bytes));
    slot.managed_bytes -= std::min(bytes, slot.managed_bytes);
  }
}

void uncharge_range(const Range& range) {
  if (range.kind == Kind::kManaged) {
    uncharge_managed(*range.device, range.charged);
  } else {
    uncharge(*range.device, range.charged);
  }
}

void uncharge(Device& device, std::uint64_t bytes) {
  Card& card = *device.card;
  const Card::Lock lock(card);
  if (lock.ok() && card.slot_index() >= 0) {
    card.slot().memory_bytes -= std::min(bytes, card.slot().memory_bytes);
  }
}

CUresult memory_info(Device& device, std::uint64_t& free, std::uint64_t& total) {
  Card& card = *device.card;
  const Card::Lock lock(card);
  if (!lock.ok()) {
    return CUDA_ERROR_UNKNOWN;
  }
  total = usable_bytes(device);
  free = total - std::min(total, card.used_bytes(card.gpu_instance()));
  return CUDA_SUCCESS;
}

CUdeviceptr map_addresses(std::uint64_t span, bool low) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (low ? MAP_32BIT : 0);
  // Device addresses are multiples of 2 MiB: map more and give back the ends.
  const std::uint64_t padded = span + kGranularity;
  void* data = mmap(nullptr, padded, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (data == MAP_FAILED) {
    return 0;
  }
  madvise(data, padded, MADV_DONTDUMP);
  const auto start = reinterpret_cast<CUdeviceptr>(data);
  const CUdeviceptr base = round_up(start, kGranularity);
  if (base > start) {
    munmap(data, base - start);
  }
  if (start + padded > base + span) {
    munmap(host_pointer(base + span), start + padded - base - span);
  }
  return base;
}

void unmap_addresses(CUdeviceptr base, std::uint64_t span) {
  munmap(host_pointer(base), span);
}

Range* find_range(CUdeviceptr address) {
  auto& ranges = driver().ranges;
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) {
    return nullptr;
  }
  Range& range = std::prev(after)->second;
  return address < range.base + std::max<std::uint64_t>(range.size, 1) ? &range : nullptr;
}

void add_range(Range range) {
  const std::lock_guard guard(driver().mutex);
  range.id = driver().next_id++;
  driver().ranges[range.base] = range;
}

void drop_ranges_of(Context& context) {
  std::vector<Range> dropped;
  {
    const std::lock_guard guard(driver().mutex);
    auto& ranges = driver().ranges;
    for (auto entry = ranges.begin(); entry != ranges.end();) {
      const bool owned = entry->second.context == &context;
      if (owned) {
        dropped.push_back(entry->second);
      }
      entry = owned ? ranges.erase(entry) : std::next(entry);
    }
  }
  for (const Range& range : dropped) {
    if (range.kind != Kind::kRegistered) {
      unmap_addresses(range.base, range.span);
    }
    if (range.pool != nullptr) {
      pool_give_back(*range.pool, range.size);
    }
    uncharge_range(range);
  }
}

}  // namespace nvsim

CUresult cuInit(unsigned int flags) {
  if (nvsim::driver().mark.in_child()) {
    return CUDA_ERROR_NOT_INITIALIZED;  // the driver cannot start over in a forked child
  }
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : nvsim::initialise();
}
