// Devices for claims on one node: the semantics of Kubernetes' structured parameters (facts:
// k8s.io/dynamic-resource-allocation v0.37.2, structured/internal/incubating), as a backtracking search over claims,
// requests and device slots.
//
// Pure and deterministic. Cost: bounded in steps (candidate devices tried), never in time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "allocator/device.h"
#include "allocator/prepare.h"
#include "base/random.h"
#include "base/result.h"
#include "model/claim.h"

namespace heddle::allocator {

// Which of the devices that fit is tried first.
class Policy {
 public:
  virtual ~Policy() = default;
  // False when rank() is the same for all: then devices are looked at only until the request is served.
  [[nodiscard]] virtual bool ranks() const { return true; }
  // Smaller is tried first; equal ones in the order of pools, slices and devices. used: what is taken of the device
  // already, by claims and by this search, as Shape::capacities; it may be empty for nothing.
  [[nodiscard]] virtual int64_t rank(const DeviceInfo& device, const Consumption& take,
                                     const std::vector<Amount>& used) const = 0;
};

// The order of upstream.
class FirstFit final : public Policy {
 public:
  [[nodiscard]] bool ranks() const override { return false; }
  [[nodiscard]] int64_t rank(const DeviceInfo& device, const Consumption& take,
                             const std::vector<Amount>& used) const override;
};

// The device that is left with the least free: the mean of what stays free of each capacity, in millionths.
class BestFit final : public Policy {
 public:
  [[nodiscard]] int64_t rank(const DeviceInfo& device, const Consumption& take,
                             const std::vector<Amount>& used) const override;
};

// What is assumed of the devices instead of DeviceInfo::held: to ask what would fit if something ended.
struct Assumption {
  bool all_free = false;
  std::vector<std::pair<const DeviceInfo*, Held>> instead;
};

struct Pick {
  const DeviceInfo* device = nullptr;
  const Alternative* alternative = nullptr;
  const Consumption* take = nullptr;
  bool shared = false;  // gets a share id
};

struct Solution {
  std::vector<std::vector<Pick>> claims;    // picks in request order
  std::vector<std::vector<size_t>> chosen;  // by claim and request: which alternative
  int64_t rank = 0;                         // sum over the picks, as the policy gave it
};

struct Limits {
  uint64_t steps = 200'000;  // candidate devices tried
};

class Search;

// The same claims asked of one node after the other, with memory that is used again: from the second node on, an answer
// without a failed attempt allocates nothing. All that is passed is borrowed. One thread at a time.
class Solver {
 public:
  // options: those that the claims were prepared with.
  Solver(std::vector<PreparedClaim>& claims, const Policy& policy, const Options& options, const Limits& limits = {});
  ~Solver();
  Solver(Solver&&) noexcept;
  Solver& operator=(Solver&&) noexcept;

  // Null: the claims do not fit on this node; else what is good until the next call. Errors: kExhausted when the steps
  // ran out before there was an answer; kUnavailable for mode All on a pool that is being updated or is invalid, or
  // that has more devices than a claim can hold; kInvalidArgument for what can fit nowhere by the way it is written
  // (capacity not representable, a constraint that keeps All from taking a device, with SelectorErrors::kAbort a
  // selector that fails on a device).
  Result<const Solution*> solve(const NodeView& node, const Assumption& assumption = {});

 private:
  std::unique_ptr<Search> search_;
};

// A Solver for one node. Nothing: the claims do not fit on it.
Result<std::optional<Solution>> solve(const NodeView& node, std::vector<PreparedClaim>& claims, const Policy& policy,
                                      const Assumption& assumption, const Limits& limits, const Options& options = {});

// Whether one device can serve the alternative now, beside nothing else of the request.
bool fits(const DeviceInfo& device, const Alternative& alternative, const Consumption& take, const Held& held);

// The allocation as it is written to the claim's status, without timestamp.
// Errors: kInvalidArgument for a slice whose node selector has several terms.
Result<model::Allocation> make_allocation(const PreparedClaim& claim, const Solution& solution, size_t claim_index,
                                          const std::string& node, SeededRandom& random, const Options& options = {});

}  // namespace heddle::allocator
