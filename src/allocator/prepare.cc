#include "allocator/prepare.h"

#include <algorithm>
#include <limits>

namespace heddle::allocator {
namespace {

constexpr size_t kMaxQueries = 4096;

void append_part(std::string& key, std::string_view part) {
  key += std::to_string(part.size());
  key.push_back(':');
  key += part;
}

std::string query_key(const model::DeviceClass& device_class, const model::DeviceSubRequest& request) {
  std::string key;
  append_part(key, device_class.meta.name);
  for (const std::string& selector : request.selectors) append_part(key, selector);
  for (const model::Toleration& toleration : request.tolerations) {
    key.push_back('|');
    append_part(key, toleration.key);
    append_part(key, toleration.op);
    append_part(key, toleration.value);
    append_part(key, toleration.effect);
  }
  return key;
}

Result<void> compile_into(std::vector<Selector>& selectors, const std::vector<std::string>& expressions,
                          const std::string& where) {
  for (size_t i = 0; i < expressions.size(); ++i) {
    auto selector = Selector::compile(expressions[i]);
    if (!selector) {
      return fail(selector.error().code, selector.error().message, where + ".selectors[" + std::to_string(i) + "]");
    }
    selectors.push_back(*std::move(selector));
  }
  return {};
}

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
    for (size_t i = 0; i < input_.spec->constraints.size(); ++i) {
      const model::DeviceConstraint& constraint = input_.spec->constraints[i];
      if (constraint.match_attribute.empty() == constraint.distinct_attribute.empty()) {
        return wrong("constraints[" + std::to_string(i) + "]", "must have one of matchAttribute and distinctAttribute");
      }
    }
    int64_t least = 0;
    for (size_t i = 0; i < input_.spec->requests.size(); ++i) {
      const std::string field = "requests[" + std::to_string(i) + "]";
      HEDDLE_TRY(PreparedRequest request, this->request(input_.spec->requests[i], field));
      int64_t smallest = std::numeric_limits<int64_t>::max();
      for (const Alternative& alternative : request.alternatives) {
        smallest = std::min(smallest, alternative.all ? 1 : alternative.count);
      }
      if (smallest > static_cast<int64_t>(kMaxResults) - least) {
        return wrong(field,
                     "a claim can have at most " + std::to_string(kMaxResults) + " devices in all; this asks for more");
      }
      least += smallest;
      claim.requests.push_back(std::move(request));
    }
    return claim;
  }

 private:
  tl::unexpected<Error> wrong(const std::string& field, const std::string& message) const {
    return fail(Code::kInvalidArgument, message, "claim " + input_.key + ": spec.devices." + field);
  }

  Result<PreparedRequest> request(const model::DeviceRequest& spec, const std::string& field) {
    PreparedRequest request{.spec = &spec, .alternatives = {}};
    if (spec.exactly.has_value() == !spec.first_available.empty()) {
      return wrong(field, "must have one of exactly and firstAvailable");
    }
    if (spec.exactly) {
      HEDDLE_TRY(Alternative only, alternative(spec, *spec.exactly, spec.name, field + ".exactly"));
      request.alternatives.push_back(std::move(only));
    }
    for (size_t i = 0; i < spec.first_available.size(); ++i) {
      const model::DeviceSubRequest& sub = spec.first_available[i];
      const std::string sub_field = field + ".firstAvailable[" + std::to_string(i) + "]";
      if (sub.admin_access) return wrong(sub_field + ".adminAccess", "a subrequest cannot have admin access");
      HEDDLE_TRY(Alternative next, alternative(spec, sub, spec.name + "/" + sub.name, sub_field));
      request.alternatives.push_back(std::move(next));
    }
    return request;
  }

  Result<Alternative> alternative(const model::DeviceRequest& parent, const model::DeviceSubRequest& spec,
                                  std::string result_name, const std::string& field) {
    Alternative result;
    result.spec = &spec;
    result.result_name = std::move(result_name);
    if (!spec.derived_attributes.empty()) {
      return wrong(field + ".derivedAttributes", "derived attributes are an alpha feature that is off");
    }
    if (spec.device_class.empty()) return wrong(field + ".deviceClassName", "is missing");
    const auto found = classes_.find(spec.device_class);
    if (found == classes_.end()) {
      return wrong(field + ".deviceClassName", "there is no DeviceClass " + spec.device_class);
    }
    result.device_class = &found->second;
    HEDDLE_CHECK_OK(set_count(result, field));
    for (size_t i = 0; i < input_.spec->constraints.size(); ++i) {
      const std::vector<std::string>& names = input_.spec->constraints[i].requests;
      if (names.empty() || lists(names, parent.name, result.result_name)) {
        result.constraints.push_back(static_cast<uint32_t>(i));
      }
    }
    for (const std::string& name : {parent.name, result.result_name}) {
      const auto percent = input_.memory_percent.find(name);
      if (percent != input_.memory_percent.end()) result.memory_percent = percent->second;
    }
    if (result.memory_percent && spec.capacity.contains("memory")) {
      return wrong(field + ".capacity.requests[memory]",
                   "the ShareConfig of the claim gives memoryPercent: leave one out");
    }
    auto query = cache_.get(*result.device_class, spec, options_);
    if (!query) {
      const bool of_class = query.error().field.starts_with("class ");
      return fail(query.error().code, query.error().message,
                  "claim " + input_.key + ": " +
                      (of_class ? query.error().field : "spec.devices." + field + query.error().field));
    }
    result.query = *std::move(query);
    return result;
  }

  Result<void> set_count(Alternative& result, const std::string& field) const {
    const std::string& mode = result.spec->allocation_mode;
    if (mode == "All") {
      result.all = true;
      return {};
    }
    if (!mode.empty() && mode != "ExactCount") return wrong(field + ".allocationMode", "must be ExactCount or All");
    result.count = result.spec->count.value_or(1);
    if (result.count < 1) return wrong(field + ".count", "must be at least 1");
    return {};
  }

  const ClaimInput& input_;
  const ClassMap& classes_;
  QueryCache& cache_;
  const Options& options_;
};

}  // namespace

bool Query::taints_allow(const model::Device& device) const {
  return std::all_of(device.taints.begin(), device.taints.end(), [&](const model::Taint& taint) {
    if (std::find(forbidden_.begin(), forbidden_.end(), taint.key) != forbidden_.end()) return false;
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") return true;
    return std::any_of(tolerations_.begin(), tolerations_.end(),
                       [&](const model::Toleration& toleration) { return model::tolerates(toleration, taint); });
  });
}

bool Query::selects(const DeviceInfo& device) const {
  return std::all_of(selectors_.begin(), selectors_.end(),
                     [&](const Selector& selector) { return selector.matches(device.pool->driver, *device.device); });
}

bool Query::matches(const DeviceInfo& device) {
  if (device.index >= answers_.size()) answers_.resize(device.index + 1, Answer::kUnknown);
  Answer& answer = answers_[device.index];
  if (answer == Answer::kUnknown) {
    answer = taints_allow(*device.device) && selects(device) ? Answer::kYes : Answer::kNo;
  }
  return answer == Answer::kYes;
}

void Query::forget(uint32_t device_index) {
  if (device_index < answers_.size()) answers_[device_index] = Answer::kUnknown;
}

Result<std::shared_ptr<Query>> QueryCache::get(const model::DeviceClass& device_class,
                                               const model::DeviceSubRequest& request, const Options& options) {
  std::string key = query_key(device_class, request);
  const auto found = queries_.find(key);
  if (found != queries_.end()) return found->second;
  std::vector<Selector> selectors;
  HEDDLE_CHECK_OK(compile_into(selectors, device_class.selectors, "class " + device_class.meta.name + ": spec"));
  HEDDLE_CHECK_OK(compile_into(selectors, request.selectors, ""));
  std::vector<model::Toleration> tolerations = request.tolerations;
  tolerations.insert(tolerations.end(), options.own_tolerations.begin(), options.own_tolerations.end());
  auto query = std::make_shared<Query>(std::move(selectors), std::move(tolerations), options.forbidden_taints);
  if (queries_.size() >= kMaxQueries) queries_.clear();
  queries_.emplace(std::move(key), query);
  return query;
}

void QueryCache::forget_device(uint32_t device_index) {
  for (auto& [key, query] : queries_) query->forget(device_index);
}

Result<const Consumption*> Alternative::consumption(const Shape& shape) {
  if (shape.id >= by_shape_.size()) by_shape_.resize(shape.id + 1);
  std::unique_ptr<Consumption>& known = by_shape_[shape.id];
  if (!known) {
    auto computed = consume(shape, spec->capacity, memory_percent);
    if (!computed) {
      return fail(computed.error().code, computed.error().message, "request " + result_name);
    }
    known = std::make_unique<Consumption>(*std::move(computed));
  }
  return known.get();
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
