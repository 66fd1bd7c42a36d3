#include "allocator/search.h"

#include <algorithm>

#include "allocator/bounds.h"

namespace heddle::allocator {
namespace {

constexpr size_t kMaxDeadEnds = 200'000;
constexpr const char* kOptionalOperations = "DRAOptionalNodeOperations";

std::string pool_text(const PoolInfo& pool) {
  return "resource pool " + pool.driver + "/" + pool.name;
}

}  // namespace

Search::Search(const NodeView& node, std::vector<PreparedClaim>& claims, const Policy& policy,
               const Assumption& assumption, const Limits& limits, const Options& options)
    : node_(node),
      claims_(claims),
      policy_(policy),
      options_(options),
      steps_left_(limits.steps),
      occupancy_(assumption, options.features),
      constraints_(claims, options.features),
      plans_(claims) {
  solution_.claims.resize(claims.size());
  solution_.chosen.resize(claims.size());
  for (size_t i = 0; i < claims.size(); ++i) solution_.chosen[i].assign(claims[i].requests.size(), 0);
}

Result<std::optional<Solution>> Search::run() {
  HEDDLE_CHECK_OK(check_all_requests());
  HEDDLE_TRY(const Step step, claim(0));
  if (step != Step::kDone) return std::optional<Solution>();
  return std::optional<Solution>(std::move(solution_));
}

// "All" means something only when the pools are settled and their devices can be judged; a claim that asks for too many
// devices in every way is refused by name.
Result<void> Search::check_all_requests() {
  for (size_t c = 0; c < claims_.size(); ++c) {
    size_t least = 0;
    for (size_t r = 0; r < claims_[c].requests.size(); ++r) {
      const std::vector<Alternative>& alternatives = claims_[c].requests[r].alternatives;
      size_t smallest = SIZE_MAX;
      for (size_t a = 0; a < alternatives.size(); ++a) {
        if (!alternatives[a].all) {
          smallest = std::min(smallest, static_cast<size_t>(alternatives[a].count));
          continue;
        }
        Plan& plan = plans_.at(c, r, a);
        for (const PoolView& view : node_.pools) {
          if (!view.pool->incomplete && view.pool->invalid.empty()) continue;
          return fail(Code::kUnavailable, place_text(claims_[c].key, alternatives[a]) + ": asks for all devices, but " +
                                              pool_text(*view.pool) + " is currently " +
                                              (view.pool->incomplete ? "being updated" : "invalid"));
        }
        plan.list(node_, options_);
        for (const Candidate& candidate : plan.candidates) {
          if (candidate.take == nullptr) return tl::unexpected<Error>(plan.error_of(*candidate.device));
        }
        smallest = std::min(smallest, plan.candidates.size());
      }
      if (smallest > kMaxResults - least) {
        return fail(Code::kUnavailable, "claim " + claims_[c].key + ", request " + claims_[c].requests[r].spec->name +
                                            ": adding " + std::to_string(smallest) +
                                            " devices exceeds the claim limit of " + std::to_string(kMaxResults) +
                                            ", with " + std::to_string(least) + " already accounted for");
      }
      least += smallest;
    }
  }
  return {};
}

Result<Search::Step> Search::claim(size_t index) {
  if (index == claims_.size()) return Step::kDone;
  HEDDLE_TRY(const Step step, request(index, 0));
  // Another choice of an earlier claim may leave this one an alternative with fewer devices.
  return step == Step::kTooMany ? Step::kNo : step;
}

Result<Search::Step> Search::request(size_t claim_index, size_t index) {
  if (index == claims_[claim_index].requests.size()) return claim(claim_index + 1);
  if (!dead_ends_.empty()) {
    const auto known = dead_ends_.find(state_key(claim_index, index));
    if (known != dead_ends_.end()) return known->second;
  }
  HEDDLE_TRY(const Step step, alternatives(claim_index, index));
  const bool first = claim_index == 0 && index == 0;  // then the search is over
  if (step == Step::kDone || first) return step;
  on_failure();
  if (classes_ && dead_ends_.size() < kMaxDeadEnds) dead_ends_.emplace(state_key(claim_index, index), step);
  return step;
}

Result<Search::Step> Search::alternatives(size_t claim_index, size_t index) {
  bool all_too_many = true;
  const size_t count = claims_[claim_index].requests[index].alternatives.size();
  for (size_t i = 0; i < count; ++i) {
    HEDDLE_TRY(const Step step, fill(plans_.at(claim_index, index, i)));
    if (step == Step::kDone) {
      solution_.chosen[claim_index][index] = i;
      return step;
    }
    if (proven_no_) return Step::kNo;
    all_too_many = all_too_many && step == Step::kTooMany;
  }
  return all_too_many ? Step::kTooMany : Step::kNo;
}

Result<Search::Step> Search::fill(Plan& plan) {
  plan.list(node_, options_);
  if (plan.alternative->all) {
    const size_t count = plan.candidates.size();
    if (count == 0) return Step::kNo;
    if (count > kMaxResults - solution_.claims[plan.claim].size()) return Step::kTooMany;
    return slot({&plan, &plan.candidates, count}, 0, 0);
  }
  const auto count = static_cast<size_t>(plan.alternative->count);
  if (count > kMaxResults - solution_.claims[plan.claim].size()) return Step::kTooMany;
  const std::vector<Candidate> candidates = available(plan);
  return slot({&plan, &candidates, count}, 0, 0);
}

std::vector<Candidate> Search::available(const Plan& plan) const {
  std::vector<Candidate> result;
  const bool admin = plan.alternative->spec->admin_access;
  static const Consumption kNothing;
  for (const Candidate& candidate : plan.candidates) {
    const bool error = candidate.take == nullptr;
    const Consumption& take = error ? kNothing : *candidate.take;
    if (!occupancy_.available(*candidate.device, take, plan.claim, admin)) continue;
    result.push_back(candidate);
    if (!error) result.back().rank = policy_.rank(*candidate.device, take, occupancy_.used(*candidate.device));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
  return result;
}

// Devices of one request are combinations, not permutations: the next slot starts behind the last one.
Result<Search::Step> Search::slot(const Slots& at, size_t filled, size_t start) {
  if (filled == at.count) return request(at.plan->claim, at.plan->request + 1);
  const bool all = at.plan->alternative->all;
  const size_t needed = at.plan->failing ? 1 : at.count - filled;
  std::vector<uint32_t> failed;  // classes of devices that were free and did not help
  for (size_t i = start; i + needed <= at.candidates->size(); ++i) {
    const Candidate& candidate = (*at.candidates)[i];
    const bool fresh = !occupancy_.is_taken(*candidate.device);
    if (classes_ && fresh && std::find(failed.begin(), failed.end(), classes_->of(*candidate.device)) != failed.end()) {
      continue;
    }
    if (candidate.take == nullptr) return tl::unexpected<Error>(at.plan->error_of(*candidate.device));
    if (steps_left_ == 0) {
      return fail(Code::kExhausted, "the search for devices on node " + node_.node +
                                        " was given up before an answer: neither yes nor no");
    }
    --steps_left_;
    HEDDLE_TRY(const bool taken, try_take(*at.plan, candidate));
    if (taken) {
      HEDDLE_TRY(const Step step, slot(at, filled + 1, i + 1));
      if (step == Step::kDone) return step;
      give_back(*at.plan, candidate);
      if (step == Step::kTooMany) return step;
      if (proven_no_) return Step::kNo;
    }
    if (all) return Step::kNo;
    if (classes_ && fresh) failed.push_back(classes_->of(*candidate.device));
  }
  return Step::kNo;
}

bool Search::node_allows(const DeviceInfo& device) const {
  if (device.skip_node_operations == nullptr || device.skip_node_operations->empty()) return true;
  const auto& declared = node_.declared_features;
  return options_.features.optional_node_operations &&
         std::find(declared.begin(), declared.end(), kOptionalOperations) != declared.end();
}

Result<bool> Search::try_take(Plan& plan, const Candidate& candidate) {
  const Alternative& alternative = *plan.alternative;
  const DeviceInfo& device = *candidate.device;
  if (!occupancy_.available(device, *candidate.take, plan.claim, alternative.spec->admin_access)) return false;
  if (!node_allows(device) || !occupancy_.pool_allows(device)) return false;
  if (options_.features.device_taints && !alternative.query->taints_allow(device)) return false;
  HEDDLE_TRY(const bool joined, constraints_.add(plan.claim, alternative, device));
  if (!joined) {
    if (!alternative.all) return false;
    return fail(Code::kInvalidArgument, place_text(claims_[plan.claim].key, alternative) + ": cannot add device " +
                                            device_text(device) + " because a claim constraint would not be satisfied");
  }
  occupancy_.take(device, *candidate.take, alternative, plan.claim);
  solution_.claims[plan.claim].push_back({&device, &alternative, candidate.take, occupancy_.shared(device)});
  solution_.rank += candidate.rank;
  return true;
}

void Search::give_back(const Plan& plan, const Candidate& candidate) {
  constraints_.remove(plan.claim, *plan.alternative);
  occupancy_.give_back();
  solution_.claims[plan.claim].pop_back();
  solution_.rank -= candidate.rank;
}

// The first time that something fails, all is prepared to fail fast. A selector or capacity that is an error on some
// device must be come across as upstream would, so then nothing is skipped.
void Search::on_failure() {
  if (failed_before_) return;
  failed_before_ = true;
  bool failing = false;
  for (Plan& plan : plans_.all()) {
    plan.list(node_, options_);
    failing = failing || plan.failing;
  }
  if (failing) return;
  Occupancy untouched = occupancy_.emptied();
  proven_no_ = proves_no(claims_, plans_, untouched);
  if (proven_no_) return;
  auto classes = Classes::make(plans_.all(), occupancy_, constraints_, options_.features);
  if (classes) classes_ = std::make_unique<Classes>(*std::move(classes));
}

std::string Search::state_key(size_t claim_index, size_t index) const {
  std::string key = std::to_string(claim_index) + "/" + std::to_string(index) + "/";
  return key + classes_->state(occupancy_.taken(), claim_index);
}

}  // namespace heddle::allocator
