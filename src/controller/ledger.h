// The claims as last seen, the allocations that are decided but not yet confirmed, and the engine's State over both.
//
// A planned allocation counts as held from the moment of the decision, so two decisions in flight never take one share;
// it is replaced by what the API server says as soon as that has an allocation. The State knows a claim by
// namespace/name in place of its uid, which a planned claim does not have yet: then its creation frees and takes
// nothing. Pure; one owner thread. Cost: O(log claims) a call.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/quota.h"
#include "engine/engine.h"
#include "model/claim.h"

namespace heddle::controller {

class Ledger {
 public:
  explicit Ledger(std::string driver) : driver_(std::move(driver)), state_(driver_) {}

  enum class Change { kNone, kContent, kAllocation };  // kAllocation: an allocation came, went or changed
  // An object older than the known one, or of a claim known to be gone, changes nothing.
  Change upsert(model::ResourceClaim claim);
  // uid: of the object that is gone; a newer one of the same name stays. Empty: whatever is there.
  void remove(const std::string& key, const std::string& uid);

  [[nodiscard]] const model::ResourceClaim* find(const std::string& key) const;
  [[nodiscard]] const std::map<std::string, model::ResourceClaim>& claims() const { return claims_; }

  // spec: of the claim, which may not exist yet.
  void plan(const std::string& key, const model::ClaimSpec& spec, model::Allocation allocation);
  void unplan(const std::string& key);
  void unplan_all();
  [[nodiscard]] const model::Allocation* planned(const std::string& key) const;

  [[nodiscard]] DeviceUsage usage(const std::string& name_space) const;
  [[nodiscard]] DeviceUsage usage_of_claim(const std::string& key) const;
  [[nodiscard]] engine::State& state() { return state_; }
  [[nodiscard]] const engine::State& state() const { return state_; }
  [[nodiscard]] const std::string& driver() const { return driver_; }

 private:
  struct Held {
    model::Allocation allocation;
    DeviceUsage usage;
  };
  void refresh(const std::string& key);

  std::string driver_;
  engine::State state_;
  std::map<std::string, model::ResourceClaim> claims_;  // namespace/name
  struct Planned {
    model::ClaimSpec spec;
    model::Allocation allocation;
  };
  std::map<std::string, Planned> planned_;
  std::map<std::string, Held> held_;
  std::map<std::string, DeviceUsage> usage_;
  // A response can arrive after the watch said that its claim is gone.
  std::deque<std::string> gone_order_;
  std::set<std::string> gone_;
};

// resourceVersions of one resource are ordered integers (Kubernetes 1.35 and later); anything else counts as newer.
[[nodiscard]] bool older_version(const std::string& candidate, const std::string& known);

}  // namespace heddle::controller
