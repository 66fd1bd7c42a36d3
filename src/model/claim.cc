#include "model/claim.h"

namespace heddle::model {

std::optional<std::string> allocated_node(const Allocation& allocation) {
  if (!allocation.node_selector || allocation.node_selector->terms.size() != 1) return std::nullopt;
  const NodeSelectorTerm& term = allocation.node_selector->terms.front();
  if (!term.match_expressions.empty() || term.match_fields.size() != 1) return std::nullopt;
  const Requirement& requirement = term.match_fields.front();
  if (requirement.key != "metadata.name" || requirement.op != Requirement::Operator::kIn) return std::nullopt;
  if (requirement.values.size() != 1) return std::nullopt;
  return requirement.values.front();
}

}  // namespace heddle::model
