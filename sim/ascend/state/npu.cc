#include "state/npu.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ascendsim {

namespace {

// The number behind a word, and what follows it; 0: no number.
std::uint32_t take_number(std::string_view& text) {
  std::uint32_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || value == 0 || value > 4096) {
    return 0;
  }
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
  return value;
}

// virNN[_Cc][_Gg][_...]: AI cores, AI CPUs, GiB. Without the last, memory is the cores' part of the NPU's.
bool read_template(std::string_view name, const nvsim::CardConfig& card, Vnpu& vnpu) {
  if (!name.starts_with("vir") || name.size() >= sizeof(vnpu.template_name)) {
    return false;
  }
  std::copy(name.begin(), name.end(), vnpu.template_name);
  name.remove_prefix(3);
  vnpu.ai_cores = take_number(name);
  if (vnpu.ai_cores == 0 || vnpu.ai_cores >= card.sms) {
    return false;
  }
  const auto total = static_cast<std::uint32_t>(card.memory_bytes >> 20U);
  vnpu.ai_cpus = 1;
  vnpu.memory_mib = total * vnpu.ai_cores / card.sms;
  while (!name.empty()) {
    if (!name.starts_with("_") || name.size() == 1) {
      return false;
    }
    name.remove_prefix(1);
    const std::uint32_t value = take_number(name);
    if (value == 0) {
      break;  // media engines
    }
    if (name.starts_with("g")) {
      vnpu.memory_mib = value << 10U;
    } else if (name.starts_with("c")) {
      vnpu.ai_cpus = value;
    } else {
      return false;
    }
    name.remove_prefix(1);
  }
  return vnpu.memory_mib <= total;
}

bool has_vnpu(const Npu& npu, std::uint32_t id) {
  return std::any_of(std::begin(npu.vnpus), std::end(npu.vnpus), [id](const Vnpu& one) { return one.id == id; });
}

// The ids of an NPU are its own; the lowest that is free, 0: none is.
std::uint32_t free_id(const NpuCard& npu) {
  const std::uint32_t first = kFirstVnpu + kVnpuIds * npu.card->config().minor;
  for (std::uint32_t id = first; id < first + kVnpuIds; ++id) {
    if (!has_vnpu(*npu.npu, id)) return id;
  }
  return 0;
}

bool is_id(const NpuCard& npu, std::uint32_t id) {
  const std::uint32_t first = kFirstVnpu + kVnpuIds * npu.card->config().minor;
  return id >= first && id < first + kVnpuIds && !has_vnpu(*npu.npu, id);
}

}  // namespace

std::string vnpu_node(const std::string& folder, std::uint32_t id) {
  return folder + "/vdavinci" + std::to_string(id);
}

Cut make_vnpu(const NpuCard& npu, const std::string& template_name, Vnpu& vnpu) {
  constexpr std::uint32_t kNoPod = 0xFFFFFFFF;
  if (npu.npu->super_pod != kNoPod) {
    return Cut::kNotSupported;
  }
  const std::uint32_t wanted = vnpu.id;
  vnpu = {};
  if (!read_template(template_name, npu.card->config(), vnpu)) {
    return Cut::kNoTemplate;
  }
  std::uint32_t cores = vnpu.ai_cores;
  std::uint64_t memory = vnpu.memory_mib;
  Vnpu* place = nullptr;
  for (Vnpu& one : npu.npu->vnpus) {
    if (one.id == 0) {
      place = place == nullptr ? &one : place;
      continue;
    }
    cores += one.ai_cores;
    memory += one.memory_mib;
  }
  if (place == nullptr || cores > npu.card->config().sms || memory > npu.card->config().memory_bytes >> 20U) {
    return Cut::kFull;
  }
  vnpu.id = wanted != 0 ? wanted : free_id(npu);
  if (!is_id(npu, vnpu.id)) {
    return wanted != 0 ? Cut::kNoId : Cut::kFull;
  }
  *place = vnpu;
  return Cut::kMade;
}

bool drop_vnpu(Npu& npu, std::uint32_t id) {
  for (Vnpu& one : npu.vnpus) {
    if (id != 0 && one.id == id) {
      one = {};
      return true;
    }
  }
  return false;
}

int NpuView::open() {
  if (const int error = view_.open(kNames); error != 0) {
    return error;
  }
  const std::string path = nvsim::device_folder(kNames) + "/" + kNames.control;
  if (const int error = control_.open(path, sizeof(NpuMachine)); error != 0) {
    return error;
  }
  if (machine().magic != kNpuMagic || machine().version != kNpuVersion) {
    return EPROTO;
  }
  for (const auto& card : view_.cards()) {
    cards_.push_back({card.get(), &machine().npus[card->config().minor % nvsim::kMaxCards]});
  }
  std::sort(cards_.begin(), cards_.end(),
            [](const NpuCard& left, const NpuCard& right) { return left.npu->logic < right.npu->logic; });
  return 0;
}

void NpuView::close_in_child() {
  view_.close_in_child();
  control_.close_in_child();
}

}  // namespace ascendsim
