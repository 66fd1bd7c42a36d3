// Who holds what, by device: the grants of all claims, kept also for devices that have vanished.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "allocator/device.h"
#include "engine/engine.h"
#include "engine/interference.h"
#include "model/claim.h"

namespace heddle::engine {

struct Grant {
  std::string uid;
  std::string claim_key;
  std::string holder;  // the pod that it is reserved for or owned by, else the claim: for explanations
  std::optional<Time> since;
  std::optional<std::string> node;
  std::vector<model::DeviceResult> results;  // without admin access, which holds nothing
  std::vector<Tenant> tenants = {};          // by result
  // No claim has it: room that is kept, and the grants that make it. What these still have of a device counts once.
  bool kept = false;
  std::vector<std::string> made_by = {};  // uids
};

struct Holding {
  const Grant* grant = nullptr;
  const model::DeviceResult* result = nullptr;  // of the grant
  const Tenant* tenant = nullptr;               // of the grant
};

class Ledger {
 public:
  // The devices whose holdings changed. Nothing when the claim says what it said before.
  std::vector<DeviceKey> upsert(const model::ResourceClaim& claim);
  std::vector<DeviceKey> remove(const std::string& uid);
  // Room that is kept for this one; none is.
  std::vector<DeviceKey> keep(const std::string& id, const KeptRoom& room);
  std::vector<DeviceKey> unkeep(const std::string& id);

  [[nodiscard]] const Grant* find(const std::string& uid) const;
  // By device; empty lists are not kept. Holdings are in the order of claim uids.
  [[nodiscard]] const std::map<DeviceKey, std::vector<Holding>>& devices() const { return devices_; }
  [[nodiscard]] const std::vector<Holding>* find(const DeviceKey& device) const;
  // Of all shares.
  [[nodiscard]] const Crowd& crowd() const { return crowd_; }

 private:
  void count_shares(const Grant& grant, int64_t sign);
  void put(Grant grant, std::vector<DeviceKey>& changed);

  std::map<std::string, Grant> grants_;  // by uid
  std::map<DeviceKey, std::vector<Holding>> devices_;
  Crowd crowd_;
};

DeviceKey key_of(const model::DeviceResult& result);

// What the holdings take of a device of this shape. without: a grant that is taken to have ended; may be null.
allocator::Held held_by(const std::vector<Holding>& holdings, const allocator::Shape& shape,
                        const std::vector<const Grant*>& without = {});

}  // namespace heddle::engine
