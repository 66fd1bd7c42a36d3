#include "dialects/nvidia.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include "base/quantity.h"
#include "codec/codec.h"
#include "dialects/translate.h"
#include "dialects/wire_names.h"

namespace heddle::dialects {
namespace {

constexpr std::string_view kDomain = "nvidia.com/";
constexpr std::string_view kGpu = "nvidia.com/gpu";
constexpr std::string_view kMemory = "nvidia.com/gpumem";
constexpr std::string_view kPercent = "nvidia.com/gpumem-percentage";
constexpr std::string_view kCores = "nvidia.com/gpucores";
constexpr std::string_view kPriority = "nvidia.com/priority";
constexpr std::array kKnown = {kGpu, kMemory, kPercent, kCores, kPriority};

constexpr int64_t kMaxUnits = 2147483647;  // what an int32 of the tools that these names come from can hold
constexpr int64_t kMaxDevices = 32;        // results of one ResourceClaim
constexpr int64_t kMebibyte = int64_t{1} << 20;

// The domain is shared: network, RDMA and virtualisation plugins of the vendor name resources in it too, and those are
// none of ours. Names that begin like this ask for a card, however they end.
constexpr std::array<std::string_view, 2> kFamily = {"gpu", "mig-"};

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string_view nearest_key(std::string_view key) {
  return *std::min_element(kKnown.begin(), kKnown.end(), [&](std::string_view a, std::string_view b) {
    return edit_distance(key, a) < edit_distance(key, b);
  });
}

struct Reader {
  const NvidiaResources& resources;
  std::vector<Refusal>& refusals;

  void refuse(std::string_view key, std::string message) const {
    const std::string_view list = resources.limits.contains(std::string(key)) ? "limits" : "requests";
    refusals.push_back({fmt::format("{}.{}[{}]", resources.path, list, key), std::move(message)});
  }

  [[nodiscard]] const std::string* text(std::string_view key) const {
    const std::string name(key);
    if (const auto it = resources.limits.find(name); it != resources.limits.end()) return &it->second;
    if (const auto it = resources.requests.find(name); it != resources.requests.end()) return &it->second;
    return nullptr;
  }

  // unit: what one of the key is, "MiB"; empty for plain numbers.
  [[nodiscard]] std::optional<int64_t> read(std::string_view key, std::string_view unit) const {
    const std::string* value = text(key);
    if (value == nullptr) return std::nullopt;
    const Result<Quantity> quantity = Quantity::parse(*value);
    if (!quantity) {
      refuse(key, fmt::format("\"{}\" is not a number: {}", *value, quantity.error().message));
      return std::nullopt;
    }
    const std::optional<int64_t> number = quantity->value();
    if (quantity->format() == Quantity::Format::kBinarySi) {
      refuse(key, binary_hint(*value, number, unit));
      return std::nullopt;
    }
    if (!quantity->is_integer()) {
      refuse(key, fmt::format("\"{}\" is a fraction; write a whole number", *value));
      return std::nullopt;
    }
    if (quantity->sign() < 0) {
      refuse(key, fmt::format("\"{}\" is negative", *value));
      return std::nullopt;
    }
    if (!number || *number > kMaxUnits) {
      refuse(key, fmt::format("\"{}\" is above {}{}", *value, kMaxUnits, too_large_hint(number, unit)));
      return std::nullopt;
    }
    return number;
  }

  static std::string binary_hint(const std::string& value, std::optional<int64_t> bytes, std::string_view unit) {
    if (unit.empty()) return fmt::format("\"{}\" has a suffix of bytes; write a plain whole number", value);
    if (!bytes || *bytes < kMebibyte) return fmt::format("\"{}\": the unit is MiB; write a plain number of MiB", value);
    const int64_t mebibytes = *bytes / kMebibyte + (*bytes % kMebibyte == 0 ? 0 : 1);
    return fmt::format("\"{}\": the unit is MiB; write {}", value, mebibytes);
  }

  // 16G reaches us as 16000000000: surely bytes were meant.
  static std::string too_large_hint(std::optional<int64_t> number, std::string_view unit) {
    if (unit.empty() || !number) return {};
    return fmt::format("; the unit is MiB: for that many bytes write {}", *number / kMebibyte);
  }

  void check_agreement(std::string_view key) const {
    const auto limit = resources.limits.find(std::string(key));
    const auto request = resources.requests.find(std::string(key));
    if (limit == resources.limits.end() || request == resources.requests.end()) return;
    const Result<Quantity> a = Quantity::parse(limit->second);
    const Result<Quantity> b = Quantity::parse(request->second);
    if (a && b && *a == *b) return;
    refuse(key, fmt::format("limits say \"{}\" and requests say \"{}\"; the two must be equal: write it in limits only",
                            limit->second, request->second));
  }
};

void refuse_unknown(const Reader& reader, const std::string& key) {
  const std::string_view name = std::string_view(key).substr(kDomain.size());
  if (name.ends_with(".shared")) {
    reader.refuse(key,
                  "a time-sliced replica has no stated share; write nvidia.com/gpumem and nvidia.com/gpucores instead");
  } else if (name.starts_with("mig-")) {
    reader.refuse(key, "MIG partitions are not supported yet; for a share of a card write nvidia.com/gpumem");
  } else {
    reader.refuse(key, fmt::format("unknown resource; the nearest known one is {}", nearest_key(key)));
  }
}

struct Amounts {
  std::optional<int64_t> count, memory, percent, cores, priority;
};

bool check_ranges(const Reader& reader, const Amounts& amounts) {
  const size_t before = reader.refusals.size();
  const bool zero_count = amounts.count.has_value() && *amounts.count == 0;
  if (amounts.percent && *amounts.percent > 100) {
    reader.refuse(kPercent, fmt::format("{} % is more than a whole card; write 1 to 100", *amounts.percent));
  }
  if (amounts.percent && *amounts.percent == 0 && !zero_count) {
    reader.refuse(kPercent, "0 % of a card is no memory at all; write 1 to 100, or leave the key out for a whole card");
  }
  if (amounts.cores && *amounts.cores > 100) {
    reader.refuse(kCores, fmt::format("{} % is more than a whole card; write 0 to 100", *amounts.cores));
  }
  if (amounts.priority && *amounts.priority > 1) {
    reader.refuse(kPriority, "write 0 (high) or 1 (low)");
  }
  if (amounts.memory.value_or(0) > 0 && amounts.percent.value_or(0) > 0) {
    reader.refuse(kPercent, "given together with nvidia.com/gpumem; write only one of the two");
  }
  return reader.refusals.size() == before;
}

Quantity mebibytes(int64_t count) {
  return Quantity::bytes(count * kMebibyte);
}

}  // namespace

model::ClaimSpec nvidia_spec(const NvidiaAmounts& amounts) {
  const auto& [count, memory_mib, percent, cores] = amounts;
  constexpr std::string_view kRequest = "gpu";
  const bool slice_of_memory = memory_mib > 0 || (percent > 0 && percent < 100);
  const bool slice_of_cores = cores > 0 && cores < 100;
  model::DeviceSubRequest exactly;
  exactly.device_class = kNvidiaClass;
  exactly.allocation_mode = "ExactCount";
  exactly.count = count;
  model::ClaimSpec spec;
  if (memory_mib > 0) exactly.capacity.emplace(kMemoryCapacity, mebibytes(memory_mib));
  // A slice always names cores: left out, the device's default would take the whole card.
  if (slice_of_memory || slice_of_cores) exactly.capacity.emplace(kCoresCapacity, Quantity::from_int(cores));
  if (percent > 0 && percent < 100) {
    spec.config.push_back({{std::string(kRequest)},
                           std::string(kDriver),
                           fmt::format(R"({{"apiVersion":"{}","kind":"ShareConfig","memoryPercent":{}}})",
                                       kShareConfigVersion, percent)});
  }
  // Two shares of one card would be one device to CUDA: several slices are several cards.
  if (count > 1 && (slice_of_memory || slice_of_cores)) {
    spec.constraints.push_back({{std::string(kRequest)}, "", std::string(kUuidAttribute)});
  }
  spec.requests.push_back({std::string(kRequest), std::move(exactly), {}});
  return spec;
}

std::optional<NvidiaAmounts> nvidia_amounts(const model::ClaimSpec& spec) {
  if (spec.requests.size() != 1 || !spec.requests.front().exactly) return std::nullopt;
  const model::DeviceSubRequest& exactly = *spec.requests.front().exactly;
  NvidiaAmounts amounts;
  amounts.count = exactly.count.value_or(1);
  if (amounts.count < 1 || amounts.count > kMaxDevices) return std::nullopt;
  for (const auto& [name, quantity] : exactly.capacity) {
    const int64_t value = quantity.value().value_or(-1);
    if (name == kMemoryCapacity) amounts.memory_mib = value > 0 ? value / kMebibyte : -1;
    if (name == kCoresCapacity) amounts.cores = value;
  }
  for (const model::OpaqueConfig& config : spec.config) {
    const auto share = codec::parse_share_config(config.parameters_json);
    if (share && *share) amounts.percent = (*share)->memory_percent.value_or(0);
  }
  const bool in_range = amounts.memory_mib >= 0 && amounts.memory_mib <= kMaxUnits / amounts.count &&
                        amounts.percent >= 0 && amounts.percent <= 100 && amounts.cores >= 0 && amounts.cores <= 100;
  const bool both = amounts.memory_mib > 0 && amounts.percent > 0;
  if (!in_range || both || nvidia_spec(amounts) != spec) return std::nullopt;
  return amounts;
}

namespace {

std::string explain(int64_t count, int64_t memory_mib, int64_t percent, int64_t cores) {
  const std::string cards = fmt::format("{} NVIDIA card{}", count, count == 1 ? "" : "s");
  const bool all_memory = memory_mib == 0 && (percent == 0 || percent == 100);
  if (all_memory && (cores == 0 || cores == 100)) return cards + ", whole";
  std::string memory = "all memory";
  if (memory_mib > 0) memory = fmt::format("{} MiB", memory_mib);
  if (percent > 0 && percent < 100) memory = fmt::format("{} % of the memory", percent);
  const std::string compute = cores == 0 ? "no limit on compute" : fmt::format("{} % of the compute", cores);
  return fmt::format("{}{}: {} and {}{}", count == 1 ? "a share of " : "shares of ", cards, memory, compute,
                     count == 1 ? "" : ", each on a different card");
}

NvidiaAsk without_device(NvidiaAsk ask, const Amounts& amounts, const Reader& reader) {
  const bool zero_count = amounts.count.has_value();
  for (const auto& [key, value] :
       {std::pair{kMemory, amounts.memory}, std::pair{kPercent, amounts.percent}, std::pair{kCores, amounts.cores}}) {
    if (value.value_or(0) > 0)
      reader.refuse(key, fmt::format("{} is 0, so no card can have this; write at least 1", kGpu));
  }
  if (!zero_count && amounts.priority) ask.warnings.push_back("nvidia.com/priority without a device has no effect");
  // A literal 0 may stay; a priority is no device, and would keep the pod from ever being scheduled.
  if (amounts.priority.value_or(0) > 0) ask.remove.emplace_back(kPriority);
  return ask;
}

}  // namespace

bool is_nvidia_resource(std::string_view key) {
  if (!key.starts_with(kDomain)) return false;
  if (key == kPriority) return true;
  std::string name(key.substr(kDomain.size()));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::any_of(kFamily.begin(), kFamily.end(), [&](std::string_view start) { return name.starts_with(start); });
}

NvidiaAsk read_nvidia(const NvidiaResources& resources, std::vector<Refusal>& refusals) {
  NvidiaAsk ask;
  const Reader reader{resources, refusals};
  const size_t before = refusals.size();
  std::map<std::string, std::string> all = resources.limits;
  all.insert(resources.requests.begin(), resources.requests.end());
  for (const auto& [key, value] : all) {
    if (std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) refuse_unknown(reader, key);
    reader.check_agreement(key);
  }
  const Amounts amounts{reader.read(kGpu, ""), reader.read(kMemory, "MiB"), reader.read(kPercent, ""),
                        reader.read(kCores, ""), reader.read(kPriority, "")};
  if (refusals.size() != before) return ask;

  const bool zero_count = amounts.count.has_value() && *amounts.count == 0;
  if (!check_ranges(reader, amounts)) return ask;
  const bool any_amount =
      amounts.memory.value_or(0) > 0 || amounts.percent.value_or(0) > 0 || amounts.cores.value_or(0) > 0;
  if (zero_count || (!amounts.count && !any_amount)) return without_device(std::move(ask), amounts, reader);

  const int64_t count = amounts.count.value_or(1);
  const int64_t memory = amounts.memory.value_or(0);
  if (count > kMaxDevices) {
    reader.refuse(kGpu,
                  fmt::format("{} cards for one container; a ResourceClaim holds at most {}", count, kMaxDevices));
  }
  if (memory > 0 && count > kMaxUnits / memory) {
    reader.refuse(kMemory, fmt::format("{} cards of {} MiB are more than {} MiB", count, memory, kMaxUnits));
  }
  if (refusals.size() != before) return ask;

  for (const auto& [key, value] : all) ask.remove.push_back(key);
  if (amounts.priority) ask.warnings.push_back("nvidia.com/priority has no effect in this version");
  ask.spec = nvidia_spec({count, memory, amounts.percent.value_or(0), amounts.cores.value_or(0)});
  ask.explanation = explain(count, memory, amounts.percent.value_or(0), amounts.cores.value_or(0));
  return ask;
}

bool has_misplaced_resource(const std::map<std::string, std::string>& annotations) {
  return std::any_of(kKnown.begin(), kKnown.end(),
                     [&](std::string_view key) { return annotations.contains(std::string(key)); });
}

void check_nvidia_annotations(const std::map<std::string, std::string>& annotations, std::vector<Refusal>& refusals,
                              std::vector<std::string>& warnings) {
  constexpr std::array<std::string_view, 4> kLists = {"nvidia.com/use-gputype", "nvidia.com/nouse-gputype",
                                                      "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"};
  for (const auto& [key, value] : annotations) {
    const std::string field = fmt::format("metadata.annotations[{}]", key);
    const bool blank = value.find_first_not_of(" ,\t") == std::string::npos;
    if (key == "hami.io/gpu-scheduler-policy" && value.find("mutex") != std::string::npos) {
      refusals.push_back(
          {field, "a card without other tenants is not supported yet by this name; write nvidia.com/gpucores: 100"});
    }
    if (!key.starts_with(kDomain)) continue;
    if (std::find(kKnown.begin(), kKnown.end(), key) != kKnown.end()) {
      refusals.push_back(
          {field, "this is a resource, and an annotation of this name is never read; use resources.limits"});
    } else if (std::find(kLists.begin(), kLists.end(), key) != kLists.end()) {
      if (!blank)
        refusals.push_back({field, "not supported yet; without it the pod could get a card that it excludes"});
    } else if (key == "nvidia.com/numa-bind") {
      if (value == "true") refusals.push_back({field, "not supported yet; remove it or write \"false\""});
    } else if (key == "nvidia.com/vgpu-mode") {
      if (!blank && value != "hami-core") {
        refusals.push_back(
            {field, fmt::format("mode \"{}\" is not supported yet; only hami-core (a soft share) is", value)});
      }
    } else {
      warnings.push_back(fmt::format("annotation {} is not understood and has no effect", key));
    }
  }
}

}  // namespace heddle::dialects
