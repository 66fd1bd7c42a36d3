#include "standalone/daemon.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>
#include <utility>

#include "base/file.h"
#include "standalone/grants.h"
#include "standalone/process.h"
#include "standalone/runner.h"

namespace heddle::standalone {
namespace {

constexpr int kTickMillis = 1000;
constexpr int kRetryMillis = 20;

// As explanations name it.
std::string job_key(const Job& job) {
  return fmt::format("job {}", job.id);
}

model::ResourceClaim claim_of(const Job& job, model::ClaimSpec spec) {
  model::ResourceClaim claim;
  claim.meta.name = job_key(job);
  claim.meta.uid = job.uid;
  claim.spec = std::move(spec);
  claim.allocation = job.allocation;
  return claim;
}

// The pod is borrowed.
engine::PlacementRequest request_of(const Job& job, model::ClaimSpec spec, model::Pod& pod) {
  pod.meta.name = job_key(job);
  engine::PlacementRequest request;
  request.pod = &pod;
  request.claims.push_back({job_key(job), job.uid, std::move(spec)});
  return request;
}

void send_signal(const ProcessId& process, int signal) {
  const UniqueFd fd = open_process(process);
  if (fd.valid()) syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0);
}

}  // namespace

Daemon::Daemon(DaemonOptions options, std::unique_ptr<Ledger> ledger, Machine machine, const Clock& clock,
               const Logger& log)
    : options_(std::move(options)),
      ledger_(std::move(ledger)),
      machine_(std::move(machine)),
      clock_(clock),
      log_(log),
      started_(clock.now()),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      random_(1),
      supervisor_({options_.policy, agent::SupervisorOptions().slack_bytes, options_.policy}, supervisor_ports()) {}

Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::create(DaemonOptions options, std::unique_ptr<Ledger> ledger, Machine machine,
                                               const Clock& clock, const Logger& log) {
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(options), std::move(ledger), std::move(machine), clock, log));
  HEDDLE_CHECK_OK(daemon->load());
  return daemon;
}

Result<void> Daemon::load() {
  const std::lock_guard lock(mutex_);
  model::Node node;
  node.meta.name = machine_.node;
  node.ready = model::Node::Ready::kTrue;
  state_.upsert_node(std::move(node));
  state_.upsert_class(device_class());
  for (const auto& slice : machine_.slices) state_.upsert_slice(slice);
  HEDDLE_CHECK_OK(reload_jobs());
  for (const auto& job : jobs_) {
    log_.info("taken up", {{"job", job.id}, {"state", state_name(job.state)}, {"pid", job.runner.pid}});
  }
  sweep();
  HEDDLE_CHECK_OK(open_queues());
  resume_evictions();
  HEDDLE_CHECK_OK(reap());
  return schedule();
}

// Folders of jobs that ended, or were forgotten, as the daemon before this one was killed.
void Daemon::sweep() {
  std::set<std::string> kept;
  for (const auto& job : jobs_) {
    if (job.allocation) kept.insert(job.uid);
  }
  for (const auto& uid : list_directory(options_.state_dir + "/claims").value_or(std::vector<std::string>())) {
    if (!kept.contains(uid)) remove_left_folder(fmt::format("{}/claims/{}", options_.state_dir, uid));
  }
  for (const auto& name : list_directory(options_.state_dir + "/jobs").value_or(std::vector<std::string>())) {
    int64_t id = 0;
    const auto* end = name.data() + name.size();
    if (const auto parsed = std::from_chars(name.data(), end, id); parsed.ec != std::errc() || parsed.ptr != end) {
      continue;
    }
    const auto known = ledger_->find(id);
    if (!known && known.error().code == Code::kNotFound) remove_left_folder(job_folder(id));
  }
}

void Daemon::remove_left_folder(const std::string& folder) {
  if (auto removed = remove_tree(folder); !removed) {
    log_.warning("a job's folder could not be removed", {{"folder", folder}, {"error", removed.error().text()}});
  }
}

Result<void> Daemon::reload_jobs() {
  HEDDLE_TRY(jobs_, ledger_->live());
  for (const auto& job : jobs_) {
    note_arrival(job);
    if (job.allocation) note_claim(job);
  }
  return {};
}

Job* Daemon::live(int64_t id) {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [id](const Job& job) { return job.id == id; });
  return found == jobs_.end() ? nullptr : &*found;
}

std::string Daemon::job_folder(int64_t id) const {
  return fmt::format("{}/jobs/{}", options_.state_dir, id);
}

std::string Daemon::guard_folder(const Job& job) const {
  return fmt::format("{}/claims/{}/{}", options_.state_dir, job.uid, kClaimRequest);
}

Result<engine::Outcome> Daemon::place(const Job& job) {
  HEDDLE_TRY(auto spec, claim_spec(job.request, machine_.cards));
  return place(job, std::move(spec));
}

Result<engine::Outcome> Daemon::place(const Job& job, model::ClaimSpec spec) {
  model::Pod pod;
  engine::PlacementRequest request = request_of(job, std::move(spec), pod);
  request.policy = policy_of(job);
  return state_.place(request, random_);
}

// Once a job: packing learns from it what else will come.
void Daemon::note_arrival(const Job& job) {
  auto spec = claim_spec(job.request, machine_.cards);
  if (!spec) return;  // its model is not here any more
  model::Pod pod;
  state_.arrive(request_of(job, *std::move(spec), pod));
}

// What it has, as the engine counts it.
void Daemon::note_claim(const Job& job) {
  state_.upsert_claim(claim_of(job, claim_spec(job.request, machine_.cards).value_or(model::ClaimSpec())));
}

// Writes the grant down, and only then counts it. False: the job was ended meanwhile.
Result<bool> Daemon::commit(Job& job, const model::Allocation& allocation) {
  const Time now = clock_.now();
  model::Allocation dated = allocation;
  dated.timestamp = now;
  HEDDLE_CHECK_OK(ledger_->grant(job.id, dated, now));
  job.state = JobState::kGranted;
  job.granted = now;
  job.allocation = std::move(dated);
  note_claim(job);
  log_.info("granted", {{"job", job.id}, {"what", describe(job.request)}});
  return true;
}

Result<void> Daemon::schedule() {
  waits_.clear();
  if (shutting_down_) return {};
  return queues_ ? schedule_queued() : schedule_in_order();
}

Result<void> Daemon::schedule_in_order() {
  const auto order = queue_order(jobs_, clock_.now(), options_.queue);
  int64_t position = 0;
  const Job* holder = nullptr;
  for (size_t i = 0; i < order.jobs.size(); ++i) {
    Job& job = *live(order.jobs[i]->id);
    if (holder != nullptr) {
      waits_[job.id] = {++position,
                        {{"Starved", fmt::format("job {} has waited longer than {} s and goes first", holder->id,
                                                 options_.queue.starvation_bound.nanos / 1'000'000'000)}}};
      continue;
    }
    auto outcome = place(job);
    if (!outcome) {
      // The request was understood when it came; what changed since (a model that vanished) is a reason to wait.
      waits_[job.id] = {++position, {{"Request", outcome.error().text()}}};
    } else if (auto* assigned = std::get_if<engine::Assigned>(&*outcome); assigned != nullptr) {
      HEDDLE_CHECK_OK(commit(job, assigned->allocations.at(0)));
      continue;
    } else if (auto* waiting = std::get_if<engine::Waiting>(&*outcome); waiting != nullptr) {
      waits_[job.id] = {++position, std::move(waiting->reasons)};
    } else {
      waits_[job.id] = {++position, std::move(std::get<engine::Infeasible>(*outcome).reasons)};
    }
    if (i < order.starved) holder = &job;
  }
  return {};
}

Result<std::variant<JobView, Refused>> Daemon::submit(const JobRequest& request, const ProcessId& client,
                                                      const Owner& owner) {
  HEDDLE_CHECK_OK(check_request(request));
  const std::lock_guard lock(mutex_);
  if (shutting_down_) return fail(Code::kUnavailable, "Heddle is being stopped");
  HEDDLE_CHECK_OK(check_on_cards(request, machine_.cards));
  if (!alive(client)) return fail(Code::kInvalidArgument, "the client process has ended", "client");
  Job job;
  HEDDLE_TRY(const uint64_t seed, random_seed());
  SeededRandom names(seed);
  job.uid = make_uuid(names);
  job.request = request;
  job.owner = owner;
  job.submitted = clock_.now();
  job.client = client;
  // What fits on no card here must not enter the queue.
  auto first = place(job);
  if (!first && (first.error().code == Code::kNotFound || first.error().code == Code::kInvalidArgument)) {
    return Refused{{{"Request", first.error().text()}}};
  }
  if (!first) return tl::unexpected<Error>(first.error());
  if (auto* infeasible = std::get_if<engine::Infeasible>(&*first); infeasible != nullptr) {
    return Refused{std::move(infeasible->reasons)};
  }
  HEDDLE_TRY(auto refused_by_queue, join_queue(job));
  if (refused_by_queue) return std::move(*refused_by_queue);
  HEDDLE_TRY(job.id, ledger_->add(job));
  jobs_.push_back(job);
  note_arrival(job);
  if (queues_) HEDDLE_CHECK_OK(queues_->add(state_, machine_.cards, job, queues_->at_least(job.submitted)));
  log_.info("queued", {{"job", job.id}, {"owner", owner.name}, {"what", describe(request)}});
  HEDDLE_CHECK_OK(schedule());
  Job& queued = *live(job.id);
  if (request.patience == Patience::kRefuse && queued.state == JobState::kWaiting) {
    Refused refused{waits_[job.id].reasons};
    HEDDLE_CHECK_OK(end_job(queued, "refused: there is no room now", std::nullopt));
    return refused;
  }
  wake();
  return job_view(queued);
}

JobView Daemon::job_view(const Job& job) const {
  JobView view;
  view.job = job;
  if (queues_) view.queue = queues_->queue_of(job);
  if (job.request.lifetime == Lifetime::kDetached) view.output = job_folder(job.id) + "/output";
  if (const auto wait = waits_.find(job.id); wait != waits_.end()) {
    view.position = wait->second.position;
    view.reasons = wait->second.reasons;
  }
  if (const auto ending = endings_.find(job.id); ending != endings_.end()) view.ending = ending->second.why;
  if (!job.allocation) return view;
  const auto used = job.state == JobState::kRunning ? guard_usage(guard_folder(job)) : std::map<std::string, int64_t>();
  for (const auto& result : job.allocation->results) {
    ShareView share;
    share.card = result.device;
    share.memory_bytes = consumed(result, "memory");
    share.cores = consumed(result, "cores");
    if (const auto* card = find_card(machine_, result); card != nullptr) {
      share.uuid = card->uuid;
      if (const auto found = used.find(card->uuid); found != used.end()) share.used_bytes = found->second;
    }
    view.shares.push_back(std::move(share));
  }
  return view;
}

Result<JobView> Daemon::find(int64_t id) {
  const std::lock_guard lock(mutex_);
  if (const Job* job = live(id); job != nullptr) return job_view(*job);
  HEDDLE_TRY(const Job job, ledger_->find(id));
  return job_view(job);
}

Result<JobView> Daemon::find(const std::string& id_or_name) {
  int64_t id = 0;
  const auto* end = id_or_name.data() + id_or_name.size();
  if (const auto parsed = std::from_chars(id_or_name.data(), end, id); parsed.ec == std::errc() && parsed.ptr == end) {
    return find(id);
  }
  const std::lock_guard lock(mutex_);
  for (auto job = jobs_.rbegin(); job != jobs_.rend(); ++job) {
    if (job->request.name == id_or_name) return job_view(*job);
  }
  HEDDLE_TRY(const auto ended, ledger_->ended(options_.keep_ended));
  for (const auto& job : ended) {
    if (job.request.name == id_or_name) return job_view(job);
  }
  return fail(Code::kNotFound, fmt::format("there is no job '{}'; `heddle ps` lists them", id_or_name));
}

Result<Launch> Daemon::launch(int64_t id) {
  const std::lock_guard lock(mutex_);
  const Job* job = live(id);
  if (job == nullptr || !job->allocation) {
    return fail(Code::kConflict, fmt::format("job {} has no share now", id));
  }
  const auto shares = card_shares(machine_, *job);
  if (shares.size() != job->allocation->results.size()) {
    return fail(Code::kUnavailable, fmt::format("a card of job {} is not there any more", id));
  }
  if (shares.front().vendor == "ascend" && options_.guard.ascend_library.empty()) {
    return fail(Code::kUnsupported, "libheddle_guard_ascend.so is not installed, without which no NPU is shared");
  }
  const std::string folder = guard_folder(*job);
  // The guard sets the variables of MPS from these limits.
  const std::string mps_pipe = job->request.isolation == model::kIsolationMps ? machine_.mps_pipe : std::string();
  HEDDLE_CHECK_OK(prepare_guard(folder, {job->uid, job->owner, job->request.priority, mps_pipe}, shares));
  HEDDLE_CHECK_OK(make_directories(job_folder(id), 0700));
  HEDDLE_CHECK_OK(remove_file(job_folder(id) + "/exit"));  // of a run that was evicted
  if (static_cast<uid_t>(job->owner.uid) != geteuid() &&
      chown(job_folder(id).c_str(), static_cast<uid_t>(job->owner.uid), static_cast<gid_t>(job->owner.gid)) != 0) {
    return fail_errno(fmt::format("cannot give the folder of job {} to its user", id), errno);
  }
  Launch launch;
  launch.folder = job_folder(id);
  launch.environment = machine_.environment;
  launch.environment.merge(guard_environment(options_.guard, folder, shares));
  launch.environment[kJobVariable] = job->uid;
  launch.environment["HEDDLE_JOB"] = fmt::format("{}", id);
  launch.environment["HEDDLE_EVICTIONS"] = fmt::format("{}", job->evictions);
  return launch;
}

Result<void> Daemon::start(int64_t id, const ProcessId& runner) {
  const std::lock_guard lock(mutex_);
  if (!alive(runner)) return fail(Code::kInvalidArgument, "the process has ended", "runner");
  const Time now = clock_.now();
  HEDDLE_CHECK_OK(ledger_->start(id, runner, now));
  if (Job* job = live(id); job != nullptr && job->state != JobState::kRunning) {
    job->state = JobState::kRunning;
    job->started = now;
    job->runner = runner;
    log_.info("started", {{"job", id}, {"pid", runner.pid}});
    if (queues_) queues_->note_running(*job);
  }
  wake();
  return {};
}

Result<void> Daemon::cancel(int64_t id, const std::string& why) {
  const std::lock_guard lock(mutex_);
  Job* job = live(id);
  if (job == nullptr) {
    HEDDLE_TRY(const Job ended, ledger_->find(id));
    return fail(Code::kConflict, fmt::format("job {} has ended already ({})", id, ended.outcome));
  }
  if (job->state == JobState::kRunning) return end_running(*job, why);
  HEDDLE_CHECK_OK(end_job(*job, why, std::nullopt));
  return schedule();
}

Result<void> Daemon::end_running(Job& job, const std::string& why) {
  if (job.eviction) {
    // It is on its way, and does not come back now.
    HEDDLE_CHECK_OK(ledger_->keep(job.id));
    job.eviction.reset();
    endings_.erase(job.id);
  }
  if (endings_.contains(job.id)) return {};
  endings_[job.id] = {why, clock_.monotonic_nanos() + kUsualGrace.nanos + kRunnerPatience.nanos};
  log_.info("ending", {{"job", job.id}, {"why", why}});
  if (queues_) queues_->note_leaving(job);
  ask_to_end(job.runner, kUsualGrace);
  return {};
}

Result<void> Daemon::end_job(Job& job, const std::string& outcome, std::optional<int64_t> exit_code) {
  const int64_t id = job.id;
  const std::string uid = job.uid;
  HEDDLE_CHECK_OK(ledger_->end(id, outcome, exit_code, clock_.now()));
  state_.remove_claim(uid);
  if (queues_) queues_->remove(job, queues_->at_least(clock_.now()));
  log_.info("ended", {{"job", id}, {"outcome", outcome}});
  waits_.erase(id);
  endings_.erase(id);
  held_.erase(id);
  in_vain_.erase(id);
  std::erase_if(jobs_, [id](const Job& other) { return other.id == id; });
  remove_left_folder(fmt::format("{}/claims/{}", options_.state_dir, uid));
  HEDDLE_TRY(const auto forgotten, ledger_->forget(options_.keep_ended));
  for (const int64_t old : forgotten) remove_left_folder(job_folder(old));
  return {};
}

Result<void> Daemon::reap_running(Job& job) {
  const auto ending = endings_.find(job.id);
  const bool overdue = ending != endings_.end() && clock_.monotonic_nanos() >= ending->second.kill_at_nanos;
  if (overdue) send_signal(job.runner, SIGKILL);
  if (alive(job.runner)) return {};
  // The supervisor is gone. What it left behind (it was killed) still uses the share: the share is free when they are
  // gone.
  const auto left = processes_of_job(job.uid, guard_usage_file(guard_folder(job)));
  if (!left.empty()) {
    for (const int64_t pid : left) {
      log_.warning("a process outlived the supervisor of its job; ending it", {{"job", job.id}, {"pid", pid}});
      kill(static_cast<pid_t>(pid), SIGKILL);
    }
    return {};
  }
  return close_run(job);
}

// Nothing of it runs any more.
Result<void> Daemon::close_run(Job& job) {
  const auto ending = endings_.find(job.id);
  bool told = true;  // it did not end by itself
  std::optional<int64_t> exit_code;
  std::string outcome = "exit code not known: its supervisor was killed, or could not write it";
  if (const auto text = read_file(job_folder(job.id) + "/exit", 64); text) {
    int64_t code = 0;
    if (std::from_chars(text->data(), text->data() + text->size(), code).ec == std::errc()) {
      exit_code = code;
      told = text->find(kToldToEnd) != std::string::npos;
      outcome = code == 0 ? "done" : fmt::format("exit code {}", code);
    }
  }
  if (job.eviction && told) return end_evicted(job, exit_code);
  if (ending != endings_.end() && !job.eviction) outcome = ending->second.why;
  return end_job(job, outcome, exit_code);
}

// What it declared as its runtime is kept: others started because of it.
Result<void> Daemon::end_overdue(Job& job) {
  if (!job.request.deadline_seconds || !job.granted || endings_.contains(job.id)) return {};
  const Duration runtime = Duration::seconds(*job.request.deadline_seconds);
  if (clock_.now() - *job.granted < runtime) return {};
  return end_running(job, fmt::format("ended: its deadline of {} s is over", *job.request.deadline_seconds));
}

Result<void> Daemon::reap() {
  std::vector<int64_t> ids(jobs_.size());
  std::transform(jobs_.begin(), jobs_.end(), ids.begin(), [](const Job& job) { return job.id; });
  for (const int64_t id : ids) {
    Job* job = live(id);
    if (job == nullptr) continue;
    if (job->state == JobState::kRunning) {
      HEDDLE_CHECK_OK(end_overdue(*job));
      HEDDLE_CHECK_OK(reap_running(*job));
    } else if (!alive(job->client)) {
      HEDDLE_CHECK_OK(end_job(*job, "its `heddle run` ended before it could start", std::nullopt));
    }
  }
  return {};
}

Result<View> Daemon::view() {
  const std::lock_guard lock(mutex_);
  View view;
  view.node = machine_.node;
  view.origin = machine_.origin;
  view.what = machine_.what;
  view.started = started_;
  for (const auto& job : jobs_) view.jobs.push_back(job_view(job));
  HEDDLE_TRY(view.ended, ledger_->ended(options_.keep_ended));
  view.strangers = strangers_;
  view.trouble = trouble_;
  for (const auto& slice : machine_.slices) {
    for (const auto& device : slice.devices) view.cards.push_back(card_view(slice, device, view.jobs));
  }
  return view;
}

Result<std::optional<Unfinished>> Daemon::shut_down(ShutDown how) {
  const std::lock_guard lock(mutex_);
  if (how == ShutDown::kIfIdle && !jobs_.empty()) {
    Unfinished unfinished;
    for (const auto& job : jobs_) ++(job.state == JobState::kWaiting ? unfinished.waiting : unfinished.running);
    return std::optional<Unfinished>(unfinished);
  }
  shutting_down_ = true;
  std::vector<int64_t> ids(jobs_.size());
  std::transform(jobs_.begin(), jobs_.end(), ids.begin(), [](const Job& job) { return job.id; });
  for (const int64_t id : ids) {
    Job& job = *live(id);
    if (job.state == JobState::kRunning) {
      HEDDLE_CHECK_OK(end_running(job, "ended by `heddle down --kill`"));
    } else {
      HEDDLE_CHECK_OK(end_job(job, "ended by `heddle down --kill`", std::nullopt));
    }
  }
  wake();
  return std::optional<Unfinished>();
}

void Daemon::stop() {
  stopped_ = true;
  wake();
}

void Daemon::wake() {
  const uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof one) < 0) return;  // full: the reader wakes anyway
}

void Daemon::wait_for_events() {
  std::vector<UniqueFd> processes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& job : jobs_) {
      processes.push_back(open_process(job.state == JobState::kRunning ? job.runner : job.client));
    }
  }
  std::vector<pollfd> watched = {{wake_.get(), POLLIN, 0}};
  int timeout = kTickMillis;
  for (const auto& fd : processes) {
    if (fd.valid()) {
      watched.push_back({fd.get(), POLLIN, 0});
    } else {
      timeout = kRetryMillis;  // ended already, and what it left may need another look
    }
  }
  poll(watched.data(), watched.size(), timeout);
  uint64_t count = 0;
  if (read(wake_.get(), &count, sizeof count) < 0) return;  // nothing to take: a process or the tick woke us
}

// Once a trouble, not once a try: tries are many a second, and the log is on the same disk.
void Daemon::report_writing(const std::string& trouble) {
  if (trouble == unwritten_) return;
  unwritten_ = trouble;
  if (trouble.empty()) {
    log_.info("the ledger can be written again", {});
  } else {
    log_.error("the ledger could not be written; trying until it can", {{"error", trouble}});
  }
}

bool Daemon::turn() {
  const std::lock_guard lock(mutex_);
  auto done = reap();
  if (done) done = schedule();
  if (done) done = keep_past();
  report_writing(done ? std::string() : done.error().text());
  return !shutting_down_ || !jobs_.empty();
}

RunEnd Daemon::run() {
  while (!stopped_) {
    wait_for_events();
    if (!turn()) return RunEnd::kShutDown;
  }
  const std::lock_guard lock(mutex_);
  if (auto kept = keep_past(); !kept) report_writing(kept.error().text());
  return RunEnd::kStopped;
}

}  // namespace heddle::standalone
