// The found devices as ResourceClaim.status.allocation: results, configuration and node selector.
#include <algorithm>

#include "allocator/allocator.h"

namespace heddle::allocator {
namespace {

const Alternative& chosen_of(const PreparedClaim& claim, const std::vector<size_t>& chosen, size_t request) {
  return claim.requests[request].alternatives[chosen[request]];
}

bool lists(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

model::DeviceResult make_result(const Pick& pick, SeededRandom& random, const Features& features) {
  model::DeviceResult result;
  result.request = pick.alternative->result_name;
  result.driver = pick.device->pool->driver;
  result.pool = pick.device->pool->name;
  result.device = pick.device->name();
  result.admin_access = pick.alternative->spec->admin_access;
  result.tolerations = pick.alternative->spec->tolerations;
  if (features.binding_conditions) {
    result.binding_conditions = pick.device->device->binding_conditions;
    result.binding_failure_conditions = pick.device->device->binding_failure_conditions;
  }
  if (pick.device->skip_node_operations != nullptr) result.skip_node_operations = *pick.device->skip_node_operations;
  if (!pick.shared) return result;
  result.share_id = make_uuid(random);
  for (size_t i = 0; i < pick.take->quantities.size(); ++i) {
    result.consumed_capacity.emplace(pick.device->shape->capacities[i].name, pick.take->quantities[i]);
  }
  return result;
}

// Class configuration in request order, each class once for all its requests, then what the claim says for itself.
std::vector<model::AllocatedConfig> make_config(const PreparedClaim& claim, const std::vector<size_t>& chosen) {
  std::vector<model::AllocatedConfig> configs;
  struct Range {
    const model::DeviceClass* device_class;
    size_t begin;
    size_t end;
  };
  std::vector<Range> done;
  for (size_t i = 0; i < claim.requests.size(); ++i) {
    const Alternative& alternative = chosen_of(claim, chosen, i);
    const auto known = std::find_if(done.begin(), done.end(),
                                    [&](const Range& range) { return range.device_class == alternative.device_class; });
    if (known != done.end()) {
      for (size_t j = known->begin; j < known->end; ++j) configs[j].config.requests.push_back(alternative.result_name);
      continue;
    }
    const size_t begin = configs.size();
    for (const model::OpaqueConfig& config : alternative.device_class->config) {
      configs.push_back({.from_class = true, .config = config});
      configs.back().config.requests = {alternative.result_name};
    }
    done.push_back({alternative.device_class, begin, configs.size()});
  }
  for (const model::OpaqueConfig& config : claim.spec->config) {
    bool applies = config.requests.empty();
    for (size_t i = 0; i < claim.requests.size(); ++i) {
      applies = applies || lists(config.requests, claim.requests[i].spec->name) ||
                lists(config.requests, chosen_of(claim, chosen, i).result_name);
    }
    if (applies) configs.push_back({.from_class = false, .config = config});
  }
  // "Empty means all" is the shortest way to say all.
  for (model::AllocatedConfig& config : configs) {
    bool all = true;
    for (size_t i = 0; i < claim.requests.size(); ++i) {
      all = all && (lists(config.config.requests, claim.requests[i].spec->name) ||
                    lists(config.config.requests, chosen_of(claim, chosen, i).result_name));
    }
    if (all) config.config.requests.clear();
  }
  return configs;
}

bool same_set(std::vector<std::string> a, std::vector<std::string> b) {
  for (auto* values : {&a, &b}) {
    std::sort(values->begin(), values->end());
    values->erase(std::unique(values->begin(), values->end()), values->end());
  }
  return a == b;
}

void add_missing(std::vector<model::Requirement>& to, const std::vector<model::Requirement>& from) {
  for (const model::Requirement& requirement : from) {
    const bool known = std::any_of(to.begin(), to.end(), [&](const model::Requirement& other) {
      return other.key == requirement.key && other.op == requirement.op && same_set(other.values, requirement.values);
    });
    if (!known) to.push_back(requirement);
  }
}

model::NodeSelector only_node(const std::string& node) {
  model::NodeSelectorTerm term;
  term.match_fields.push_back({.key = "metadata.name", .op = model::Requirement::Operator::kIn, .values = {node}});
  return {.terms = {term}};
}

Result<std::optional<model::NodeSelector>> make_node_selector(const std::vector<Pick>& picks, const std::string& node) {
  model::NodeSelectorTerm merged;
  for (const Pick& pick : picks) {
    const model::NodeScope& scope = *pick.device->scope;
    if (scope.kind == model::NodeScope::Kind::kNode || pick.device->device->binds_to_node) {
      return std::optional(only_node(node));
    }
    if (scope.kind != model::NodeScope::Kind::kSelector || scope.selector.terms.empty()) continue;
    if (scope.selector.terms.size() > 1) {
      return fail(Code::kInvalidArgument, "device " + pick.device->pool->name + "/" + pick.device->name() +
                                              " has a node selector with more than one term");
    }
    add_missing(merged.match_fields, scope.selector.terms[0].match_fields);
    add_missing(merged.match_expressions, scope.selector.terms[0].match_expressions);
  }
  if (merged.match_fields.empty() && merged.match_expressions.empty()) return std::optional<model::NodeSelector>();
  return std::optional(model::NodeSelector{{merged}});
}

}  // namespace

Result<model::Allocation> make_allocation(const PreparedClaim& claim, const Solution& solution, size_t claim_index,
                                          const std::string& node, SeededRandom& random, const Options& options) {
  const std::vector<Pick>& picks = solution.claims[claim_index];
  model::Allocation allocation;
  for (const Pick& pick : picks) allocation.results.push_back(make_result(pick, random, options.features));
  allocation.config = make_config(claim, solution.chosen[claim_index]);
  HEDDLE_TRY(allocation.node_selector, make_node_selector(picks, node));
  return allocation;
}

}  // namespace heddle::allocator
