#include "vendors/nvidia/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "vendors/nvidia/describe.h"
#include "vendors/nvidia/mig.h"
#include "vendors/nvidia/nvml.h"
#include "vendors/open_library.h"
#include "vendors/partition.h"
#include "vendors/source.h"
#include "vendors/sysfs.h"
#include "vendors/wire.h"
#include "vendors/worker.h"

namespace heddle::vendors::nvidia {
namespace {

constexpr uint64_t kEventMask =
    static_cast<uint64_t>(nvmlEventTypeXidCriticalError) | static_cast<uint64_t>(nvmlEventTypeDoubleBitEccError);
constexpr int kMaxEventsPerCall = 256;
// What a driver says beyond these is an error of its own, and no reason to take memory or time for it.
constexpr unsigned kMaxCards = 1024;
constexpr size_t kMaxProcesses = 16384;
constexpr unsigned kMaxMigDevices = 64;
constexpr unsigned kNoInstance = 0xffffffffU;
constexpr uint64_t kLongestSampleUs = 60000000;

template <typename Function, typename... Arguments>
nvmlReturn_t call(Function function, Arguments... arguments) {
  return function == nullptr ? NVML_ERROR_FUNCTION_NOT_FOUND : function(arguments...);
}

// A text that NVML writes into a buffer; empty when it does not say.
template <typename Function>
std::string text_of(Function function, nvmlDevice_t device) {
  std::array<char, 128> buffer{};
  if (call(function, device, buffer.data(), static_cast<unsigned>(buffer.size() - 1)) != NVML_SUCCESS) return {};
  return buffer.data();
}

// Asks with a growing buffer until everything fits (INSUFFICIENT_SIZE is the sizing protocol).
template <typename Info, typename Function>
Result<std::vector<Info>> list_processes(Function function, nvmlDevice_t device) {
  std::vector<Info> infos(64);
  while (true) {
    auto count = static_cast<unsigned>(infos.size());
    const nvmlReturn_t code = call(function, device, &count, infos.data());
    if (code == NVML_SUCCESS) {
      infos.resize(std::min<size_t>(count, infos.size()));
      return infos;
    }
    if (code != NVML_ERROR_INSUFFICIENT_SIZE) return fail(Code::kUnsupported, "no process list");
    if (infos.size() >= kMaxProcesses) return fail(Code::kUnsupported, "the process list does not stop growing");
    infos.resize(std::min(std::max<size_t>(count, infos.size()) * 2, kMaxProcesses));
  }
}

// A process may have a compute and a graphics context: its memory is the larger report, not the sum, as both count the
// same.
template <typename Info>
void add_processes(std::map<int64_t, int64_t>& memory_by_pid, const std::vector<Info>& infos, int64_t card_bytes) {
  for (const Info& info : infos) {
    const bool known = info.usedGpuMemory <= static_cast<uint64_t>(card_bytes);
    const int64_t bytes = known ? static_cast<int64_t>(info.usedGpuMemory) : -1;
    const auto [entry, fresh] = memory_by_pid.emplace(static_cast<int64_t>(info.pid), bytes);
    if (!fresh) entry->second = std::max(entry->second, bytes);
  }
}

struct Verdict {
  bool healthy = true;
  std::string message;
  bool lost = false;
};

}  // namespace

struct Probe::Impl : OpenLibrary<NvmlLibrary> {
  struct Handle {
    std::string uuid;
    nvmlDevice_t device = nullptr;
    int64_t memory_bytes = 0;
    unsigned number = 0;            // of the driver
    nvmlDevice_t parent = nullptr;  // of a MIG device
    std::string parent_uuid = {};
  };

  ProbeOptions options;
  std::vector<Handle> handles;
  std::vector<std::string> skipped;
  nvmlEventSet_t events = nullptr;
  std::map<std::string, uint64_t> ecc_errors;  // uuid -> as last seen
  std::map<std::string, uint64_t> sampled_us;  // uuid -> time of the last sample of processes, by the driver's clock
  bool lost = false;                           // some card was: the library finds it again only after a new start

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { forget_events(); }

  [[nodiscard]] const NvmlApi& api() const { return library->api(); }

  void ensure_open();
  void enumerate();
  void register_events();
  void forget_events();
  void skip(unsigned number, const std::string& why) { skipped.push_back(fmt::format("card {}: {}", number, why)); }
  Result<Card> describe(const Handle& handle, int64_t index) const;
  void add_partitions(const Handle& card);
  [[nodiscard]] Result<PartitionPlace> place_of(const Handle& handle) const;
  [[nodiscard]] int64_t total_memory(nvmlDevice_t device) const;
  [[nodiscard]] std::string fabric_of(nvmlDevice_t device) const;
  [[nodiscard]] Verdict verdict(nvmlDevice_t device) const;
  void read_memory(nvmlDevice_t device, CardStatus& status, Verdict& health) const;
  void read_sensors(nvmlDevice_t device, CardStatus& status) const;
  [[nodiscard]] std::vector<CardProcess> processes(const Handle& handle) const;
  [[nodiscard]] bool has_partitions(const std::string& uuid) const;
  void share_events(std::vector<HealthEvent>& reported) const;
  std::vector<HealthEvent> drain_events() const;
  std::optional<HealthEvent> new_ecc_errors(const Handle& handle);
  std::optional<CardTimes> times(const Handle& handle);
  [[nodiscard]] Result<MigCard> mig_card(const PartitionOrder& order) const;
};

void Probe::Impl::ensure_open() {
  if (state == LibraryState::kOk) return;
  forget_events();
  handles.clear();
  open([this] { return find_nvml(options.nvml, options.driver_root); },
       "no libnvidia-ml.so.1 under " + options.driver_root,
       [](NvmlLibrary& opened) {
         const nvmlReturn_t code = opened.api().init();
         return code == NVML_SUCCESS ? std::string() : "nvmlInit: " + opened.error_text(code);
       });
}

void Probe::Impl::enumerate() {
  handles.clear();
  skipped.clear();
  unsigned count = 0;
  const nvmlReturn_t code = api().count(&count);
  if (code != NVML_SUCCESS) {
    state = LibraryState::kInitFailed;
    detail = "nvmlDeviceGetCount: " + library->error_text(code);
    return;
  }
  if (count > kMaxCards) {
    state = LibraryState::kInitFailed;
    detail = fmt::format("nvmlDeviceGetCount: {} cards", count);
    return;
  }
  for (unsigned index = 0; index < count; ++index) {
    nvmlDevice_t device = nullptr;
    // Lost, or not for this container.
    if (const nvmlReturn_t got = api().handle_by_index(index, &device); got != NVML_SUCCESS) {
      skip(index, "nvmlDeviceGetHandleByIndex: " + library->error_text(got));
      continue;
    }
    std::string uuid = text_of(api().uuid, device);
    if (uuid.empty()) {
      skip(index, "no uuid");
      continue;
    }
    // Two cards of one name cannot be told apart by anything that looks for it later.
    if (std::ranges::find(handles, uuid, &Handle::uuid) != handles.end()) {
      skip(index, uuid + " is the uuid of another card");
      continue;
    }
    handles.push_back({std::move(uuid), device, total_memory(device), index});
    add_partitions(Handle(handles.back()));
  }
}

void Probe::Impl::add_partitions(const Handle& card) {
  unsigned current = 0;
  unsigned pending = 0;
  unsigned most = 0;
  if (call(api().mig_mode, card.device, &current, &pending) != NVML_SUCCESS || current == 0 ||
      call(api().max_mig_devices, card.device, &most) != NVML_SUCCESS) {
    return;
  }
  for (unsigned index = 0; index < std::min(most, kMaxMigDevices); ++index) {  // there are gaps
    nvmlDevice_t device = nullptr;
    if (call(api().mig_device, card.device, index, &device) != NVML_SUCCESS) continue;
    std::string uuid = text_of(api().uuid, device);
    if (uuid.empty() || std::ranges::find(handles, uuid, &Handle::uuid) != handles.end()) {
      skip(card.number, fmt::format("MIG device {} has no uuid of its own", index));
      continue;
    }
    handles.push_back({std::move(uuid), device, total_memory(device), card.number, card.device, card.uuid});
  }
}

// Errors: kUnavailable for one that is not the whole of its GPU instance: its memory is shared with others.
Result<PartitionPlace> Probe::Impl::place_of(const Handle& handle) const {
  PartitionPlace place;
  place.parent_uuid = handle.parent_uuid;
  unsigned gpu = 0;
  unsigned compute = 0;
  nvmlDeviceAttributes_t attributes{};
  nvmlGpuInstance_t instance = nullptr;
  nvmlGpuInstanceInfo_t info{};
  if (call(api().gpu_instance_id, handle.device, &gpu) != NVML_SUCCESS ||
      call(api().compute_instance_id, handle.device, &compute) != NVML_SUCCESS ||
      call(api().attributes, handle.device, &attributes) != NVML_SUCCESS ||
      call(api().gpu_instance_by_id, handle.parent, gpu, &instance) != NVML_SUCCESS ||
      call(api().gpu_instance_info, instance, &info) != NVML_SUCCESS) {
    return fail(Code::kUnavailable, handle.uuid + ": the driver does not say where it lies");
  }
  if (attributes.computeInstanceSliceCount != attributes.gpuInstanceSliceCount) {
    return fail(Code::kUnavailable, handle.uuid + " is a part of a GPU instance, whose memory others share");
  }
  place.gpu_instance = gpu;
  place.compute_instance = compute;
  place.start = info.placement.start;
  place.profile = mig_profile_of_name(text_of(api().name, handle.device));
  if (place.profile.empty()) return fail(Code::kUnavailable, handle.uuid + ": its name has no profile");
  return place;
}

void Probe::Impl::register_events() {
  if (events != nullptr || call(api().event_set_create, &events) != NVML_SUCCESS) return;
  for (const Handle& handle : handles) {
    if (handle.parent != nullptr) continue;
    // A card that cannot report one kind may still report the other.
    if (call(api().register_events, handle.device, kEventMask, events) == NVML_SUCCESS) continue;
    (void)call(api().register_events, handle.device, static_cast<unsigned long long>(nvmlEventTypeXidCriticalError),
               events);
  }
}

void Probe::Impl::forget_events() {
  if (events != nullptr && library != nullptr) (void)call(api().event_set_free, events);
  events = nullptr;
}

int64_t Probe::Impl::total_memory(nvmlDevice_t device) const {
  nvmlMemory_t memory{};
  if (call(api().memory, device, &memory) == NVML_SUCCESS) return static_cast<int64_t>(memory.total);
  nvmlMemory_v2_t memory_v2{};
  memory_v2.version = nvmlMemory_v2;
  if (call(api().memory_v2, device, &memory_v2) == NVML_SUCCESS) return static_cast<int64_t>(memory_v2.total);
  return 0;
}

// Empty while the card is not registered with a fabric, and where it never is.
std::string Probe::Impl::fabric_of(nvmlDevice_t device) const {
  const auto name = [](const auto& info) {
    const bool registered = info.state == NVML_GPU_FABRIC_STATE_COMPLETED && info.status == NVML_SUCCESS;
    return registered ? fabric_name(info.clusterUuid, info.cliqueId) : std::string();
  };
  nvmlGpuFabricInfoV_t info{};
  info.version = nvmlGpuFabricInfo_v2;
  if (call(api().fabric, device, &info) == NVML_SUCCESS) return name(info);
  nvmlGpuFabricInfo_t older{};
  return call(api().fabric_v1, device, &older) == NVML_SUCCESS ? name(older) : std::string();
}

Result<Card> Probe::Impl::describe(const Handle& handle, int64_t index) const {
  Card card;
  card.vendor = "nvidia";
  card.kind = "gpu";
  card.uuid = handle.uuid;
  card.index = index;
  // What an instance has not of its own is its card's.
  nvmlDevice_t whole = handle.parent != nullptr ? handle.parent : handle.device;
  card.model = text_of(api().name, whole);
  if (handle.parent != nullptr) {
    HEDDLE_TRY(card.partition, place_of(handle));
  }
  unsigned minor_number = 0;
  if (api().minor_number(whole, &minor_number) != NVML_SUCCESS) {
    return fail(Code::kUnavailable, handle.uuid + " has no minor number");
  }
  card.minor = minor_number;
  card.memory_bytes = handle.memory_bytes;
  if (card.memory_bytes <= 0) return fail(Code::kUnavailable, handle.uuid + " has no memory size");
  nvmlDeviceArchitecture_t architecture = 0;
  if (call(api().architecture, whole, &architecture) == NVML_SUCCESS) {
    card.architecture = architecture_name(architecture);
  }
  nvmlPciInfo_t pci{};
  if (call(api().pci_info, whole, &pci) == NVML_SUCCESS) {
    card.pci_bus_id = normal_pci_bus_id(pci.busId[0] != '\0' ? pci.busId : pci.busIdLegacy);
  }
  card.pcie_root = pcie_root(options.sysfs, card.pci_bus_id);
  card.numa_node = numa_node(options.sysfs, card.pci_bus_id);
  if (handle.parent == nullptr) card.link_domain = fabric_of(handle.device);  // an instance has no NVLink
  unsigned long nodes = 0;
  if (card.numa_node < 0 &&
      call(api().memory_affinity, whole, 1U, &nodes, static_cast<nvmlAffinityScope_t>(NVML_AFFINITY_SCOPE_NODE)) ==
          NVML_SUCCESS &&
      std::has_single_bit(nodes)) {
    card.numa_node = std::countr_zero(nodes);
  }
  unsigned current = 0;
  unsigned pending = 0;
  card.partitioned = handle.parent == nullptr &&
                     call(api().mig_mode, handle.device, &current, &pending) == NVML_SUCCESS && current != 0;
  const MigCard mig(*library, handle.device);
  card.cuts = card.partitioned && mig.can_change() && mig.has_whole_ones_only();
  const Verdict health = verdict(whole);
  card.healthy = health.healthy;
  card.health_message = health.message;
  return card;
}

Verdict Probe::Impl::verdict(nvmlDevice_t device) const {
  unsigned long long errors = 0;
  const nvmlReturn_t code =
      call(api().total_ecc_errors, device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &errors);
  if (code == NVML_ERROR_GPU_IS_LOST) return {false, "the card is lost: " + library->error_text(code), true};
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  if (call(api().remapped_rows, device, &corrected, &uncorrected, &pending, &failed) == NVML_SUCCESS && failed != 0) {
    return {false, "row remapping failed", false};
  }
  return {};
}

void Probe::Impl::read_memory(nvmlDevice_t device, CardStatus& status, Verdict& health) const {
  nvmlMemory_v2_t memory_v2{};
  memory_v2.version = nvmlMemory_v2;
  nvmlReturn_t code = call(api().memory_v2, device, &memory_v2);
  if (code == NVML_SUCCESS) {
    status.memory_used_bytes = static_cast<int64_t>(memory_v2.used);
    return;
  }
  nvmlMemory_t memory{};
  code = call(api().memory, device, &memory);
  if (code == NVML_SUCCESS) {
    status.memory_used_bytes = static_cast<int64_t>(memory.used);
  } else if (code != NVML_ERROR_FUNCTION_NOT_FOUND && code != NVML_ERROR_NOT_SUPPORTED && health.healthy) {
    health = {false, "the card does not answer: " + library->error_text(code), code == NVML_ERROR_GPU_IS_LOST};
  }
}

void Probe::Impl::read_sensors(nvmlDevice_t device, CardStatus& status) const {
  nvmlUtilization_t utilization{};
  if (call(api().utilization, device, &utilization) == NVML_SUCCESS) status.utilization_percent = utilization.gpu;
  unsigned value = 0;
  if (call(api().temperature, device, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS) status.temperature_celsius = value;
  if (call(api().power, device, &value) == NVML_SUCCESS) status.power_milliwatts = value;
}

std::vector<CardProcess> Probe::Impl::processes(const Handle& handle) const {
  nvmlDevice_t device = handle.device;
  std::map<int64_t, int64_t> memory_by_pid;
  if (auto compute = list_processes<nvmlProcessInfo_t>(api().compute_processes, device)) {
    // Those on an instance are told by its own handle.
    if (has_partitions(handle.uuid)) {
      std::erase_if(*compute, [](const nvmlProcessInfo_t& info) { return info.gpuInstanceId != kNoInstance; });
    }
    add_processes(memory_by_pid, *compute, handle.memory_bytes);
  } else if (const auto old = list_processes<nvmlProcessInfo_v1_t>(api().compute_processes_v1, device)) {
    add_processes(memory_by_pid, *old, handle.memory_bytes);
  }
  if (const auto graphics = list_processes<nvmlProcessInfo_t>(api().graphics_processes, device)) {
    add_processes(memory_by_pid, *graphics, handle.memory_bytes);
  }
  std::vector<CardProcess> result;
  result.reserve(memory_by_pid.size());
  for (const auto& [pid, bytes] : memory_by_pid) result.push_back({pid, bytes});
  return result;
}

bool Probe::Impl::has_partitions(const std::string& uuid) const {
  return std::ranges::find(handles, uuid, &Handle::parent_uuid) != handles.end();
}

// What befalls a card befalls its instances.
void Probe::Impl::share_events(std::vector<HealthEvent>& reported) const {
  const std::vector<HealthEvent> of_cards = reported;
  for (const HealthEvent& event : of_cards) {
    for (const Handle& handle : handles) {
      if (handle.parent == nullptr || handle.parent_uuid != event.uuid) continue;
      reported.push_back({handle.uuid, event.message, event.needs_reset});
    }
  }
}

std::vector<HealthEvent> Probe::Impl::drain_events() const {
  std::vector<HealthEvent> result;
  if (events == nullptr) return result;
  for (int i = 0; i < kMaxEventsPerCall; ++i) {
    nvmlEventData_t data{};
    if (call(api().event_set_wait, events, &data, 0U) != NVML_SUCCESS) break;
    const std::string uuid = text_of(api().uuid, data.device);
    const auto by_handle = std::ranges::find(handles, data.device, &Handle::device);
    const std::string& name = uuid.empty() && by_handle != handles.end() ? by_handle->uuid : uuid;
    if (data.eventType == static_cast<uint64_t>(nvmlEventTypeXidCriticalError)) {
      if (!is_application_xid(data.eventData)) {
        result.push_back({name, fmt::format("XID {}", data.eventData), is_reset_xid(data.eventData)});
      }
    } else {
      result.push_back({name, "double-bit ECC error", false});
    }
  }
  return result;
}

// The driver counts since its last start or reset: only growth is news.
std::optional<HealthEvent> Probe::Impl::new_ecc_errors(const Handle& handle) {
  unsigned long long errors = 0;
  if (call(api().total_ecc_errors, handle.device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &errors) !=
      NVML_SUCCESS) {
    return std::nullopt;
  }
  const uint64_t before = std::exchange(ecc_errors[handle.uuid], errors);
  if (errors <= before) return std::nullopt;
  return HealthEvent{handle.uuid, fmt::format("uncorrectable ECC errors: {}", errors), false};
}

std::optional<CardTimes> Probe::Impl::times(const Handle& handle) {
  CardTimes result{handle.uuid, {}};
  uint64_t& before = sampled_us[handle.uuid];
  std::vector<nvmlProcessUtilizationSample_t> samples(256);
  auto count = static_cast<unsigned>(samples.size());
  nvmlReturn_t code =
      call(api().process_utilization, handle.device, samples.data(), &count, static_cast<unsigned long long>(before));
  if (code == NVML_ERROR_INSUFFICIENT_SIZE && count > samples.size() && count <= kMaxProcesses) {
    samples.resize(count);
    code =
        call(api().process_utilization, handle.device, samples.data(), &count, static_cast<unsigned long long>(before));
  }
  // Nobody had the card. When somebody has it again, the driver does not say since when: that sample is left out.
  if (code == NVML_ERROR_NOT_FOUND) {
    before = 0;
    return result;
  }
  if (code != NVML_SUCCESS) return std::nullopt;
  samples.resize(std::min<size_t>(count, samples.size()));
  const uint64_t since = before;
  for (const nvmlProcessUtilizationSample_t& sample : samples) {
    if (sample.timeStamp <= since) continue;
    before = std::max<uint64_t>(before, sample.timeStamp);
    const auto span_ns = static_cast<int64_t>(std::min<uint64_t>(sample.timeStamp - since, kLongestSampleUs)) * 1000;
    result.processes.push_back(
        {static_cast<int64_t>(sample.pid), span_ns / 100 * std::min<int64_t>(sample.smUtil, 100)});
  }
  if (since == 0) return std::nullopt;
  return result;
}

Probe::Probe(ProbeOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
}
Probe::~Probe() = default;

Inventory Probe::discover() {
  if (std::exchange(impl_->lost, false) && impl_->state == LibraryState::kOk) {
    impl_->forget_events();
    (void)call(impl_->api().shutdown);
    impl_->state = LibraryState::kInitFailed;
  }
  impl_->ensure_open();
  if (impl_->state == LibraryState::kOk) impl_->enumerate();
  Inventory result{impl_->state, impl_->detail, impl_->path, {}};
  if (impl_->state != LibraryState::kOk) return result;
  impl_->register_events();
  std::array<char, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE> driver{};
  (void)call(impl_->api().driver_version, driver.data(), static_cast<unsigned>(driver.size() - 1));
  int cuda = 0;
  (void)call(impl_->api().cuda_version, &cuda);
  for (size_t i = 0; i < impl_->handles.size(); ++i) {
    Result<Card> card = impl_->describe(impl_->handles[i], static_cast<int64_t>(i));
    if (!card) {  // it cannot be named or sized: the parent keeps what it knew of it, as unhealthy
      impl_->skip(impl_->handles[i].number, card.error().message);
      continue;
    }
    card->driver_version = driver.data();
    card->runtime_version = cuda_version_text(cuda);
    result.cards.push_back(*std::move(card));
  }
  result.skipped = impl_->skipped;
  return result;
}

StatusReport Probe::status() {
  if (impl_->state != LibraryState::kOk || impl_->handles.empty()) (void)discover();
  StatusReport report{impl_->state, impl_->detail, {}, {}};
  if (impl_->state != LibraryState::kOk) return report;
  for (const Impl::Handle& handle : impl_->handles) {
    CardStatus status;
    status.uuid = handle.uuid;
    Verdict health = impl_->verdict(handle.parent != nullptr ? handle.parent : handle.device);
    impl_->read_memory(handle.device, status, health);
    impl_->read_sensors(handle.device, status);
    status.processes = impl_->processes(handle);
    status.healthy = health.healthy;
    status.health_message = health.message;
    impl_->lost = impl_->lost || health.lost;
    report.cards.push_back(std::move(status));
  }
  report.events = impl_->drain_events();
  for (const Impl::Handle& handle : impl_->handles) {
    if (handle.parent != nullptr) continue;
    if (auto event = impl_->new_ecc_errors(handle)) report.events.push_back(*std::move(event));
  }
  impl_->share_events(report.events);
  return report;
}

TimesReport Probe::times() {
  TimesReport report;
  if (impl_->state != LibraryState::kOk) return report;
  for (const Impl::Handle& handle : impl_->handles) {
    if (handle.parent != nullptr) continue;  // the driver keeps no such account of instances
    if (auto times = impl_->times(handle)) report.push_back(*std::move(times));
  }
  return report;
}

Result<MigCard> Probe::Impl::mig_card(const PartitionOrder& order) const {
  if (state != LibraryState::kOk) return fail(Code::kUnavailable, detail);
  const auto card = std::ranges::find(handles, order.parent_uuid, &Handle::uuid);
  if (card == handles.end() || card->parent != nullptr) return fail(Code::kNotFound, "no card " + order.parent_uuid);
  return MigCard(*library, card->device);
}

Result<int64_t> Probe::place(const PartitionOrder& order, const std::vector<int64_t>& /*taken*/) {
  (void)discover();
  HEDDLE_TRY(const MigCard card, impl_->mig_card(order));
  HEDDLE_CHECK_OK(card.check_vacant(order.profile, order.place));
  return order.place;
}

Result<Inventory> Probe::make(const PartitionOrder& order) {
  (void)discover();
  HEDDLE_TRY(const MigCard card, impl_->mig_card(order));
  HEDDLE_CHECK_OK(card.make(order.profile, order.place));
  return discover();
}

Result<Inventory> Probe::drop(const PartitionOrder& order) {
  Inventory now = discover();
  // With the driver everything that it made has gone.
  if (impl_->state == LibraryState::kMissing) return fail(Code::kNotFound, impl_->detail);
  if (impl_->state != LibraryState::kOk) return fail(Code::kUnavailable, impl_->detail);
  const auto known = std::ranges::find(now.cards, order.parent_uuid, &Card::uuid);
  // Without the card, or without its MIG mode, nothing of it is left.
  if (known == now.cards.end() || !known->partitioned) return now;
  HEDDLE_TRY(const MigCard card, impl_->mig_card(order));
  HEDDLE_CHECK_OK(card.drop(order.profile, order.place));
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
    if (operation == kAskTimes) return times_json(probe.times());
    return answer_partition_call(operation, partitions);
  });
}

}  // namespace heddle::vendors::nvidia
