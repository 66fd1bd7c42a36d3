#include "queueing/preemption.h"

#include <fmt/format.h>

#include <algorithm>

#include "queueing/prune.h"

namespace heddle::queueing {

bool prefers(const Victim& a, const Victim& b) {
  if (a.leaving != b.leaving) return a.leaving;
  if (a.priority != b.priority) return a.priority < b.priority;
  if (a.started != b.started) return a.started > b.started;
  if (a.cost != b.cost) return a.cost < b.cost;
  return a.id < b.id;
}

// Those that may be evicted for one preemptor, in the order of plans.
class Preemptions::Candidates {
 public:
  Candidates(const Preemptions& all, const Workload& preemptor, Rule rule, const std::set<std::string>& refused)
      : all_(all), preemptor_(preemptor), entitled_(rule == Rule::kEntitled), refused_(refused) {
    open(false);
  }

  // Nothing: there are no more.
  const Victim* next() {
    while (true) {
      const auto best = std::min_element(heads_.begin(), heads_.end(),
                                         [](const Head& a, const Head& b) { return prefers(*a.at, *b.at); });
      if (best == heads_.end()) {
        if (second_) return nullptr;
        open(true);
        continue;
      }
      const Victim& victim = *best->at;
      if (++best->at == best->end || all_behind_stay(victim)) heads_.erase(best);
      if (eligible(victim)) return &victim;
    }
  }

 private:
  struct Head {
    Order::const_iterator at;
    Order::const_iterator end;
  };

  // First what is borrowed or in no queue, then what is entitled in the preemptor's own queue.
  void open(bool second) {
    second_ = second;
    if (second && !entitled_) return;
    for (const auto& [queue, order] : all_.by_queue_) {
      const bool own = queue == preemptor_.queue;
      if (preemptor_.never_preempts && (own || queue.empty())) continue;  // only a lower priority gives way there
      if (second ? !own : (!own && !entitled_ && !queue.empty())) continue;
      if (!second && !queue.empty() && all_.queues_.borrowers(queue) == 0) continue;
      if (!order.empty()) heads_.push_back({order.begin(), order.end()});
    }
  }

  // Behind what leaves, priorities rise: so one look is enough where nothing has less.
  [[nodiscard]] bool all_behind_stay(const Victim& victim) const {
    const bool by_priority = victim.queue.empty() || victim.queue == preemptor_.queue;
    return by_priority && !victim.leaving && victim.priority >= preemptor_.priority;
  }

  [[nodiscard]] bool eligible(const Victim& victim) const {
    if (refused_.contains(victim.id) || all_.claimed_.contains(victim.id)) return false;
    const bool lower = victim.priority < preemptor_.priority;
    if (victim.queue.empty()) return !second_ && lower;
    if (all_.queues_.phase(victim.id) != Phase::kRunning || all_.queues_.entitled(victim.id) != second_) return false;
    return victim.queue != preemptor_.queue || lower;
  }

  const Preemptions& all_;
  const Workload& preemptor_;
  bool entitled_;
  const std::set<std::string>& refused_;
  std::vector<Head> heads_;
  bool second_ = false;
};

namespace {

std::vector<std::string> ids_of(const std::vector<const Victim*>& victims) {
  std::vector<std::string> ids;
  ids.reserve(victims.size());
  for (const Victim* victim : victims) ids.push_back(victim->id);
  return ids;
}

Eviction eviction_of(const std::string& preemptor, const std::string& site, const std::vector<const Victim*>& chosen) {
  return {preemptor, site, ids_of(chosen)};
}

}  // namespace

void Preemptions::upsert(Victim victim) {
  const auto known = by_id_.find(victim.id);
  if (known != by_id_.end()) {
    if (*known->second == victim) return;
    by_queue_[known->second->queue].erase(known->second);
    by_id_.erase(known);
  }
  std::string id = victim.id;
  Order& order = by_queue_[victim.queue];
  by_id_.emplace(std::move(id), order.insert(std::move(victim)).first);
}

void Preemptions::remove(const std::string& id) {
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return;
  by_queue_[known->second->queue].erase(known->second);
  by_id_.erase(known);
}

bool Preemptions::quota_fits(const Search& search, const std::vector<const Victim*>& gone) {
  if (search.runs) return true;
  const std::vector<std::string> ids = ids_of(gone);
  if (search.rule == Rule::kEntitled && !queues_.would_be_entitled(search.preemptor, ids)) return false;
  return !queues_.refusal_without(search.preemptor, ids, search.now);
}

std::optional<Eviction> Preemptions::plan_one_site(Candidates& candidates, const Search& search) {
  std::map<std::string, std::vector<const Victim*>> by_site;
  std::vector<const Victim*> all;
  std::set<std::string> roomy;  // with what has been looked at so far
  const auto choose = [&](const std::string& site) {
    std::vector<const Victim*> chosen = all;
    prune(chosen, [&](const std::vector<const Victim*>& gone) {
      return search.oracle.fits(site, those_at(gone, site)) && quota_fits(search, gone);
    });
    return eviction_of(search.preemptor, site, chosen);
  };
  bool quota = quota_fits(search, all);
  if (!quota) {
    if (auto site = search.oracle.room_now()) roomy.insert(*std::move(site));
  }
  std::vector<const Victim*> everywhere;  // it is not known where they make room
  while (const Victim* victim = candidates.next()) {
    all.push_back(victim);
    if (!quota) quota = quota_fits(search, all);
    std::vector<std::string> sites = victim->sites;
    if (!victim->site.empty()) sites = {victim->site};
    if (sites.empty()) {
      everywhere.push_back(victim);
      for (const auto& [site, here] : by_site) sites.push_back(site);
    }
    for (const std::string& site : sites) {
      auto [here, fresh] = by_site.emplace(site, everywhere);
      if (!victim->site.empty() || !victim->sites.empty() || !fresh) here->second.push_back(victim);
      if (!roomy.contains(site) && search.oracle.fits(site, here->second)) roomy.insert(site);
    }
    if (quota && !roomy.empty()) return choose(*roomy.begin());
  }
  return std::nullopt;
}

std::optional<Eviction> Preemptions::plan_sites(Candidates& candidates, const Search& search) {
  std::vector<const Victim*> all;
  while (const Victim* victim = candidates.next()) all.push_back(victim);
  const auto enough = [&](const std::vector<const Victim*>& gone) {
    return quota_fits(search, gone) && search.oracle.fits({}, gone);
  };
  const size_t count = shortest_beginning(all, enough);
  if (count > all.size()) return std::nullopt;
  std::vector<const Victim*> chosen = std::move(all);
  chosen.resize(count);
  prune(chosen, enough);
  return eviction_of(search.preemptor, {}, chosen);
}

Preemptions::Answer Preemptions::plan(const std::string& preemptor, Time now, FitOracle& oracle,
                                      const std::set<std::string>& refused) {
  const Workload* workload = queues_.workload(preemptor);
  const auto phase = queues_.phase(preemptor);
  const bool runs = phase == Phase::kRunning;
  if (workload == nullptr || (phase != Phase::kWaiting && !runs) || evictions_.contains(preemptor)) {
    return {std::nullopt, Reason{"NoVictims", "it does not wait"}};
  }
  const bool borrows = runs && !queues_.entitled(preemptor);
  const bool others_leave = !runs && oracle.single_site() && !evictions_.empty();
  if (others_leave && !queues_.refusal_without(preemptor, {}, now) && oracle.room_later())
    return {std::nullopt, Reason{kLeaving, "it fits when those have gone that leave for others already"}};
  for (const Rule rule : {Rule::kEntitled, Rule::kBorrowing}) {
    if (borrows && rule == Rule::kEntitled) continue;
    const Search search{preemptor, rule, now, oracle, runs};
    Candidates candidates(*this, *workload, rule, refused);
    auto eviction = oracle.single_site() ? plan_one_site(candidates, search) : plan_sites(candidates, search);
    if (eviction && eviction->victims.empty()) return {std::nullopt, Reason{"Fits", "it fits without any victim"}};
    if (eviction) return {std::move(eviction), std::nullopt};
  }
  std::vector<const Victim*> all;
  Candidates candidates(*this, *workload, borrows ? Rule::kBorrowing : Rule::kEntitled, refused);
  while (const Victim* victim = candidates.next()) all.push_back(victim);
  if (auto quota = queues_.refusal_without(preemptor, ids_of(all), now)) return {std::nullopt, std::move(quota)};
  return {
      std::nullopt,
      Reason{"NoVictims",
             all.empty() ? std::string("nothing that runs may be evicted for it")
                         : fmt::format("it does not fit even without the {} that may be evicted for it", all.size())}};
}

void Preemptions::begin(const Eviction& eviction, Time now) {
  for (const std::string& victim : eviction.victims) {
    claimed_[victim] = eviction.preemptor;
    open_[eviction.preemptor].insert(victim);
  }
  queues_.evict_for(eviction.preemptor, eviction.victims, now);
  evictions_.insert_or_assign(eviction.preemptor, eviction);
}

void Preemptions::drop(const std::string& preemptor) {
  open_.erase(preemptor);
  evictions_.erase(preemptor);
}

std::vector<std::string> Preemptions::gone(const std::string& victim, Time now) {
  const auto claim = claimed_.find(victim);
  if (claim == claimed_.end()) return {};
  const std::string preemptor = claim->second;
  claimed_.erase(claim);
  remove(victim);
  if (queues_.phase(victim) == Phase::kLeaving) queues_.requeue(victim, now);
  const auto open = open_.find(preemptor);
  if (open == open_.end()) return {};
  open->second.erase(victim);
  if (!open->second.empty()) return {};
  drop(preemptor);
  return {preemptor};
}

std::optional<std::string> Preemptions::refuse(const std::string& victim, Time now) {
  const auto claim = claimed_.find(victim);
  if (claim == claimed_.end()) return std::nullopt;
  std::string preemptor = claim->second;
  cancel(preemptor, now);
  return preemptor;
}

void Preemptions::cancel(const std::string& preemptor, Time now) {
  const auto open = open_.find(preemptor);
  if (open == open_.end()) return;
  if (queues_.phase(preemptor) == Phase::kHeld) queues_.requeue(preemptor, now);
  for (const std::string& victim : open->second) {
    claimed_.erase(victim);
    queues_.stay(victim, now);
  }
  drop(preemptor);
}

}  // namespace heddle::queueing
