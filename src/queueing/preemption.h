// Who has to go so that a workload can start: reclaim of what other queues borrowed, and preemption by priority.
//
// Pure and deterministic; one owner thread. What fits is asked of an oracle, so that every plan has been simulated
// before anybody is evicted.
//
// Who may be evicted for a preemptor P of queue Q and priority p:
//   R1 P is entitled without its victims (it fits its queue's guarantee, queueing.h): what is borrowed in other queues,
//      whatever its priority; and what has a lower priority in Q.
//   R2 else P would borrow: what is borrowed in Q and has a lower priority.
//   R3 in both cases work outside of all queues (pods without accelerators) of a lower priority.
// A preemptor that never preempts (Workload::never_preempts) has only the first part of R1: what other queues borrowed
// was lent until its owner asks, and is no matter of priority.
// So nobody borrows at the cost of another queue, and nobody is taken below its guarantee from outside.
//
// A preemptor that runs has lost a part of itself (a member of a gang died) and asks for room for it. Its quota is its
// own already, so it is R1 when it is entitled, else R2, and quota is not asked.
//
// The victims of a plan are minimal: without any one of them P does not fit. They are looked for in this order: what is
// borrowed or outside of all queues before what is entitled, then by prefers(); of all sets that make room a plan's
// last victim in that order comes as early as possible. Gangs are units: all of a gang goes, or nothing; surplus
// members of an elastic one are units of their own.
//
// Termination. Without events from outside (arrivals, ends, new devices, new configuration) there is no endless
// sequence of decisions: let E(p) be the number of entitled workloads of priority p that run or are held, B(p) of the
// borrowed ones, and order (E(highest), ..., E(lowest), B(highest), ..., B(lowest)) as words are. R1 raises E(p) and
// touches no E of p or above, for its victims are borrowed or entitled with less priority; R2 raises B(p) and touches E
// not at all and no B of p or above; a start without victims raises one number and lowers none; and the room that
// victims leave in a guarantee only turns borrowed work into entitled. Each decision raises the word, and the words are
// finite, for no number exceeds the number of workloads. What was freed is held for P (Queues::hold; the devices and
// what else P needs of the node, no more) until it starts, so nothing else takes it in between: a plan counts what
// earlier ones hold as taken and their victims as there, so each finds its room whichever victims go first. A plan of
// what runs lowers the word, and there is one for each part that is lost, which is an event from outside.
// preemption_model_test.cc walks through every order of events of small worlds.
//
// Cost: plan() O(victims + calls of the oracle); for one site one call a victim looked at and one a victim chosen, for
// several sites O(log victims + chosen * log victims) calls.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "queueing/queueing.h"

namespace heddle::queueing {

// What goes as a whole: a pod, a gang, a surplus member of an elastic gang.
struct Victim {
  std::string id;     // for one of a queue, its workload
  std::string queue;  // empty: outside of all queues
  int32_t priority = 0;
  Time started;
  int64_t cost = 0;                     // what is lost, thousandths of a device
  std::string site;                     // the node, or empty for more than one
  bool leaving = false;                 // on its way out, for nobody
  std::vector<std::string> sites = {};  // of a gang on more than one node; none: it may make room anywhere
  friend bool operator==(const Victim&, const Victim&) = default;
};

// Less valuable ones first: what leaves anyway, then less priority, then the younger, then the cheaper, then by id: a
// total order.
[[nodiscard]] bool prefers(const Victim& a, const Victim& b);

class FitOracle {
 public:
  virtual ~FitOracle() = default;
  FitOracle() = default;
  FitOracle(const FitOracle&) = delete;
  FitOracle& operator=(const FitOracle&) = delete;

  // One site is enough for the preemptor (a single pod); else it may need several (a gang).
  [[nodiscard]] virtual bool single_site() const = 0;
  // Whether the preemptor has room, quota apart, when these have gone; at this site, for single_site(). Monotone: with
  // more gone it fits as well. What is held for others counts as taken, device by device: what is left of a site may
  // be planned for another preemptor at once.
  [[nodiscard]] virtual bool fits(const std::string& site, const std::vector<const Victim*>& gone) = 0;
  // For single_site(): a site where it fits as things are, if there is one. Asked where only quota is short.
  [[nodiscard]] virtual std::optional<std::string> room_now() { return std::nullopt; }
  // For single_site(): whether it fits once those have gone that leave for others already, beside what is held for
  // these: then nobody has to go for it.
  [[nodiscard]] virtual bool room_later() { return false; }
};

inline constexpr const char* kLeaving = "Leaving";  // Preemptions::Answer: it fits beside others in room that is made

struct Eviction {
  std::string preemptor;
  std::string site;                  // where it fits; empty for several
  std::vector<std::string> victims;  // least valuable first
};

// The victims that there are, and the plans under way.
class Preemptions {
 public:
  // queues is borrowed for good.
  explicit Preemptions(Queues& queues) : queues_(queues) {}

  // --- what runs; an id that is known is replaced ---
  void upsert(Victim victim);
  void remove(const std::string& id);

  // --- plans ---
  // Nothing changes. refused: victims that may not be taken this time, such as those of a disruption budget. Reasons as
  // values: Fits (nobody has to go), Leaving (enough leave already), NoVictims (nobody may be evicted for it, or not
  // enough), or the quota that stands in the way even then.
  struct Answer {
    std::optional<Eviction> eviction;
    std::optional<Reason> reason;  // with no eviction
  };
  [[nodiscard]] Answer plan(const std::string& preemptor, Time now, FitOracle& oracle,
                            const std::set<std::string>& refused = {});
  // The preemptor is held, unless it runs; its victims leave. The caller evicts them.
  void begin(const Eviction& eviction, Time now);
  // A victim has gone; the preemptors that have all their room now. The caller places them and calls Queues::start.
  std::vector<std::string> gone(const std::string& victim, Time now);
  // A victim stays (a disruption budget, or it cannot be reached): the plan is given up, and what has not gone yet
  // stays. The preemptor waits again, or runs as before; plan() it without this victim.
  std::optional<std::string> refuse(const std::string& victim, Time now);
  // The preemptor does not want any more.
  void cancel(const std::string& preemptor, Time now);

  [[nodiscard]] const std::map<std::string, Eviction>& under_way() const { return evictions_; }

 private:
  struct Less {
    bool operator()(const Victim& a, const Victim& b) const { return prefers(a, b); }
  };
  using Order = std::set<Victim, Less>;
  class Candidates;
  enum class Rule { kEntitled, kBorrowing };  // R1, R2
  struct Search {
    const std::string& preemptor;
    Rule rule;
    Time now;
    FitOracle& oracle;
    bool runs = false;
  };
  [[nodiscard]] bool quota_fits(const Search& search, const std::vector<const Victim*>& gone);
  std::optional<Eviction> plan_one_site(Candidates& candidates, const Search& search);
  std::optional<Eviction> plan_sites(Candidates& candidates, const Search& search);
  void drop(const std::string& preemptor);

  Queues& queues_;
  std::map<std::string, Order> by_queue_;
  std::map<std::string, Order::const_iterator> by_id_;
  std::map<std::string, Eviction> evictions_;          // by preemptor
  std::map<std::string, std::string> claimed_;         // victim -> preemptor
  std::map<std::string, std::set<std::string>> open_;  // preemptor -> victims that have not gone yet
};

}  // namespace heddle::queueing
