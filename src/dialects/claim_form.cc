#include "dialects/claim_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/quantity.h"
#include "codec/codec.h"
#include "dialects/names.h"
#include "dialects/wire_names.h"

namespace heddle::dialects {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

// A name that stands in an expression as it is.
bool is_identifier(std::string_view name) {
  constexpr size_t kLongest = 32;  // of an attribute's name, to the API server
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !name.empty() && name.size() <= kLongest && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// A device that says nothing is a card. What is hard and of a profile is a part.
Selector type_selector(Ask::Kind kind) {
  if (kind == Ask::Kind::kTemplate) return {Selector::Op::kEquals, "isolation", {"hard"}, "hard", ""};
  return {Selector::Op::kEquals, "type", {kind == Ask::Kind::kPartition ? "partition" : "card"}, "card", ""};
}

// Two shares of one card would be one device to the runtime: several shares are several cards.
std::string_view distinct_attribute(const Ask& ask) {
  if (ask.count < 2) return {};
  if (ask.kind == Ask::Kind::kShare) return kUuidAttribute;
  return ask.kind == Ask::Kind::kPartition && ask.different_cards ? kParentUuidAttribute : std::string_view();
}

model::DeviceSubRequest subrequest(const Ask& ask) {
  model::DeviceSubRequest out;
  out.device_class = ask.vendor.empty() ? std::string(kAnyClass) : fmt::format("{}-{}", kAnyClass, ask.vendor);
  out.allocation_mode = "ExactCount";
  out.count = ask.count;
  if (ask.says_kind) out.selectors.push_back(selector_text(type_selector(ask.kind)));
  for (const Selector& selector : ask.selectors) out.selectors.push_back(selector_text(selector));
  if (ask.memory_mib > 0) out.capacity.emplace(kMemoryCapacity, Quantity::bytes(ask.memory_mib * kMebibyte));
  // Left out, the device's default would take the whole card.
  if (ask.kind == Ask::Kind::kShare) out.capacity.emplace(kCoresCapacity, Quantity::from_int(ask.cores));
  return out;
}

std::optional<Ask> read_ask(const model::DeviceRequest& request) {
  if (!request.exactly) return std::nullopt;
  const model::DeviceSubRequest& exactly = *request.exactly;
  Ask ask;
  ask.name = request.name;
  ask.count = exactly.count.value_or(1);
  std::string_view name = exactly.device_class;
  if (!name.starts_with(kAnyClass)) return std::nullopt;
  name.remove_prefix(kAnyClass.size());
  if (name.starts_with("-")) ask.vendor = name.substr(1);
  for (const auto& [capacity, quantity] : exactly.capacity) {
    const int64_t value = quantity.value().value_or(-1);
    if (capacity == kMemoryCapacity) ask.memory_mib = value > 0 ? value / kMebibyte : -1;
    if (capacity == kCoresCapacity) ask.cores = value;
  }
  for (const std::string& text : exactly.selectors) {
    if (text.size() > kMaxSelectorText) return std::nullopt;
    std::optional<Selector> selector = parse_selector(text);
    if (!selector) return std::nullopt;
    ask.selectors.push_back(std::move(*selector));
  }
  ask.says_kind = !ask.selectors.empty();
  ask.kind = exactly.capacity.contains(std::string(kCoresCapacity)) ? Ask::Kind::kShare : Ask::Kind::kWhole;
  if (!ask.says_kind) return ask.vendor == "nvidia" ? std::optional(ask) : std::nullopt;
  for (const Ask::Kind kind : {Ask::Kind::kPartition, Ask::Kind::kTemplate}) {
    if (ask.selectors.front() == type_selector(kind)) ask.kind = kind;
  }
  ask.selectors.erase(ask.selectors.begin());
  return ask;
}

// One part, of the size that its name has on some card.
bool names_template(const Ask& ask) {
  if (ask.kind != Ask::Kind::kTemplate) return true;
  const auto pins = [&](std::string_view attribute, Selector::Op op) {
    return std::any_of(ask.selectors.begin(), ask.selectors.end(), [&](const Selector& selector) {
      return selector.attribute == attribute && selector.op == op && !selector.values.empty();
    });
  };
  return ask.count == 1 && ask.memory_mib > 0 && ask.percent == 0 && pins("profile", Selector::Op::kEquals) &&
         pins("model", Selector::Op::kIn);
}

bool in_range(const Ask& ask) {
  const bool numbers = ask.count >= 1 && ask.count <= kMaxDevices && ask.memory_mib >= 0 &&
                       ask.memory_mib <= kMaxUnits / ask.count && ask.percent >= 0 && ask.percent < 100 &&
                       ask.cores >= 0 && ask.cores <= 100;
  const bool vendor = ask.vendor.empty() ? ask.kind == Ask::Kind::kWhole : is_vendor(ask.vendor);
  const bool part = ask.memory_mib > 0 || ask.percent > 0;
  const bool whole_has_no_part = ask.kind == Ask::Kind::kShare || ask.kind == Ask::Kind::kTemplate || !part;
  const bool of_shares = ask.kind == Ask::Kind::kShare || (!ask.gives_way && !ask.mps);
  const bool mask = !ask.mps || (ask.cores > 0 && ask.cores < 100);
  const bool selectors = std::all_of(ask.selectors.begin(), ask.selectors.end(),
                                     [](const Selector& selector) { return is_identifier(selector.attribute); });
  return numbers && vendor && whole_has_no_part && of_shares && mask && names_template(ask) &&
         !(ask.memory_mib > 0 && ask.percent > 0) && selectors && is_dns_label(ask.name);
}

}  // namespace

bool is_vendor(std::string_view word) {
  return is_dns_label(word);
}

model::ClaimSpec claim_spec(const ClaimForm& form) {
  model::ClaimSpec spec;
  for (const Ask& ask : form.asks) {
    spec.requests.push_back({ask.name, subrequest(ask), {}});
    if (const std::string_view attribute = distinct_attribute(ask); !attribute.empty())
      spec.constraints.push_back({{ask.name}, "", std::string(attribute)});
    model::ShareConfig share;
    if (ask.percent > 0) share.memory_percent = ask.percent;
    if (ask.gives_way) share.priority = 1;
    if (ask.mps) share.isolation = model::kIsolationMps;
    if (share != model::ShareConfig{}) {
      spec.config.push_back({{ask.name}, std::string(kDriver), codec::share_config_json(share)});
    }
  }
  if (form.one_numa_node) spec.constraints.push_back({{}, std::string(kNumaAttribute), ""});
  return spec;
}

Result<ClaimForm> read_claim_form(const model::ClaimSpec& spec) {
  const auto wrong = [] { return fail(Code::kInvalidArgument, "is not the claim of a translated request"); };
  ClaimForm form;
  int64_t devices = 0;
  std::set<std::string> names;
  for (const model::DeviceRequest& request : spec.requests) {
    std::optional<Ask> ask = read_ask(request);
    if (!ask || !names.insert(ask->name).second) return wrong();
    for (const model::OpaqueConfig& config : spec.config) {
      if (config.requests != std::vector<std::string>{ask->name}) continue;
      const auto share = codec::parse_share_config(config.parameters_json);
      if (!share || !*share) continue;
      ask->percent = (*share)->memory_percent.value_or(0);
      ask->gives_way = (*share)->priority == 1;
      ask->mps = (*share)->isolation == model::kIsolationMps;
    }
    for (const model::DeviceConstraint& constraint : spec.constraints) {
      ask->different_cards = ask->different_cards || (ask->kind == Ask::Kind::kPartition &&
                                                      constraint.distinct_attribute == kParentUuidAttribute &&
                                                      constraint.requests == std::vector<std::string>{ask->name});
    }
    if (!in_range(*ask)) return wrong();
    devices += ask->count;
    form.asks.push_back(std::move(*ask));
  }
  form.one_numa_node = std::any_of(spec.constraints.begin(), spec.constraints.end(),
                                   [](const auto& constraint) { return constraint.match_attribute == kNumaAttribute; });
  if (form.asks.empty() || devices > kMaxDevices || claim_spec(form) != spec) return wrong();
  return form;
}

}  // namespace heddle::dialects
