#include "dialects/quota_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "dialects/family.h"
#include "dialects/selector.h"
#include "dialects/wire_names.h"

namespace heddle::dialects {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

std::string kind_name(const std::string& vendor, const std::vector<std::string>& models, const std::string& profile) {
  std::string out = vendor;
  if (!models.empty()) out += fmt::format("/{}", fmt::join(models, ","));
  if (!profile.empty()) out += "#" + profile;
  return out;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string device_kind(const model::DeviceSubRequest& request) {
  const std::string prefix = fmt::format("{}-", kAnyClass);
  const std::string vendor =
      request.device_class.starts_with(prefix) ? request.device_class.substr(prefix.size()) : std::string();
  std::vector<std::string> models;
  std::string profile;
  for (const std::string& text : request.selectors) {
    const std::optional<Selector> selector = parse_selector(text);
    if (!selector || selector->values.empty()) continue;
    const bool pins = selector->op == Selector::Op::kIn || selector->op == Selector::Op::kStartsWithAny;
    if (selector->attribute == "model" && pins) models = selector->values;
    if (selector->attribute == "profile" && selector->op == Selector::Op::kEquals) profile = selector->values.front();
  }
  // A part that memory was rounded up to counts by the names that asked for it: those of its card.
  if (request.capacity.contains(std::string(kMemoryCapacity))) profile.clear();
  return kind_name(vendor, models, profile);
}

int64_t measured(const Measure& measure, int64_t amount) {
  if (amount <= 0) return 0;
  if (amount > INT64_MAX / measure.times) return INT64_MAX;
  const int64_t product = amount * measure.times;
  return product / measure.per + (product % measure.per == 0 ? 0 : 1);
}

int64_t slices_of(const Measure& measure, std::string_view kind) {
  const std::string prefix = measure.kind + "#";
  if (measure.of != Measure::Of::kSlices || !kind.starts_with(prefix)) return 0;
  kind.remove_prefix(prefix.size());
  int64_t slices = 0;
  const auto* end = kind.data() + kind.size();
  const auto parsed = std::from_chars(kind.data(), kind.data() + kind.size(), slices);
  const bool whole = parsed.ec == std::errc() && std::string_view(parsed.ptr, end) == "g";
  return whole ? std::max<int64_t>(slices, 0) : 0;
}

std::optional<Measure> measure_of(const catalog::Requests& rules, std::string_view key) {
  for (const std::string_view prefix : {"requests.", "limits."}) {
    if (key.starts_with(prefix)) {
      key.remove_prefix(prefix.size());
      break;
    }
  }
  const catalog::Requests::Owner owner = rules.owner(key);
  if (owner.partition != nullptr) {
    for (const std::string& prefix : owner.partition->prefixes) {
      if (!key.starts_with(prefix)) continue;
      const auto profile = partition_profile(owner.partition->rule, key, prefix);
      if (!profile) continue;
      return Measure{kind_name(owner.vendor->name, owner.partition->model_prefixes, *profile), Measure::Of::kDevices, 1,
                     1};
    }
    return std::nullopt;
  }
  if (owner.family == nullptr) return std::nullopt;
  const catalog::Family& family = *owner.family;
  if (family.count_is_slices) {
    if (!has(family.count, key)) return std::nullopt;
    return Measure{family.vendor, Measure::Of::kSlices, 1, 1};
  }
  Measure out{kind_name(family.vendor, family.models.empty() ? family.model_prefixes : family.models, ""),
              Measure::Of::kDevices, 1, 1};
  if (has(family.count, key)) {
    out.times = family.units_per_device;
  } else if (family.memory && has(family.memory->keys, key)) {
    out.of = Measure::Of::kMemory;
    out.per = std::max<int64_t>(family.memory->unit_bytes / kMebibyte, 1);
  } else if (has(family.percent, key)) {
    out.of = Measure::Of::kPercent;
  } else if (family.cores && has(family.cores->keys, key)) {
    out.of = Measure::Of::kCores;
    out.times = family.cores->to;
    out.per = 100;
  } else {
    return std::nullopt;
  }
  return out;
}

}  // namespace heddle::dialects
