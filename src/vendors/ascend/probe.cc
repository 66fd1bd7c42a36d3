#include "vendors/ascend/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "vendors/ascend/dcmi.h"
#include "vendors/open_library.h"
#include "vendors/partition.h"
#include "vendors/source.h"
#include "vendors/sysfs.h"
#include "vendors/wire.h"
#include "vendors/worker.h"

namespace heddle::vendors::ascend {
namespace {

// What a driver says beyond these is an error of its own.
constexpr int kMaxCards = 256;
constexpr int kMaxDevices = 16;  // of a card
constexpr int kMaxErrorCodes = 128;
// The call has no length: the driver keeps far fewer contexts of an NPU than this.
constexpr size_t kMaxProcesses = 8192;
constexpr unsigned kNoDevice = 0xFFFFFFFF;
constexpr const char* kTwoDies = "Ascend910";  // a 910C, whose modules have two dies each: for DCMI a card of two NPUs
constexpr unsigned kMajorAlarm = 2;            // 1 is a warning, which the NPU works on with
constexpr int64_t kFirstVnpu = 100;
constexpr int64_t kVnpuIds = 16;  // of an NPU
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kMostMib = int64_t{1} << 24;  // of a vNPU

template <size_t Size>
std::string text_of(const unsigned char (&bytes)[Size]) {
  std::string text;
  for (const unsigned char byte : bytes) {
    if (byte == 0) break;
    text.push_back(static_cast<char>(byte));
  }
  return text;
}

template <typename Function, typename... Arguments>
int call(Function function, Arguments... arguments) {
  return function == nullptr ? DCMI_ERR_CODE_NOT_SUPPORT : function(arguments...);
}

// An NPU, or a vNPU that was cut off it.
struct Handle {
  std::string uuid;
  int card = 0;
  int device = 0;
  int logic = 0;
  bool cut = false;   // it has vNPUs
  bool cuts = false;  // it can have
  PartitionPlace place = {};
  int64_t memory_bytes = 0;  // of a vNPU
};

struct Verdict {
  bool healthy = true;
  std::string message;
};

}  // namespace

struct Probe::Impl : OpenLibrary<DcmiLibrary> {
  ProbeOptions options;
  std::vector<Handle> handles;
  std::vector<std::string> skipped;
  std::map<std::string, unsigned> ecc_errors;  // uuid -> double-bit errors as last seen

  [[nodiscard]] const DcmiApi& api() const { return library->api(); }
  void ensure_open();
  void enumerate();
  void enumerate_card(int card);
  [[nodiscard]] int devices_of(int card) const;
  void add_vnpus(Handle npu);
  [[nodiscard]] Result<Handle> identify(int card, int device) const;
  [[nodiscard]] Result<Card> describe(const Handle& handle) const;
  void describe_place(const Handle& handle, Card& card) const;
  // Total and used.
  [[nodiscard]] std::pair<int64_t, int64_t> memory(const Handle& handle) const;
  [[nodiscard]] Verdict verdict(const Handle& handle) const;
  [[nodiscard]] std::vector<CardProcess> processes(const Handle& handle) const;
  std::optional<HealthEvent> new_ecc_errors(const Handle& handle);
  [[nodiscard]] static Error cannot_cut(const Handle& npu);
  [[nodiscard]] Result<Handle> npu_of(const PartitionOrder& order) const;
  [[nodiscard]] const Handle* vnpu_at(const PartitionOrder& order) const;
};

void Probe::Impl::ensure_open() {
  if (state == LibraryState::kOk) return;
  handles.clear();
  open([this] { return find_dcmi(options.dcmi, options.driver_root); }, "no libdcmi.so under " + options.driver_root,
       [](DcmiLibrary& opened) {
         const int code = opened.api().init();
         return code == DCMI_OK ? std::string() : fmt::format("dcmi_init: error {}", code);
       });
}

int Probe::Impl::devices_of(int card) const {
  int count = 0;
  int mcu = -1;
  int cpu = -1;
  if (call(api().device_ids, card, &count, &mcu, &cpu) != DCMI_OK &&
      call(api().device_count, card, &count) != DCMI_OK) {
    return 0;
  }
  return std::clamp(count, 0, kMaxDevices);
}

Result<Handle> Probe::Impl::identify(int card, int device) const {
  Handle handle{{}, card, device, 0};
  if (const int code = api().logic_id(&handle.logic, card, device); code != DCMI_OK) {
    return fail(Code::kUnavailable, fmt::format("dcmi_get_device_logic_id: error {}", code));
  }
  dcmi_die_id die{};
  if (const int code = api().die(card, device, VDIE, &die); code != DCMI_OK) {
    return fail(Code::kUnavailable, fmt::format("dcmi_get_device_die_v2: error {}", code));
  }
  if (std::ranges::all_of(die.soc_die, [](unsigned word) { return word == 0; })) {
    return fail(Code::kUnavailable, "no die id");
  }
  handle.uuid = fmt::format("{:08X}-{:08X}-{:08X}-{:08X}-{:08X}", die.soc_die[0], die.soc_die[1], die.soc_die[2],
                            die.soc_die[3], die.soc_die[4]);
  return handle;
}

void Probe::Impl::enumerate_card(int card) {
  const int count = devices_of(card);
  for (int device = 0; device < count; ++device) {
    dcmi_unit_type type = NPU_TYPE;
    if (call(api().device_type, card, device, &type) == DCMI_OK && type != NPU_TYPE) continue;
    Result<Handle> handle = identify(card, device);
    if (!handle) {
      skipped.push_back(fmt::format("card {} device {}: {}", card, device, handle.error().message));
    } else if (std::ranges::find(handles, handle->uuid, &Handle::uuid) != handles.end()) {
      skipped.push_back(fmt::format("card {} device {}: {} is the id of another NPU", card, device, handle->uuid));
    } else {
      add_vnpus(*std::move(handle));
    }
  }
}

// The NPU, and behind it the vNPUs that it has. Drivers and chips that know none do not answer.
void Probe::Impl::add_vnpus(Handle npu) {
  dcmi_soc_total_resource all{};
  auto size = static_cast<unsigned>(sizeof(all));
  const int code = call(api().device_info, npu.card, npu.device, DCMI_MAIN_CMD_VDEV_MNG,
                        DCMI_VMNG_SUB_CMD_GET_TOTAL_RESOURCE, static_cast<void*>(&all), &size);
  const size_t count = code == DCMI_OK ? std::min(all.vdev_num, unsigned{DCMI_SOC_SPLIT_MAX}) : 0;
  npu.cut = count > 0;
  npu.cuts = code == DCMI_OK && api().create_vnpu != nullptr && api().destroy_vnpu != nullptr;
  const size_t number = handles.size();
  handles.push_back(npu);
  for (size_t i = 0; i < count; ++i) {
    dcmi_vdev_query_stru one{};
    one.vdev_id = all.vdev_id[i];
    size = sizeof(one);
    const int answer = call(api().device_info, npu.card, npu.device, DCMI_MAIN_CMD_VDEV_MNG,
                            DCMI_VMNG_SUB_CMD_GET_VDEV_RESOURCE, static_cast<void*>(&one), &size);
    const std::string name(one.query_info.name, strnlen(one.query_info.name, sizeof(one.query_info.name)));
    const auto mib = static_cast<int64_t>(one.query_info.computing.memory_size);
    if (answer != DCMI_OK || !name.starts_with("vir") || mib <= 0 || mib > kMostMib) {
      skipped.push_back(fmt::format("card {} device {} vNPU {}: error {}, template '{}', {} MiB", npu.card, npu.device,
                                    all.vdev_id[i], answer, name.starts_with("vir") ? name : "", mib));
      handles[number].cuts = false;  // what it has is not known, and so not what is left
      continue;
    }
    Handle vnpu{fmt::format("{}-vnpu-{}", npu.uuid, all.vdev_id[i]), npu.card, npu.device, npu.logic};
    vnpu.place = {npu.uuid, name, all.vdev_id[i], all.vdev_id[i], 0};
    vnpu.memory_bytes = mib * kMiB;
    handles.push_back(std::move(vnpu));
  }
}

void Probe::Impl::enumerate() {
  handles.clear();
  skipped.clear();
  std::array<int, kMaxCards> cards{};
  int count = 0;
  if (const int code = api().card_list(&count, cards.data(), kMaxCards); code != DCMI_OK || count > kMaxCards) {
    state = LibraryState::kInitFailed;
    detail = fmt::format("dcmi_get_card_list: error {}, {} cards", code, count);
    return;
  }
  for (int i = 0; i < count; ++i) enumerate_card(cards[static_cast<size_t>(i)]);
  std::ranges::stable_sort(handles, {}, &Handle::logic);
}

std::pair<int64_t, int64_t> Probe::Impl::memory(const Handle& handle) const {
  dcmi_hbm_info hbm{};
  if (call(api().hbm_info, handle.card, handle.device, &hbm) == DCMI_OK && hbm.memory_size != 0) {
    return {static_cast<int64_t>(hbm.memory_size) * kMiB, static_cast<int64_t>(hbm.memory_usage) * kMiB};
  }
  dcmi_get_memory_info_stru ddr{};
  if (call(api().memory_info, handle.card, handle.device, &ddr) != DCMI_OK) return {0, 0};
  const auto size = static_cast<int64_t>(ddr.memory_size);
  return {size * kMiB, (size - static_cast<int64_t>(ddr.memory_available)) * kMiB};
}

Verdict Probe::Impl::verdict(const Handle& handle) const {
  unsigned health = 0;
  const int code = call(api().health, handle.card, handle.device, &health);
  if (code == DCMI_ERR_CODE_NOT_SUPPORT) return {};
  if (code != DCMI_OK) return {false, fmt::format("the NPU does not answer: error {}", code)};
  if (health == kNoDevice) return {false, "the NPU is lost"};
  if (health < kMajorAlarm) return {};
  std::string message = health == kMajorAlarm ? "major alarm" : "critical alarm";
  std::array<unsigned, kMaxErrorCodes> codes{};
  int count = 0;
  if (call(api().error_codes, handle.card, handle.device, &count, codes.data(), unsigned{kMaxErrorCodes}) == DCMI_OK) {
    for (int i = 0; i < std::min(count, 4); ++i) message += fmt::format(" {:#010x}", codes[static_cast<size_t>(i)]);
  }
  return {false, message};
}

void Probe::Impl::describe_place(const Handle& handle, Card& card) const {
  dcmi_pcie_info_all pcie{};
  if (call(api().pcie_info, handle.card, handle.device, &pcie) == DCMI_OK) {
    card.pci_bus_id =
        fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pcie.domain, pcie.bdf_busid, pcie.bdf_deviceid, pcie.bdf_funcid);
  }
  card.pcie_root = pcie_root(options.sysfs, card.pci_bus_id);
  card.numa_node = numa_node(options.sysfs, card.pci_bus_id);
  dcmi_spod_info pod{};
  auto size = static_cast<unsigned>(sizeof(pod));
  const int code = call(api().device_info, handle.card, handle.device, DCMI_MAIN_CMD_CHIP_INF,
                        DCMI_CHIP_INF_SUB_CMD_SPOD_INFO, static_cast<void*>(&pod), &size);
  if (code == DCMI_OK && pod.super_pod_id != kNoDevice) {
    card.super_node = std::to_string(pod.super_pod_id);
    card.link_domain = "superpod-" + card.super_node;
  }
}

Result<Card> Probe::Impl::describe(const Handle& handle) const {
  Card card;
  card.vendor = "ascend";
  card.kind = "npu";
  card.uuid = handle.uuid;
  card.index = handle.logic;
  card.architecture = "Da Vinci";
  unsigned physical = 0;
  if (const int code = api().physical_id(static_cast<unsigned>(handle.logic), &physical); code != DCMI_OK) {
    return fail(Code::kUnavailable, fmt::format("{} has no physical id: error {}", handle.uuid, code));
  }
  card.minor = physical;
  dcmi_chip_info_v2 chip{};
  dcmi_chip_info older{};
  if (call(api().chip_info, handle.card, handle.device, &chip) == DCMI_OK) {
    card.model = text_of(chip.chip_name);
  } else if (call(api().chip_info_v1, handle.card, handle.device, &older) == DCMI_OK) {
    card.model = text_of(older.chip_name);
  }
  if (card.model.empty()) return fail(Code::kUnavailable, handle.uuid + " has no chip name");
  const bool die = card.model == kTwoDies && handle.place.parent_uuid.empty() && devices_of(handle.card) > 1;
  if (die) card.module = std::to_string(handle.card);
  card.partitioned = handle.cut;
  card.cuts = handle.cuts;
  card.partition = handle.place;
  card.memory_bytes = card.is_partition() ? handle.memory_bytes : memory(handle).first;
  if (card.memory_bytes <= 0) return fail(Code::kUnavailable, handle.uuid + " has no memory size");
  describe_place(handle, card);
  const Verdict health = verdict(handle);
  card.healthy = health.healthy;
  card.health_message = health.message;
  return card;
}

std::vector<CardProcess> Probe::Impl::processes(const Handle& handle) const {
  std::vector<dcmi_proc_mem_info> infos(kMaxProcesses);
  int count = 0;
  if (call(api().processes, handle.card, handle.device, infos.data(), &count) != DCMI_OK) return {};
  std::vector<CardProcess> result;
  for (size_t i = 0; i < std::min(static_cast<size_t>(std::max(count, 0)), infos.size()); ++i) {
    result.push_back({infos[i].proc_id, static_cast<int64_t>(infos[i].proc_mem_usage)});
  }
  return result;
}

// The driver counts since its last start: only growth is news.
std::optional<HealthEvent> Probe::Impl::new_ecc_errors(const Handle& handle) {
  dcmi_ecc_info ecc{};
  if (call(api().ecc_info, handle.card, handle.device, DCMI_DEVICE_TYPE_HBM, &ecc) != DCMI_OK) return std::nullopt;
  const unsigned before = std::exchange(ecc_errors[handle.uuid], ecc.double_bit_error_cnt);
  if (ecc.double_bit_error_cnt <= before) return std::nullopt;
  return HealthEvent{handle.uuid, fmt::format("double-bit ECC errors: {}", ecc.double_bit_error_cnt), false};
}

Probe::Probe(ProbeOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
}
Probe::~Probe() = default;

Inventory Probe::discover() {
  impl_->ensure_open();
  if (impl_->state == LibraryState::kOk) impl_->enumerate();
  Inventory result{impl_->state, impl_->detail, impl_->path, {}};
  if (impl_->state != LibraryState::kOk) return result;
  std::array<char, 64> driver{};
  (void)call(impl_->api().driver_version, driver.data(), static_cast<unsigned>(driver.size() - 1));
  for (const Handle& handle : impl_->handles) {
    Result<Card> card = impl_->describe(handle);
    if (!card) {
      impl_->skipped.push_back(fmt::format("card {} device {}: {}", handle.card, handle.device, card.error().message));
      continue;
    }
    card->driver_version = driver.data();
    result.cards.push_back(*std::move(card));
  }
  result.skipped = impl_->skipped;
  return result;
}

StatusReport Probe::status() {
  if (impl_->state != LibraryState::kOk || impl_->handles.empty()) (void)discover();
  StatusReport report{impl_->state, impl_->detail, {}, {}};
  if (impl_->state != LibraryState::kOk) return report;
  for (const Handle& handle : impl_->handles) {
    CardStatus status;
    status.uuid = handle.uuid;
    const Verdict health = impl_->verdict(handle);
    status.healthy = health.healthy;
    status.health_message = health.message;
    // DCMI has an account of the NPU alone, not of which vNPU a process is on.
    if (!handle.place.parent_uuid.empty()) {
      report.cards.push_back(std::move(status));
      continue;
    }
    status.memory_used_bytes = impl_->memory(handle).second;
    unsigned percent = 0;
    if (call(impl_->api().utilization, handle.card, handle.device, DCMI_UTILIZATION_RATE_AICORE, &percent) == DCMI_OK) {
      status.utilization_percent = percent;
    }
    int value = 0;
    if (call(impl_->api().temperature, handle.card, handle.device, &value) == DCMI_OK)
      status.temperature_celsius = value;
    if (call(impl_->api().power, handle.card, handle.device, &value) == DCMI_OK)
      status.power_milliwatts = int64_t{value} * 100;
    if (!handle.cut) status.processes = impl_->processes(handle);
    report.cards.push_back(std::move(status));
    if (auto event = impl_->new_ecc_errors(handle)) report.events.push_back(*std::move(event));
  }
  return report;
}

// The NPU of an order, from what was found last. Errors: kNotFound.
Result<Handle> Probe::Impl::npu_of(const PartitionOrder& order) const {
  if (state != LibraryState::kOk) return fail(Code::kUnavailable, detail);
  const auto npu = std::ranges::find(handles, order.parent_uuid, &Handle::uuid);
  if (npu == handles.end()) return fail(Code::kNotFound, "there is no NPU " + order.parent_uuid);
  return *npu;
}

Error Probe::Impl::cannot_cut(const Handle& npu) {
  return {
      Code::kUnsupported, "the driver makes no vNPUs of NPU " + npu.uuid + ", or does not tell of all that it has", {}};
}

const Handle* Probe::Impl::vnpu_at(const PartitionOrder& order) const {
  const auto found = std::ranges::find_if(handles, [&](const Handle& handle) {
    return handle.place.parent_uuid == order.parent_uuid && handle.place.start == order.place;
  });
  return found == handles.end() ? nullptr : &*found;
}

// The ids of an NPU's vNPUs are those from 100 + 16 times its physical id.
Result<int64_t> Probe::place(const PartitionOrder& order, const std::vector<int64_t>& taken) {
  const Inventory now = discover();
  HEDDLE_TRY(const Handle npu, impl_->npu_of(order));
  const Handle* there = order.place < 0 ? nullptr : impl_->vnpu_at(order);
  // One of this template is the one that was ordered: a driver may bring vNPUs back after a start of the machine.
  if (order.place >= 0 && (there == nullptr || there->place.profile == order.profile)) return order.place;
  if (!npu.cuts) return tl::unexpected(Impl::cannot_cut(npu));
  const auto card = std::ranges::find(now.cards, npu.uuid, &Card::uuid);
  if (card == now.cards.end()) return fail(Code::kUnavailable, "NPU " + npu.uuid + " cannot be described");
  const int64_t first = kFirstVnpu + kVnpuIds * card->minor;
  const int64_t ids = card->model.starts_with("310P") ? kVnpuIds / 2 : kVnpuIds;
  for (int64_t id = first + ids - 1; id >= first; --id) {
    if (std::ranges::find(taken, id) != taken.end()) continue;
    if (impl_->vnpu_at({order.parent_uuid, order.profile, id}) == nullptr) return id;
  }
  return fail(Code::kExhausted, fmt::format("NPU {} has {} vNPUs, and cannot have more", npu.uuid, ids));
}

Result<Inventory> Probe::make(const PartitionOrder& order) {
  Inventory now = discover();
  HEDDLE_TRY(const Handle npu, impl_->npu_of(order));
  if (const Handle* there = impl_->vnpu_at(order)) {
    if (there->place.profile == order.profile) return now;
    return fail(Code::kConflict, fmt::format("vNPU {} of NPU {} was made by somebody else, of template {}", order.place,
                                             npu.uuid, there->place.profile));
  }
  if (!npu.cuts) return tl::unexpected(Impl::cannot_cut(npu));
  dcmi_create_vdev_res_stru wanted{};
  wanted.vdev_id = static_cast<unsigned>(order.place);
  wanted.vfg_id = kNoDevice;
  if (order.profile.size() >= sizeof(wanted.template_name)) return fail(Code::kInvalidArgument, "no such template");
  std::ranges::copy(order.profile, std::begin(wanted.template_name));
  dcmi_create_vdev_out made{};
  const int code = impl_->api().create_vnpu(npu.card, npu.device, &wanted, &made);
  const std::string what = fmt::format("vNPU {} of template {} on NPU {}", order.place, order.profile, npu.uuid);
  if (code == DCMI_ERR_CODE_RESOURCE_OCCUPIED) {
    return fail(Code::kExhausted,
                fmt::format("the driver makes no {}: error {}: its resources, or the NPU, are in use", what, code));
  }
  if (code != DCMI_OK) {
    const Code kind = code == DCMI_ERR_CODE_INVALID_PARAMETER ? Code::kInvalidArgument
                      : code == DCMI_ERR_CODE_NOT_SUPPORT     ? Code::kUnsupported
                                                              : Code::kUnavailable;
    return fail(kind, fmt::format("the driver makes no {}: dcmi_create_vdevice: error {}", what, code));
  }
  if (made.vdev_id != wanted.vdev_id) {
    // It could not be told from those of others later.
    (void)impl_->api().destroy_vnpu(npu.card, npu.device, made.vdev_id);
    return fail(Code::kUnsupported, fmt::format("asked for {}, the driver made {}", what, made.vdev_id));
  }
  return discover();
}

Result<Inventory> Probe::drop(const PartitionOrder& order) {
  Inventory now = discover();
  // With the driver everything that it made has gone.
  if (impl_->state == LibraryState::kMissing) return fail(Code::kNotFound, impl_->detail);
  if (impl_->state != LibraryState::kOk) return fail(Code::kUnavailable, impl_->detail);
  const Handle* there = impl_->vnpu_at(order);
  if (there == nullptr || there->place.profile != order.profile) return now;
  HEDDLE_TRY(const Handle npu, impl_->npu_of(order));
  const auto id = static_cast<unsigned>(order.place);
  if (const int code = call(impl_->api().destroy_vnpu, npu.card, npu.device, id); code != DCMI_OK) {
    const Code kind = code == DCMI_ERR_CODE_RESOURCE_OCCUPIED ? Code::kConflict : Code::kUnavailable;
    return fail(kind, fmt::format("vNPU {} of NPU {} cannot be taken away: dcmi_set_destroy_vdevice: error {}", id,
                                  npu.uuid, code));
  }
  return discover();
}

int serve_probe(int fd, ProbeOptions options) {
  Probe probe(std::move(options));
  const PartitionVendor partitions{[&](const auto& order, const auto& taken) { return probe.place(order, taken); },
                                   [&](const auto& order) { return probe.make(order); },
                                   [&](const auto& order) { return probe.drop(order); }};
  return serve_worker(fd, [&](std::string_view operation) -> Result<std::string> {
    if (operation == kAskCards) return inventory_json(probe.discover());
    if (operation == kAskStatus) return status_json(probe.status());
    if (operation == kAskTimes) return times_json({});
    return answer_partition_call(operation, partitions);
  });
}

}  // namespace heddle::vendors::ascend
