#include "allocator/allocator.h"

#include <algorithm>
#include <limits>

namespace heddle::allocator {
namespace {

enum class Step {
  kDone,
  kNo,
  kTooMany,  // the 32 results of the claim are exceeded: no other device of an earlier request can help
};

const Held& nothing_held() {
  static const Held nothing;
  return nothing;
}

bool same_scalar(const model::AttributeValue& a, const model::AttributeValue& b) {
  const bool scalar = a.index() >= 1 && a.index() <= 4;  // int, bool, string, version
  return scalar && a == b;
}

// Whether a device that is held so can be taken once more. `take` fits the device when it is free
// (Consumption::possible).
bool can_hold(const DeviceInfo& device, const Consumption& take, const Held& held) {
  if (held.whole > 0 || held.alone > 0) return false;
  if (held.shares > 0 && (!device.shape->shared || take.alone)) return false;
  if (held.used.empty()) return true;
  for (size_t i = 0; i < take.amounts.size(); ++i) {
    if (held.used[i] + take.amounts[i] > device.shape->capacities[i].value) return false;
  }
  return true;
}

struct Candidate {
  const DeviceInfo* device = nullptr;
  const Consumption* take = nullptr;
  int64_t rank = 0;
};

struct Taken {
  const DeviceInfo* device = nullptr;
  const Consumption* take = nullptr;
  size_t claim = 0;
  bool admin = false;
};

class Search {
 public:
  Search(const NodeView& node, std::vector<PreparedClaim>& claims, const Policy& policy, const Assumption& assumption,
         const Limits& limits)
      : node_(node), claims_(claims), policy_(policy), assumption_(assumption), steps_left_(limits.steps) {
    values_.resize(claims.size());
    for (size_t i = 0; i < claims.size(); ++i) {
      values_[i].resize(claims[i].spec->constraints.size());
      constrained_ = constrained_ || !claims[i].spec->constraints.empty();
    }
    solution_.claims.resize(claims.size());
    solution_.chosen.resize(claims.size());
    for (size_t i = 0; i < claims.size(); ++i) solution_.chosen[i].assign(claims[i].requests.size(), 0);
  }

  Result<std::optional<Solution>> run() {
    HEDDLE_TRY(const Step step, claim(0));
    if (step != Step::kDone) return std::optional<Solution>();
    return std::optional<Solution>(std::move(solution_));
  }

 private:
  // Where the search stands: a slot of an alternative of a request of a claim.
  struct Slot {
    size_t claim = 0;
    size_t request = 0;
    Alternative* alternative = nullptr;
    const std::vector<Candidate>* candidates = nullptr;
    size_t count = 0;
  };

  Result<Step> claim(size_t index) {
    if (index == claims_.size()) return Step::kDone;
    HEDDLE_TRY(const Step step, request(index, 0));
    // Another choice of an earlier claim may leave this one an alternative with fewer devices.
    return step == Step::kTooMany ? Step::kNo : step;
  }

  Result<Step> request(size_t claim_index, size_t index) {
    PreparedClaim& current = claims_[claim_index];
    if (index == current.requests.size()) return claim(claim_index + 1);
    bool all_too_many = true;
    std::vector<Alternative>& alternatives = current.requests[index].alternatives;
    for (size_t i = 0; i < alternatives.size(); ++i) {
      HEDDLE_TRY(const Step step, fill(claim_index, index, alternatives[i]));
      if (step == Step::kDone) {
        solution_.chosen[claim_index][index] = i;
        return step;
      }
      all_too_many = all_too_many && step == Step::kTooMany;
    }
    return all_too_many ? Step::kTooMany : Step::kNo;
  }

  Result<Step> fill(size_t claim_index, size_t request_index, Alternative& alternative) {
    HEDDLE_TRY(const std::vector<Candidate> candidates,
               alternative.all ? every_device(alternative) : fitting_devices(claim_index, alternative));
    if (alternative.all && candidates.empty()) return Step::kNo;
    const size_t count = alternative.all ? candidates.size() : static_cast<size_t>(alternative.count);
    if (count > kMaxResults - solution_.claims[claim_index].size()) return Step::kTooMany;
    if (candidates.size() < count) return Step::kNo;
    return slot({claim_index, request_index, &alternative, &candidates, count}, 0, 0);
  }

  // Devices of one request are combinations, not permutations: the next slot starts behind the last one.
  Result<Step> slot(const Slot& at, size_t filled, size_t start) {
    if (filled == at.count) return request(at.claim, at.request + 1);
    std::vector<const DeviceInfo*> failed;
    for (size_t i = start; i + (at.count - filled) <= at.candidates->size(); ++i) {
      const auto same = [&](const DeviceInfo* other) { return interchangeable(*other, *(*at.candidates)[i].device); };
      if (std::any_of(failed.begin(), failed.end(), same)) continue;
      if (steps_left_ == 0) {
        return fail(Code::kExhausted,
                    "the search for devices on node " + node_.node + " was given up before an answer");
      }
      --steps_left_;
      const Candidate& candidate = (*at.candidates)[i];
      HEDDLE_TRY(const bool taken, take(at, candidate));
      if (taken) {
        HEDDLE_TRY(const Step step, slot(at, filled + 1, i + 1));
        if (step == Step::kDone) return step;
        give_back(at, candidate);
        if (step == Step::kTooMany) return step;
        failed.push_back(candidate.device);
      }
      if (at.alternative->all) return Step::kNo;
    }
    return Step::kNo;
  }

  Result<std::vector<Candidate>> every_device(Alternative& alternative) const {
    std::vector<Candidate> result;
    for (const PoolView& view : node_.pools) {
      if (view.pool->incomplete || !view.pool->invalid.empty()) {
        return fail(Code::kUnavailable,
                    "request " + alternative.result_name + " asks for all devices, but pool " + view.pool->driver +
                        "/" + view.pool->name + " is " +
                        (view.pool->incomplete ? "being updated" : "invalid: " + view.pool->invalid));
      }
      for (const DeviceInfo* device : view.devices) {
        if (!alternative.query->matches(*device)) continue;
        HEDDLE_TRY(const Consumption* take, alternative.consumption(*device->shape));
        if (take->possible) result.push_back({device, take, 0});
      }
    }
    return result;
  }

  Result<std::vector<Candidate>> fitting_devices(size_t claim_index, Alternative& alternative) const {
    std::vector<Candidate> result;
    for (const PoolView& view : node_.pools) {
      if (view.pool->incomplete || !view.pool->invalid.empty()) continue;
      for (const DeviceInfo* device : view.devices) {
        if (!alternative.query->matches(*device)) continue;
        HEDDLE_TRY(const Consumption* take, alternative.consumption(*device->shape));
        if (!take->possible || !available(*device, *take, claim_index, alternative.spec->admin_access)) continue;
        result.push_back({device, take, policy_.rank(*device, *take, used_of(*device))});
      }
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
    return result;
  }

  const Held& held_of(const DeviceInfo& device) const {
    if (assumption_.all_free) return nothing_held();
    for (const auto& [other, held] : assumption_.instead) {
      if (other == &device) return held;
    }
    return device.held;
  }

  // What is held of the device with what this search has taken so far.
  Held held_with_taken(const DeviceInfo& device) const {
    Held held = held_of(device);
    for (const Taken& taken : taken_) {
      if (taken.device != &device || taken.admin) continue;
      if (!device.shape->shared) {
        ++held.whole;
        continue;
      }
      ++held.shares;
      held.alone += taken.take->alone ? 1 : 0;
      held.used.resize(device.shape->capacities.size());
      for (size_t i = 0; i < held.used.size(); ++i) held.used[i] += taken.take->amounts[i];
    }
    return held;
  }

  std::vector<Amount> used_of(const DeviceInfo& device) const {
    if (is_taken(device)) return held_with_taken(device).used;
    return held_of(device).used;
  }

  bool is_taken(const DeviceInfo& device) const {
    return std::any_of(taken_.begin(), taken_.end(), [&](const Taken& taken) { return taken.device == &device; });
  }

  bool available(const DeviceInfo& device, const Consumption& take, size_t claim_index, bool admin) const {
    if (admin) {
      return std::none_of(taken_.begin(), taken_.end(), [&](const Taken& taken) {
        return taken.device == &device && taken.claim == claim_index && !device.shape->shared;
      });
    }
    if (!is_taken(device)) return can_hold(device, take, held_of(device));
    return can_hold(device, take, held_with_taken(device));
  }

  // What failed with one of them fails with the other: everything that the rest of the search can ask gives the same
  // answer. So n requests over m equal devices cost their combinations by kind, not by device.
  bool interchangeable(const DeviceInfo& a, const DeviceInfo& b) const {
    if (constrained_ || a.shape != b.shape || a.pool != b.pool || !a.counters.empty() || !b.counters.empty())
      return false;
    const Held left = held_with_taken(a);
    const Held right = held_with_taken(b);
    if (left.whole != right.whole || left.shares != right.shares || left.alone != right.alone ||
        left.used != right.used) {
      return false;
    }
    for (const PreparedClaim& claim : claims_) {
      for (const PreparedRequest& request : claim.requests) {
        for (const Alternative& alternative : request.alternatives) {
          if (alternative.spec->admin_access || alternative.all) return false;
          if (alternative.query->matches(a) != alternative.query->matches(b)) return false;
        }
      }
    }
    return true;
  }

  // Counters of the pool that are left for this search, after everything held and assumed.
  bool counters_allow(const DeviceInfo& device) const {
    if (device.counters.empty()) return true;
    const Held& held = held_of(device);
    if (held.whole > 0 || held.shares > 0 || is_taken(device)) return true;  // charged already
    std::vector<Amount> used(device.pool->counters.size());
    for (size_t i = 0; i < used.size(); ++i) used[i] = assumption_.all_free ? 0 : device.pool->counters[i].used;
    for (const auto& [other, assumed] : assumption_.instead) {
      const bool freed = other->pool == device.pool && assumed.whole == 0 && assumed.shares == 0;
      if (!freed || (other->held.whole == 0 && other->held.shares == 0)) continue;
      for (const CounterUse& use : other->counters) used[use.counter] -= use.amount;
    }
    std::vector<const DeviceInfo*> charged;
    for (const Taken& taken : taken_) {
      const Held& before = held_of(*taken.device);
      if (taken.admin || taken.device->pool != device.pool || before.whole > 0 || before.shares > 0) continue;
      if (std::find(charged.begin(), charged.end(), taken.device) != charged.end()) continue;
      charged.push_back(taken.device);
      for (const CounterUse& use : taken.device->counters) used[use.counter] += use.amount;
    }
    return std::all_of(device.counters.begin(), device.counters.end(), [&](const CounterUse& use) {
      return used[use.counter] + use.amount <= device.pool->counters[use.counter].total;
    });
  }

  bool constraints_allow(const Slot& at, const DeviceInfo& device) const {
    for (const uint32_t index : at.alternative->constraints) {
      const model::DeviceConstraint& constraint = claims_[at.claim].spec->constraints[index];
      const bool match = !constraint.match_attribute.empty();
      const model::AttributeValue* value = attribute(device, constraint);
      if (value == nullptr) return false;
      const auto& earlier = values_[at.claim][index];
      if (match && !earlier.empty() && !same_scalar(*earlier.front(), *value)) return false;
      if (!match &&
          std::any_of(earlier.begin(), earlier.end(), [&](const auto* other) { return same_scalar(*other, *value); })) {
        return false;
      }
    }
    return true;
  }

  static const model::AttributeValue* attribute(const DeviceInfo& device, const model::DeviceConstraint& constraint) {
    const std::string& name =
        constraint.match_attribute.empty() ? constraint.distinct_attribute : constraint.match_attribute;
    return model::find_attribute(*device.device, device.pool->driver, name);
  }

  Result<bool> take(const Slot& at, const Candidate& candidate) {
    const bool admin = at.alternative->spec->admin_access;
    const DeviceInfo& device = *candidate.device;
    if (!available(device, *candidate.take, at.claim, admin)) return false;
    if (!admin && !counters_allow(device)) return false;
    if (!constraints_allow(at, device)) {
      if (!at.alternative->all) return false;
      return fail(Code::kInvalidArgument, "claim " + claims_[at.claim].key + ", request " +
                                              at.alternative->result_name +
                                              " asks for all devices, but a constraint of the claim excludes " +
                                              device.pool->name + "/" + device.device->name);
    }
    for (const uint32_t index : at.alternative->constraints) {
      values_[at.claim][index].push_back(attribute(device, claims_[at.claim].spec->constraints[index]));
    }
    taken_.push_back({&device, candidate.take, at.claim, admin});
    solution_.claims[at.claim].push_back({&device, at.alternative, candidate.take, device.shape->shared});
    solution_.rank += candidate.rank;
    return true;
  }

  void give_back(const Slot& at, const Candidate& candidate) {
    for (const uint32_t index : at.alternative->constraints) values_[at.claim][index].pop_back();
    taken_.pop_back();
    solution_.claims[at.claim].pop_back();
    solution_.rank -= candidate.rank;
  }

  const NodeView& node_;
  std::vector<PreparedClaim>& claims_;
  const Policy& policy_;
  const Assumption& assumption_;
  uint64_t steps_left_;
  bool constrained_ = false;  // some claim compares attributes
  std::vector<Taken> taken_;
  std::vector<std::vector<std::vector<const model::AttributeValue*>>> values_;  // by claim and constraint
  Solution solution_;
};

}  // namespace

int64_t FirstFit::rank(const DeviceInfo& /*device*/, const Consumption& /*take*/,
                       const std::vector<Amount>& /*used*/) const {
  return 0;
}

int64_t BestFit::rank(const DeviceInfo& device, const Consumption& take, const std::vector<Amount>& used) const {
  const Shape& shape = *device.shape;
  if (!shape.shared || shape.capacities.empty()) return 0;
  constexpr Amount kMillion = 1'000'000;
  Amount left = 0;
  for (size_t i = 0; i < shape.capacities.size(); ++i) {
    const Amount value = shape.capacities[i].value;
    if (value == 0) continue;
    const Amount taken = take.amounts[i] + (used.empty() ? 0 : used[i]);
    left += (value - taken) * kMillion / value;
  }
  return static_cast<int64_t>(left / static_cast<Amount>(shape.capacities.size()));
}

bool fits(const DeviceInfo& device, const Alternative& alternative, const Consumption& take, const Held& held) {
  return take.possible && (alternative.spec->admin_access || can_hold(device, take, held));
}

Result<std::optional<Solution>> solve(const NodeView& node, std::vector<PreparedClaim>& claims, const Policy& policy,
                                      const Assumption& assumption, const Limits& limits) {
  return Search(node, claims, policy, assumption, limits).run();
}

}  // namespace heddle::allocator
