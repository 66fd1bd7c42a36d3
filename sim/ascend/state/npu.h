// What a simulated NPU machine has beyond the state that sim/nvidia/state keeps for every kind of card: it lies behind
// Machine in <root>/dev/davinci_manager. A card's file is <root>/dev/davinci<physical id>; its config.minor is that id,
// its config.sms the number of AI cores and its config.name the name of the chip.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "state/machine.h"

namespace ascendsim {

using nvsim::Card;

inline constexpr nvsim::Naming kNames = {"ASCENDSIM_ROOT", "davinci_manager", "davinci"};
inline constexpr std::uint64_t kNpuMagic = 0x314e555044534341ULL;  // "ACSDPUN1"
inline constexpr std::uint32_t kNpuVersion = 2;
inline constexpr int kMaxErrors = 16;

// A vNPU. Its device node is <root>/dev/vdavinci<id>, an empty file here.
struct Vnpu {
  std::uint32_t id;  // 0: there is none in this place
  std::uint32_t ai_cores;
  std::uint32_t ai_cpus;
  std::uint32_t memory_mib;
  char template_name[16];
};
inline constexpr int kMaxVnpus = 32;
// The ids of an NPU's vNPUs: kFirstVnpu + kVnpuIds * physical id, and so many from there.
inline constexpr std::uint32_t kFirstVnpu = 100;
inline constexpr std::uint32_t kVnpuIds = 16;

struct Npu {
  std::int32_t card;  // DCMI's addressing: the card, and the device in it
  std::int32_t device;
  std::int32_t logic;  // the driver's order
  std::uint32_t ddr;   // 1: the memory is DDR (310P), 0: HBM
  std::uint32_t die[5];
  std::uint32_t sdid, scale, super_pod, server;  // of dcmi_spod_info; super_pod 0xffffffff: none
  std::uint32_t health;                          // 0 fine, 1 minor, 2 major, 3 critical
  std::uint32_t error_count;
  std::uint32_t errors[kMaxErrors];
  std::uint32_t ecc_single, ecc_double;
  char npu_name[32];
  Vnpu vnpus[kMaxVnpus];
};

// The control file.
struct NpuMachine {
  nvsim::Machine machine;
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  Npu npus[nvsim::kMaxCards];  // by physical id
};

struct NpuCard {
  Card* card = nullptr;
  Npu* npu = nullptr;
};

// What this process can see of the machine.
class NpuView {
 public:
  // 0 or an errno. EPROTO: files of another layout.
  int open();
  NpuMachine& machine() { return *static_cast<NpuMachine*>(control_.data()); }
  // In the driver's order (logic id).
  const std::vector<NpuCard>& cards() const { return cards_; }
  void close_in_child();

 private:
  nvsim::MachineView view_;
  nvsim::SharedFile control_;
  std::vector<NpuCard> cards_;
};

// What cutting a vNPU off comes to.
enum class Cut { kMade, kNoTemplate, kNoId, kFull, kNotSupported };

// Makes a vNPU by a template ("vir05_1c_8g") and gives it an id (that of `vnpu`, 0: the first free one of the NPU),
// or takes one away (false: there is none). The caller keeps others from doing so at the same time.
Cut make_vnpu(const NpuCard& npu, const std::string& template_name, Vnpu& vnpu);
bool drop_vnpu(Npu& npu, std::uint32_t id);
std::string vnpu_node(const std::string& folder, std::uint32_t id);

}  // namespace ascendsim
