// nvsim: makes, shows, breaks and removes a simulated NVIDIA machine. Exit codes: 0 done, 1 usage, 3 an error.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>

#include "state/machine.h"
#include "state/mig.h"
#include "state/schedule.h"
#include "tool/command.h"
#include "tool/config.h"

namespace nvsim {
namespace {

using tool::folder_of;
using tool::kError;
using tool::kUsage;
using tool::number_of;
using tool::Options;
using tool::write_state;

constexpr std::uint64_t kXidEvent = 0x8;
constexpr std::uint64_t kDoubleBitEvent = 0x2;

constexpr const char* kHelp =
    "usage: nvsim create  --config cards.yaml (--root DIR | --dev DIR)   make the machine's files\n"
    "       nvsim show    (--root DIR | --dev DIR)                       cards, memory, processes, load\n"
    "       nvsim fault   (--root DIR | --dev DIR) --kind KIND [--card MINOR] [--value N]\n"
    "       nvsim reset   (--root DIR | --dev DIR) [--card MINOR]        as a boot: MIG instances are gone\n"
    "       nvsim destroy (--root DIR | --dev DIR)                       remove the files\n"
    "kinds: init (every init fails; value: the NVML code, 9), lost, hang, xid (value: the XID), ecc (value: how many\n"
    "       uncorrectable errors), ecc-corrected, clear (card: its faults; without --card: also init)\n";

int fail(const std::string& text, int code = kError) {
  std::cerr << "nvsim: " << text << "\n";
  return code;
}

bool show_instances(const std::string& folder, const CardConfig& card, const Mig& mig) {
  for (int gpu = 0; gpu < kMaxGpuInstances; ++gpu) {
    const bool there = (mig.instance_mask >> gpu & 1U) != 0;
    if (there && (!show_capability(folder, card, gpu, -1) || !show_capability(folder, card, gpu, 0))) {
      return false;
    }
  }
  return true;
}

// /proc/driver/nvidia-caps/mig-minors, which names every instance that there could be.
bool write_minors(const std::string& folder, const std::vector<CardConfig>& cards) {
  const std::filesystem::path path =
      std::filesystem::path(folder).parent_path() / "proc" / "driver" / "nvidia-caps" / "mig-minors";
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream out(path);
  out << "config 1\nmonitor 2\n";
  for (const CardConfig& card : cards) {
    for (int gpu = 0; card.mig != 0 && gpu < kMaxGpuInstances; ++gpu) {
      for (int compute = -1; compute < kMaxComputeInstances; ++compute) {
        out << "gpu" << card.minor << "/gi" << gpu;
        if (compute >= 0) {
          out << "/ci" << compute;
        }
        out << "/access " << capability_minor(card, gpu, compute) << "\n";
      }
    }
  }
  return static_cast<bool>(out.flush());
}

int create(const Options& options) {
  const std::string folder = folder_of(options);
  const auto config = options.values.find("config");
  if (config == options.values.end()) {
    return fail("create needs --config cards.yaml", kUsage);
  }
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  const LoadedConfig loaded = load_config(config->second, std::string(host) + ":" + folder);
  if (!loaded.error.empty()) {
    return fail(loaded.error);
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (std::size_t index = 0; index < loaded.config.cards.size(); ++index) {
    const CardConfig& card = loaded.config.cards[index];
    const std::string path = folder + "/nvidia" + std::to_string(card.minor);
    const bool made = write_state<CardState>(path, [&](CardState& state) {
      state.magic = kCardMagic;
      state.version = kLayoutVersion;
      state.config = card;
      state.schedule.current = -1;
      state.schedule.resident = -1;
      state.schedule.now_ns = monotonic_ns();
      state.mig = loaded.config.mig[index];
      for (Schedule& schedule : state.mig_schedules) {
        schedule.current = schedule.resident = -1;
        schedule.now_ns = state.schedule.now_ns;
      }
    });
    if (!made || !show_instances(folder, card, loaded.config.mig[index])) {
      return fail(path + ": " + std::strerror(errno));
    }
  }
  const bool partitionable = std::any_of(loaded.config.cards.begin(), loaded.config.cards.end(),
                                         [](const auto& card) { return card.mig != 0; });
  if (partitionable && options.values.contains("root") && !write_minors(folder, loaded.config.cards)) {
    return fail(folder + ": mig-minors cannot be written");
  }
  const std::string control = folder + "/nvidiactl";
  if (!write_state<Machine>(control, [&](Machine& machine) { machine = loaded.config.machine; })) {
    return fail(control + ": " + std::strerror(errno));
  }
  std::cout << "created " << loaded.config.cards.size() << " card(s) in " << folder << "\n";
  return 0;
}

void show_card(Card& card) {
  const Card::Lock lock(card);
  const CardConfig& config = card.config();
  const unsigned load = busy_percent(card.state().schedule.buckets, lock.now(), 1'000'000'000);
  std::printf("card %u  %s  %s  %04x:%02x:%02x.0  memory %llu/%llu MiB (reserved %llu)  load %u%%%s%s\n", config.minor,
              config.name, config.uuid, config.domain, config.bus, config.device,
              static_cast<unsigned long long>(card.used_bytes() >> 20U),
              static_cast<unsigned long long>(config.memory_bytes >> 20U),
              static_cast<unsigned long long>(config.memory_reserved_bytes >> 20U), load,
              card.state().faults.lost != 0 ? "  LOST" : "", card.state().faults.hang != 0 ? "  HANGS" : "");
  const Mig& mig = card.state().mig;
  if (mig.current != 0 || mig.pending != 0) {
    std::printf("  mig mode %u pending %u\n", mig.current, mig.pending);
  }
  for (int gpu = 0; gpu < kMaxGpuInstances; ++gpu) {
    for (int compute = 0; compute < kMaxComputeInstances && has_instance(card.state(), gpu); ++compute) {
      if (has_compute_instance(card.state(), gpu, compute)) {
        std::printf("  mig %s@%u  gi %d  ci %d  %s  memory %llu/%llu MiB\n", profile_of(card.state(), gpu).name,
                    mig.instances[gpu].start, gpu, compute, mig_uuid(config, gpu, compute).c_str(),
                    static_cast<unsigned long long>(card.used_bytes(gpu) >> 20U),
                    static_cast<unsigned long long>(card.usable_bytes(gpu) >> 20U));
      }
    }
  }
  for (std::uint64_t left = card.state().used_mask; left != 0; left &= left - 1) {
    const int index = std::countr_zero(left);
    const ProcessSlot& slot = card.state().slots[index];
    const std::string mps = slot.mps_percent != 0 ? "  mps " + std::to_string(slot.mps_percent) + "%" : "";
    std::printf("  pid %lld  memory %llu MiB  contexts %u  busy %.3f s  kernels %lld  load %u%%%s\n",
                static_cast<long long>(card.pid_of(index)),
                static_cast<unsigned long long>(resident_bytes(slot) >> 20U), slot.contexts,
                static_cast<double>(slot.busy_ns) / 1e9, static_cast<long long>(slot.kernels),
                busy_percent(slot.buckets, lock.now(), 1'000'000'000), mps.c_str());
  }
}

int show(const Options& options) {
  const std::string folder = folder_of(options);
  SharedFile control;
  if (const int error = control.open(folder + "/nvidiactl", sizeof(Machine)); error != 0) {
    return fail(folder + "/nvidiactl: " + std::strerror(error));
  }
  const Machine& machine = *static_cast<Machine*>(control.data());
  std::printf("driver %s  cuda %d.%d%s\n", machine.driver_version, machine.cuda_version / 1000,
              machine.cuda_version % 1000 / 10, machine.init_fault != 0 ? "  INIT FAILS" : "");
  for (int minor = 0; minor < kMaxCards; ++minor) {
    if (const std::unique_ptr<Card> card = Card::open(folder, minor)) {
      show_card(*card);
    }
  }
  return 0;
}

void post_event(Card& card, std::uint64_t type, std::uint64_t data) {
  Faults& faults = card.state().faults;
  const std::uint64_t sequence = faults.next_event + 1;
  faults.events[sequence % kFaultEvents] = {sequence, type, data};
  __atomic_store_n(&faults.next_event, sequence, __ATOMIC_RELEASE);
}

// False: no such kind.
bool apply_fault(Card& card, const std::string& kind, std::int64_t value) {
  const Card::Lock lock(card);
  Faults& faults = card.state().faults;
  const auto amount = static_cast<std::uint64_t>(value);
  if (kind == "lost") {
    __atomic_store_n(&faults.lost, 1, __ATOMIC_RELAXED);
    post_event(card, kXidEvent, 79);
  } else if (kind == "hang") {
    __atomic_store_n(&faults.hang, 1, __ATOMIC_RELAXED);
  } else if (kind == "xid") {
    post_event(card, kXidEvent, amount);
  } else if (kind == "ecc") {
    faults.ecc_uncorrected_volatile += amount;
    faults.ecc_uncorrected_aggregate += amount;
    post_event(card, kDoubleBitEvent, 0);
    post_event(card, kXidEvent, 48);
  } else if (kind == "ecc-corrected") {
    faults.ecc_corrected_volatile += amount;
    faults.ecc_corrected_aggregate += amount;
  } else if (kind == "clear") {
    __atomic_store_n(&faults.lost, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&faults.hang, 0, __ATOMIC_RELAXED);
    faults.ecc_corrected_volatile = faults.ecc_uncorrected_volatile = 0;
    faults.ecc_corrected_aggregate = faults.ecc_uncorrected_aggregate = 0;
  } else {
    return false;
  }
  return true;
}

int machine_fault(const std::string& folder, const std::string& kind, std::int64_t value) {
  SharedFile control;
  if (const int error = control.open(folder + "/nvidiactl", sizeof(Machine)); error != 0) {
    return fail(folder + "/nvidiactl: " + std::strerror(error));
  }
  static_cast<Machine*>(control.data())->init_fault = kind == "clear" ? 0 : static_cast<std::int32_t>(value);
  return 0;
}

int fault(const Options& options) {
  const std::string folder = folder_of(options);
  const auto found = options.values.find("kind");
  if (found == options.values.end()) {
    return fail("fault needs --kind init|lost|hang|xid|ecc|ecc-corrected|clear", kUsage);
  }
  const std::string& kind = found->second;
  const std::optional<std::int64_t> minor = number_of(options, "card");
  const std::int64_t value = number_of(options, "value").value_or(kind == "init" ? 9 : kind == "xid" ? 31 : 1);
  if (kind == "init" || (kind == "clear" && !minor)) {
    if (const int code = machine_fault(folder, kind, value); code != 0 || kind == "init") {
      return code;
    }
  }
  if (!minor && kind != "clear") {
    return fail("fault --kind " + kind + " needs --card with the card's minor number", kUsage);
  }
  int touched = 0;
  for (int index = 0; index < kMaxCards; ++index) {
    const std::unique_ptr<Card> card = !minor || *minor == index ? Card::open(folder, index) : nullptr;
    if (card != nullptr) {
      if (!apply_fault(*card, kind, value)) {
        return fail("unknown kind '" + kind + "'; write init, lost, hang, xid, ecc, ecc-corrected or clear", kUsage);
      }
      ++touched;
    }
  }
  return touched > 0 ? 0 : fail("no such card in " + folder);
}

// As a boot, or a reset of the card: processes must be gone, instances are.
int reset(const Options& options) {
  const std::string folder = folder_of(options);
  const std::optional<std::int64_t> minor = number_of(options, "card");
  int touched = 0;
  for (int index = 0; index < kMaxCards; ++index) {
    const std::unique_ptr<Card> card = !minor || *minor == index ? Card::open(folder, index) : nullptr;
    if (card == nullptr) {
      continue;
    }
    const Card::Lock lock(*card);
    if (is_in_use(card->state(), -1, -1)) {
      return fail("card " + std::to_string(index) + " is in use");
    }
    for (int gpu = 0; gpu < kMaxGpuInstances; ++gpu) {
      for (int compute = kMaxComputeInstances - 1; compute >= -1 && has_instance(card->state(), gpu); --compute) {
        hide_capability(folder, card->config(), gpu, compute);
      }
    }
    reset_mig(card->state());
    ++touched;
  }
  return touched > 0 ? 0 : fail("no such card in " + folder);
}

int destroy(const Options& options) {
  const std::string folder = folder_of(options);
  std::error_code error;
  for (int minor = 0; minor < kMaxCards; ++minor) {
    std::filesystem::remove(folder + "/nvidia" + std::to_string(minor), error);
  }
  std::filesystem::remove(folder + "/nvidiactl", error);
  return error ? fail(folder + ": " + error.message()) : 0;
}

}  // namespace
}  // namespace nvsim

int main(int count, char** arguments) {
  const auto options = nvsim::tool::parse(count, arguments);
  if (!options) {
    std::cerr << nvsim::kHelp;
    return nvsim::tool::kUsage;
  }
  if (options->verb == "create") {
    return nvsim::create(*options);
  }
  if (options->verb == "show") {
    return nvsim::show(*options);
  }
  if (options->verb == "fault") {
    return nvsim::fault(*options);
  }
  if (options->verb == "reset") {
    return nvsim::reset(*options);
  }
  if (options->verb == "destroy") {
    return nvsim::destroy(*options);
  }
  std::cerr << nvsim::kHelp;
  return nvsim::tool::kUsage;
}
