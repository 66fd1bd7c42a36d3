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

// Device time that the vendor accounts to a claim on a card since some fixed moment, in nanoseconds; -1: not known.
using VendorTime = std::function<int64_t(const std::string& claim_id, const std::string& uuid)>;

// Thread rule: one thread. Cost of a tick: one short read and one short write for each claim and device with a compute
// limit; nothing where there is none.
class ShareBroker {
 public:
  // The claims from now on; files of those that stay are kept open. Claims without a compute limit, strict ones, files
  // of version 1 and files that cannot be read are left alone: their guards go on by their own shares.
  void set_claims(const std::vector<BrokeredClaim>& claims);

  // One look and one word for each. A tenant whose file is damaged is left out. Gives the number of words written.
  int tick(int64_t now_ns, const VendorTime& vendor_time);

  // True when a tick would do something.
  [[nodiscard]] bool has_work() const { return !tenants_.empty(); }

 private:
  struct Device {
    std::string uuid;
    uint32_t index;
    double share;
  };
  struct Tenant {
    BrokeredClaim claim;
    UniqueFd limits;
    UniqueFd usage;
    std::vector<Device> devices;
  };
  static Result<Tenant> open(const BrokeredClaim& claim);

  std::vector<Tenant> tenants_;
  std::map<std::string, CardBroker> cards_;  // by uuid
};

}  // namespace heddle::guard
