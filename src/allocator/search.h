// The search of solve(): depth first over claims, requests, alternatives and device slots.
//
// The first dive costs nothing beyond the devices it looks at, and with a policy that does not rank it looks at no more
// than it takes. When it fails, the search first tries to prove that
// there is no solution (bounds.h), then goes on with devices grouped into classes of equals (classes.h): of equal
// devices one is tried, and a state that failed once is not entered again in any of its equal forms.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "allocator/allocator.h"
#include "allocator/classes.h"
#include "allocator/constraints.h"
#include "allocator/occupancy.h"
#include "allocator/plan.h"

namespace heddle::allocator {

class Search {
 public:
  Search(std::vector<PreparedClaim>& claims, const Policy& policy, const Limits& limits, const Options& options);

  // Null: no. The solution is good until the next run.
  Result<const Solution*> run(const NodeView& node, const Assumption& assumption);

 private:
  enum class Step : uint8_t {
    kDone,
    kNo,
    kTooMany,  // the 32 results of the claim are exceeded: no other device of an earlier request can help
  };
  // Where the search stands: the slots of an alternative of a request of a claim.
  struct Slots {
    Plan* plan = nullptr;
    const std::vector<Candidate>* ranked = nullptr;  // null: the plan's, in their order, listed as they are needed
    size_t count = 0;
  };

  void begin(const NodeView& node, const Assumption& assumption);
  Result<void> check_all_requests();
  Result<size_t> count_all(size_t claim_index, const Plan& plan) const;
  Result<Step> claim(size_t index);
  Result<Step> request(size_t claim_index, size_t index);
  Result<Step> alternatives(size_t claim_index, size_t index);
  Result<Step> fill(Plan& plan);
  Result<Step> slot(const Slots& at, size_t filled, size_t start);
  Result<bool> try_take(Plan& plan, const Candidate& candidate);
  void give_back(const Plan& plan, const Candidate& candidate);
  bool reach(const Slots& at, size_t index, size_t needed);
  [[nodiscard]] bool meets(const Plan& plan, const DeviceInfo& device) const;
  [[nodiscard]] std::vector<Candidate> available(const Plan& plan) const;
  [[nodiscard]] bool node_allows(const DeviceInfo& device) const;
  void on_failure();
  [[nodiscard]] std::string state_key(size_t claim_index, size_t index) const;

  std::vector<PreparedClaim>& claims_;
  const Policy& policy_;
  const Limits limits_;
  const Options& options_;
  const NodeView* node_ = nullptr;
  uint64_t steps_left_ = 0;
  Occupancy occupancy_;
  Constraints constraints_;
  Plans plans_;
  Solution solution_;

  bool failed_before_ = false;
  bool proven_no_ = false;
  std::unique_ptr<Classes> classes_;  // null: not needed yet, or a selector fails somewhere and all must be tried
  std::unordered_map<std::string, Step> dead_ends_;
};

}  // namespace heddle::allocator
