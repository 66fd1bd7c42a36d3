#include "agent/preparer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "agent/cdi.h"
#include "agent/names.h"
#include "base/file.h"
#include "base/random.h"

namespace heddle::agent {
namespace {

// A claim's uid becomes a file name: only what the API server makes is let through.
Result<void> check_uid(const std::string& uid) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (uid.empty() || uid.size() > 63 || !std::ranges::all_of(uid, is_plain) || uid.front() == '-') {
    return fail(Code::kInvalidArgument, "not a claim uid: '" + uid + "'");
  }
  return {};
}

// Of a partition that is made for the claim, what was chosen and learnt of it when it was made does not count.
bool same_device(GrantedDevice a, GrantedDevice b) {
  for (GrantedDevice* device : {&a, &b}) {
    if (!device->made) continue;
    device->made->order.place = -1;
    device->made->counters.clear();
    device->card_uuid.clear();
    device->gpu_instance = device->compute_instance = -1;
  }
  return a == b;
}

bool same_cards(const ClaimRecord& a, const ClaimRecord& b) {
  return std::ranges::equal(a.devices, b.devices, same_device);
}

}  // namespace

// Waits until no other call works on the claim.
class Preparer::ClaimTurn {
 public:
  ClaimTurn(Preparer& owner, const std::string& uid) : owner_(owner), uid_(uid) {
    std::unique_lock lock(owner_.mutex_);
    owner_.turn_.wait(lock, [&] { return !owner_.busy_.contains(uid_); });
    owner_.busy_.insert(uid_);
  }
  ClaimTurn(const ClaimTurn&) = delete;
  ClaimTurn& operator=(const ClaimTurn&) = delete;
  ~ClaimTurn() {
    const std::lock_guard lock(owner_.mutex_);
    owner_.busy_.erase(uid_);
    owner_.turn_.notify_all();
  }

 private:
  Preparer& owner_;
  const std::string uid_;
};

Result<std::unique_ptr<Preparer>> Preparer::open(PreparerOptions options, const Logger& log) {
  std::unique_ptr<Preparer> preparer(new Preparer(std::move(options), log));
  HEDDLE_CHECK_OK(preparer->start());
  return preparer;
}

Result<void> Preparer::start() {
  HEDDLE_CHECK_OK(make_directories(claims_dir(), 0755));
  HEDDLE_CHECK_OK(make_directories(options_.cdi_root, 0755));
  const Result<std::string> boot = read_file(options_.boot_id_file, 4096);
  boot_id_ = boot ? boot->substr(0, boot->find('\n')) : std::string();
  HEDDLE_TRY(node_lock_, NodeLock::open(options_.state_dir + "/node.lock", options_.lock_patience));
  HEDDLE_TRY(const NodeLock::Hold hold, node_lock_->acquire([] { return Result<void>(); }));
  for (const char* vendor : {"nvidia", "ascend"}) {
    const std::string& library = guard_library_of(vendor);
    if (library.empty()) continue;
    HEDDLE_TRY(guards_[vendor], install_guard(options_.state_dir, library, options_.guard_hook));
  }
  HEDDLE_CHECK_OK(reload());
  remove_strays();
  collect_guards();
  note_generation();
  return {};
}

Result<void> Preparer::reload() {
  HEDDLE_TRY(const std::vector<std::string> names, list_directory(claims_dir()));
  std::vector<ClaimRecord> found;
  for (const std::string& name : names) {
    const Result<std::string> text = read_file(claim_dir(name) + "/claim.json", size_t{1} << 20);
    if (!text) continue;  // a call was killed before its record was written: remove_strays()
    Result<ClaimRecord> record = parse_record(*text);
    if (record && record->uid == name) {
      found.push_back(*std::move(record));
    } else {
      log_.error("a claim record is damaged; its limits tell what it holds", {{"folder", claim_dir(name)}});
      if (std::optional<ClaimRecord> salvaged = salvage(name)) found.push_back(*std::move(salvaged));
    }
  }
  const std::lock_guard lock(mutex_);
  records_ = std::move(found);
  return {};
}

std::optional<ClaimRecord> Preparer::salvage(const std::string& uid) const {
  ClaimRecord record;
  record.uid = uid;
  for (const std::string& folder : list_directory(claim_dir(uid)).value_or(std::vector<std::string>())) {
    const Result<std::string> text = read_file(claim_dir(uid) + "/" + folder + "/limits", size_t{1} << 20);
    const Result<guard::ClaimLimits> limits = text ? guard::decode_limits(*text) : tl::unexpected(text.error());
    if (!limits || limits->claim_uid != uid) continue;
    for (const guard::DeviceLimit& limit : limits->devices) {
      GrantedDevice device;
      device.request = folder;
      device.card_uuid = limit.uuid;
      device.memory_bytes = limit.memory_bytes;
      device.mps = limits->mask_percent > 0;
      device.cores = device.mps ? limits->mask_percent : limit.cores_percent;
      device.virtual_bytes = limit.virtual_bytes;
      record.devices.push_back(std::move(device));
    }
  }
  return record.devices.empty() ? std::nullopt : std::optional(std::move(record));
}

// Each change of the set of records is followed by a new random generation, so that the other instance reads again.
Result<void> Preparer::reload_if_changed() {
  const Result<std::string> now = read_file(options_.state_dir + "/generation", 4096);
  {
    const std::lock_guard lock(mutex_);
    if (now && *now == generation_) return {};
  }
  HEDDLE_CHECK_OK(reload());
  const std::lock_guard lock(mutex_);
  generation_ = now ? *now : std::string();
  return {};
}

void Preparer::note_generation() {
  const Result<uint64_t> random = random_seed();
  const std::string text = fmt::format("{:016x}", random ? *random : 0);
  const std::lock_guard lock(mutex_);
  generation_ = text;
  // Inside the lock: the file and the member change together. Not durable and not atomic: any other text, also a part
  // of this one, only makes a process read the records again.
  const UniqueFd fd(
      ::open((options_.state_dir + "/generation").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (fd.valid() && ::write(fd.get(), text.data(), text.size()) < 0) generation_.clear();
}

void Preparer::remove_strays() {
  std::set<std::string> known;
  for (const ClaimRecord& record : records()) known.insert(record.uid);
  if (const auto names = list_directory(claims_dir())) {
    for (const std::string& name : *names) {
      // A record that is there but cannot be read is of a claim that may be in use.
      if (file_exists(claim_dir(name) + "/claim.json")) known.insert(name);
      if (!known.contains(name)) (void)remove_files(name);
    }
  }
  if (const auto names = list_directory(options_.cdi_root)) {
    for (const std::string& name : *names) {
      if (!name.starts_with(kCdiFilePrefix)) continue;
      const std::string rest = name.substr(kCdiFilePrefix.size());
      // Also the temporary file of a write that was killed.
      if (!rest.ends_with(".json") || !known.contains(rest.substr(0, rest.size() - 5))) {
        (void)remove_file(options_.cdi_root + "/" + name);
      }
    }
  }
}

// Takes the shares in memory before anything is written, so that parallel calls cannot take them twice.
Result<ClaimRecord> Preparer::reserve(ClaimRecord grant) {
  const std::lock_guard lock(mutex_);
  const auto guard = grant.devices.empty() ? guards_.end() : guards_.find(vendor_of(grant.devices.front()));
  const std::string guard_version = guard == guards_.end() ? std::string() : guard->second.name;
  grant.guard_version = guard_version;
  grant.boot_id = boot_id_;
  const auto known = std::ranges::find(records_, grant.uid, &ClaimRecord::uid);
  if (known == records_.end()) {
    HEDDLE_CHECK_OK(check_capacity(records_, grant));
    return records_.emplace_back(std::move(grant));
  }
  if (known->salvaged()) {
    HEDDLE_CHECK_OK(check_capacity(records_, grant));
    return *known = std::move(grant);
  }
  if (!same_cards(*known, grant)) {
    // Within one boot its containers may still run on the old cards; after a boot, device numbers may have moved.
    if (known->boot_id == boot_id_) {
      return fail(Code::kConflict,
                  "claim " + grant.key() + " is prepared with other devices; it must be unprepared first");
    }
    HEDDLE_CHECK_OK(check_capacity(records_, grant));
  }
  known->devices = grant.devices;
  for (const PodReference& pod : grant.pods) {
    if (std::ranges::find(known->pods, pod) == known->pods.end()) known->pods.push_back(pod);
  }
  if (known->boot_id != boot_id_) known->guard_version = guard_version;  // no container from before the boot is left
  known->boot_id = boot_id_;
  return *known;
}

Result<ClaimRecord> Preparer::prepare(ClaimRecord grant) {
  HEDDLE_CHECK_OK(check_uid(grant.uid));
  HEDDLE_TRY(const NodeLock::Hold hold, node_lock_->acquire([this] { return reload_if_changed(); }));
  const ClaimTurn turn(*this, grant.uid);
  const std::string uid = grant.uid;
  const std::vector<ClaimRecord> before = records();
  const bool fresh = std::ranges::find(before, uid, &ClaimRecord::uid) == before.end();
  HEDDLE_TRY(ClaimRecord record, place_and_reserve(std::move(grant)));
  Result<void> done = write_record(record);
  if (done && has_made(record)) {
    Result<ClaimRecord> made = make_partitions(record);
    if (made) {
      record = *std::move(made);
    } else {
      done = tl::unexpected(made.error());
    }
  }
  if (done) done = materialise(record);
  if (!done) {
    if (fresh) give_back(record);  // the kubelet may never come again for this claim
    return tl::unexpected(done.error());
  }
  options_.before_step("answer");
  return record;
}

void Preparer::give_back(const ClaimRecord& record) {
  const Result<void> removed = remove_files(record.uid);
  if (removed || !has_made(record)) return forget(record.uid);
  // A partition may be left, which counts until the claim is unprepared.
  log_.warning("a claim that was not prepared left a partition behind",
               {{"claim", record.key()}, {"why", removed.error().text()}});
}

Result<ClaimRecord> Preparer::place_and_reserve(ClaimRecord grant) {
  if (!has_made(grant)) return reserve(std::move(grant));
  if (options_.partitions == nullptr) return fail(Code::kUnsupported, "no partitions are made here");
  const std::lock_guard turn(placing_);
  options_.before_step("place");
  const std::vector<ClaimRecord> now = records();
  HEDDLE_TRY(ClaimRecord placed, options_.partitions->with_places(std::move(grant), now, boot_id_));
  return reserve(std::move(placed));
}

// The record with the partitions that its devices are, each of which is there then.
Result<ClaimRecord> Preparer::make_partitions(ClaimRecord record) {
  if (options_.partitions == nullptr) return fail(Code::kUnsupported, "no partitions are made here");
  const std::vector<GrantedDevice> before = record.devices;
  for (GrantedDevice& device : record.devices) {
    if (!device.made) continue;
    options_.before_step("make partition");
    HEDDLE_TRY(device, options_.partitions->make(device));
  }
  options_.before_step("partitions made");
  if (record.devices == before) return record;
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(records_, record.uid, &ClaimRecord::uid);
    if (known != records_.end()) known->devices = record.devices;
  }
  HEDDLE_CHECK_OK(write_record(record));
  return record;
}

Result<void> Preparer::drop_partitions(const std::string& claim_uid) {
  const std::vector<ClaimRecord> now = records();
  const auto record = std::ranges::find(now, claim_uid, &ClaimRecord::uid);
  if (record == now.end() || !has_made(*record)) return {};
  if (options_.partitions == nullptr) return fail(Code::kUnsupported, "no partitions are taken away here");
  const auto boot = record->boot_id == boot_id_ ? PartitionMaker::Boot::kSame : PartitionMaker::Boot::kEarlier;
  for (const GrantedDevice& device : record->devices) {
    if (!device.made) continue;
    options_.before_step("drop partition");
    HEDDLE_CHECK_OK(options_.partitions->drop(device, boot));
  }
  return {};
}

Result<void> Preparer::write_record(const ClaimRecord& record) {
  options_.before_step("folder");
  HEDDLE_CHECK_OK(make_directories(claim_dir(record.uid), 0755));
  options_.before_step("record");
  const std::string path = claim_dir(record.uid) + "/claim.json";
  const std::string text = record_json(record);
  const Result<std::string> before = read_file(path);
  if (before && *before == text) return {};
  HEDDLE_CHECK_OK(write_file_atomic(path, text, 0600));
  note_generation();
  return {};
}

Result<void> Preparer::materialise(const ClaimRecord& record) {
  const FolderPlan plan = plan_folder(record);
  guard::ClaimLimits limits{record.uid, plan.name, {}, {}, options_.context_bytes};
  for (const GrantedDevice& device : plan.devices) {
    // What MPS holds is not paced as well.
    const int64_t paced = device.mps ? 0 : std::min<int64_t>(device.cores, 100);
    limits.devices.push_back({device.card_uuid, device.memory_bytes, static_cast<int>(paced), device.whole_card(), 0});
    if (device.mps) {
      limits.mask_percent = static_cast<int>(device.cores);
      limits.mask_pipe = kMpsPipeInContainer;
    }
    if (vendor_of(device) == "ascend") limits.devices.back().number = device.minor;
    limits.priority = std::max(limits.priority, static_cast<int>(std::min<int64_t>(device.priority, 1)));
    limits.devices.back().gives_way = device.priority > 0 && device.cores == 0;
    limits.devices.back().virtual_bytes = device.virtual_bytes;
  }
  options_.before_step("limits");
  HEDDLE_TRY(const GuardFolder folder,
             write_guard_folder(claim_dir(record.uid) + "/" + plan.name, limits, options_.usage));
  if (!folder.note.empty()) {
    const std::lock_guard lock(mutex_);
    if (!warned_plain_) log_.warning("usage files lie in plain folders", {{"why", folder.note}});
    warned_plain_ = true;
  }
  options_.before_step("cdi");
  return write_cdi(record, plan, folder);
}

const std::string& Preparer::guard_library_of(const std::string& vendor) const {
  return vendor == "ascend" ? options_.ascend_guard_library : options_.guard_library;
}

Result<GuardVersion> Preparer::guard_of(const ClaimRecord& record, const FolderPlan& plan) const {
  const std::string vendor = vendor_of(plan.devices.front());
  const bool mixed =
      std::ranges::any_of(plan.devices, [&](const GrantedDevice& device) { return vendor_of(device) != vendor; });
  // A container has one guard.
  if (mixed)
    return fail(Code::kUnsupported, fmt::format("claim {} has shares of cards of several vendors", record.key()));
  const std::string& library = guard_library_of(vendor);
  if (library.empty()) return fail(Code::kUnsupported, "this agent has no guard for shares of " + vendor);
  Result<GuardVersion> guard = find_guard(options_.state_dir, record.guard_version);
  // Another instance of the agent may have seen it unused and removed it.
  return guard ? guard : install_guard(options_.state_dir, library, options_.guard_hook);
}

// What makes the processes of a container clients of the node's MPS. The guard keeps the percentage; the memory limit
// is the guard's too, and MPS' own stands behind it for who leaves the guard.
Result<void> Preparer::add_mask(const FolderPlan& plan, vendors::Injection& injection) const {
  if (plan.devices.empty() || !plan.devices.front().mps) return {};
  if (options_.mps_pipe.empty()) {
    return fail(Code::kUnavailable, "isolation mps: this agent knows no MPS control daemon (--mps-pipe)");
  }
  // Sockets can be used through it, and nobody's daemon can be put in their place.
  injection.mounts.push_back({options_.mps_pipe, std::string(kMpsPipeInContainer), true});
  if (!options_.mps_shm.empty()) injection.mounts.push_back({options_.mps_shm, "/dev/shm", false});
  std::string memory;
  for (const GrantedDevice& device : plan.devices) {
    memory += fmt::format("{}{}={}M", memory.empty() ? "" : ",", device.card_uuid, device.memory_bytes >> 20);
  }
  injection.environment.emplace_back("CUDA_MPS_PIPE_DIRECTORY", kMpsPipeInContainer);
  injection.environment.emplace_back("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                                     fmt::format("{}", plan.devices.front().cores));
  injection.environment.emplace_back("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", memory);
  return {};
}

Result<void> Preparer::write_cdi(const ClaimRecord& record, const FolderPlan& plan, const GuardFolder& folder) {
  CdiClaim claim;
  claim.uid = record.uid;
  const auto add = [](vendors::Injection from, vendors::Injection& to) {
    std::ranges::move(from.nodes, std::back_inserter(to.nodes));
    std::ranges::move(from.mounts, std::back_inserter(to.mounts));
    std::ranges::move(from.environment, std::back_inserter(to.environment));
  };
  std::map<std::string, vendors::Injection> by_request;
  std::map<std::string, std::vector<vendors::Card>> by_vendor;
  for (const GrantedDevice& device : record.devices) {
    vendors::Card card;
    card.minor = device.minor;
    card.uuid = device.card_uuid;
    card.partition.gpu_instance = device.gpu_instance;
    card.partition.compute_instance = device.compute_instance;
    const std::string vendor = vendor_of(device);
    HEDDLE_TRY(vendors::Injection injection, vendors::card_injection(vendor, options_.injection, card));
    add(std::move(injection), by_request[device.request]);
    by_vendor[vendor];
  }
  for (const GrantedDevice& device : plan.devices) {
    vendors::Card card;
    card.minor = device.minor;
    card.uuid = device.card_uuid;
    card.partition.gpu_instance = device.gpu_instance;
    by_vendor[vendor_of(device)].push_back(std::move(card));
  }
  const auto spread = by_request.size() == 1 ? vendors::Spread::kEverywhere : vendors::Spread::kByRequest;
  for (const auto& [vendor, cards] : by_vendor) {
    HEDDLE_TRY(vendors::Injection injection, vendors::common_injection(vendor, options_.injection));
    add(std::move(injection), claim.common);
    for (auto& variable : vendors::visible_cards(vendor, cards, spread)) {
      claim.common.environment.push_back(std::move(variable));
    }
  }
  HEDDLE_CHECK_OK(add_mask(plan, claim.common));
  for (auto& [name, injection] : by_request) claim.requests.push_back({name, std::move(injection)});
  if (!std::ranges::all_of(plan.devices, &GrantedDevice::whole_card)) {
    HEDDLE_TRY(const GuardVersion guard, guard_of(record, plan));
    claim.guard = CdiGuard{folder.limits,      folder.usage, guard.library_dir,
                           guard.preload_file, guard.hook,   claim_dir(record.uid) + "/" + plan.name};
  }
  const std::string text = cdi_json(claim);
  const std::string path = cdi_file(options_.cdi_root, record.uid);
  const Result<std::string> before = read_file(path);
  if (before && *before == text) return {};
  HEDDLE_CHECK_OK(make_directories(options_.cdi_root, 0755));
  return write_file_atomic(path, text, 0644);
}

Result<void> Preparer::unprepare(const std::string& claim_uid) {
  HEDDLE_CHECK_OK(check_uid(claim_uid));
  HEDDLE_TRY(const NodeLock::Hold hold, node_lock_->acquire([this] { return reload_if_changed(); }));
  const ClaimTurn turn(*this, claim_uid);
  HEDDLE_CHECK_OK(remove_files(claim_uid));
  forget(claim_uid);
  collect_guards();
  options_.before_step("unprepared");
  return {};
}

// The record goes last: until then the claim still counts, and a killed call is taken up again.
Result<void> Preparer::remove_files(const std::string& claim_uid) {
  options_.before_step("remove cdi");
  HEDDLE_CHECK_OK(remove_file(cdi_file(options_.cdi_root, claim_uid)));
  const std::string folder = claim_dir(claim_uid);
  const Result<std::vector<std::string>> names = list_directory(folder);
  if (!names) return drop_partitions(claim_uid);
  options_.before_step("remove folders");
  for (const std::string& name : *names) {
    if (name != "claim.json") HEDDLE_CHECK_OK(remove_guard_folder(fmt::format("{}/{}", folder, name)));
  }
  HEDDLE_CHECK_OK(drop_partitions(claim_uid));
  options_.before_step("remove record");
  return remove_tree(folder);
}

void Preparer::forget(const std::string& claim_uid) {
  {
    const std::lock_guard lock(mutex_);
    if (std::erase_if(records_, [&](const ClaimRecord& record) { return record.uid == claim_uid; }) == 0) return;
  }
  note_generation();
}

void Preparer::collect_guards() {
  const std::lock_guard lock(mutex_);
  std::set<std::string> used;
  for (const auto& [vendor, guard] : guards_) used.insert(guard.name);
  for (const ClaimRecord& record : records_) {
    if (record.salvaged()) return;  // which guard its containers load is not known
    used.insert(record.guard_version);
  }
  if (const auto removed = remove_unused_guards(options_.state_dir, used); !removed) {
    log_.warning("an unused guard version cannot be removed", {{"why", removed.error().text()}});
  }
}

void Preparer::repair_all() {
  for (const ClaimRecord& record : records()) {
    const Result<NodeLock::Hold> hold = node_lock_->acquire([this] { return reload_if_changed(); });
    if (!hold) return;
    const ClaimTurn turn(*this, record.uid);
    if (record.salvaged()) continue;
    // It may have been unprepared, or prepared with other devices, since the list was taken.
    const std::vector<ClaimRecord> now = records();
    if (std::ranges::find(now, record) == now.end()) continue;
    const bool made = has_made(record);
    if (made && record.boot_id != boot_id_) continue;  // made anew when it is prepared again
    const Result<ClaimRecord> whole = made ? make_partitions(record) : record;
    const Result<void> done = whole ? materialise(*whole) : tl::unexpected(whole.error());
    if (!done) {
      log_.warning("a prepared claim cannot be made whole again",
                   {{"claim", record.key()}, {"why", done.error().text()}});
    }
  }
}

std::vector<ClaimRecord> Preparer::records() const {
  const std::lock_guard lock(mutex_);
  return records_;
}

std::string Preparer::usage_file(const ClaimRecord& record) const {
  return claim_dir(record.uid) + "/" + plan_folder(record).name + "/usage";
}

std::string Preparer::limits_file(const ClaimRecord& record) const {
  return claim_dir(record.uid) + "/" + plan_folder(record).name + "/limits";
}

}  // namespace heddle::agent
