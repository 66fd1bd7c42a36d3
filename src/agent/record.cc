#include "agent/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"

namespace heddle::agent {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr int64_t kMiB = int64_t{1} << 20;

json made_json(const MadePartition& made) {
  json counters = json::object();
  for (const auto& [name, counter] : made.counters) counters[name] = {counter.used, counter.total};
  return {{"parentUUID", made.order.parent_uuid},
          {"profile", made.order.profile},
          {"place", made.order.place},
          {"counters", std::move(counters)}};
}

MadePartition made_of(const json& in) {
  MadePartition made;
  in.at("parentUUID").get_to(made.order.parent_uuid);
  in.at("profile").get_to(made.order.profile);
  in.at("place").get_to(made.order.place);
  for (const auto& [name, counter] : in.at("counters").items()) {
    made.counters[name] = {counter.at(0).get<int64_t>(), counter.at(1).get<int64_t>()};
  }
  return made;
}

json device_json(const GrantedDevice& device) {
  json out = {{"request", device.request},
              {"pool", device.pool},
              {"device", device.device},
              {"shareID", device.share_id},
              {"cardUUID", device.card_uuid},
              {"minor", device.minor},
              {"cardMemoryBytes", device.card_memory_bytes},
              {"memoryBytes", device.memory_bytes},
              {"cores", device.cores}};
  if (device.gpu_instance >= 0) {
    out["gpuInstance"] = device.gpu_instance;
    out["computeInstance"] = device.compute_instance;
  }
  if (device.priority != 0) out["priority"] = device.priority;
  if (device.mps) out["isolation"] = "mps";
  if (device.virtual_bytes != 0) out["virtualBytes"] = device.virtual_bytes;
  if (device.made) out["made"] = made_json(*device.made);
  return out;
}

GrantedDevice device_of(const json& in) {
  GrantedDevice device;
  in.at("request").get_to(device.request);
  in.at("pool").get_to(device.pool);
  in.at("device").get_to(device.device);
  in.at("shareID").get_to(device.share_id);
  in.at("cardUUID").get_to(device.card_uuid);
  in.at("minor").get_to(device.minor);
  in.at("cardMemoryBytes").get_to(device.card_memory_bytes);
  in.at("memoryBytes").get_to(device.memory_bytes);
  in.at("cores").get_to(device.cores);
  // Only of partitions.
  device.gpu_instance = in.value("gpuInstance", int64_t{-1});
  device.compute_instance = in.value("computeInstance", int64_t{-1});
  device.priority = in.value("priority", int64_t{0});
  device.virtual_bytes = in.value("virtualBytes", int64_t{0});
  device.mps = in.value("isolation", std::string()) == "mps";
  if (const auto made = in.find("made"); made != in.end()) device.made = made_of(*made);
  return device;
}

// What is granted of one card.
struct CardLoad {
  int64_t memory_bytes = 0;
  int64_t cores = 0;
  int64_t shares = 0;
  bool alone = false;  // one of them asks for the card alone
  std::set<std::string> holders;
};

void add(CardLoad& load, const GrantedDevice& device, const std::string& holder) {
  load.memory_bytes += device.memory_bytes;
  load.cores += device.cores;
  ++load.shares;
  load.alone = load.alone || device.cores >= 100;
  load.holders.insert(holder);
}

std::string join(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The partitions that are made of one card, and who has them.
Result<void> check_made(const std::vector<ClaimRecord>& granted, const ClaimRecord& wanted, const std::string& card) {
  std::map<std::string, MadePartition::Counter> sums;
  std::map<std::string, std::string> holder_of;  // by device
  std::set<std::string> holders;
  const auto add_made = [&](const GrantedDevice& device, const std::string& holder) -> Result<void> {
    if (!device.made || device.made->order.parent_uuid != card) return {};
    for (const auto& [name, counter] : device.made->counters) {
      sums[name].used += counter.used;
      sums[name].total = counter.total;  // of `wanted` last: those are of now
    }
    const auto [known, fresh] = holder_of.emplace(device.device, holder);
    holders.insert(holder);
    if (fresh) return {};
    return fail(Code::kExhausted, fmt::format("{} is one partition; held by {}", device.device, known->second));
  };
  for (const ClaimRecord& record : granted) {
    if (record.uid == wanted.uid) continue;
    for (const GrantedDevice& device : record.devices) HEDDLE_CHECK_OK(add_made(device, record.key()));
  }
  const std::string held = join(holders);
  for (const GrantedDevice& device : wanted.devices) HEDDLE_CHECK_OK(add_made(device, wanted.key()));
  for (const auto& [name, counter] : sums) {
    if (counter.used <= counter.total) continue;
    return fail(Code::kExhausted, fmt::format("{} {} of {} would be granted of card {}; held by {}", counter.used, name,
                                              counter.total, card, held));
  }
  return {};
}

// A card that is used as a whole or shared is not cut, and one that is cut is not used so.
Result<void> check_exclusion(const std::vector<ClaimRecord>& granted, const ClaimRecord& wanted) {
  for (const GrantedDevice& mine : wanted.devices) {
    const auto excludes = [&](const GrantedDevice& other) {
      return other.hardware() == mine.hardware() && other.made.has_value() != mine.made.has_value();
    };
    for (const ClaimRecord& record : granted) {
      const bool own = record.uid == wanted.uid;
      if (own || std::ranges::none_of(record.devices, excludes)) continue;
      return fail(Code::kExhausted,
                  fmt::format("{}: the card is {}; held by {}", mine.device,
                              mine.made ? "in use as a whole or shared" : "cut into partitions", record.key()));
    }
    if (std::ranges::any_of(wanted.devices, excludes)) {
      return fail(Code::kExhausted, fmt::format("{}: a card and a partition of it in one claim", mine.device));
    }
    if (mine.made) HEDDLE_CHECK_OK(check_made(granted, wanted, mine.hardware()));
  }
  return {};
}

}  // namespace

std::string vendor_of(const GrantedDevice& device) {
  const size_t slash = device.pool.rfind('/');
  return slash == std::string::npos ? "nvidia" : device.pool.substr(slash + 1);
}

std::string record_json(const ClaimRecord& record) {
  json devices = json::array();
  for (const GrantedDevice& device : record.devices) devices.push_back(device_json(device));
  json pods = json::array();
  for (const PodReference& pod : record.pods) pods.push_back({{"name", pod.name}, {"uid", pod.uid}});
  const json out = {{"format", kFormat},
                    {"uid", record.uid},
                    {"namespace", record.name_space},
                    {"name", record.name},
                    {"devices", std::move(devices)},
                    {"pods", std::move(pods)},
                    {"guardVersion", record.guard_version},
                    {"bootID", record.boot_id}};
  return dump_json(out);
}

Result<ClaimRecord> parse_record(std::string_view text) {
  try {
    const json in = parse_json(text);
    if (in.at("format").get<int>() != kFormat) return fail(Code::kInvalidArgument, "unknown format of a claim record");
    ClaimRecord record;
    in.at("uid").get_to(record.uid);
    in.at("namespace").get_to(record.name_space);
    in.at("name").get_to(record.name);
    for (const json& device : in.at("devices")) record.devices.push_back(device_of(device));
    for (const json& pod : in.at("pods")) {
      record.pods.push_back({pod.at("name").get<std::string>(), pod.at("uid").get<std::string>()});
    }
    in.at("guardVersion").get_to(record.guard_version);
    in.at("bootID").get_to(record.boot_id);
    return record;
  } catch (const json::exception& error) {
    return fail(Code::kInvalidArgument, std::string("not a claim record: ") + error.what());
  }
}

Result<void> check_capacity(const std::vector<ClaimRecord>& granted, const ClaimRecord& wanted) {
  HEDDLE_CHECK_OK(check_exclusion(granted, wanted));
  std::set<std::string> checked;
  for (const GrantedDevice& device : wanted.devices) {
    if (device.made) continue;
    if (!checked.insert(device.card_uuid).second) continue;
    CardLoad load;
    for (const ClaimRecord& record : granted) {
      if (record.uid == wanted.uid) continue;
      for (const GrantedDevice& other : record.devices) {
        if (other.card_uuid == device.card_uuid) add(load, other, record.key());
      }
    }
    const std::string holders = join(load.holders);
    for (const GrantedDevice& mine : wanted.devices) {
      if (mine.card_uuid == device.card_uuid) add(load, mine, wanted.key());
    }
    if (load.memory_bytes > device.card_memory_bytes) {
      return fail(Code::kExhausted, fmt::format("{}: memory {}Mi of {}Mi would be granted; held by {}", device.device,
                                                load.memory_bytes / kMiB, device.card_memory_bytes / kMiB, holders));
    }
    if (load.cores > 100) {
      return fail(Code::kExhausted, fmt::format("{}: {}% of its compute would be granted; held by {}", device.device,
                                                load.cores, holders));
    }
    if (load.alone && load.shares > 1) {
      return fail(Code::kExhausted,
                  fmt::format("{}: a share with 100 cores has its card alone; held by {}", device.device, holders));
    }
  }
  return {};
}

FolderPlan plan_folder(const ClaimRecord& record) {
  std::set<std::string> requests;
  for (const GrantedDevice& device : record.devices) requests.insert(device.request);
  FolderPlan plan;
  plan.name = requests.size() == 1 ? *requests.begin() : "_claim";
  for (const GrantedDevice& device : record.devices) {
    const auto same = std::ranges::find(plan.devices, device.card_uuid, &GrantedDevice::card_uuid);
    if (same == plan.devices.end()) {
      plan.devices.push_back(device);
      continue;
    }
    const bool beyond = same->virtual_bytes > 0 || device.virtual_bytes > 0;
    same->virtual_bytes = beyond ? same->addressable() + device.addressable() : 0;
    same->memory_bytes += device.memory_bytes;
    same->cores += device.cores;
    same->mps = same->mps || device.mps;
    same->priority = std::max(same->priority, device.priority);
  }
  return plan;
}

}  // namespace heddle::agent
