// ascendsim: makes, shows, breaks and removes a simulated NPU machine. Exit codes: 0 done, 1 usage, 3 an error.
#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>

#include "state/npu.h"
#include "state/schedule.h"
#include "tool/command.h"
#include "tool/npu_config.h"

namespace ascendsim {
namespace {

using nvsim::tool::folder_of;
using nvsim::tool::kError;
using nvsim::tool::kUsage;
using nvsim::tool::number_of;
using nvsim::tool::Options;
using nvsim::tool::write_state;

constexpr const char* kHelp =
    "usage: ascendsim create  --config cards.yaml (--root DIR | --dev DIR)   make the machine's files\n"
    "       ascendsim show    (--root DIR | --dev DIR)                       cards, memory, processes, load\n"
    "       ascendsim fault   (--root DIR | --dev DIR) --kind KIND [--card PHYSICAL ID] [--value N]\n"
    "       ascendsim vnpu    (--root DIR | --dev DIR) --card PHYSICAL ID (--template NAME | --destroy ID)   cuts an "
    "NPU\n"
    "       ascendsim destroy (--root DIR | --dev DIR)                       remove the files\n"
    "kinds: init (dcmi_init fails with value, -8012), lost, hang, health (value: 1 to 3), error (value: the code, and\n"
    "       health 2), ecc (value: how many double-bit errors), clear (card: its faults; without --card: also init)\n";

int fail(const std::string& text, int code = kError) {
  std::cerr << "ascendsim: " << text << "\n";
  return code;
}

std::string card_file(const std::string& folder, std::uint32_t physical) {
  return folder + "/" + kNames.card + std::to_string(physical);
}

int create(const Options& options) {
  const std::string folder = folder_of(options);
  const auto config = options.values.find("config");
  if (config == options.values.end()) {
    return fail("create needs --config cards.yaml", kUsage);
  }
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  const LoadedNpus loaded = load_npus(config->second, std::string(host) + ":" + folder);
  if (!loaded.error.empty()) {
    return fail(loaded.error);
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const nvsim::CardConfig& card : loaded.cards) {
    const std::string path = card_file(folder, card.minor);
    const bool made = write_state<nvsim::CardState>(path, [&](nvsim::CardState& state) {
      state.magic = nvsim::kCardMagic;
      state.version = nvsim::kLayoutVersion;
      state.config = card;
      state.schedule.current = -1;
      state.schedule.resident = -1;
      state.schedule.now_ns = nvsim::monotonic_ns();
    });
    if (!made) {
      return fail(path + ": " + std::strerror(errno));
    }
  }
  // What every container of an NPU gets besides, empty here.
  for (const char* name : {"devmm_svm", "hisi_hdc"}) {
    const int descriptor = ::open((folder + "/" + name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor >= 0) ::close(descriptor);
  }
  const std::string control = folder + "/" + kNames.control;
  if (!write_state<NpuMachine>(control, [&](NpuMachine& machine) { machine = *loaded.machine; })) {
    return fail(control + ": " + std::strerror(errno));
  }
  std::cout << "created " << loaded.cards.size() << " card(s) in " << folder << "\n";
  return 0;
}

void show_card(Card& card, const Npu& npu) {
  const Card::Lock lock(card);
  const nvsim::CardConfig& config = card.config();
  std::printf("npu %u  %s  card %d device %d  %04x:%02x:%02x.0  memory %llu/%llu MiB  load %u%%  health %u%s%s\n",
              config.minor, config.name, npu.card, npu.device, config.domain, config.bus, config.device,
              static_cast<unsigned long long>(card.used_bytes() >> 20U),
              static_cast<unsigned long long>(config.memory_bytes >> 20U),
              nvsim::busy_percent(card.state().schedule.buckets, lock.now(), 1'000'000'000), npu.health,
              card.state().faults.lost != 0 ? "  LOST" : "", card.state().faults.hang != 0 ? "  HANGS" : "");
  for (const Vnpu& one : npu.vnpus) {
    if (one.id == 0) continue;
    std::printf("  vnpu %u  %s  %u AI cores  %u MiB\n", one.id, one.template_name, one.ai_cores, one.memory_mib);
  }
  for (std::uint64_t left = card.state().used_mask; left != 0; left &= left - 1) {
    const int index = std::countr_zero(left);
    const nvsim::ProcessSlot& slot = card.state().slots[index];
    std::printf("  pid %lld  memory %llu KiB  busy %.3f s  kernels %lld\n", static_cast<long long>(card.pid_of(index)),
                static_cast<unsigned long long>(slot.memory_bytes >> 10U), static_cast<double>(slot.busy_ns) / 1e9,
                static_cast<long long>(slot.kernels));
  }
}

bool open_control(const std::string& folder, nvsim::SharedFile& control) {
  return control.open(folder + "/" + kNames.control, sizeof(NpuMachine)) == 0 &&
         static_cast<NpuMachine*>(control.data())->magic == kNpuMagic;
}

int show(const Options& options) {
  const std::string folder = folder_of(options);
  nvsim::SharedFile control;
  if (!open_control(folder, control)) {
    return fail(folder + " holds no machine");
  }
  const auto& machine = *static_cast<NpuMachine*>(control.data());
  std::printf("driver %s%s\n", machine.machine.driver_version, machine.machine.init_fault != 0 ? "  INIT FAILS" : "");
  for (int physical = 0; physical < nvsim::kMaxCards; ++physical) {
    if (const std::unique_ptr<Card> card = Card::open(folder, physical, kNames)) {
      show_card(*card, machine.npus[physical]);
    }
  }
  return 0;
}

// False: no such kind.
bool apply_fault(Card& card, Npu& npu, const std::string& kind, std::int64_t value) {
  const Card::Lock lock(card);
  nvsim::Faults& faults = card.state().faults;
  const auto amount = static_cast<std::uint32_t>(value);
  if (kind == "lost") {
    __atomic_store_n(&faults.lost, 1, __ATOMIC_RELAXED);
  } else if (kind == "hang") {
    __atomic_store_n(&faults.hang, 1, __ATOMIC_RELAXED);
  } else if (kind == "health") {
    npu.health = amount;
  } else if (kind == "error") {
    npu.health = 2;
    npu.errors[npu.error_count % kMaxErrors] = amount;
    npu.error_count = std::min(npu.error_count + 1, std::uint32_t{kMaxErrors});
  } else if (kind == "ecc") {
    npu.ecc_double += amount;
  } else if (kind == "clear") {
    __atomic_store_n(&faults.lost, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&faults.hang, 0, __ATOMIC_RELAXED);
    npu.health = npu.error_count = npu.ecc_double = npu.ecc_single = 0;
  } else {
    return false;
  }
  return true;
}

int fault(const Options& options) {
  const std::string folder = folder_of(options);
  const auto found = options.values.find("kind");
  if (found == options.values.end()) {
    return fail("fault needs --kind init|lost|hang|health|error|ecc|clear", kUsage);
  }
  const std::string& kind = found->second;
  const std::optional<std::int64_t> physical = number_of(options, "card");
  const std::int64_t value = number_of(options, "value").value_or(kind == "init" ? -8012 : 1);
  nvsim::SharedFile control;
  if (!open_control(folder, control)) {
    return fail(folder + " holds no machine");
  }
  auto& machine = *static_cast<NpuMachine*>(control.data());
  if (kind == "init" || (kind == "clear" && !physical)) {
    machine.machine.init_fault = kind == "clear" ? 0 : static_cast<std::int32_t>(value);
    if (kind == "init") {
      return 0;
    }
  }
  if (!physical && kind != "clear") {
    return fail("fault --kind " + kind + " needs --card with the NPU's physical id", kUsage);
  }
  int touched = 0;
  for (int index = 0; index < nvsim::kMaxCards; ++index) {
    const auto card = !physical || *physical == index ? Card::open(folder, index, kNames) : nullptr;
    if (card == nullptr) continue;
    if (!apply_fault(*card, machine.npus[index], kind, value)) {
      return fail("unknown kind '" + kind + "'; write init, lost, hang, health, error, ecc or clear", kUsage);
    }
    ++touched;
  }
  return touched > 0 ? 0 : fail("no such NPU in " + folder);
}

// As npu-smi set -t create-vnpu and destroy-vnpu.
int vnpu(const Options& options) {
  const std::string folder = folder_of(options);
  nvsim::SharedFile control;
  if (!open_control(folder, control)) {
    return fail(folder + " holds no machine");
  }
  auto& machine = *static_cast<NpuMachine*>(control.data());
  const std::int64_t physical = number_of(options, "card").value_or(-1);
  const auto card = physical < 0 ? nullptr : Card::open(folder, static_cast<int>(physical), kNames);
  if (card == nullptr) {
    return fail("vnpu needs --card with the NPU's physical id", kUsage);
  }
  Npu& npu = machine.npus[physical];
  const Card::Lock lock(*card);
  if (const auto id = number_of(options, "destroy")) {
    if (!drop_vnpu(npu, static_cast<std::uint32_t>(*id))) {
      return fail("the NPU has no such vNPU");
    }
    std::error_code error;
    std::filesystem::remove(vnpu_node(folder, static_cast<std::uint32_t>(*id)), error);
    return 0;
  }
  const auto name = options.values.find("template");
  if (name == options.values.end()) {
    return fail("vnpu needs --template vir05_1c_8g, or --destroy 100", kUsage);
  }
  Vnpu made{};
  switch (make_vnpu({card.get(), &npu}, name->second, made)) {
    case Cut::kNoTemplate:
      return fail("the NPU has no template '" + name->second + "'");
    case Cut::kNoId:
    case Cut::kFull:
      return fail("the NPU has no room for '" + name->second + "'");
    case Cut::kNotSupported:
      return fail("NPUs of a super node are not cut");
    case Cut::kMade:
      break;
  }
  const int descriptor = ::open(vnpu_node(folder, made.id).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor >= 0) ::close(descriptor);
  std::printf("%u\n", made.id);
  return 0;
}

int destroy(const Options& options) {
  const std::string folder = folder_of(options);
  std::error_code error;
  nvsim::SharedFile control;
  if (open_control(folder, control)) {
    for (const Npu& npu : static_cast<NpuMachine*>(control.data())->npus) {
      for (const Vnpu& one : npu.vnpus) {
        if (one.id != 0) std::filesystem::remove(vnpu_node(folder, one.id), error);
      }
    }
  }
  for (std::uint32_t physical = 0; physical < nvsim::kMaxCards; ++physical) {
    std::filesystem::remove(card_file(folder, physical), error);
  }
  for (const char* name : {kNames.control, "devmm_svm", "hisi_hdc"}) {
    std::filesystem::remove(folder + "/" + name, error);
  }
  return error ? fail(folder + ": " + error.message()) : 0;
}

}  // namespace
}  // namespace ascendsim

int main(int count, char** arguments) {
  const auto options = nvsim::tool::parse(count, arguments);
  if (options && options->verb == "create") return ascendsim::create(*options);
  if (options && options->verb == "show") return ascendsim::show(*options);
  if (options && options->verb == "fault") return ascendsim::fault(*options);
  if (options && options->verb == "vnpu") return ascendsim::vnpu(*options);
  if (options && options->verb == "destroy") return ascendsim::destroy(*options);
  std::cerr << ascendsim::kHelp;
  return nvsim::tool::kUsage;
}
