#include "agent/compute_audit.h"

#include <algorithm>

namespace heddle::agent {

// Over the shortest part of the history that is at least so long. False: there is none, or it was within its bounds.
bool ComputeAudit::is_over(const History& history, int64_t window, Overuse& found) {
  const Step& last = history.back();
  const auto first = std::find_if(history.rbegin(), history.rend(),
                                  [&](const Step& step) { return last.at_ns - step.at_ns >= window; });
  if (first == history.rend()) return false;
  const auto length = static_cast<double>(last.at_ns - first->at_ns);
  found.used = (last.busy_ns - first->busy_ns) / length;
  found.allowed = (last.allowed_ns - first->allowed_ns) / length;
  return found.used > found.allowed + kSlack;
}

std::vector<Overuse> ComputeAudit::look(const std::vector<ComputeUse>& uses) {
  std::vector<Overuse> found;
  std::map<std::pair<std::string, std::string>, History> next;
  std::map<std::pair<std::string, std::string>, double> allowed_now;
  for (const ComputeUse& use : uses) {
    if (use.busy_ns < 0) continue;
    const std::pair key(use.claim, use.card_uuid);
    History history = std::move(histories_[key]);
    const auto before = allowed_before_.find(key);
    // What was told just before the look before counts on: it is obeyed a moment later.
    const double allowed = std::max(use.allowed, before != allowed_before_.end() ? before->second : use.allowed);
    allowed_now[key] = use.allowed;
    const auto busy = static_cast<double>(use.busy_ns);
    if (history.empty() || busy < history.back().busy_ns) history = {{use.at_ns, busy, 0}};
    if (use.at_ns > history.back().at_ns) {
      const auto time = static_cast<double>(use.at_ns - history.back().at_ns);
      history.push_back({use.at_ns, busy, history.back().allowed_ns + allowed * time});
    }
    while (history.size() > 2 && use.at_ns - history[1].at_ns >= kLong) history.pop_front();
    Overuse one{use.claim, use.card_uuid, 0, 0, false};
    if (is_over(history, kWindow, one)) {
      Overuse whole = one;
      one.lasting = is_over(history, kLong, whole);
      found.push_back(one);
    }
    next[key] = std::move(history);
  }
  histories_ = std::move(next);
  allowed_before_ = std::move(allowed_now);
  return found;
}

}  // namespace heddle::agent
