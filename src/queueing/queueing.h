// Who may try now: queues in a tree, quota, fair share over time, reservations, and the order of what waits.
//
// Pure: no I/O, no clock (times are passed in and never go back), no threads, no randomness; the same calls give the
// same answers. One owner thread.
//
// The tree. Work waits and runs in leaves. Each queue has, a meter:
//   guaranteed    what is its own: a leaf that stays within it gets it, if need be by taking back what others borrowed.
//                 The guarantees of the children of a queue sum up to no more than its own (the root's is the
//                 capacity); what they leave is common: everyone below may borrow it.
//   limit         never more than this, borrowed or not.
//   borrowing     never more than this above the guarantee.
//   lending       of what is unused, no more than this is lent to others; the rest stays idle for its owner.
// A workload is *entitled* when it started within its leaf's guarantee, or when room came up there while it ran (oldest
// start first); the mark stays until it ends. Within: each portion of it is counted by a meter that the leaf has a
// guarantee for, and no guarantee of the leaf is exceeded. Everything else that runs is *borrowed*.
//
// Invariants, after every call (tested on random histories):
//   I1 usage <= limit, and usage <= guaranteed + borrowing, of every queue and meter, counting holds
//   I2 what is used below the root, plus what its queues withhold from lending, <= the root's guarantee
//   I3 the entitled work of a leaf <= its guarantee
//   I4 usage is the sum of what runs and what is held, at every queue
// A change of the configuration or of the capacity can break I1 and I2 for what runs; nothing starts until they hold
// again.
//
// The order. First what *starves*: what has waited longer than Config::patience, oldest first. Then entitled demand,
// then borrowing demand; among those the queue that has had the least for its weight goes first, level by level from
// the root: usage now and usage of the past count, the past with half its weight after each half_life. Inside a leaf:
// priority, then time of submission, then id. The order is total.
//
// Starvation bound. While W starves and could not start, what is offered behind it must end (by its declared runtime)
// before W could start, where the caller knows that time, or take other devices (no meter counts both, and vendor or
// model differ). Entitled demand passes a W that is not entitled; that of its own leaf only where W asks for more than
// the guarantee. So with R the longest time that anything runs, and n the number of workloads that starve and were
// submitted before W: a W that fits an otherwise empty fleet, and whose demand is within its leaf's guarantee, starts
// within patience + (n + 1) * R of its submission, or patience + 2 * (n + 1) * R where what its leaf runs or the limit
// of a queue of its own held it up first, as that holds back that leaf or queue only. For a W that borrows the same
// holds, not counting the time while entitled demand waits. Reservations and changes of the configuration are the
// operator's and come on top. Work that shares neither meter nor kind of device does not compete. Tests hold the bound.
//
// Cost: submit, start, finish O(log n + depth * meters); next() O(queues * depth * meters + meters * running work with
// an end, only while reservations exist).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "queueing/meter.h"

namespace heddle::queueing {

// Of one queue and one meter; absent: 0 for guaranteed (no bound for the root's), no bound for the others.
struct Quota {
  std::optional<int64_t> guaranteed;
  std::optional<int64_t> limit;
  std::optional<int64_t> borrowing;
  std::optional<int64_t> lending;
  friend bool operator==(const Quota&, const Quota&) = default;
};

struct QueueSpec {
  std::string name;
  std::string parent;                   // empty: the root itself, of which there is one
  int64_t weight = 1;                   // of its share beside its siblings, 1..1'000'000
  std::map<std::string, Quota> quotas;  // by meter
};

struct Reservation {
  std::string name;
  Time start;
  Time end;
  std::map<std::string, int64_t> amounts;  // by meter; needs the root's guarantee
};

// What a queue has used: thousandths of a device times seconds, decayed to `at`. Keep it where it outlives the process.
struct PastUsage {
  Time at;
  int64_t milli_device_seconds = 0;
  friend bool operator==(const PastUsage&, const PastUsage&) = default;
};

struct Config {
  std::vector<Meter> meters;
  std::vector<QueueSpec> queues;
  std::vector<Reservation> reservations;
  std::map<std::string, PastUsage> past;  // of queues by name, of an earlier life
  Duration half_life = Duration::seconds(7LL * 24 * 3600);
  std::optional<Duration> patience = Duration::seconds(24LL * 3600);  // nothing: no workload ever starves
};

struct Workload {
  std::string id;  // unique
  std::string queue;
  int32_t priority = 0;
  Time submitted;
  std::vector<Portion> portions;
  std::optional<Duration> runtime;  // it ends by then, or is ended
  std::string reservation;          // runs inside this one only
  // What an elastic gang has beyond its minimum: always borrowed, so that it goes before anything entitled does, and
  // nothing entitled goes with its gang.
  bool growth = false;
  // Nobody gives way to its priority (preemptionPolicy Never). What others borrowed of its queue's guarantee is still
  // taken back for it.
  bool never_preempts = false;
};

// Why a workload may not start now.
struct Reason {
  std::string code;  // Limit, Borrowing, Guarantee, Reservation, Behind
  std::string message;
};

struct Offer {
  std::string id;
  bool entitled = false;
  bool starving = false;
  // A meter of kind kBoxes each: how many boxes must be left intact, or in borrowed use, when this one is placed; where
  // fewer are left already, no more may be broken.
  Amounts keep_intact;
};

// kLeaving: it is being evicted; it counts no more, and is not offered before it has gone.
enum class Phase { kWaiting, kHeld, kRunning, kLeaving };

class Queues {
 public:
  // Errors: kInvalidArgument with the queue and the field.
  static Result<Queues> make(Config config);
  ~Queues();
  Queues(Queues&&) noexcept;
  Queues& operator=(Queues&&) noexcept;

  // --- events; times never go back ---
  // Errors: kInvalidArgument (no such leaf, negative amounts), kAlreadyExists.
  Result<void> submit(Workload workload, Time now);
  // Something that runs already, whatever the quota says. In the order of starts.
  Result<void> adopt(Workload workload, Time started, Time now);
  // Waiting or held -> running.
  void start(const std::string& id, Time now);
  // Waiting -> held: what it needs is taken for it, as by a preemption under way.
  void hold(const std::string& id, Time now);
  // In one step: the waiting one is held, and the running ones are leaving. One that runs already stays as it is.
  void evict_for(const std::string& id, const std::vector<std::string>& victims, Time now);
  // Leaving -> running again, whatever the quota says.
  void stay(const std::string& id, Time now);
  // Held, running or leaving -> waiting again, with the time of its submission.
  void requeue(const std::string& id, Time now);
  // What a waiting one takes, now that its devices are known; its place in the order stays. A pass goes on.
  void restate(const std::string& id, std::vector<Portion> portions);
  // What a running or held one takes from now on, whatever the quota says; its place among what runs stays. For a gang
  // of which a member was replaced.
  void revise(const std::string& id, std::vector<Portion> portions, Time now);
  // Ended or withdrawn.
  void remove(const std::string& id, Time now);

  // --- decisions ---
  // One round of offers, best first. Between two calls of next() the caller places what was offered and calls start()
  // or hold(), or says refused(). Other events end the pass.
  class Pass {
   public:
    ~Pass();
    Pass(Pass&&) noexcept;
    std::optional<Offer> next();
    // There is no room for the last offer. could_start: when what is in its way has ended for sure, if known. Not to be
    // said of what would not fit an empty fleet either: that holds nobody back.
    void refused(std::optional<Time> could_start);

   private:
    friend class Queues;
    struct State;
    explicit Pass(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };
  Pass pass(Time now);

  // Nothing: quota and reservations let it start. A pass may still offer others first.
  [[nodiscard]] std::optional<Reason> refusal(const std::string& id, Time now) const;
  // The same for a running or held one that is to take this instead of what it has; what is no more is not refused.
  [[nodiscard]] std::optional<Reason> refusal_of(const std::string& id, const std::vector<Portion>& portions, Time now);
  // The same of quota alone, if these ran no more.
  [[nodiscard]] std::optional<Reason> refusal_without(const std::string& id, const std::vector<std::string>& gone,
                                                      Time now);
  // The same, if it were given this instead of what it asks for.
  [[nodiscard]] std::optional<Reason> refusal_without(const std::string& id, const std::vector<Portion>& instead,
                                                      const std::vector<std::string>& gone, Time now);
  // What runs in its queue with less priority.
  [[nodiscard]] std::vector<std::string> below(const std::string& id) const;
  // Whether a queue of this leaf or above has a bound that depends on what kind of device is given.
  [[nodiscard]] bool bounds_kinds(const std::string& queue) const;
  // 1: the next of its leaf. 0: it does not wait.
  [[nodiscard]] size_t position(const std::string& id, Time now) const;
  // The waiting ones of a leaf in the order of position().
  [[nodiscard]] std::vector<std::string> waiting(const std::string& queue, Time now) const;
  [[nodiscard]] std::optional<Phase> phase(const std::string& id) const;
  [[nodiscard]] bool entitled(const std::string& id) const;
  // As an offer of it would say.
  [[nodiscard]] Amounts keep_intact(const std::string& id) const;
  // Whether it would be entitled if it started now, and these had ended.
  [[nodiscard]] bool would_be_entitled(const std::string& id, const std::vector<std::string>& without = {}) const;

  // --- accounts ---
  [[nodiscard]] const std::vector<Meter>& meters() const;
  [[nodiscard]] Amounts usage(const std::string& queue) const;
  // Of a leaf.
  [[nodiscard]] Amounts entitled_usage(const std::string& queue) const;
  // Of a leaf: what runs or is held.
  [[nodiscard]] size_t active(const std::string& queue) const;
  // Of those, what is not entitled; also what no meter counts.
  [[nodiscard]] size_t borrowers(const std::string& queue) const;
  [[nodiscard]] const Workload* workload(const std::string& id) const;
  [[nodiscard]] const Amounts* demand(const std::string& id) const;
  [[nodiscard]] std::map<std::string, PastUsage> past(Time now) const;
  // What breaks I1 to I4, in words; for tests and audits.
  [[nodiscard]] std::vector<std::string> violations() const;

  struct Impl;  // known inside this folder only

 private:
  explicit Queues(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle::queueing
