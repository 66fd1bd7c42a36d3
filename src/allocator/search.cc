#include "allocator/search.h"

#include <algorithm>

#include "allocator/bounds.h"

namespace heddle::allocator {
namespace {

constexpr size_t kMaxDeadEnds = 200'000;
constexpr uint64_t kEasySteps = 32;  // so much is tried before thinking
constexpr const char* kOptionalOperations = "DRAOptionalNodeOperations";

std::string pool_text(const PoolInfo& pool) {
  return "resource pool " + pool.driver + "/" + pool.name;
}

}  // namespace

Search::Search(std::vector<PreparedClaim>& claims, const Policy& policy, const Limits& limits, const Options& options)
    : claims_(claims),
      policy_(policy),
      limits_(limits),
      options_(options),
      occupancy_(options.features),
      constraints_(claims, options.features),
      plans_(claims) {
  solution_.claims.resize(claims.size());
  solution_.chosen.resize(claims.size());
  for (size_t i = 0; i < claims.size(); ++i) solution_.chosen[i].assign(claims[i].requests.size(), 0);
}

void Search::begin(const NodeView& node, const Assumption& assumption) {
  node_ = &node;
  steps_left_ = limits_.steps;
  occupancy_.begin(assumption);
  constraints_.begin();
  plans_.begin();
  for (std::vector<Pick>& picks : solution_.claims) picks.clear();
  solution_.rank = 0;
  failed_before_ = false;
  proven_no_ = false;
  classes_.reset();
  dead_ends_.clear();
}

Result<const Solution*> Search::run(const NodeView& node, const Assumption& assumption) {
  begin(node, assumption);
  HEDDLE_CHECK_OK(check_all_requests());
  HEDDLE_TRY(const Step step, claim(0));
  return step == Step::kDone ? &solution_ : nullptr;
}

// "All" means something only when the pools are settled and their devices can be judged.
Result<size_t> Search::count_all(size_t claim_index, const Plan& plan) const {
  for (const PoolView& view : node_->pools) {
    if (!view.pool->incomplete && view.pool->invalid.empty()) continue;
    return fail(Code::kUnavailable, place_text(claims_[claim_index].key, *plan.alternative) +
                                        ": asks for all devices, but " + pool_text(*view.pool) + " is currently " +
                                        (view.pool->incomplete ? "being updated" : "invalid"));
  }
  for (const Candidate& candidate : plan.candidates) {
    if (candidate.take == nullptr) return tl::unexpected<Error>(plan.error_of(*candidate.device));
  }
  return plan.candidates.size();
}

// A claim that asks for too many devices in every way is refused by name.
Result<void> Search::check_all_requests() {
  for (size_t c = 0; c < claims_.size(); ++c) {
    size_t least = 0;
    for (size_t r = 0; r < claims_[c].requests.size(); ++r) {
      const std::vector<Alternative>& alternatives = claims_[c].requests[r].alternatives;
      size_t smallest = SIZE_MAX;
      for (size_t a = 0; a < alternatives.size(); ++a) {
        auto count = static_cast<size_t>(alternatives[a].count);
        if (alternatives[a].all) {
          Plan& plan = plans_.at(c, r, a);
          plan.list(*node_, occupancy_, options_);
          HEDDLE_TRY(count, count_all(c, plan));
        }
        smallest = std::min(smallest, count);
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
  const size_t room = kMaxResults - solution_.claims[plan.claim].size();
  if (plan.alternative->all) {
    const size_t count = plan.candidates.size();
    if (count == 0) return Step::kNo;
    if (count > room) return Step::kTooMany;
    return slot({&plan, nullptr, count}, 0, 0);
  }
  const auto count = static_cast<size_t>(plan.alternative->count);
  if (count > room) return Step::kTooMany;
  if (!policy_.ranks()) return slot({&plan, nullptr, count}, 0, 0);
  plan.list(*node_, occupancy_, options_);
  const std::vector<Candidate> ranked = available(plan);
  return slot({&plan, &ranked, count}, 0, 0);
}

// Whether there is a candidate of this index, and, as far as is known, `needed` from there on.
bool Search::reach(const Slots& at, size_t index, size_t needed) {
  if (at.ranked != nullptr) return index + needed <= at.ranked->size();
  if (at.plan->listed) return index + needed <= at.plan->candidates.size();
  return at.plan->reach(index, *node_, occupancy_, options_);
}

// Whether a search comes across the device at all: one that is in use is passed over before it is judged.
bool Search::meets(const Plan& plan, const DeviceInfo& device) const {
  static const Consumption nothing;
  return occupancy_.available(device, nothing, plan.claim, plan.alternative->spec->admin_access);
}

std::vector<Candidate> Search::available(const Plan& plan) const {
  std::vector<Candidate> result;
  const bool admin = plan.alternative->spec->admin_access;
  for (const Candidate& candidate : plan.candidates) {
    const DeviceInfo& device = *candidate.device;
    if (candidate.take == nullptr) {
      if (meets(plan, device)) result.push_back(candidate);
      continue;
    }
    if (!occupancy_.available(device, *candidate.take, plan.claim, admin)) continue;
    result.push_back(candidate);
    result.back().rank = policy_.rank(device, *candidate.take, occupancy_.used(device));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
  return result;
}

// Devices of one request are combinations, not permutations: the next slot starts behind the last one.
Result<Search::Step> Search::slot(const Slots& at, size_t filled, size_t start) {
  if (filled == at.count) return request(at.plan->claim, at.plan->request + 1);
  const bool all = at.plan->alternative->all;
  const bool admin = at.plan->alternative->spec->admin_access;
  std::vector<uint32_t> failed;  // classes of devices that were free and did not help
  for (size_t i = start; reach(at, i, at.plan->failing ? 1 : at.count - filled); ++i) {
    const Candidate candidate = at.ranked != nullptr ? (*at.ranked)[i] : at.plan->candidates[i];
    const bool fresh = !occupancy_.is_taken(*candidate.device);
    if (classes_ && fresh && std::find(failed.begin(), failed.end(), classes_->of(*candidate.device)) != failed.end()) {
      continue;
    }
    if (candidate.take == nullptr) {
      if (!meets(*at.plan, *candidate.device)) continue;
      return tl::unexpected<Error>(at.plan->error_of(*candidate.device));
    }
    if (!occupancy_.available(*candidate.device, *candidate.take, at.plan->claim, admin)) {
      if (all) return Step::kNo;
      continue;
    }
    if (steps_left_ == 0) {
      return fail(Code::kExhausted, "the search for devices on node " + node_->node +
                                        " was given up before an answer: neither yes nor no");
    }
    --steps_left_;
    HEDDLE_TRY(const bool taken, try_take(*at.plan, candidate));
    if (taken) {
      HEDDLE_TRY(const Step step, slot(at, filled + 1, i + 1));
      if (step == Step::kDone) return step;
      give_back(*at.plan, candidate);
      if (step == Step::kTooMany) return step;
      on_failure();
      if (proven_no_) return Step::kNo;
    }
    if (all) return Step::kNo;
    if (classes_ && fresh) failed.push_back(classes_->of(*candidate.device));
  }
  return Step::kNo;
}

bool Search::node_allows(const DeviceInfo& device) const {
  if (device.skip_node_operations == nullptr || device.skip_node_operations->empty()) return true;
  const auto& declared = node_->declared_features;
  return options_.features.optional_node_operations &&
         std::find(declared.begin(), declared.end(), kOptionalOperations) != declared.end();
}

Result<bool> Search::try_take(Plan& plan, const Candidate& candidate) {
  const Alternative& alternative = *plan.alternative;
  const DeviceInfo& device = *candidate.device;
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

// When it turns out to be hard, all is prepared to fail fast. A selector or capacity that is an error on some
// device must be come across as upstream would, so then nothing is skipped.
void Search::on_failure() {
  if (failed_before_ || limits_.steps - steps_left_ < kEasySteps) return;
  failed_before_ = true;
  bool failing = false;
  for (Plan& plan : plans_.all()) {
    plan.list(*node_, occupancy_, options_);
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
