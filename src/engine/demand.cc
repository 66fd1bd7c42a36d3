#include "engine/demand.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "engine/cards.h"
#include "engine/state_impl.h"

namespace heddle::engine {
namespace {

using allocator::DeviceInfo;
using queueing::Portion;

constexpr int64_t kWhole = 1000;  // thousandths
constexpr int64_t kAllCores = 100;
constexpr const char* kForeignOwner = "heddle.dev/foreign-owner";

struct Kind {
  std::string vendor;
  std::string model;
  int64_t memory = 0;
  int64_t cores = 0;
  friend auto operator<=>(const Kind&, const Kind&) = default;
};

int64_t capacity_of(const DeviceInfo& device, const std::string& name) {
  const int32_t index = device.shape->find(name);
  if (index < 0) return 0;
  return device.shape->capacities[static_cast<size_t>(index)].published.value.value().value_or(0);
}

Kind kind_of(const DeviceInfo& device) {
  return {attribute_text(device, "vendor"), attribute_text(device, "model"), capacity_of(device, "memory"),
          capacity_of(device, "cores")};
}

bool foreign(const DeviceInfo& device) {
  const auto& taints = device.device->taints;
  return std::any_of(taints.begin(), taints.end(),
                     [](const model::Taint& taint) { return taint.key == kForeignOwner; });
}

int64_t amount(const std::map<std::string, Quantity>& amounts, const char* name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? 0 : found->second.value().value_or(0);
}

// Thousandths of a device, rounded up: the larger of what is taken of its memory and of its compute.
int64_t part_of(int64_t memory, int64_t cores, const Kind& kind) {
  int64_t part = cores * (kWhole / kAllCores);
  if (kind.memory > 0) {
    const Int128 scaled = Int128{memory} * kWhole + kind.memory - 1;
    part = std::max(part, static_cast<int64_t>(scaled / kind.memory));
  }
  return std::clamp<int64_t>(part, 1, kWhole);
}

// What one device gives for a request.
struct Piece {
  int64_t milli = 0;
  int64_t memory = 0;
  int64_t cores = 0;
};

Piece piece_asked(const allocator::Alternative& alternative, const Kind& kind) {
  const auto& capacity = alternative.spec->capacity;
  const bool names_memory = capacity.contains("memory");
  const int64_t cores = capacity.contains("cores") ? amount(capacity, "cores") : kAllCores;
  if (!names_memory && !alternative.memory_percent && !capacity.contains("cores"))
    return {kWhole, kind.memory, kAllCores};
  int64_t memory = names_memory ? amount(capacity, "memory") : kind.memory;
  if (alternative.memory_percent)
    memory = static_cast<int64_t>(Int128{kind.memory} * *alternative.memory_percent / 100);
  return {part_of(memory, cores, kind), memory, cores};
}

// The common value, or nothing.
template <typename Get>
std::string common(const std::vector<Kind>& kinds, Get get) {
  const bool same = !kinds.empty() && std::all_of(kinds.begin(), kinds.end(),
                                                  [&](const Kind& kind) { return get(kind) == get(kinds.front()); });
  return same ? get(kinds.front()) : std::string();
}

Portion portion_asked(const State::Impl& state, allocator::Alternative& alternative) {
  std::map<Kind, int64_t> kinds;
  for (const DeviceInfo* device : state.inventory.devices()) {
    if (alternative.query->selects(*device)) ++kinds[kind_of(*device)];
  }
  std::vector<Kind> list;
  int64_t devices = 0;
  for (const auto& [kind, count] : kinds) {
    list.push_back(kind);
    devices += count;
  }
  Portion portion;
  portion.device_class = alternative.spec->device_class;
  portion.vendor = common(list, [](const Kind& kind) { return kind.vendor; });
  portion.model = common(list, [](const Kind& kind) { return kind.model; });
  std::optional<Piece> least;
  if (list.empty()) list.emplace_back();
  for (const Kind& kind : list) {
    const Piece piece = piece_asked(alternative, kind);
    if (!least) least = piece;
    least->milli = std::min(least->milli, piece.milli);
    least->memory = std::min(least->memory, piece.memory);
    least->cores = std::min(least->cores, piece.cores);
  }
  // With mode All it takes what one node has; how many shows when it is placed.
  const int64_t count = alternative.all ? std::min<int64_t>(devices, 1) : alternative.count;
  portion.milli_devices = count * least->milli;
  portion.memory_bytes = count * least->memory;
  portion.cores = count * least->cores;
  return portion;
}

Piece piece_granted(const model::DeviceResult& result, const Kind& kind, bool whole_asked) {
  const auto& consumed = result.consumed_capacity;
  const int64_t memory = consumed.contains("memory") ? amount(consumed, "memory") : kind.memory;
  const int64_t cores = consumed.contains("cores") ? amount(consumed, "cores") : kAllCores;
  const bool whole = result.share_id.empty() || whole_asked || cores >= kAllCores;
  return {whole ? kWhole : part_of(memory, cores, kind), memory, cores};
}

}  // namespace

const model::DeviceSubRequest* find_request(const model::ClaimSpec& spec, const std::string& name) {
  const size_t slash = name.find('/');
  for (const model::DeviceRequest& request : spec.requests) {
    if (request.name != name.substr(0, slash)) continue;
    if (slash == std::string::npos) return request.exactly ? &*request.exactly : nullptr;
    for (const model::DeviceSubRequest& alternative : request.first_available) {
      if (alternative.name == name.substr(slash + 1)) return &alternative;
    }
  }
  return nullptr;
}

std::string vendor_of_pool(const std::string& pool) {
  const size_t slash = pool.rfind('/');
  return slash == std::string::npos ? std::string() : pool.substr(slash + 1);
}

std::vector<FleetPart> fleet_of(const State& state, const std::string& device_class) {
  const State::Impl& inside = state.inside();
  PlacementRequest request;
  if (!device_class.empty()) {
    if (!inside.classes.contains(device_class)) return {};
    model::ClaimSpec spec;
    spec.requests.emplace_back();
    spec.requests.front().name = "any";
    spec.requests.front().exactly.emplace();
    spec.requests.front().exactly->device_class = device_class;
    request.claims.push_back({"fleet", "", std::move(spec)});
  }
  auto placement = make_placement(inside, request);
  if (!placement) return {};
  allocator::Query* query = nullptr;
  if (!placement->claims.empty()) query = placement->claims.front().requests.front().alternatives.front().query.get();
  std::map<std::tuple<std::string, std::string, std::string>, FleetPart> parts;
  for (const DeviceInfo* device : inside.inventory.devices()) {
    if (is_partition(*device) || foreign(*device) || (query != nullptr && !query->selects(*device))) continue;
    const Kind kind = kind_of(*device);
    const std::string node = Inventory::node_of(*device);
    FleetPart& part = parts[{node, kind.vendor, kind.model}];
    part.node = node;
    part.vendor = kind.vendor;
    part.model = kind.model;
    ++part.devices;
    part.memory_bytes += kind.memory;
    part.cores += kind.cores > 0 ? kind.cores : kAllCores;
    // Nor a partition that is made of it.
    if (free_milli(*device) == kWhole) ++part.free;
  }
  std::vector<FleetPart> out;
  out.reserve(parts.size());
  for (auto& [key, part] : parts) out.push_back(std::move(part));
  return out;
}

Result<std::vector<Portion>> asked(const State& state, const ClaimRequest& claim) {
  PlacementRequest request;
  request.claims.push_back(claim);
  HEDDLE_TRY(Placement placement, make_placement(state.inside(), request));
  std::vector<Portion> out;
  for (allocator::PreparedRequest& prepared : placement.claims.front().requests) {
    if (!prepared.alternatives.empty()) out.push_back(portion_asked(state.inside(), prepared.alternatives.front()));
  }
  return out;
}

std::vector<Portion> granted(const State& state, const model::ClaimSpec& spec, const model::Allocation& allocation) {
  std::map<std::tuple<std::string, std::string, std::string>, Portion> portions;
  for (const model::DeviceResult& result : allocation.results) {
    if (result.admin_access) continue;
    const DeviceInfo* device = state.inside().inventory.find({result.driver, result.pool, result.device});
    const Kind kind = device != nullptr ? kind_of(*device) : Kind{vendor_of_pool(result.pool), {}, 0, 0};
    const model::DeviceSubRequest* asked = find_request(spec, result.request);
    const bool whole = asked != nullptr && asked->capacity.empty() && spec.config.empty();
    const Piece piece = piece_granted(result, kind, whole);
    Portion& portion = portions[{result.request, kind.vendor, kind.model}];
    if (asked != nullptr) portion.device_class = asked->device_class;
    portion.vendor = kind.vendor;
    portion.model = kind.model;
    portion.milli_devices += piece.milli;
    portion.memory_bytes += piece.memory;
    portion.cores += piece.cores;
  }
  std::vector<Portion> out;
  out.reserve(portions.size());
  for (auto& [key, portion] : portions) out.push_back(std::move(portion));
  return out;
}

}  // namespace heddle::engine
