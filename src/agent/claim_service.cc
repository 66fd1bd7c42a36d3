#include "agent/claim_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "agent/cdi.h"
#include "agent/names.h"
#include "agent/slices.h"
#include "codec/codec.h"

namespace heddle::agent {
namespace {

// "req/sub" -> "req": the kubelet knows only the names that a container can list.
std::string base_request(const std::string& request) {
  return request.substr(0, request.find('/'));
}

// The consumed capacity by its bare or its qualified name; the whole capacity when the allocation names none.
Result<int64_t> consumed(const model::DeviceResult& result, const std::string& name, int64_t whole) {
  auto found = result.consumed_capacity.find(name);
  if (found == result.consumed_capacity.end()) {
    found = result.consumed_capacity.find(fmt::format("{}/{}", kDriver, name));
  }
  if (found == result.consumed_capacity.end()) return whole;
  const std::optional<int64_t> value = found->second.value();
  if (!value || *value < 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("consumed {} of {} is not a whole number of at least 0", name, result.device));
  }
  return *value;
}

// What an allocated device is here: a card or partition that exists, or a partition of a card that is made for it.
struct Offered {
  const vendors::Card* card = nullptr;
  const Parts* parts = nullptr;
  const model::Device* part = nullptr;
};

Result<Offered> find_offered(const model::DeviceResult& result, const NodeCards& node) {
  for (const vendors::Card& card : node.cards) {
    if (device_name(card) == result.device && pool_name(node.node, card.vendor) == result.pool) return Offered{&card};
  }
  for (const Parts& parts : node.parts) {
    if (pool_name(node.node, parts.card.vendor) != result.pool) continue;
    const auto part = std::ranges::find(parts.devices, result.device, &model::Device::name);
    if (part != parts.devices.end()) return Offered{&parts.card, &parts, &*part};
  }
  return fail(Code::kNotFound,
              fmt::format("node {} has no device {} in pool {}", node.node, result.device, result.pool));
}

MadePartition made_partition(const Offered& offered) {
  MadePartition made;
  made.order.parent_uuid = offered.card->uuid;
  const auto& attributes = offered.part->attributes;
  if (const auto profile = attributes.find("profile"); profile != attributes.end()) {
    if (const auto* name = std::get_if<std::string>(&profile->second)) made.order.profile = *name;
  }
  if (const auto place = attributes.find("placement"); place != attributes.end()) {
    if (const auto* start = std::get_if<int64_t>(&place->second)) made.order.place = *start;
  }
  const auto& totals = offered.parts->counters.counters;
  for (const model::CounterConsumption& consumption : offered.part->consumes_counters) {
    for (const auto& [name, use] : consumption.counters) {
      const auto total = totals.find(name);
      made.counters[name] = {use.value().value_or(0), total == totals.end() ? 0 : total->second.value().value_or(0)};
    }
  }
  return made;
}

Result<GrantedDevice> device_grant(const model::DeviceResult& result, const NodeCards& node, bool prepared) {
  if (result.admin_access) {
    return fail(Code::kUnsupported, fmt::format("{}: admin access is not offered by this driver", result.device));
  }
  HEDDLE_TRY(const Offered offered, find_offered(result, node));
  const vendors::Card* card = offered.card;
  const auto owner = node.foreign.find(card->uuid);
  if (!prepared && owner != node.foreign.end()) {
    return fail(Code::kPermissionDenied,
                fmt::format("{} is served or used by someone else: {}", result.device, owner->second));
  }
  if (!prepared && !card->healthy) {
    return fail(Code::kUnavailable, fmt::format("{} is unhealthy: {}", result.device, card->health_message));
  }
  GrantedDevice device;
  device.request = base_request(result.request);
  device.pool = result.pool;
  device.device = result.device;
  device.share_id = result.share_id;
  device.minor = card->minor;
  if (offered.part == nullptr) {
    device.card_uuid = card->uuid;
    device.gpu_instance = card->partition.gpu_instance;
    device.compute_instance = card->partition.compute_instance;
    device.card_memory_bytes = grantable_memory(*card);
  } else {
    const auto memory = offered.part->capacity.find("memory");
    if (memory != offered.part->capacity.end()) device.card_memory_bytes = memory->second.value.value().value_or(0);
    device.made = made_partition(offered);
  }
  HEDDLE_TRY(device.memory_bytes, consumed(result, "memory", device.card_memory_bytes));
  HEDDLE_TRY(device.cores, consumed(result, "cores", 100));
  if (device.memory_bytes == 0) return fail(Code::kInvalidArgument, result.device + ": a share without memory");
  return device;
}

// What the claim's ShareConfigs say for a request ("req" or "req/alternative"); its own come after those of its
// classes.
Result<model::ShareConfig> share_of(const model::ResourceClaim& claim, const std::string& request) {
  model::ShareConfig all;
  const auto take = [&](const model::OpaqueConfig& config) -> Result<void> {
    const bool meant = config.requests.empty() ||
                       std::ranges::find(config.requests, request) != config.requests.end() ||
                       std::ranges::find(config.requests, base_request(request)) != config.requests.end();
    if (config.driver != kDriver || !meant) return {};
    HEDDLE_TRY(const auto share, codec::parse_share_config(config.parameters_json));
    if (!share) return {};
    if (share->priority) all.priority = share->priority;
    if (share->isolation) all.isolation = share->isolation;
    if (share->virtual_memory) all.virtual_memory = share->virtual_memory;
    return {};
  };
  for (const model::AllocatedConfig& one : claim.allocation->config) HEDDLE_CHECK_OK(take(one.config));
  if (!claim.allocation->config.empty()) return all;
  for (const model::OpaqueConfig& config : claim.spec.config) HEDDLE_CHECK_OK(take(config));
  return all;
}

// Virtual memory is managed memory of CUDA that moves between host and card by itself, which cards do since Pascal.
Result<int64_t> virtual_memory(int64_t bytes, const vendors::Card& card, const GrantedDevice& device) {
  constexpr const char* kField = "virtualMemory";
  if (card.vendor != "nvidia") {
    return fail(Code::kUnsupported, fmt::format("{}: cards of {} have none; leave it out", device.device, card.vendor),
                kField);
  }
  if (device.is_partition()) {
    return fail(Code::kUnsupported,
                fmt::format("{}: a MIG instance is used as it was cut; leave it out, or ask for a share of a card",
                            device.device),
                kField);
  }
  if (card.architecture == "Kepler" || card.architecture == "Maxwell") {
    return fail(Code::kUnsupported,
                fmt::format("{}: cards of {} do not move managed memory by themselves; leave it out", device.device,
                            card.architecture),
                kField);
  }
  if (bytes <= device.memory_bytes) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}Mi is not more than the {}Mi granted of {}; ask for more, or leave it out", bytes >> 20,
                            device.memory_bytes >> 20, device.device),
                kField);
  }
  return bytes;
}

// MPS takes one percentage for all cards of a process, and knows no share of the time beside it.
Result<void> check_mask(const ClaimRecord& record) {
  const auto masked = std::ranges::find(record.devices, true, &GrantedDevice::mps);
  if (masked == record.devices.end()) return {};
  const std::vector<GrantedDevice> cards = plan_folder(record).devices;
  for (const GrantedDevice& device : cards) {
    if (device.is_partition()) {
      return fail(Code::kUnsupported,
                  fmt::format("{}: a MIG instance has a part of the SMs already; leave it out", device.device),
                  "isolation");
    }
    if (device.cores <= 0 || device.cores >= 100) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: mps needs cores of 1 to 99, not {}", device.device, device.cores), "isolation");
    }
    if (!device.mps || device.cores != cards.front().cores) {
      return fail(Code::kUnsupported,
                  fmt::format("claim {}: mps holds one percentage for all cards of a process; ask "
                              "for the same cores of each, all with isolation mps",
                              record.key()),
                  "isolation");
    }
  }
  return {};
}

}  // namespace

Result<ClaimRecord> grant_of(const model::ResourceClaim& claim, const std::string& uid, const NodeCards& node,
                             bool prepared) {
  const std::string key = claim.meta.key();
  if (claim.meta.uid != uid) {
    return fail(Code::kConflict, fmt::format("claim {} was replaced: its uid is {}, not {}", key, claim.meta.uid, uid));
  }
  if (!claim.allocation) return fail(Code::kInvalidArgument, "claim " + key + " is not allocated");
  if (claim.reserved_for.empty()) return fail(Code::kInvalidArgument, "claim " + key + " is not reserved for anybody");
  ClaimRecord record{uid, claim.meta.name_space, claim.meta.name, {}, {}, {}, {}};
  for (const model::DeviceResult& result : claim.allocation->results) {
    if (result.driver != kDriver) continue;
    HEDDLE_TRY(GrantedDevice device, device_grant(result, node, prepared));
    HEDDLE_TRY(const model::ShareConfig share, share_of(claim, result.request));
    device.priority = share.priority.value_or(0);
    device.mps = share.isolation == model::kIsolationMps;
    if (share.virtual_memory) {
      HEDDLE_TRY(const Offered offered, find_offered(result, node));
      HEDDLE_TRY(device.virtual_bytes, virtual_memory(*share.virtual_memory, *offered.card, device));
    }
    record.devices.push_back(std::move(device));
  }
  HEDDLE_CHECK_OK(check_mask(record));
  const auto is_partition = [](const GrantedDevice& device) { return device.is_partition(); };
  if (std::ranges::any_of(record.devices, is_partition) && !std::ranges::all_of(record.devices, is_partition)) {
    return fail(Code::kUnsupported, fmt::format("claim {} has a partition (MIG instance, vNPU) and a card; a program "
                                                "uses no card beside one, so ask for them in containers of their own",
                                                key));
  }
  if (record.devices.empty())
    return fail(Code::kInvalidArgument, fmt::format("claim {} has no device of {}", key, kDriver));
  for (const model::ConsumerReference& consumer : claim.reserved_for) {
    if (consumer.resource == "pods") record.pods.push_back({consumer.name, consumer.uid});
  }
  return record;
}

Result<void> check_alone(const std::string& claim, const std::set<std::string>& others,
                         const std::vector<ContainerClaims>& containers) {
  for (const ContainerClaims& entry : containers) {
    if (std::ranges::find(entry.claims, claim) == entry.claims.end()) continue;
    for (const std::string& other : entry.claims) {
      if (other == claim || !others.contains(other)) continue;
      return fail(Code::kUnsupported,
                  fmt::format("container {} uses the claims {} and {}, but the limits of one would hide those of the "
                              "other; ask for all of its devices in one claim, as requests of it",
                              entry.container, claim, other));
    }
  }
  return {};
}

std::vector<PreparedDevice> answer_of(const ClaimRecord& record) {
  std::vector<PreparedDevice> devices;
  std::set<std::string> given;
  for (const GrantedDevice& device : record.devices) {
    PreparedDevice answer{device.request, device.pool, device.device, device.share_id, {}};
    // One CDI device is one request with all its cards; named once, or the runtime would apply it once a card.
    if (given.insert(device.request).second) answer.cdi_ids.push_back(cdi_device_id(record.uid, device.request));
    devices.push_back(std::move(answer));
  }
  return devices;
}

std::vector<Result<std::vector<PreparedDevice>>> ClaimService::prepare(const std::vector<ClaimName>& names) {
  const Claims claims = ports_.read(names);
  const Result<NodeCards> node = ports_.node();
  std::vector<Result<std::vector<PreparedDevice>>> results;
  results.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    results.push_back(node ? prepare_one(names[i], claims[i], *node, names) : tl::unexpected(node.error()));
    if (!results.back()) {
      log_.warning("claim not prepared", {{"claim", names[i].name_space + "/" + names[i].name},
                                          {"uid", names[i].uid},
                                          {"why", results.back().error().text()}});
    }
  }
  return results;
}

Result<std::vector<PreparedDevice>> ClaimService::prepare_one(const ClaimName& name,
                                                              const Result<model::ResourceClaim>& claim,
                                                              const NodeCards& node,
                                                              const std::vector<ClaimName>& batch) {
  if (!claim) return tl::unexpected(claim.error());
  const std::vector<ClaimRecord> records = preparer_.records();
  const bool prepared = std::ranges::find(records, name.uid, &ClaimRecord::uid) != records.end();
  HEDDLE_TRY(const ClaimRecord grant, grant_of(*claim, name.uid, node, prepared));
  HEDDLE_CHECK_OK(check_containers(grant, batch));
  Result<ClaimRecord> record = preparer_.prepare(grant);
  // The shares may be held by a claim that is gone from the cluster while the kubelet lost track of it.
  if (!record && record.error().code == Code::kExhausted && !drop_ended_claims(grant).empty()) {
    record = preparer_.prepare(grant);
  }
  if (!record) return tl::unexpected(record.error());
  log_.info("claim prepared", {{"claim", record->key()}, {"uid", record->uid}, {"devices", record->devices.size()}});
  return answer_of(*record);
}

Result<void> ClaimService::check_containers(const ClaimRecord& grant, const std::vector<ClaimName>& batch) const {
  std::set<std::string> others;
  for (const ClaimName& name : batch) {
    if (name.name_space == grant.name_space && name.uid != grant.uid) others.insert(name.name);
  }
  std::vector<PodReference> checked;
  for (const ClaimRecord& record : preparer_.records()) {
    if (record.uid == grant.uid) checked = record.pods;
    // The kubelet does not name claims again that it has had prepared for another pod.
    if (record.name_space == grant.name_space && record.uid != grant.uid) others.insert(record.name);
  }
  if (others.empty()) return {};
  for (const PodReference& pod : grant.pods) {
    if (std::ranges::find(checked, pod) != checked.end()) continue;
    HEDDLE_TRY(const std::vector<ContainerClaims> containers, ports_.containers(grant.name_space, pod));
    HEDDLE_CHECK_OK(check_alone(grant.name, others, containers));
  }
  return {};
}

// Unprepares claims on the wanted cards that the API server no longer knows, or that hold nothing any more.
std::vector<ClaimName> ClaimService::drop_ended_claims(const ClaimRecord& wanted) {
  std::vector<ClaimName> holders;
  for (const ClaimRecord& record : preparer_.records()) {
    const bool shares_card = std::ranges::any_of(record.devices, [&](const GrantedDevice& device) {
      return std::ranges::find(wanted.devices, device.hardware(), &GrantedDevice::hardware) != wanted.devices.end();
    });
    if (record.salvaged()) continue;  // nobody can be asked about it
    if (shares_card && record.uid != wanted.uid) holders.push_back({record.name_space, record.name, record.uid});
  }
  const Claims claims = ports_.read(holders);
  std::vector<ClaimName> dropped;
  for (size_t i = 0; i < holders.size(); ++i) {
    const bool gone = !claims[i] ? claims[i].error().code == Code::kNotFound
                                 : claims[i]->meta.uid != holders[i].uid || !claims[i]->allocation;
    if (!gone || !preparer_.unprepare(holders[i].uid)) continue;
    log_.warning("dropped a prepared claim that has ended", {{"claim", holders[i].name}, {"uid", holders[i].uid}});
    dropped.push_back(holders[i]);
  }
  return dropped;
}

std::vector<Result<void>> ClaimService::unprepare(const std::vector<ClaimName>& names) {
  std::vector<Result<void>> results;
  results.reserve(names.size());
  for (const ClaimName& name : names) {
    results.push_back(preparer_.unprepare(name.uid));
    if (results.back()) {
      log_.info("claim unprepared", {{"claim", name.name_space + "/" + name.name}, {"uid", name.uid}});
    } else {
      log_.warning(
          "claim not unprepared",
          {{"claim", name.name_space + "/" + name.name}, {"uid", name.uid}, {"why", results.back().error().text()}});
    }
  }
  return results;
}

}  // namespace heddle::agent
