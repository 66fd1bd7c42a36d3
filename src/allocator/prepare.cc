#include "allocator/prepare.h"

#include <algorithm>
#include <limits>

namespace heddle::allocator {
namespace {

bool lists(const std::vector<std::string>& names, const std::string& request, const std::string& full_name) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name == request || name == full_name; });
}

class Preparer {
 public:
  Preparer(const ClaimInput& input, const ClassMap& classes, QueryCache& cache, const Options& options)
      : input_(input), classes_(classes), cache_(cache), options_(options) {}

  Result<PreparedClaim> run() {
    PreparedClaim claim{.key = input_.key, .spec = input_.spec, .requests = {}};
    int64_t least = 0;
    for (size_t i = 0; i < input_.spec->requests.size(); ++i) {
      const std::string field = "requests[" + std::to_string(i) + "]";
      HEDDLE_TRY(PreparedRequest request, this->request(input_.spec->requests[i], field));
      int64_t smallest = std::numeric_limits<int64_t>::max();
      for (const Alternative& alternative : request.alternatives) {
        smallest = std::min(smallest, alternative.all ? 0 : alternative.count);
      }
      if (smallest > static_cast<int64_t>(kMaxResults) - least) {
        return wrong(field, input_.spec->requests[i].name,
                     "adding " + std::to_string(smallest) + " devices exceeds the claim limit of " +
                         std::to_string(kMaxResults) + ", with " + std::to_string(least) + " already accounted for");
      }
      least += smallest;
      claim.requests.push_back(std::move(request));
    }
    for (size_t i = 0; i < input_.spec->constraints.size(); ++i) {
      const model::DeviceConstraint& constraint = input_.spec->constraints[i];
      if (constraint.match_attribute.empty() != constraint.distinct_attribute.empty()) {
        claim.columns.push_back(cache_.column(constraint.match_attribute + constraint.distinct_attribute));
        continue;
      }
      const bool none = constraint.match_attribute.empty();
      return fail(Code::kInvalidArgument,
                  "claim " + input_.key + ", constraint #" + std::to_string(i) +
                      (none ? ": empty constraint (unsupported constraint type?): it must have matchAttribute or "
                              "distinctAttribute"
                            : ": has both matchAttribute and distinctAttribute; leave one out"),
                  "spec.devices.constraints[" + std::to_string(i) + "]");
    }
    return claim;
  }

 private:
  tl::unexpected<Error> wrong(const std::string& field, const std::string& request, const std::string& message) const {
    return fail(Code::kInvalidArgument, "claim " + input_.key + ", request " + request + ": " + message,
                "spec.devices." + field);
  }

  Result<PreparedRequest> request(const model::DeviceRequest& spec, const std::string& field) {
    PreparedRequest request{.spec = &spec, .alternatives = {}};
    if (spec.exactly.has_value() == !spec.first_available.empty()) {
      return wrong(field, spec.name, "must have one of exactly and firstAvailable");
    }
    if (!spec.exactly && !options_.features.prioritized_list) {
      return wrong(field + ".firstAvailable", spec.name,
                   "has subrequests, but the DRAPrioritizedList feature is disabled");
    }
    HEDDLE_CHECK_OK(check_capacity_gate(spec, field));
    if (spec.exactly) {
      HEDDLE_TRY(Alternative only, alternative(spec, *spec.exactly, spec.name, field + ".exactly"));
      request.alternatives.push_back(std::move(only));
    }
    for (size_t i = 0; i < spec.first_available.size(); ++i) {
      const model::DeviceSubRequest& sub = spec.first_available[i];
      const std::string sub_field = field + ".firstAvailable[" + std::to_string(i) + "]";
      if (sub.admin_access) {
        return wrong(sub_field + ".adminAccess", spec.name, "a subrequest cannot have admin access");
      }
      HEDDLE_TRY(Alternative next, alternative(spec, sub, sub.name, sub_field));
      next.result_name = spec.name + "/" + sub.name;
      request.alternatives.push_back(std::move(next));
    }
    for (Alternative& alternative : request.alternatives) find_constraints(spec, alternative);
    return request;
  }

  Result<void> check_capacity_gate(const model::DeviceRequest& spec, const std::string& field) const {
    if (options_.features.consumable_capacity) return {};
    constexpr const char* kOff = "has capacity requests, but the DRAConsumableCapacity feature is disabled";
    if (spec.exactly && !spec.exactly->capacity.empty()) return wrong(field + ".exactly.capacity", spec.name, kOff);
    for (const model::DeviceSubRequest& sub : spec.first_available) {
      if (sub.capacity.empty()) continue;
      return fail(Code::kInvalidArgument, "claim " + input_.key + ", subrequest " + sub.name + ": " + kOff,
                  "spec.devices." + field + ".firstAvailable");
    }
    return {};
  }

  void find_constraints(const model::DeviceRequest& spec, Alternative& alternative) const {
    for (size_t i = 0; i < input_.spec->constraints.size(); ++i) {
      const std::vector<std::string>& names = input_.spec->constraints[i].requests;
      if (!names.empty() && !lists(names, spec.name, alternative.result_name)) continue;
      alternative.constraints.push_back(static_cast<uint32_t>(i));
    }
    for (const std::string& name : {spec.name, alternative.result_name}) {
      const auto percent = input_.memory_percent.find(name);
      if (percent != input_.memory_percent.end()) alternative.memory_percent = percent->second;
    }
  }

  Result<Alternative> alternative(const model::DeviceRequest& parent, const model::DeviceSubRequest& spec,
                                  const std::string& name, const std::string& field) {
    Alternative result;
    result.spec = &spec;
    result.name = name;
    result.result_name = name;
    result.features = options_.features;
    result.cache = &cache_;
    if (!spec.derived_attributes.empty() && !options_.features.derived_attributes) {
      return wrong(field + ".derivedAttributes", name,
                   "cannot handle request with derived attributes, the feature is disabled");
    }
    for (size_t i = 0; i < spec.selectors.size(); ++i) {
      if (!spec.selectors[i].empty()) continue;
      const std::string place = "selector #" + std::to_string(i);
      return wrong(field + ".selectors[" + std::to_string(i) + "]", name,
                   place + ": CEL expression empty (unsupported selector type?)");
    }
    if (spec.admin_access && !options_.features.admin_access) {
      return wrong(field + ".adminAccess", name, "admin access is requested, but the feature is disabled");
    }
    if (spec.device_class.empty()) {
      return wrong(field + ".deviceClassName", name, "missing device class name (unsupported request type?)");
    }
    const auto found = classes_.find(spec.device_class);
    if (found == classes_.end()) {
      return wrong(field + ".deviceClassName", name,
                   "could not retrieve device class " + spec.device_class + ": there is no DeviceClass of that name");
    }
    result.device_class = &found->second;
    HEDDLE_CHECK_OK(set_count(result, field));
    const bool percent =
        input_.memory_percent.contains(parent.name) || input_.memory_percent.contains(parent.name + "/" + name);
    if (percent && spec.capacity.contains("memory")) {
      return wrong(field + ".capacity.requests[memory]", name,
                   "the ShareConfig of the claim gives memoryPercent: leave one out");
    }
    result.query = query_of(parent, spec, result);
    HEDDLE_CHECK_OK(check_selectors(result, field));
    return result;
  }

  // With the conditions that the configuration of the claim adds, which are rare.
  std::shared_ptr<Query> query_of(const model::DeviceRequest& parent, const model::DeviceSubRequest& spec,
                                  Alternative& result) const {
    if (input_.conditions.empty()) return cache_.get(*result.device_class, spec, options_);
    model::DeviceSubRequest narrowed = spec;
    for (const std::string& name : {parent.name, parent.name + "/" + spec.name}) {
      const auto more = input_.conditions.find(name);
      if (more == input_.conditions.end()) continue;
      for (const Condition& condition : more->second) {
        narrowed.selectors.push_back(condition.selector);
        result.needs += (result.needs.empty() ? "" : "; ") + condition.need;
      }
    }
    return cache_.get(*result.device_class, narrowed, options_);
  }

  // With kAbort the search reports a broken selector when it comes to use it.
  Result<void> check_selectors(const Alternative& alternative, const std::string& field) const {
    if (options_.selector_errors == SelectorErrors::kAbort) return {};
    const Query::Part* broken = alternative.query->broken();
    if (broken == nullptr) return {};
    const std::string place = ".selectors[" + std::to_string(broken->index) + "]";
    return fail(broken->selector.error.code, broken->selector.error.message,
                broken->device_class.empty() ? "claim " + input_.key + ": spec.devices." + field + place
                                             : "class " + broken->device_class + ": spec" + place);
  }

  Result<void> set_count(Alternative& result, const std::string& field) const {
    const std::string& mode = result.spec->allocation_mode;
    const bool defaulted = options_.defaults == Defaults::kApply;
    if (mode == "All") {
      result.all = true;
      return {};
    }
    if (mode != "ExactCount" && !(defaulted && mode.empty())) {
      return wrong(field + ".allocationMode", result.name,
                   "unsupported count mode " + mode + ": must be ExactCount or All");
    }
    result.count = result.spec->count.value_or(defaulted ? 1 : 0);
    if (result.count < (defaulted ? 1 : 0)) return wrong(field + ".count", result.name, "must be at least 1");
    return {};
  }

  const ClaimInput& input_;
  const ClassMap& classes_;
  QueryCache& cache_;
  const Options& options_;
};

}  // namespace

std::string place_text(const std::string& claim_key, const Alternative& alternative) {
  return "claim " + claim_key + ", request " + alternative.name;
}

Result<const Consumption*> Alternative::compute(const Shape& shape) {
  auto computed = consume(shape, spec->capacity, memory_percent, features);
  if (!computed) return fail(computed.error().code, computed.error().message, "request " + result_name);
  if (shape.id >= by_shape_.size()) by_shape_.resize(shape.id + 1);
  by_shape_[shape.id] = std::make_unique<Consumption>(*std::move(computed));
  return by_shape_[shape.id].get();
}

Result<std::vector<PreparedClaim>> prepare(const std::vector<ClaimInput>& claims, const ClassMap& classes,
                                           QueryCache& cache, const Options& options) {
  std::vector<PreparedClaim> prepared;
  prepared.reserve(claims.size());
  for (const ClaimInput& input : claims) {
    HEDDLE_TRY(PreparedClaim claim, Preparer(input, classes, cache, options).run());
    prepared.push_back(std::move(claim));
  }
  return prepared;
}

}  // namespace heddle::allocator
