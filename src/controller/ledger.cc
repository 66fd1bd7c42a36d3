#include "controller/ledger.h"

#include <charconv>

namespace heddle::controller {
namespace {

constexpr size_t kRemembered = 8192;  // uids of claims that are gone

std::string namespace_of(const std::string& key) {
  return key.substr(0, key.find('/'));
}

std::optional<uint64_t> number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool older_version(const std::string& candidate, const std::string& known) {
  const std::optional<uint64_t> a = number(candidate);
  const std::optional<uint64_t> b = number(known);
  return a && b && *a < *b;
}

Ledger::Change Ledger::upsert(model::ResourceClaim claim) {
  if (gone_.contains(claim.meta.uid)) return Change::kNone;
  const std::string key = claim.meta.key();
  const auto it = claims_.find(key);
  Change change = claim.allocation ? Change::kAllocation : Change::kContent;
  if (it != claims_.end()) {
    const model::ResourceClaim& known = it->second;
    if (known.meta.uid == claim.meta.uid) {
      if (known.meta.resource_version == claim.meta.resource_version) return Change::kNone;
      if (older_version(claim.meta.resource_version, known.meta.resource_version)) return Change::kNone;
      change = known.allocation == claim.allocation ? Change::kContent : Change::kAllocation;
    } else {
      remove(key, known.meta.uid);
      planned_.erase(key);  // it was decided for the claim that is gone
      change = Change::kAllocation;
    }
  }
  if (claim.allocation) planned_.erase(key);
  claims_.insert_or_assign(key, std::move(claim));
  refresh(key);
  return change;
}

void Ledger::remove(const std::string& key, const std::string& uid) {
  const auto it = claims_.find(key);
  const std::string gone = uid.empty() && it != claims_.end() ? it->second.meta.uid : uid;
  if (!gone.empty() && gone_.insert(gone).second) {
    gone_order_.push_back(gone);
    if (gone_order_.size() > kRemembered) {
      gone_.erase(gone_order_.front());
      gone_order_.pop_front();
    }
  }
  if (it == claims_.end() || it->second.meta.uid != gone) return;
  claims_.erase(it);
  refresh(key);
}

const model::ResourceClaim* Ledger::find(const std::string& key) const {
  const auto it = claims_.find(key);
  return it == claims_.end() ? nullptr : &it->second;
}

void Ledger::plan(const std::string& key, const model::ClaimSpec& spec, model::Allocation allocation) {
  planned_.insert_or_assign(key, Planned{spec, std::move(allocation)});
  refresh(key);
}

void Ledger::unplan(const std::string& key) {
  if (planned_.erase(key) > 0) refresh(key);
}

void Ledger::unplan_all() {
  std::map<std::string, Planned> all;
  all.swap(planned_);
  for (const auto& [key, plan] : all) refresh(key);
}

const model::Allocation* Ledger::planned(const std::string& key) const {
  const auto it = planned_.find(key);
  return it == planned_.end() ? nullptr : &it->second.allocation;
}

DeviceUsage Ledger::usage(const std::string& name_space) const {
  const auto it = usage_.find(name_space);
  return it == usage_.end() ? DeviceUsage{} : it->second;
}

DeviceUsage Ledger::usage_of_claim(const std::string& key) const {
  const auto it = held_.find(key);
  return it == held_.end() ? DeviceUsage{} : it->second.usage;
}

// Brings the engine's State and the sums in step with what is known and planned for one claim.
void Ledger::refresh(const std::string& key) {
  const model::ResourceClaim* known = find(key);
  const model::Allocation* allocation = planned(key);
  if (allocation == nullptr && known != nullptr && known->allocation) allocation = &*known->allocation;

  const auto it = held_.find(key);
  if (it != held_.end() && allocation != nullptr && it->second.allocation == *allocation) return;
  DeviceUsage& sum = usage_[namespace_of(key)];
  if (it != held_.end()) {
    sum -= it->second.usage;
    held_.erase(it);
    if (allocation == nullptr) state_.remove_claim(key);
  }
  if (allocation == nullptr) return;
  const auto plan = planned_.find(key);
  const model::ClaimSpec none;
  const model::ClaimSpec& spec = plan != planned_.end() ? plan->second.spec : known != nullptr ? known->spec : none;
  const DeviceUsage usage = usage_of(spec, *allocation, driver_);
  sum += usage;
  held_.emplace(key, Held{*allocation, usage});
  model::ResourceClaim effective;
  if (known != nullptr) effective = *known;
  const size_t slash = key.find('/');
  effective.meta.uid = key;
  effective.meta.name_space = key.substr(0, slash);
  effective.meta.name = slash == std::string::npos ? key : key.substr(slash + 1);
  effective.allocation = *allocation;
  state_.upsert_claim(effective);
}

}  // namespace heddle::controller
