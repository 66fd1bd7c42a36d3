#include "controller/running.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

namespace heddle::controller {
namespace {

constexpr size_t kNamed = 4;

}  // namespace

void RunningTable::add(const model::Pod& pod, const Unit* unit, const std::string& work,
                       const std::vector<HeldClaim>& claims) {
  const std::string key = pod.meta.key();
  const bool gang = unit != nullptr && unit->gang;
  const std::string& id = gang ? unit->id : key;
  engine::VictimHoldings& holdings = holdings_[id];
  const auto [known, fresh] = units_.try_emplace(id);
  Entry& entry = known->second;
  if (fresh) entry.name = gang ? fmt::format("gang {}/{}", unit->name_space, unit->name) : key;
  if (!work.empty() && std::find(entry.works.begin(), entry.works.end(), work) == entry.works.end())
    entry.works.push_back(work);
  holdings.pod_uids.push_back(pod.meta.uid);
  std::string node = pod.node_name;
  Time since = pod.meta.created;
  for (const HeldClaim& claim : claims) {
    if (!claim.shared) holdings.claim_uids.push_back(claim.key);
    if (node.empty()) node = model::allocated_node(*claim.allocation).value_or("");
    since = claim.allocation->timestamp.value_or(since);
    for (const model::DeviceResult& result : claim.allocation->results) {
      ++entry.devices;
      entry.device = result.device;
    }
  }
  if (!node.empty()) entry.nodes.insert(std::move(node));
  entry.priority = fresh ? pod.priority : std::max(entry.priority, pod.priority);
  entry.since = fresh ? since : std::min(entry.since, since);
  entry.leaving = entry.leaving || pod.meta.deleting || pod.finished();
  entry.endless = entry.endless || !pod.active_deadline;
  if (!pod.active_deadline) return;
  const Time end = since + Duration::seconds(*pod.active_deadline);
  entry.ends = entry.ends ? std::max(*entry.ends, end) : end;
}

std::string RunningTable::text_of(const Entry& entry) {
  const std::string where =
      entry.nodes.size() == 1 ? *entry.nodes.begin() : fmt::format("{} nodes", entry.nodes.size());
  if (entry.devices == 0) return fmt::format("{} (on {})", entry.name, where);
  if (entry.devices == 1) return fmt::format("{} ({} on {})", entry.name, entry.device, where);
  return fmt::format("{} ({} devices on {})", entry.name, entry.devices, where);
}

std::optional<RunningTable::Found> RunningTable::who_has_to_end(queueing::FitOracle& oracle, const Allowed& allowed,
                                                                const Limits& limits) const {
  using Rank = std::tuple<bool, int64_t, int32_t, int64_t, std::string>;  // stays, end, priority, since, id
  std::vector<std::pair<Rank, queueing::Victim>> ranked;
  ranked.reserve(units_.size());
  for (const auto& [id, entry] : units_) {
    if (id == limits.except) continue;
    const int64_t end = entry.endless ? std::numeric_limits<int64_t>::max() : entry.ends->unix_nanos;
    queueing::Victim victim;
    victim.id = id;
    victim.cost = entry.devices;
    if (entry.nodes.size() == 1) victim.site = *entry.nodes.begin();
    if (entry.nodes.size() > 1) victim.sites.assign(entry.nodes.begin(), entry.nodes.end());
    ranked.emplace_back(Rank{!entry.leaving, end, entry.priority, entry.since.unix_nanos, id}, std::move(victim));
  }
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto is_allowed = [&](const std::vector<const queueing::Victim*>& gone) {
    std::vector<std::string> works;
    for (const queueing::Victim* victim : gone) {
      const Entry& entry = units_.at(victim->id);
      works.insert(works.end(), entry.works.begin(), entry.works.end());
    }
    return allowed(works);
  };
  // What has devices first: where these are short, what has none makes no difference, and there may be much of it.
  std::vector<const queueing::Victim*> enough;
  for (const bool with_plain : {false, true}) {
    queueing::RemedySearch search{.running = {}, .allowed = is_allowed, .steps = limits.steps};
    size_t plain = 0;
    for (const auto& [rank, victim] : ranked) {
      const bool is_plain = units_.at(victim.id).devices == 0;
      plain += is_plain ? 1 : 0;
      if (with_plain || !is_plain) search.running.push_back(&victim);
    }
    if (with_plain && plain == 0) break;
    enough = queueing::who_has_to_end(oracle, search);
    if (!enough.empty()) break;
  }
  Found found;
  std::vector<std::string> names;
  for (const queueing::Victim* victim : enough) {
    found.units.push_back(victim->id);
    names.push_back(text_of(units_.at(victim->id)));
  }
  if (names.empty()) return std::nullopt;
  if (names.size() == 1) {
    found.text = names.front() + " ends";
  } else if (names.size() > kNamed) {
    const size_t others = names.size() - kNamed;
    names.resize(kNamed);
    found.text = fmt::format("{} and {} more have ended", fmt::join(names, ", "), others);
  } else {
    const std::string last = std::move(names.back());
    names.pop_back();
    found.text = fmt::format("{} and {} have ended", fmt::join(names, ", "), last);
  }
  return found;
}

std::optional<std::string> RunningTable::ends(queueing::FitOracle& oracle, const Limits& limits) const {
  auto found = who_has_to_end(oracle, [](const std::vector<std::string>&) { return true; }, limits);
  return found ? std::optional(std::move(found->text)) : std::nullopt;
}

}  // namespace heddle::controller
