// The broker of compute shares on a node: reads what each tenant's guard writes about its use of a card, and tells each
// guard what it may use now (broker.h has the law). Tenants share nothing with each other: each reads a page that only
// the agent can write, each writes a file that only the agent reads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "guard/broker.h"

namespace heddle::guard {

// One set of limits and the usage that belongs to it.
struct BrokeredClaim {
  std::string id;
  std::string limits_file;
  std::string usage_file;

  friend bool operator==(const BrokeredClaim&, const BrokeredClaim&) = default;
};

// What the vendor accounts to a claim on a card.
struct VendorAccount {
  int64_t busy_ns = -1;  // device time since some fixed moment; -1: not known
  int64_t at_ns = 0;     // CLOCK_MONOTONIC: up to when
};
using VendorTime = std::function<VendorAccount(const std::string& claim_id, const std::string& uuid)>;

// Thread rule: one thread. Cost of a tick: one short read and one short write for each claim and device with a compute
// limit on a card with several such claims; nothing elsewhere.
class ShareBroker {
 public:
  struct Outcome {
    int written = 0;      // words
    bool active = false;  // some tenant asked for a card lately
  };

  // The claims from now on. Files of those that stay are kept open, and opened again where others lie in their place.
  // Whole cards and files that cannot be read are left alone; claims without a compute limit count where others give
  // way. Strict claims and those of version 1 are told nothing, but what they use is lent to nobody.
  void set_claims(const std::vector<BrokeredClaim>& claims);

  // One look and one word for each. A tenant whose file is damaged is told nothing and counts as one that uses its
  // share.
  Outcome tick(int64_t now_ns, const VendorTime& vendor_time);

  // True when a tick would do something: some card has several tenants, and one of them can be told.
  [[nodiscard]] bool has_work() const { return !shared_.empty(); }

  // The most that each tenant was told since the last call, of the card's time, by claim and card.
  using Told = std::map<std::pair<std::string, std::string>, double>;
  [[nodiscard]] Told take_told() { return std::exchange(told_, {}); }

 private:
  struct Device {
    std::string uuid;
    uint32_t index;
    double share;
    bool gives_way;
    [[nodiscard]] bool unlimited() const { return share == 0 && !gives_way; }
  };
  struct Tenant {
    BrokeredClaim claim;
    UniqueFd limits;  // none for those who are told nothing
    UniqueFd usage;
    std::vector<Device> devices;
    int priority = 0;
    bool tells = false;  // when it asks: not in version 1
  };
  struct Place {
    const Tenant* tenant = nullptr;
    const Device* device = nullptr;
    [[nodiscard]] bool is_told() const { return tenant->limits.valid() && !device->unlimited(); }
  };
  static Result<Tenant> open(const BrokeredClaim& claim);
  static bool is_current(const Tenant& tenant);
  static TenantView look(const Place& place, int64_t now_ns, const VendorTime& vendor_time);

  std::vector<Tenant> tenants_;
  std::map<std::string, std::vector<Place>> shared_;  // by uuid: the cards with several tenants
  std::map<std::string, CardBroker> cards_;           // likewise
  Told told_;
};

}  // namespace heddle::guard
