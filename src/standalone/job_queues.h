// The queues of one machine: AcceleratorQueue and AcceleratorReservation objects over the jobs of `heddle run`. Which
// queue a job belongs to, and the tree that says who may try now. In the place of namespaces stand users and groups.
// Pure; one owner thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/box_rooms.h"
#include "engine/engine.h"
#include "engine/queue_table.h"
#include "model/queue.h"
#include "queueing/preemption.h"
#include "queueing/queueing.h"
#include "standalone/job.h"
#include "vendors/vendor.h"

namespace heddle::standalone {

// The objects of a file, queues and reservations, each a JSON text (a List may hold several), as one JSON array: what
// the ledger keeps. Empty where there are no objects: then nothing is ordered by queues. Errors: kInvalidArgument,
// field "--queues": names the queue or the reservation, its field and the fix.
Result<std::string> check_queues(const std::vector<std::string>& documents);

// What reservations of these documents, which check_queues() has found good, keep free beyond what the machine has, a
// line each: while such a one lasts, or is to come, nobody else gets a device of it. slices: of the machine.
std::vector<std::string> reserved_beyond(const std::vector<std::string>& documents,
                                         const std::vector<model::ResourceSlice>& slices);

class JobQueues {
 public:
  using Past = std::map<std::string, model::QueuePast>;  // by queue

  // text: of check_queues(), not empty. patience: a job that has waited longer starves. The tree is empty until
  // renew(). Errors: kInternal when the text is none.
  static Result<JobQueues> make(const std::string& text, Duration patience);

  // The tree for what the machine has now, with the jobs in it: those with a share run, in the order of their grants.
  // past: of an earlier life, where this is the first time. Errors: kInternal.
  Result<void> renew(const engine::State& state, const std::vector<vendors::Card>& cards, const std::vector<Job>& jobs,
                     const Past& past, Time now);
  // Whether the machine has other cards than at the last renew().
  [[nodiscard]] bool stale(const engine::State& state) const;

  // The leaf for a job that asks for `wanted` (empty: for none): without a wish the first by name that names its user,
  // else one of its groups, else `unassigned`. A queue that names users or groups takes no others, but root's.
  // Errors: kNotFound, kInvalidArgument, kPermissionDenied; field "--queue".
  [[nodiscard]] Result<std::string> queue_for(const Owner& owner, const std::string& wanted) const;
  // Whether a job of that owner and queue may run inside the reservation. Errors: kNotFound, kPermissionDenied; field
  // "--reservation".
  [[nodiscard]] Result<void> check_reservation(const Owner& owner, const std::string& queue,
                                               const std::string& wanted) const;
  // Of a job that is in: its own, or where that is gone the one that it would get now.
  [[nodiscard]] std::string queue_of(const Job& job) const;
  // How its queue, or the nearest one above it that says so, wants its cards chosen.
  [[nodiscard]] std::optional<model::PlacementPolicy> policy_of(const Job& job) const {
    return table_.policy_of(queue_of(job));
  }

  // Why a job could not even start if nothing ran and nobody waited; nothing: it could.
  [[nodiscard]] std::optional<engine::Reason> never(const engine::State& state, const std::vector<vendors::Card>& cards,
                                                    const Job& job, Time now) const;
  // What goes in waits. Errors: kInternal.
  Result<void> add(const engine::State& state, const std::vector<vendors::Card>& cards, const Job& job, Time now);
  // It has ended.
  void remove(const Job& job, Time now);
  // What ran, or was to give way, waits again.
  Result<void> requeue(const engine::State& state, const std::vector<vendors::Card>& cards, const Job& job, Time now);
  // It runs, with the devices of try_devices().
  void start(const Job& job, Time now);

  // --- who gives way; one machine is one site ---
  static constexpr const char* kHere = "here";
  // What is known of one that runs: also after its `eviction` has changed.
  void note_running(const Job& job);
  // It goes, though nobody takes its place.
  void note_leaving(const Job& job);
  // The one that waits, and those that are to go so that it can start. refused: those that may not.
  std::optional<queueing::Eviction> plan(const Job& job, Time now, queueing::FitOracle& room,
                                         const std::set<std::string>& refused);
  // Whether quota would refuse it these devices if those had gone, or it would only borrow them where
  // by what it asked for they are its queue's own.
  bool refuses(const engine::State& state, const Job& job, const model::ClaimSpec& spec,
               const model::Allocation& allocation, const std::vector<std::string>& gone, Time now);
  // Its room is held for it from now on, until the victims are gone: remove() or requeue() says so of each.
  void begin_eviction(const queueing::Eviction& eviction, Time now) { tree_->preemptions.begin(eviction, now); }
  // Those that have not gone yet.
  [[nodiscard]] std::vector<std::string> victims_for(int64_t job) const;

  // What it would take with these devices: nothing, it may start; else the reason, and it waits as before.
  std::optional<engine::Reason> try_devices(const engine::State& state, const Job& job, const model::ClaimSpec& spec,
                                            const model::Allocation& allocation, Time now);
  // It waits as it was asked: the devices of try_devices() are not used.
  void give_up(const Job& job);

  // Those of `jobs` that hold cards now, and do not leave; without those of `gone`.
  [[nodiscard]] std::vector<engine::BoxHolder> box_holders(const std::vector<Job>& jobs,
                                                           const std::set<int64_t>& gone) const;
  [[nodiscard]] const std::vector<model::QuotaMeter>& meters() const { return table_.meters(); }

  [[nodiscard]] queueing::Queues& tree() { return tree_->queues; }
  [[nodiscard]] const queueing::Queues& tree() const { return tree_->queues; }
  // Names of the queues that work can be in.
  [[nodiscard]] std::vector<std::string> leaves() const;
  [[nodiscard]] Past past(Time now) const;
  // Time that never goes back, whatever the machine's clock does.
  Time at_least(Time now);

  // As the tree knows it: in the order of ids.
  static std::string key_of(int64_t job);
  static int64_t job_of(const std::string& key);

 private:
  struct Tree {
    explicit Tree(queueing::Queues made) : queues(std::move(made)) {}
    queueing::Queues queues;
    queueing::Preemptions preemptions{queues};
  };
  explicit JobQueues(Duration patience) : patience_(patience) {}
  [[nodiscard]] std::optional<queueing::Victim> victim_of(const Job& job) const;
  [[nodiscard]] std::vector<queueing::Portion> granted(const engine::State& state, const model::ClaimSpec& spec,
                                                       const model::Allocation& allocation) const;
  [[nodiscard]] queueing::Config config(const engine::State& state) const;
  [[nodiscard]] std::vector<queueing::Portion> demand(const engine::State& state,
                                                      const std::vector<vendors::Card>& cards, const Job& job) const;
  [[nodiscard]] queueing::Workload workload(const Job& job, std::vector<queueing::Portion> portions) const;

  Duration patience_;
  engine::QueueTable table_;
  std::unique_ptr<Tree> tree_;
  std::vector<engine::FleetPart> fleet_;
  std::map<int64_t, std::vector<queueing::Portion>> asked_;  // by job that waits
  Time last_;
};

}  // namespace heddle::standalone
