#include "state/mig.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstdio>

namespace nvsim {
namespace {

constexpr int kFirstCapability = 3;  // behind config and monitor
constexpr int kCapabilitiesOfInstance = kMaxComputeInstances + 1;

struct Taken {
  std::uint32_t memory_mask = 0;
  std::uint32_t slices = 0;
  std::uint32_t ofas = 0;
  std::uint32_t alike = 0;  // of the profile asked for
};

Taken taken(const CardState& card, const MigProfile& profile) {
  Taken sum;
  for (std::uint32_t left = card.mig.instance_mask; left != 0; left &= left - 1) {
    const GpuInstance& instance = card.mig.instances[std::countr_zero(left)];
    const MigProfile& other = card.config.mig_profiles[instance.profile];
    sum.memory_mask |= ((1U << instance.size) - 1) << instance.start;
    sum.slices += other.slices;
    sum.ofas += other.ofas;
    sum.alike += other.id == profile.id ? 1 : 0;
  }
  return sum;
}

// The profile that takes the whole card.
const MigProfile& whole(const CardConfig& config) {
  const MigProfile* best = &config.mig_profiles[0];
  for (std::uint32_t index = 1; index < config.mig_profile_count; ++index) {
    if (config.mig_profiles[index].slices > best->slices) {
      best = &config.mig_profiles[index];
    }
  }
  return *best;
}

std::uint64_t hash_text(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325ULL;
  for (const char character : text) {
    value = (value ^ static_cast<unsigned char>(character)) * 0x100000001b3ULL;
  }
  value ^= value >> 29U;
  value *= 0xbf58476d1ce4e5b9ULL;
  return value ^ value >> 32U;
}

bool write_text(const std::string& path, const std::string& text) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return false;
  }
  const bool done = ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(descriptor);
  return done;
}

void make_folders(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    mkdir(path.substr(0, at).c_str(), 0755);
  }
}

}  // namespace

bool has_instance(const CardState& card, int gpu_instance) {
  return gpu_instance >= 0 && gpu_instance < kMaxGpuInstances && (card.mig.instance_mask >> gpu_instance & 1U) != 0;
}

bool has_compute_instance(const CardState& card, int gpu_instance, int compute_instance) {
  return has_instance(card, gpu_instance) && compute_instance >= 0 && compute_instance < kMaxComputeInstances &&
         (card.mig.instances[gpu_instance].compute_mask >> compute_instance & 1U) != 0;
}

const MigProfile& profile_of(const CardState& card, int gpu_instance) {
  return card.config.mig_profiles[card.mig.instances[gpu_instance].profile % kMaxMigProfiles];
}

std::uint32_t compute_sms(const CardState& card, int gpu_instance, int compute_instance) {
  const MigProfile& profile = profile_of(card, gpu_instance);
  const std::uint32_t slices = card.mig.instances[gpu_instance].computes[compute_instance].slices;
  return profile.slices == 0 ? profile.multiprocessors : profile.multiprocessors * slices / profile.slices;
}

int instance_number(std::uint32_t start, std::uint32_t size) {
  switch (size) {
    case 1:
      return static_cast<int>(7 + start);
    case 2:
      return static_cast<int>(3 + start / 2);
    case 4:
      return static_cast<int>(1 + start / 4);
    default:
      return 0;
  }
}

std::uint32_t room_for(const CardState& card, const MigProfile& profile, std::uint32_t& start_mask) {
  start_mask = 0;
  const MigProfile& all = whole(card.config);
  const Taken now = taken(card, profile);
  Taken sum = now;
  std::uint32_t count = 0;
  for (std::uint32_t start = 0; start < 32; ++start) {
    const std::uint32_t slots = ((1U << profile.placement_size) - 1) << start;
    const bool allowed = (profile.placement_mask >> start & 1U) != 0;
    if (!allowed || (now.memory_mask & slots) != 0 || now.alike >= profile.instances ||
        now.slices + profile.slices > all.slices || now.ofas + profile.ofas > all.ofas) {
      continue;
    }
    start_mask |= 1U << start;
    // Counts those that fit beside each other.
    if ((sum.memory_mask & slots) == 0 && sum.alike < profile.instances && sum.slices + profile.slices <= all.slices &&
        sum.ofas + profile.ofas <= all.ofas) {
      sum.memory_mask |= slots;
      sum.slices += profile.slices;
      sum.ofas += profile.ofas;
      sum.alike += 1;
      ++count;
    }
  }
  return count;
}

int make_instance(CardState& card, std::uint32_t profile_index, std::uint32_t start) {
  const MigProfile& profile = card.config.mig_profiles[profile_index];
  std::uint32_t start_mask = 0;
  room_for(card, profile, start_mask);
  if (start >= 32 || (start_mask >> start & 1U) == 0) {
    return -1;
  }
  // A card of four slices has no halves of eight: its numbers begin where those of the same share do.
  const int number =
      profile.placement_size >= whole(card.config).placement_size ? 0 : instance_number(start, profile.placement_size);
  GpuInstance& instance = card.mig.instances[number];
  instance = {};
  instance.profile = profile_index;
  instance.start = start;
  instance.size = profile.placement_size;
  card.mig_schedules[number] = {};
  card.mig_schedules[number].current = card.mig_schedules[number].resident = -1;
  card.mig_schedules[number].now_ns = card.schedule.now_ns;
  __atomic_store_n(&card.mig.instance_mask, card.mig.instance_mask | 1U << number, __ATOMIC_RELEASE);
  return number;
}

int make_compute_instance(CardState& card, int gpu_instance, std::uint32_t slices, std::uint32_t start) {
  GpuInstance& instance = card.mig.instances[gpu_instance];
  std::uint32_t used = 0;
  for (std::uint32_t left = instance.compute_mask; left != 0; left &= left - 1) {
    const ComputeInstance& other = instance.computes[std::countr_zero(left)];
    used |= ((1U << other.slices) - 1) << other.start;
  }
  const std::uint32_t wanted = ((1U << slices) - 1) << start;
  const int number = std::countr_one(instance.compute_mask);
  if (start + slices > profile_of(card, gpu_instance).slices || (used & wanted) != 0 ||
      number >= kMaxComputeInstances) {
    return -1;
  }
  instance.computes[number] = {slices, start};
  __atomic_store_n(&instance.compute_mask, instance.compute_mask | 1U << number, __ATOMIC_RELEASE);
  return number;
}

bool is_in_use(const CardState& card, int gpu_instance, int compute_instance) {
  for (std::uint64_t left = card.used_mask; left != 0; left &= left - 1) {
    const ProcessSlot& process = card.slots[std::countr_zero(left)];
    if ((gpu_instance < 0 || process.gpu_instance == gpu_instance) &&
        (compute_instance < 0 || process.compute_instance == compute_instance)) {
      return true;
    }
  }
  return false;
}

std::string mig_uuid(const CardConfig& config, int gpu_instance, int compute_instance) {
  const std::string place =
      std::string(config.uuid) + "/" + std::to_string(gpu_instance) + "/" + std::to_string(compute_instance);
  const std::uint64_t high = hash_text(place + "/high"), low = hash_text(place + "/low");
  char text[48];
  std::snprintf(text, sizeof(text), "MIG-%08llx-%04llx-%04llx-%04llx-%012llx", high >> 32U & 0xffffffffULL,
                high >> 16U & 0xffffULL, high & 0xffffULL, low >> 48U & 0xffffULL, low & 0xffffffffffffULL);
  return text;
}

void reset_mig(CardState& card) {
  __atomic_store_n(&card.mig.instance_mask, 0U, __ATOMIC_RELEASE);
  card.mig.current = card.config.mig_reset != 0 ? card.mig.pending : 0;
  card.mig.pending = card.mig.current;
}

int capability_minor(const CardConfig& config, int gpu_instance, int compute_instance) {
  return kFirstCapability +
         (static_cast<int>(config.minor) * kMaxGpuInstances + gpu_instance) * kCapabilitiesOfInstance + 1 +
         compute_instance;
}

std::string capability_node(const std::string& dev, int minor) {
  return dev + "/nvidia-caps/nvidia-cap" + std::to_string(minor);
}

std::string capability_file(const std::string& dev, const CardConfig& config, int gpu_instance, int compute_instance) {
  std::string path = dev.substr(0, dev.rfind('/')) + "/proc/driver/nvidia/capabilities/gpu" +
                     std::to_string(config.minor) + "/mig/gi" + std::to_string(gpu_instance);
  if (compute_instance >= 0) {
    path += "/ci" + std::to_string(compute_instance);
  }
  return path + "/access";
}

bool show_capability(const std::string& dev, const CardConfig& config, int gpu_instance, int compute_instance) {
  const int minor = capability_minor(config, gpu_instance, compute_instance);
  const std::string file = capability_file(dev, config, gpu_instance, compute_instance);
  const std::string node = capability_node(dev, minor);
  make_folders(file);
  make_folders(node);
  return write_text(file,
                    "DeviceFileMinor: " + std::to_string(minor) + "\nDeviceFileMode: 292\nDeviceFileModify: 1\n") &&
         write_text(node, "");
}

void hide_capability(const std::string& dev, const CardConfig& config, int gpu_instance, int compute_instance) {
  const std::string file = capability_file(dev, config, gpu_instance, compute_instance);
  unlink(file.c_str());
  rmdir(file.substr(0, file.rfind('/')).c_str());
}

bool may_use(const std::string& dev, const CardConfig& config, int gpu_instance, int compute_instance) {
  for (const int compute : {-1, compute_instance}) {
    const std::string node = capability_node(dev, capability_minor(config, gpu_instance, compute));
    const int descriptor = ::open(node.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
      return false;
    }
    ::close(descriptor);
  }
  return true;
}

}  // namespace nvsim
