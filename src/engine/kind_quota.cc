#include "engine/kind_quota.h"

#include <algorithm>
#include <map>
#include <utility>

namespace heddle::engine {

std::set<std::string> nodes_of_refused_kinds(queueing::Queues& queues, const std::string& id,
                                             const std::vector<FleetPart>& fleet, Time now) {
  const queueing::Workload* workload = queues.workload(id);
  if (workload == nullptr || !queues.bounds_kinds(workload->queue)) return {};
  const auto is_open = [](const queueing::Portion& portion) { return portion.vendor.empty() || portion.model.empty(); };
  if (std::none_of(workload->portions.begin(), workload->portions.end(), is_open)) return {};
  const std::vector<std::string> gone = queues.below(id);
  std::map<std::pair<std::string, std::string>, bool> refused;
  std::set<std::string> nodes;
  for (const FleetPart& part : fleet) {
    const auto [kind, added] = refused.try_emplace({part.vendor, part.model}, false);
    if (added) {
      std::vector<queueing::Portion> given = workload->portions;
      for (queueing::Portion& portion : given) {
        if (portion.vendor.empty()) portion.vendor = part.vendor;
        if (portion.model.empty() && portion.vendor == part.vendor) portion.model = part.model;
      }
      kind->second = queues.refusal_without(id, given, gone, now).has_value();
    }
    if (kind->second && !part.node.empty()) nodes.insert(part.node);
  }
  return nodes;
}

}  // namespace heddle::engine
