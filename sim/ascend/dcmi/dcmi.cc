// libdcmi.so: what a node's software asks about its NPUs.
#include <ascend_abi/dcmi.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <string>

#include "state/npu.h"
#include "state/schedule.h"

#define ASCENDSIM_API extern "C" __attribute__((visibility("default")))

namespace ascendsim {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr unsigned kNoDevice = 0xFFFFFFFF;

struct Library {
  std::mutex mutex;
  NpuView view;
  bool opened = false;
  bool ready = false;
};

Library& library() {
  static Library* instance = new Library();
  return *instance;
}

const NpuCard* find(int card, int device) {
  for (const NpuCard& npu : library().view.cards()) {
    if (npu.npu->card == card && npu.npu->device == device) {
      return &npu;
    }
  }
  return nullptr;
}

// Runs `body(NpuCard)` for a device that answers.
template <typename Body>
int with_npu(int card, int device, Body body) {
  if (!library().ready) {
    return DCMI_ERR_CODE_NOT_READY;
  }
  const NpuCard* npu = find(card, device);
  if (npu == nullptr) {
    return DCMI_ERR_CODE_DEVICE_NOT_EXIST;
  }
  return npu->card->lost() ? DCMI_ERR_CODE_NOT_READY : body(*npu);
}

template <std::size_t Size>
void copy_text(unsigned char (&out)[Size], const std::string& text) {
  std::memset(out, 0, Size);
  std::memcpy(out, text.data(), std::min(text.size(), Size - 1));
}

unsigned load_percent(Card& card) {
  const Card::Lock lock(card);
  return nvsim::busy_percent(card.state().schedule.buckets, lock.now(), kSecond);
}

int between(Card& card, std::uint32_t idle, std::uint32_t busy) {
  return static_cast<int>(idle + (busy - idle) * load_percent(card) / 100);
}

dcmi_computing_resource computing_of(std::uint32_t cores, std::uint32_t cpus, std::uint64_t memory_mib) {
  dcmi_computing_resource part{};
  part.aic = static_cast<float>(cores);
  part.device_aicpu = static_cast<unsigned short>(cpus);
  part.memory_size = memory_mib;
  return part;
}

template <typename Answer>
int put(const Answer& answer, void* buffer, unsigned* size) {
  if (*size < sizeof(answer)) {
    return DCMI_ERR_CODE_INVALID_PARAMETER;
  }
  std::memcpy(buffer, &answer, sizeof(answer));
  *size = sizeof(answer);
  return DCMI_OK;
}

// One vNPU, by the id that the caller has written into the buffer.
int vnpu_info(const NpuCard& npu, void* buffer, unsigned* size) {
  dcmi_vdev_query_stru answer{};
  if (*size < sizeof(answer)) {
    return DCMI_ERR_CODE_INVALID_PARAMETER;
  }
  std::memcpy(&answer.vdev_id, buffer, sizeof(answer.vdev_id));
  for (const Vnpu& one : npu.npu->vnpus) {
    if (one.id == 0 || one.id != answer.vdev_id) {
      continue;
    }
    std::memcpy(answer.query_info.name, one.template_name, sizeof(answer.query_info.name));
    answer.query_info.computing = computing_of(one.ai_cores, one.ai_cpus, one.memory_mib);
    return put(answer, buffer, size);
  }
  return DCMI_ERR_CODE_INVALID_PARAMETER;
}

int vnpu_list(const NpuCard& npu, void* buffer, unsigned* size) {
  dcmi_soc_total_resource answer{};
  for (const Vnpu& one : npu.npu->vnpus) {
    if (one.id != 0) {
      answer.vdev_id[answer.vdev_num++] = one.id;
    }
  }
  answer.computing = computing_of(npu.card->config().sms, 0, npu.card->config().memory_bytes >> 20U);
  return put(answer, buffer, size);
}

int vnpu_query(const NpuCard& npu, unsigned sub_cmd, void* buffer, unsigned* size) {
  if (npu.npu->super_pod != kNoDevice) {
    return DCMI_ERR_CODE_NOT_SUPPORT;
  }
  const Card::Lock lock(*npu.card);
  if (sub_cmd == DCMI_VMNG_SUB_CMD_GET_VDEV_RESOURCE) {
    return vnpu_info(npu, buffer, size);
  }
  return sub_cmd == DCMI_VMNG_SUB_CMD_GET_TOTAL_RESOURCE ? vnpu_list(npu, buffer, size) : DCMI_ERR_CODE_NOT_SUPPORT;
}

struct MemoryMib {
  std::uint64_t total;
  std::uint64_t used;
};

// HBM is told as it is, with what driver and firmware keep in use; of DDR that is not there: npu-smi shows 21527 MiB of
// a 310P's 24 GiB.
MemoryMib memory_of(const NpuCard& npu) {
  const nvsim::CardConfig& config = npu.card->config();
  const Card::Lock lock(*npu.card);
  const std::uint64_t used = npu.card->used_bytes();
  const std::uint64_t kept = config.memory_reserved_bytes;
  if (npu.npu->ddr != 0) return {(config.memory_bytes - kept) >> 20U, used >> 20U};
  return {config.memory_bytes >> 20U, (used + kept) >> 20U};
}

}  // namespace
}  // namespace ascendsim

using ascendsim::Card;
using ascendsim::library;
using ascendsim::NpuCard;
using ascendsim::with_npu;

ASCENDSIM_API int dcmi_init() {
  ascendsim::Library& self = library();
  const std::lock_guard guard(self.mutex);
  if (!self.opened) {
    if (self.view.open() != 0) {
      return DCMI_ERR_CODE_DEVICE_NOT_EXIST;
    }
    self.opened = true;
  }
  if (const int fault = self.view.machine().machine.init_fault; fault != 0) {
    return fault;
  }
  self.ready = true;
  return DCMI_OK;
}

ASCENDSIM_API int dcmi_get_card_list(int* card_num, int* card_list, int list_len) {
  if (card_num == nullptr || card_list == nullptr || list_len <= 0) {
    return DCMI_ERR_CODE_INVALID_PARAMETER;
  }
  if (!library().ready) {
    return DCMI_ERR_CODE_NOT_READY;
  }
  std::set<int> cards;
  for (const NpuCard& npu : library().view.cards()) {
    cards.insert(npu.npu->card);
  }
  *card_num = 0;
  for (const int card : cards) {
    if (*card_num < list_len) {
      card_list[(*card_num)++] = card;
    }
  }
  return DCMI_OK;
}

ASCENDSIM_API int dcmi_get_device_id_in_card(int card_id, int* device_id_max, int* mcu_id, int* cpu_id) {
  if (device_id_max == nullptr || mcu_id == nullptr || cpu_id == nullptr) {
    return DCMI_ERR_CODE_INVALID_PARAMETER;
  }
  if (!library().ready) {
    return DCMI_ERR_CODE_NOT_READY;
  }
  *device_id_max = 0;
  *mcu_id = *cpu_id = -1;
  for (const NpuCard& npu : library().view.cards()) {
    if (npu.npu->card == card_id) {
      *device_id_max = std::max(*device_id_max, npu.npu->device + 1);
    }
  }
  *mcu_id = *device_id_max;  // the card's controller has the number behind the chips
  return *device_id_max != 0 ? DCMI_OK : DCMI_ERR_CODE_DEVICE_NOT_EXIST;
}

ASCENDSIM_API int dcmi_get_device_num_in_card(int card_id, int* device_num) {
  int mcu = 0, cpu = 0;
  return dcmi_get_device_id_in_card(card_id, device_num, &mcu, &cpu);
}

ASCENDSIM_API int dcmi_get_device_type(int card_id, int device_id, dcmi_unit_type* device_type) {
  int chips = 0, mcu = -1, cpu = -1;
  if (device_type == nullptr) {
    return DCMI_ERR_CODE_INVALID_PARAMETER;
  }
  if (const int code = dcmi_get_device_id_in_card(card_id, &chips, &mcu, &cpu); code != DCMI_OK) {
    return code;
  }
  if (device_id != mcu && ascendsim::find(card_id, device_id) == nullptr) {
    return DCMI_ERR_CODE_DEVICE_NOT_EXIST;
  }
  *device_type = device_id == mcu ? MCU_TYPE : NPU_TYPE;
  return DCMI_OK;
}

ASCENDSIM_API int dcmi_get_device_logic_id(int* device_logic_id, int card_id, int device_id) {
  const NpuCard* npu = library().ready ? ascendsim::find(card_id, device_id) : nullptr;
  if (npu == nullptr || device_logic_id == nullptr) {
    return DCMI_ERR_CODE_DEVICE_NOT_EXIST;
  }
  *device_logic_id = npu->npu->logic;
  return DCMI_OK;
}

ASCENDSIM_API int dcmi_get_device_phyid_from_logicid(unsigned int logicid, unsigned int* phyid) {
  for (const NpuCard& npu : library().view.cards()) {
    if (npu.npu->logic == static_cast<int>(logicid) && phyid != nullptr) {
      *phyid = npu.card->config().minor;
      return DCMI_OK;
    }
  }
  return DCMI_ERR_CODE_DEVICE_NOT_EXIST;
}

ASCENDSIM_API int dcmi_get_device_logicid_from_phyid(unsigned int phyid, unsigned int* logicid) {
  for (const NpuCard& npu : library().view.cards()) {
    if (npu.card->config().minor == phyid && logicid != nullptr) {
      *logicid = static_cast<unsigned>(npu.npu->logic);
      return DCMI_OK;
    }
  }
  return DCMI_ERR_CODE_DEVICE_NOT_EXIST;
}

ASCENDSIM_API int dcmi_get_card_id_device_id_from_phyid(int* card_id, int* device_id, unsigned int device_phy_id) {
  for (const NpuCard& npu : library().view.cards()) {
    if (npu.card->config().minor == device_phy_id && card_id != nullptr && device_id != nullptr) {
      *card_id = npu.npu->card;
      *device_id = npu.npu->device;
      return DCMI_OK;
    }
  }
  return DCMI_ERR_CODE_DEVICE_NOT_EXIST;
}

ASCENDSIM_API int dcmi_get_device_chip_info_v2(int card_id, int device_id, dcmi_chip_info_v2* info) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    ascendsim::copy_text(info->chip_type, "Ascend");
    ascendsim::copy_text(info->chip_name, npu.card->config().name);
    ascendsim::copy_text(info->chip_ver, "V1");
    ascendsim::copy_text(info->npu_name, npu.npu->npu_name);
    info->aicore_cnt = npu.card->config().sms;
    return DCMI_OK;
  });
}

ASCENDSIM_API int dcmi_get_device_chip_info(int card_id, int device_id, dcmi_chip_info* info) {
  dcmi_chip_info_v2 all{};
  const int code = dcmi_get_device_chip_info_v2(card_id, device_id, &all);
  if (code == DCMI_OK) {
    std::memcpy(info, &all, sizeof(*info));
  }
  return code;
}

ASCENDSIM_API int dcmi_get_device_pcie_info_v2(int card_id, int device_id, dcmi_pcie_info_all* info) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    const nvsim::CardConfig& config = npu.card->config();
    *info = {};
    info->venderid = 0x19e5;
    info->deviceid = config.pci_device_id;
    info->domain = static_cast<int>(config.domain);
    info->bdf_busid = config.bus;
    info->bdf_deviceid = config.device;
    return DCMI_OK;
  });
}

ASCENDSIM_API int dcmi_get_device_die_v2(int card_id, int device_id, dcmi_die_type type, dcmi_die_id* die) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    std::copy(std::begin(npu.npu->die), std::end(npu.npu->die), std::begin(die->soc_die));
    die->soc_die[4] ^= type == VDIE ? 0U : 1U;
    return DCMI_OK;
  });
}

ASCENDSIM_API int dcmi_get_device_hbm_info(int card_id, int device_id, dcmi_hbm_info* info) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    if (npu.npu->ddr != 0) {
      return DCMI_ERR_CODE_NOT_SUPPORT;
    }
    *info = {};
    const auto memory = ascendsim::memory_of(npu);
    info->memory_size = memory.total;
    info->memory_usage = memory.used;
    info->freq = npu.card->config().memory_clock_mhz;
    info->temp = static_cast<int>(npu.card->config().temperature_idle);
    return DCMI_OK;
  });
}

ASCENDSIM_API int dcmi_get_device_memory_info_v3(int card_id, int device_id, dcmi_get_memory_info_stru* info) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    *info = {};
    if (npu.npu->ddr == 0) {
      return DCMI_OK;  // cards with HBM say that they have no DDR
    }
    const auto memory = ascendsim::memory_of(npu);
    info->memory_size = memory.total;
    info->memory_available = memory.total - std::min(memory.total, memory.used);
    info->utiliza = static_cast<unsigned>((info->memory_size - info->memory_available) * 100 / info->memory_size);
    return DCMI_OK;
  });
}

ASCENDSIM_API int dcmi_get_device_utilization_rate(int card_id, int device_id, int type, unsigned int* rate) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    if (type == DCMI_UTILIZATION_RATE_HBM || type == DCMI_UTILIZATION_RATE_DDR) {
      const auto memory = ascendsim::memory_of(npu);
      *rate = static_cast<unsigned>(memory.used * 100 / memory.total);
    } else if (type == DCMI_UTILIZATION_RATE_AICORE || type == DCMI_UTILIZATION_RATE_NPU) {
      *rate = ascendsim::load_percent(*npu.card);
    } else {
      return DCMI_ERR_CODE_NOT_SUPPORT;
    }
    return DCMI_OK;
  });
}

ASCENDSIM_API int dcmi_get_device_temperature(int card_id, int device_id, int* temperature) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    const nvsim::CardConfig& config = npu.card->config();
    *temperature = ascendsim::between(*npu.card, config.temperature_idle, config.temperature_busy);
    return DCMI_OK;
  });
}

ASCENDSIM_API int dcmi_get_device_power_info(int card_id, int device_id, int* power) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    const nvsim::CardConfig& config = npu.card->config();
    *power = ascendsim::between(*npu.card, config.power_idle_mw / 100, config.power_limit_mw / 100);
    return DCMI_OK;
  });
}

// A lost card is still listed, and says that it is not there.
ASCENDSIM_API int dcmi_get_device_health(int card_id, int device_id, unsigned int* health) {
  const NpuCard* npu = library().ready ? ascendsim::find(card_id, device_id) : nullptr;
  if (npu == nullptr || health == nullptr) {
    return DCMI_ERR_CODE_DEVICE_NOT_EXIST;
  }
  *health = npu->card->lost() ? ascendsim::kNoDevice : npu->npu->health;
  return DCMI_OK;
}

ASCENDSIM_API int dcmi_get_device_errorcode_v2(int card_id, int device_id, int* count, unsigned int* codes,
                                               unsigned int list_len) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    const unsigned known = std::min({npu.npu->error_count, list_len, unsigned{ascendsim::kMaxErrors}});
    std::copy_n(npu.npu->errors, known, codes);
    *count = static_cast<int>(known);
    return DCMI_OK;
  });
}

ASCENDSIM_API int dcmi_get_device_ecc_info(int card_id, int device_id, dcmi_device_type type, dcmi_ecc_info* info) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    *info = {};
    info->enable_flag = 1;
    const bool here = type == (npu.npu->ddr != 0 ? DCMI_DEVICE_TYPE_DDR : DCMI_DEVICE_TYPE_HBM);
    if (here) {
      info->single_bit_error_cnt = info->total_single_bit_error_cnt = npu.npu->ecc_single;
      info->double_bit_error_cnt = info->total_double_bit_error_cnt = npu.npu->ecc_double;
    }
    return DCMI_OK;
  });
}

// The caller's array is known to be large enough; the vendor's call has no length either.
ASCENDSIM_API int dcmi_get_device_resource_info(int card_id, int device_id, dcmi_proc_mem_info* infos, int* count) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    Card& card = *npu.card;
    const Card::Lock lock(card);
    *count = 0;
    for (std::uint64_t left = card.state().used_mask; left != 0; left &= left - 1) {
      const int slot = std::countr_zero(left);
      if (const std::int64_t pid = card.pid_of(slot); pid > 0) {
        infos[(*count)++] = {static_cast<int>(pid), card.state().slots[slot].memory_bytes};
      }
    }
    return DCMI_OK;
  });
}

ASCENDSIM_API int dcmi_get_device_info(int card_id, int device_id, unsigned int main_cmd, unsigned int sub_cmd,
                                       void* buffer, unsigned int* size) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    if (main_cmd == DCMI_MAIN_CMD_VDEV_MNG) {
      return ascendsim::vnpu_query(npu, sub_cmd, buffer, size);
    }
    const bool pod = main_cmd == DCMI_MAIN_CMD_CHIP_INF && sub_cmd == DCMI_CHIP_INF_SUB_CMD_SPOD_INFO;
    if (!pod || npu.npu->super_pod == ascendsim::kNoDevice || *size < sizeof(dcmi_spod_info)) {
      return DCMI_ERR_CODE_NOT_SUPPORT;
    }
    dcmi_spod_info info{};
    info.sdid = npu.npu->sdid;
    info.scale_type = npu.npu->scale;
    info.super_pod_id = npu.npu->super_pod;
    info.server_id = npu.npu->server;
    std::memcpy(buffer, &info, sizeof(info));
    *size = sizeof(info);
    return DCMI_OK;
  });
}

// An NPU that is in use is not cut.
ASCENDSIM_API int dcmi_create_vdevice(int card_id, int device_id, dcmi_create_vdev_res_stru* vdev,
                                      dcmi_create_vdev_out* out) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    const Card::Lock lock(*npu.card);
    const bool cut = std::any_of(std::begin(npu.npu->vnpus), std::end(npu.npu->vnpus),
                                 [](const ascendsim::Vnpu& one) { return one.id != 0; });
    if (!cut && npu.card->state().used_mask != 0) {
      return DCMI_ERR_CODE_RESOURCE_OCCUPIED;
    }
    ascendsim::Vnpu vnpu{};
    vnpu.id = vdev->vdev_id == ascendsim::kNoDevice ? 0 : vdev->vdev_id;
    const std::string name(vdev->template_name, strnlen(vdev->template_name, sizeof(vdev->template_name)));
    switch (ascendsim::make_vnpu(npu, name, vnpu)) {
      case ascendsim::Cut::kNoTemplate:
      case ascendsim::Cut::kNoId:
        return DCMI_ERR_CODE_INVALID_PARAMETER;
      case ascendsim::Cut::kFull:
        return DCMI_ERR_CODE_RESOURCE_OCCUPIED;
      case ascendsim::Cut::kNotSupported:
        return DCMI_ERR_CODE_NOT_SUPPORT;
      case ascendsim::Cut::kMade:
        break;
    }
    std::ofstream(ascendsim::vnpu_node(nvsim::device_folder(ascendsim::kNames), vnpu.id)).flush();
    *out = {};
    out->vdev_id = vnpu.id;
    return DCMI_OK;
  });
}

ASCENDSIM_API int dcmi_set_destroy_vdevice(int card_id, int device_id, unsigned int vdevid) {
  return with_npu(card_id, device_id, [&](const NpuCard& npu) {
    const Card::Lock lock(*npu.card);
    if (!ascendsim::drop_vnpu(*npu.npu, vdevid)) {
      return DCMI_ERR_CODE_INVALID_PARAMETER;
    }
    std::remove(ascendsim::vnpu_node(nvsim::device_folder(ascendsim::kNames), vdevid).c_str());
    return DCMI_OK;
  });
}

ASCENDSIM_API int dcmi_get_driver_version(char* text, unsigned int length) {
  if (!library().ready || text == nullptr || length == 0) {
    return DCMI_ERR_CODE_NOT_READY;
  }
  const std::string version = library().view.machine().machine.driver_version;
  const std::size_t bytes = std::min<std::size_t>(version.size(), length - 1);
  std::memcpy(text, version.data(), bytes);
  text[bytes] = '\0';
  return DCMI_OK;
}

ASCENDSIM_API int dcmi_get_dcmi_version(char* text, unsigned int length) {
  return dcmi_get_driver_version(text, length);
}
