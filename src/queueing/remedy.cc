#include "queueing/remedy.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "queueing/prune.h"

namespace heddle::queueing {
namespace {

using Set = std::vector<const Victim*>;

constexpr size_t kMostSites = 32;  // that are looked at for several victims together

class Remedy {
 public:
  Remedy(FitOracle& oracle, const RemedySearch& search) : oracle_(oracle), search_(search) {}

  Set run() {
    if (search_.running.empty()) return {};
    roomy_ = oracle_.single_site() ? oracle_.room_now().has_value() : oracle_.fits({}, {});
    const bool quota = search_.allowed({});
    if (roomy_ && quota) return {};
    if (const Victim* one = alone()) return {one};
    if (roomy_) return by_quota();
    return oracle_.single_site() ? at_a_site() : anywhere();
  }

 private:
  [[nodiscard]] bool spent() const { return used_ > search_.steps; }

  bool fits(const std::string& site, const Set& gone) {
    if (++used_ > search_.steps) return false;
    return oracle_.fits(site, gone);
  }

  bool makes_room(const Set& gone) {
    if (roomy_) return ++used_ <= search_.steps;
    if (!oracle_.single_site()) return fits({}, gone);
    std::set<std::string> sites;
    for (const Victim* victim : gone) {
      if (!victim->site.empty()) sites.insert(victim->site);
      sites.insert(victim->sites.begin(), victim->sites.end());
    }
    return std::any_of(sites.begin(), sites.end(),
                       [&](const std::string& site) { return fits(site, those_at(gone, site)); });
  }

  bool enough(const Set& gone) { return search_.allowed(gone) && makes_room(gone); }

  // Half of the steps: on those that end first, and on the largest.
  const Victim* alone() {
    const size_t tries = std::max<size_t>(search_.steps / 4, 1);
    std::vector<std::pair<int64_t, size_t>> by_size;  // the largest first
    for (size_t i = 0; i < search_.running.size(); ++i) by_size.emplace_back(-search_.running[i]->cost, i);
    std::sort(by_size.begin(), by_size.end());
    std::set<size_t> chosen;
    for (size_t i = 0; i < std::min(tries, by_size.size()); ++i) {
      chosen.insert(i);
      chosen.insert(by_size[i].second);
    }
    for (const size_t i : chosen) {
      if (2 * used_ > search_.steps) return nullptr;
      if (enough({search_.running[i]})) return search_.running[i];
    }
    return nullptr;
  }

  // There is room; only quota is short.
  Set by_quota() {
    Set chosen = search_.running;
    const size_t count = shortest_beginning(chosen, search_.allowed);
    if (count > chosen.size()) return {};
    chosen.resize(count);
    prune(chosen, search_.allowed);
    return chosen;
  }

  // Those with which quota lets it start, the fewest that end first, besides these.
  bool add_for_quota(Set& chosen) const {
    if (search_.allowed(chosen)) return true;
    Set others;
    for (const Victim* victim : search_.running) {
      if (std::find(chosen.begin(), chosen.end(), victim) == chosen.end()) others.push_back(victim);
    }
    const auto with = [&](const Set& more) {
      Set all = chosen;
      all.insert(all.end(), more.begin(), more.end());
      return search_.allowed(all);
    };
    const size_t count = shortest_beginning(others, with);
    if (count > others.size()) return false;
    chosen.insert(chosen.end(), others.begin(), others.begin() + static_cast<std::ptrdiff_t>(count));
    return true;
  }

  // On the sites with the fewest first.
  Set at_a_site() {
    std::map<std::string, Set> by_site;
    std::map<std::string, size_t> last;  // position of the one that ends last
    for (size_t i = 0; i < search_.running.size(); ++i) {
      const Victim& victim = *search_.running[i];
      const std::vector<std::string> one{victim.site};
      for (const std::string& site : victim.site.empty() ? victim.sites : one) {
        by_site[site].push_back(&victim);
        last[site] = i;
      }
    }
    std::vector<std::tuple<size_t, size_t, std::string>> order;
    for (const auto& [site, here] : by_site) {
      if (here.size() > 1) order.emplace_back(here.size(), last[site], site);
    }
    std::sort(order.begin(), order.end());
    Set best;
    size_t looked_at = 0;
    for (const auto& [count, position, site] : order) {
      if (spent() || looked_at == kMostSites || best.size() == 2) break;
      Set chosen = by_site[site];
      if (!fits(site, chosen)) continue;
      ++looked_at;
      if (!add_for_quota(chosen)) continue;
      prune(chosen, [&](const Set& gone) { return search_.allowed(gone) && fits(site, those_at(gone, site)); });
      if (!spent() && (best.empty() || chosen.size() < best.size())) best = std::move(chosen);
    }
    return best;
  }

  Set anywhere() {
    Set chosen = search_.running;
    const auto is_enough = [&](const Set& gone) { return enough(gone); };
    const size_t count = shortest_beginning(chosen, is_enough);
    if (count > chosen.size()) return {};
    chosen.resize(count);
    prune(chosen, is_enough);
    return spent() ? Set() : chosen;  // some could still be left out
  }

  FitOracle& oracle_;
  const RemedySearch& search_;
  size_t used_ = 0;
  bool roomy_ = false;
};

}  // namespace

std::vector<const Victim*> who_has_to_end(FitOracle& oracle, const RemedySearch& search) {
  return Remedy(oracle, search).run();
}

}  // namespace heddle::queueing
