// The standalone daemon without its sockets: queue, engine, ledger and the watch over the jobs' processes.
//
// Thread rule: every method may be called from any thread (one lock). run() blocks its caller until stop() or
// shut_down().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/lending.h"
#include "agent/supervise.h"
#include "agent/witness.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/engine.h"
#include "standalone/guard_share.h"
#include "standalone/job.h"
#include "standalone/job_queues.h"
#include "standalone/ledger.h"
#include "standalone/machine.h"
#include "standalone/queue.h"
#include "standalone/shut_down.h"

namespace heddle::standalone {

struct DaemonOptions {
  std::string state_dir;
  QueueOptions queue;
  GuardFiles guard;
  int64_t keep_ended = 100;  // ended jobs that are remembered
  std::string queues;        // of check_queues(); empty: there are none
  // A job that is evicted has so long between SIGTERM and SIGKILL.
  Duration eviction_grace = Duration::seconds(30);
  // What becomes of processes on the cards that no share covers, that are beyond theirs, or that the guard is not in.
  agent::Policy policy = agent::Policy::kReport;
};

// A share of one card as a job holds it.
struct ShareView {
  std::string card;  // device name
  std::string uuid;
  int64_t memory_bytes = 0;
  int64_t cores = 0;
  int64_t used_bytes = -1;  // as the guard counts it; -1: not known
};

struct JobView {
  Job job;
  int64_t position = 0;                 // in its queue, from 1; 0 when it does not wait
  std::vector<engine::Reason> reasons;  // why it waits
  std::vector<ShareView> shares;
  std::string output;  // the file of a detached job's output
  std::string queue;   // empty: there are no queues
  std::string ending;  // why it is told to end, while it runs still
};

struct CardView {
  struct Holder {
    int64_t job = 0;
    int64_t memory_bytes = 0;
    int64_t cores = 0;
  };
  std::string name;
  vendors::Card card;
  int64_t memory_bytes = 0;  // that can be granted
  int64_t granted_bytes = 0;
  int64_t granted_cores = 0;
  int64_t used_bytes = -1;           // by anybody, as the vendor counts; -1: not known
  int64_t utilization_percent = -1;  // -1: not known
  std::vector<Holder> holders;
};

// A process on a card that no share covers, that is beyond its own, or that the guard is not in.
struct Stranger {
  int64_t pid = 0;
  std::string command;
  std::string card;
  int64_t memory_bytes = -1;  // -1: not known
  std::string what;           // in words
};

struct View {
  std::string node;
  Origin origin = Origin::kReal;
  std::string what;
  Time started;
  std::vector<CardView> cards;
  std::vector<JobView> jobs;  // live, oldest first
  std::vector<Job> ended;     // newest first
  std::vector<Stranger> strangers;
  std::string trouble;  // why the cards' state is not known now; empty: it is
};

// The request fits on no card here, or (kRefuse) not now.
struct Refused {
  std::vector<engine::Reason> reasons;
};

// What a client needs to start the command of a granted job.
struct Launch {
  std::map<std::string, std::string> environment;  // LD_PRELOAD and LD_LIBRARY_PATH go before the user's own
  std::string folder;                              // of the job: "exit" and "output" are written there
};

struct Unfinished {
  int64_t running = 0;
  int64_t waiting = 0;
};

enum class RunEnd { kStopped, kShutDown };

class Daemon {
 public:
  // Reads the ledger, and takes up what it says: running jobs by their processes, waiting ones in their places.
  static Result<std::unique_ptr<Daemon>> create(DaemonOptions options, std::unique_ptr<Ledger> ledger, Machine machine,
                                                const Clock& clock, const Logger& log);
  ~Daemon();

  // Queues the job and decides at once. client: the process whose end ends the job.
  Result<std::variant<JobView, Refused>> submit(const JobRequest& request, const ProcessId& client, const Owner& owner);
  // Errors: kNotFound.
  Result<JobView> find(int64_t id);
  // By id, or by name (the newest live one, else the newest). Errors: kNotFound.
  Result<JobView> find(const std::string& id_or_name);
  // Prepares the guard's files and the job's folder. Errors: kConflict when the job has no share.
  Result<Launch> launch(int64_t id);
  // The runner's record, before the command starts. Errors: kConflict when the job was ended meanwhile.
  Result<void> start(int64_t id, const ProcessId& runner);
  // Ends it: out of the queue, or its processes (SIGTERM, then SIGKILL). Returns before a running one is gone.
  Result<void> cancel(int64_t id, const std::string& why);
  Result<View> view();

  // What the vendor says now: health decides what is granted next, processes without a share are reported.
  void observe(const vendors::Snapshot& snapshot);

  // For the lending of shares: the jobs that have one, and whose job a process is of.
  std::vector<agent::LentClaim> lent_claims();
  // Says in the log, once, which jobs have more of a card's time than their share.
  void note_overuse(const std::vector<agent::Overuse>& found);
  std::optional<std::string> job_of(int64_t pid);

  // Nothing is accepted any more; run() returns when the last job has ended. With kIfIdle and live jobs: no change, and
  // their number.
  Result<std::optional<Unfinished>> shut_down(ShutDown how);

  // Watches clients and runners, frees what the dead held, starts what fits, until stop() or the end of a shutdown.
  RunEnd run();
  // What run() does whenever something happened. False: the shutdown is at its end.
  bool turn();
  void stop();

 private:
  struct Wait {
    int64_t position = 0;
    std::vector<engine::Reason> reasons;
  };
  // Of a job that was offered: no reasons, it has its share.
  struct Try {
    std::vector<engine::Reason> reasons;
    bool hopeless = false;                             // no card could serve it, even if nothing ran
    std::optional<model::Allocation> allocation = {};  // where it could go, of place_beside_others()
  };
  // Nobody is evicted for it so long.
  struct Vain {
    int times = 0;
    int64_t until = 0;  // monotonic
  };
  struct Ending {
    std::string why;
    int64_t kill_at_nanos = 0;  // monotonic
  };

  Daemon(DaemonOptions options, std::unique_ptr<Ledger> ledger, Machine machine, const Clock& clock, const Logger& log);
  Result<void> load();
  Result<void> reload_jobs();
  void sweep();
  void remove_left_folder(const std::string& folder);
  Result<engine::Outcome> place(const Job& job);
  void note_arrival(const Job& job);
  Result<engine::Outcome> place(const Job& job, model::ClaimSpec spec);
  Result<void> schedule();
  Result<void> schedule_in_order();
  // daemon_queues.cc: where there are queues
  Result<void> open_queues();
  Result<void> renew_queues(const JobQueues::Past& past);
  Result<std::optional<Refused>> join_queue(Job& job);
  [[nodiscard]] model::PlacementPolicy policy_of(const Job& job) const;
  Result<void> schedule_queued();
  // daemon_evict.cc: who gives way
  class Room;
  void note_claim(const Job& job);
  void hold_cards(int64_t id, const model::Allocation& where);
  // Where it would go if these had gone, and whether quota would let it; by the keys of the queues.
  std::optional<model::Allocation> room_without(const Job& job, const std::vector<std::string>& gone, Time now);
  std::vector<int64_t> held_back(const std::map<int64_t, std::vector<engine::Reason>>& tried, Time now) const;
  Result<void> plan_evictions(const std::vector<int64_t>& without_room, Time now);
  Result<bool> plan_eviction(Job& job, Time now);
  Result<void> begin_eviction(const Job& job, const queueing::Eviction& eviction, Time now);
  void tell_to_go(const Job& job);
  Result<void> place_held(Time now);
  void resume_evictions();
  void hold_again();
  Result<void> end_evicted(Job& job, std::optional<int64_t> exit_code);
  void note_held(Time now);
  Result<Try> try_queued(Job& job, Time now);
  static constexpr int kMostModels = 4;  // others that are tried when quota refuses one
  static bool leave_out_models(const engine::State& state, const model::ClaimSpec& asked,
                               const model::Allocation& allocation, model::ClaimSpec& spec);
  // daemon_boxes.cc
  // gone: jobs that are taken out of the state for the look.
  Try place_beside_others(const Job& job, model::ClaimSpec spec, const std::set<int64_t>& gone = {});
  [[nodiscard]] std::set<std::string> cards_kept_whole(const Job& job, const model::Allocation& allocation,
                                                       const std::set<int64_t>& gone) const;
  [[nodiscard]] std::set<std::string> cards_held(const Job& job, const model::Allocation& allocation) const;
  [[nodiscard]] std::set<std::string> cards_in_use() const;
  void note_waiting(const std::map<int64_t, std::vector<engine::Reason>>& tried, Time now);
  Result<void> keep_past();
  Result<bool> commit(Job& job, const model::Allocation& allocation);
  Result<void> reap();
  Result<void> reap_running(Job& job);
  Result<void> close_run(Job& job);
  Result<void> end_job(Job& job, const std::string& outcome, std::optional<int64_t> exit_code);
  Result<void> end_running(Job& job, const std::string& why);
  Result<void> end_overdue(Job& job);
  void wait_for_events();
  void wake();
  void report_writing(const std::string& trouble);
  Job* live(int64_t id);
  agent::SupervisorPorts supervisor_ports();
  void supervise(const vendors::Snapshot& snapshot);
  void note_before(const vendors::Snapshot& snapshot);
  bool end_outsider(const agent::ProcessIdentity& process);
  [[nodiscard]] CardView card_view(const model::ResourceSlice& slice, const model::Device& device,
                                   const std::vector<JobView>& jobs) const;
  [[nodiscard]] JobView job_view(const Job& job) const;
  [[nodiscard]] std::string job_folder(int64_t id) const;
  [[nodiscard]] std::string guard_folder(const Job& job) const;

  DaemonOptions options_;
  std::unique_ptr<Ledger> ledger_;
  Machine machine_;
  const Clock& clock_;
  const Logger& log_;
  Time started_;
  UniqueFd wake_;
  std::mutex mutex_;
  engine::State state_;
  SeededRandom random_;
  std::vector<Job> jobs_;                          // live ones; a mirror of the ledger, changed only after it
  std::optional<JobQueues> queues_;                // nothing: there are none
  int64_t past_kept_ = 0;                          // monotonic
  bool past_moved_ = false;                        // since then
  std::map<int64_t, std::set<std::string>> held_;  // cards that are kept for a job that others make room for; by uuid
  std::map<int64_t, Vain> in_vain_;                // jobs that did not start in the room that was made for them
  std::map<int64_t, Wait> waits_;
  std::map<int64_t, Ending> endings_;
  std::vector<vendors::CardStatus> statuses_;
  std::vector<Stranger> strangers_;
  std::string unwritten_;  // why the ledger cannot be written; empty: it can
  std::string trouble_;
  // Of the look under way.
  std::map<int64_t, std::string> job_of_process_;
  std::map<std::string, std::string> ledgers_;  // usage files by job
  std::optional<agent::GuardWitness> witness_;
  // Who was on the cards, without a job of ours, when this began: pid -> start time. Nothing: nobody has looked yet.
  std::optional<std::map<int64_t, uint64_t>> before_;
  agent::Supervisor supervisor_;
  std::set<std::pair<std::string, std::string>> overuse_told_;  // job and card: said once
  bool shutting_down_ = false;
  std::atomic<bool> stopped_ = false;
};

}  // namespace heddle::standalone
