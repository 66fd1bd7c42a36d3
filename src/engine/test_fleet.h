// A made-up fleet for tests and benchmarks of the engine: nodes with NVIDIA cards as the agent publishes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "engine/engine.h"

namespace heddle::engine::test {

inline constexpr int64_t kMiB = int64_t{1} << 20;
inline const std::string kDriver = "accelerator.heddle.dev";

inline Quantity quantity(const char* text) {
  return Quantity::parse(text).value();
}

inline model::Device make_card(int index, int64_t memory_bytes) {
  const Quantity memory = Quantity::bytes(memory_bytes);
  model::Device device;
  device.name = "gpu-" + std::to_string(index);
  device.attributes = {{"vendor", std::string("nvidia")},
                       {"model", std::string("NVIDIA H100")},
                       {"index", int64_t{index}},
                       {"uuid", "GPU-" + std::to_string(index)}};
  model::RequestPolicy memory_policy{.default_value = memory, .valid_values = {}, .valid_range = {}};
  memory_policy.valid_range =
      model::RequestPolicy::Range{.min = Quantity::bytes(kMiB), .max = memory, .step = Quantity::bytes(kMiB)};
  model::RequestPolicy cores_policy{.default_value = quantity("100"), .valid_values = {}, .valid_range = {}};
  cores_policy.valid_range =
      model::RequestPolicy::Range{.min = quantity("0"), .max = quantity("100"), .step = quantity("1")};
  device.capacity["memory"] = {.value = memory, .policy = memory_policy};
  device.capacity["cores"] = {.value = quantity("100"), .policy = cores_policy};
  device.taints.push_back({.key = "heddle.dev/managed", .value = {}, .effect = "NoSchedule", .added = {}});
  device.allow_multiple_allocations = true;
  return device;
}

inline model::ResourceSlice make_slice(const std::string& node, int cards, int64_t memory_bytes) {
  model::ResourceSlice slice;
  slice.meta.name = node + "-heddle-nvidia-0";
  slice.driver = kDriver;
  slice.pool = node + "/nvidia";
  slice.generation = 1;
  slice.scope = {.kind = model::NodeScope::Kind::kNode, .node = node, .selector = {}};
  for (int i = 0; i < cards; ++i) slice.devices.push_back(make_card(i, memory_bytes));
  return slice;
}

inline model::Node make_node(const std::string& name) {
  model::Node node;
  node.meta.name = name;
  node.meta.labels["kubernetes.io/hostname"] = name;
  node.allocatable = {{"cpu", quantity("64")}, {"memory", quantity("256Gi")}, {"pods", quantity("110")}};
  return node;
}

inline model::DeviceClass make_class() {
  model::DeviceClass device_class;
  device_class.meta.name = "heddle-nvidia";
  device_class.selectors.emplace_back(
      R"(device.driver == "accelerator.heddle.dev" && device.attributes["accelerator.heddle.dev"].vendor == "nvidia")");
  return device_class;
}

// A claim as translation makes it. Empty memory and cores: whole cards.
struct Ask {
  std::string memory = {};
  std::string cores = {};
  int64_t count = 1;
  std::optional<int64_t> memory_percent = {};
};

inline ClaimRequest make_claim(const std::string& key, const Ask& ask) {
  model::DeviceSubRequest exactly;
  exactly.device_class = "heddle-nvidia";
  exactly.count = ask.count;
  if (!ask.memory.empty()) exactly.capacity["memory"] = quantity(ask.memory.c_str());
  if (!ask.cores.empty()) exactly.capacity["cores"] = quantity(ask.cores.c_str());
  ClaimRequest claim{.key = key, .uid = key, .spec = {}};
  claim.spec.requests.push_back({.name = "gpu", .exactly = exactly, .first_available = {}});
  if (ask.memory_percent) {
    claim.spec.config.push_back({.requests = {},
                                 .driver = kDriver,
                                 .parameters_json = codec::share_config_json({.memory_percent = ask.memory_percent})});
  }
  return claim;
}

inline model::ResourceClaim granted(const ClaimRequest& request, const model::Allocation& allocation) {
  model::ResourceClaim claim;
  const size_t slash = request.key.find('/');
  claim.meta.name_space = slash == std::string::npos ? "" : request.key.substr(0, slash);
  claim.meta.name = slash == std::string::npos ? request.key : request.key.substr(slash + 1);
  claim.meta.uid = request.uid;
  claim.spec = request.spec;
  claim.allocation = allocation;
  claim.reserved_for.push_back({.api_group = {}, .resource = "pods", .name = claim.meta.name, .uid = claim.meta.uid});
  return claim;
}

// Takes so much of a card of make_slice(node), whatever a policy would do.
inline model::ResourceClaim held(const std::string& id, const std::string& node, int card, int64_t memory_bytes,
                                 int64_t cores = 0, std::vector<model::AllocatedConfig> config = {}) {
  model::DeviceResult result;
  result.request = "gpu";
  result.driver = kDriver;
  result.pool = node + "/nvidia";
  result.device = "gpu-" + std::to_string(card);
  result.share_id = id;
  result.consumed_capacity = {{"memory", Quantity::bytes(memory_bytes)}, {"cores", Quantity::from_int(cores)}};
  model::Allocation allocation;
  allocation.results.push_back(result);
  allocation.config = std::move(config);
  return granted({.key = "ns/" + id, .uid = id, .spec = {}}, allocation);
}

}  // namespace heddle::engine::test
