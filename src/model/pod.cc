#include "model/pod.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

namespace heddle::model {
namespace {

using Amounts = std::map<std::string, int64_t>;

// Requests that say more than int64 holds are larger than any node: the largest number keeps that meaning.
int64_t add_saturated(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

int64_t amount_of(const std::string& resource, const Quantity& quantity) {
  const auto amount = resource == "cpu" ? quantity.milli_value() : quantity.value();
  return amount.value_or(quantity.sign() < 0 ? 0 : std::numeric_limits<int64_t>::max());
}

void add_to(Amounts& sum, const Amounts& more) {
  for (const auto& [resource, amount] : more) sum[resource] = add_saturated(sum[resource], amount);
}

void raise_to(Amounts& most, const Amounts& other) {
  for (const auto& [resource, amount] : other) most[resource] = std::max(most[resource], amount);
}

Amounts amounts_of(const ResourceList& list) {
  Amounts amounts;
  for (const auto& [resource, quantity] : list) amounts[resource] = amount_of(resource, quantity);
  return amounts;
}

// The API server fills a missing request from the limit; a pod that has not been there yet means the same.
Amounts requests_of(const Container& container) {
  Amounts amounts = amounts_of(container.limits);
  for (const auto& [resource, quantity] : container.requests) amounts[resource] = amount_of(resource, quantity);
  return amounts;
}

bool is_pod_level_resource(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-");
}

std::optional<int64_t> parse_int(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// `actual` is null where the node does not have the label.
bool holds(const Requirement& requirement, const std::string* actual) {
  const auto listed = [&] {
    return std::find(requirement.values.begin(), requirement.values.end(), *actual) != requirement.values.end();
  };
  switch (requirement.op) {
    case Requirement::Operator::kIn:
      return actual != nullptr && listed();
    case Requirement::Operator::kNotIn:
      return actual == nullptr || !listed();
    case Requirement::Operator::kExists:
      return actual != nullptr;
    case Requirement::Operator::kDoesNotExist:
      return actual == nullptr;
    case Requirement::Operator::kGt:
    case Requirement::Operator::kLt:
      break;
  }
  if (actual == nullptr || requirement.values.size() != 1) return false;
  const auto left = parse_int(*actual);
  const auto right = parse_int(requirement.values.front());
  if (!left || !right) return false;
  return requirement.op == Requirement::Operator::kGt ? *left > *right : *left < *right;
}

bool matches(const NodeSelectorTerm& term, const Node& node) {
  if (term.match_expressions.empty() && term.match_fields.empty()) return false;
  for (const Requirement& requirement : term.match_expressions) {
    const auto label = node.meta.labels.find(requirement.key);
    if (!holds(requirement, label == node.meta.labels.end() ? nullptr : &label->second)) return false;
  }
  for (const Requirement& requirement : term.match_fields) {
    if (requirement.key != "metadata.name" || !holds(requirement, &node.meta.name)) return false;
  }
  return true;
}

}  // namespace

std::map<std::string, int64_t> effective_requests(const Pod& pod) {
  Amounts result;
  Amounts sidecars;
  Amounts init;
  for (const Container& container : pod.containers) {
    Amounts amounts = requests_of(container);
    if (!container.init) {
      add_to(result, amounts);
    } else if (container.sidecar) {
      // A sidecar runs beside everything that starts after it, and beside the containers.
      add_to(result, amounts);
      add_to(sidecars, amounts);
      raise_to(init, sidecars);
    } else {
      add_to(amounts, sidecars);
      raise_to(init, amounts);
    }
  }
  raise_to(result, init);
  for (const auto& [resource, quantity] : pod.pod_level_requests) {
    if (is_pod_level_resource(resource)) result[resource] = amount_of(resource, quantity);
  }
  add_to(result, amounts_of(pod.overhead));
  return result;
}

bool matches(const NodeSelector& selector, const Node& node) {
  return std::any_of(selector.terms.begin(), selector.terms.end(),
                     [&](const NodeSelectorTerm& term) { return matches(term, node); });
}

bool best_effort(const Pod& pod) {
  const auto counts = [](const ResourceList& list) {
    return std::any_of(list.begin(), list.end(), [](const auto& entry) {
      return (entry.first == "cpu" || entry.first == "memory") && entry.second.sign() > 0;
    });
  };
  return !counts(pod.pod_level_requests) &&
         std::none_of(pod.containers.begin(), pod.containers.end(), [&](const Container& container) {
           return counts(container.requests) || counts(container.limits);
         });
}

bool matches_node(const Pod& pod, const Node& node) {
  for (const auto& [key, value] : pod.node_selector) {
    const auto label = node.meta.labels.find(key);
    if (label == node.meta.labels.end() || label->second != value) return false;
  }
  return !pod.required_node_affinity || matches(*pod.required_node_affinity, node);
}

}  // namespace heddle::model
