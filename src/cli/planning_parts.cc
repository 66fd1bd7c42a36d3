#include "cli/planning_parts.h"

namespace heddle::cli {

model::DeviceClass chart_class(std::string_view name, const std::string& selector) {
  model::DeviceClass device_class;
  device_class.meta.name = name;
  device_class.selectors.push_back(selector);
  return device_class;
}

// Both must hold: each term of one with each term of the other.
model::NodeSelector both(const model::NodeSelector& a, const model::NodeSelector& b) {
  model::NodeSelector result;
  for (const model::NodeSelectorTerm& left : a.terms) {
    for (const model::NodeSelectorTerm& right : b.terms) {
      model::NodeSelectorTerm term = left;
      term.match_expressions.insert(term.match_expressions.end(), right.match_expressions.begin(),
                                    right.match_expressions.end());
      term.match_fields.insert(term.match_fields.end(), right.match_fields.begin(), right.match_fields.end());
      result.terms.push_back(std::move(term));
    }
  }
  return result;
}

// Where the claim of an entry of pod.spec.resourceClaims is or would be.
std::string claim_key(const model::Pod& pod, const model::PodResourceClaim& entry) {
  std::string name = entry.claim_name.empty() ? entry.actual_name : entry.claim_name;
  if (name.empty()) name = pod.meta.name + "-" + entry.name;
  return pod.meta.name_space + "/" + name;
}

}  // namespace heddle::cli
