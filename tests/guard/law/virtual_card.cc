#include "guard/law/virtual_card.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "guard/broker.h"
#include "guard/preload/cuda/driver.h"
#include "guard/preload/launch.h"
#include "guard/preload/state.h"
#include "guard/preload/sys.h"
#include "state/layout.h"
#include "state/schedule.h"

namespace heddle::guard {
namespace test {
namespace {

constexpr int64_t kLaunchNs = 4000;
constexpr int64_t kWakeUpNs = 40000;
constexpr int64_t kShortestWait = 100000;
constexpr int64_t kPollNs = 50000;
constexpr int64_t kTick = 10000000;
constexpr size_t kStack = 256 << 10;

struct Account {
  Config config{};
  std::unique_ptr<heddle_guard_usage> usage = std::make_unique<heddle_guard_usage>();
  uint64_t hints[HEDDLE_GUARD_MAX_DEVICES] = {};
  int64_t vendor_ns = 0;  // as the vendor says it, in whole percents
  int64_t vendor_seen = 0;
};

struct Fiber {
  ucontext_t context{};
  std::vector<char> stack = std::vector<char>(kStack);
  int64_t wake = 0;
  Process process{};
  Account* account = nullptr;
  int slot = 0;
  const Work* work = nullptr;
  std::mt19937_64 random;
  std::vector<uint64_t> recorded;  // by event
  int64_t late_ns = 0;
  std::vector<std::pair<int64_t, int64_t>> answers;  // of requests: when one came, and how long it took
};

// One run; the fibers and the stand-ins for the driver below reach it through `world`.
struct World {
  int64_t now = 1000000000;
  nvsim::CardState* card = nullptr;
  std::vector<std::unique_ptr<Account>> accounts;
  std::vector<std::unique_ptr<Fiber>> fibers;
  Fiber* running = nullptr;
  int sms = 64;
  ucontext_t scheduler{};
};
World* world = nullptr;

void sleep_until(int64_t wake) {
  Fiber* self = world->running;
  self->wake = wake;
  swapcontext(&self->context, &world->scheduler);
}

nvsim::ProcessSlot& slot_of(const Fiber& fiber) {
  return world->card->slots[fiber.slot];
}

void push_item(const nvsim::Item& item, int queue) {
  Fiber& self = *world->running;
  nvsim::advance(*world->card, world->now);
  while (!nvsim::has_room(slot_of(self), queue, 2)) {
    sleep_until(world->now + kPollNs);
    nvsim::advance(*world->card, world->now);
  }
  nvsim::push(*world->card, self.slot, queue, item);
}

void synchronise(int queue) {
  Fiber& self = *world->running;
  before_wait();
  const uint64_t until = slot_of(self).queues[queue].tail;
  for (;;) {
    nvsim::advance(*world->card, world->now);
    if (slot_of(self).queues[queue].head >= until) break;
    sleep_until(world->now + kPollNs);
  }
  after_wait();
}

// ---- what stands in for the driver ----

size_t index_of(CUevent event) {
  return reinterpret_cast<size_t>(event) - 1;
}

CUresult event_create(CUevent* event, unsigned) {
  Fiber& self = *world->running;
  self.recorded.push_back(0);
  *event = reinterpret_cast<CUevent>(self.recorded.size());
  return CUDA_SUCCESS;
}

CUresult event_record(CUevent event, CUstream stream) {
  nvsim::Item item{};
  item.kind = nvsim::ItemKind::kEvent;
  item.target = static_cast<uint32_t>(index_of(event));
  item.number = ++world->running->recorded[index_of(event)];
  push_item(item, static_cast<int>(reinterpret_cast<size_t>(stream)));
  return CUDA_SUCCESS;
}

CUresult event_query(CUevent event) {
  nvsim::advance(*world->card, world->now);
  const Fiber& self = *world->running;
  if (slot_of(self).events[index_of(event)].done < self.recorded[index_of(event)]) return CUDA_ERROR_NOT_READY;
  if (const int64_t late = std::exchange(world->running->late_ns, 0); late != 0) sleep_until(world->now + late);
  return CUDA_SUCCESS;
}

CUresult event_elapsed(float* milliseconds, CUevent start, CUevent end) {
  const nvsim::ProcessSlot& slot = slot_of(*world->running);
  *milliseconds = static_cast<float>(
      static_cast<double>(slot.events[index_of(end)].time_ns - slot.events[index_of(start)].time_ns) / 1e6);
  return CUDA_SUCCESS;
}

CUresult stream_query(CUstream stream) {
  nvsim::advance(*world->card, world->now);
  const nvsim::Queue& queue = slot_of(*world->running).queues[reinterpret_cast<size_t>(stream)];
  return queue.head == queue.tail ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult context_current(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(world->running);
  return CUDA_SUCCESS;
}

const CudaFunctions& virtual_driver() {
  static const CudaFunctions kFunctions = [] {
    CudaFunctions functions{};
    functions.cuEventCreate = &event_create;
    functions.cuEventRecord = &event_record;
    functions.cuEventQuery = &event_query;
    functions.cuEventElapsedTime = &event_elapsed;
    functions.cuStreamQuery = &stream_query;
    functions.cuCtxGetCurrent = &context_current;
    return functions;
  }();
  return kFunctions;
}

// ---- the processes ----

int64_t duration_of(const Work& work, Fiber& self) {
  double us = work.kernel_us;
  if (work.sigma > 0) us *= std::exp(std::normal_distribution<>(-work.sigma * work.sigma / 2, work.sigma)(self.random));
  if (work.rare_ms > 0 && self.random() % 1000 == 0) us = work.rare_ms * 1000;
  return std::max<int64_t>(1000, static_cast<int64_t>(us * 1000));
}

void launch_one(const Work& work, int number) {
  Fiber& self = *world->running;
  const int queue = 1 + number % work.streams;
  const Launch launch{0x1234, reinterpret_cast<CUstream>(static_cast<size_t>(queue)), false};
  const bool limited = self.account->config.any_compute_limit;
  const Ticket ticket = limited ? admit(0, launch) : Ticket{};
  if (!limited) self.account->usage->devices[0].want_ns = world->now;
  nvsim::Item item{};
  item.kind = nvsim::ItemKind::kKernel;
  item.sms = static_cast<decltype(item.sms)>(work.sms != 0 ? work.sms : world->sms);
  item.remaining_ns = duration_of(work, self);
  push_item(item, queue);
  if (limited) after_launch(ticket, true);
}

void live() {
  Fiber& self = *world->running;
  const Work& work = *self.work;
  int64_t busy_since = world->now;
  for (int number = 0;; ++number) {
    launch_one(work, number);
    sleep_until(world->now + kLaunchNs);
    if (work.synchronise_after != 0 && number % work.synchronise_after == work.synchronise_after - 1) {
      for (int queue = 1; queue <= work.streams; ++queue) synchronise(queue);
      if (work.think_us > 0) sleep_until(world->now + static_cast<int64_t>(work.think_us * 1000));
    }
    if (work.pause_ms > 0 && world->now - busy_since > static_cast<int64_t>(work.pause_after_ms * 1e6)) {
      sleep_until(world->now + static_cast<int64_t>(work.pause_ms * 1e6));
      busy_since = world->now;
    }
  }
}

void answer_requests() {
  Fiber& self = *world->running;
  const Work& work = *self.work;
  std::exponential_distribution<> between(work.requests_per_s / 1e9);
  int64_t came = world->now;
  for (;;) {
    came += static_cast<int64_t>(between(self.random));
    if (world->now < came) sleep_until(came + kWakeUpNs);
    for (int number = 0; number < work.synchronise_after; ++number) {
      launch_one(work, number);
      sleep_until(world->now + kLaunchNs);
    }
    for (int queue = 1; queue <= work.streams; ++queue) synchronise(queue);
    self.answers.emplace_back(came, world->now - came);
  }
}

void enter() {
  if (world->running->work->requests_per_s > 0) {
    answer_requests();
  } else {
    live();
  }
}

// ---- the run ----

nvsim::CardState* new_card(const CardShape& shape) {
  void* memory = mmap(nullptr, sizeof(nvsim::CardState), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* card = static_cast<nvsim::CardState*>(memory);
  card->config.sms = static_cast<decltype(card->config.sms)>(shape.sms);
  world->sms = shape.sms;
  card->config.slice_ns = shape.slice_ns;
  card->config.switch_ns = shape.switch_ns;
  card->config.gated_events = shape.gated_events ? 1 : 0;
  card->schedule.current = card->schedule.resident = -1;
  card->schedule.now_ns = world->now;
  return card;
}

void add_process(const Tenant& tenant, Account* account, uint64_t seed) {
  auto fiber = std::make_unique<Fiber>();
  fiber->account = account;
  fiber->slot = static_cast<int>(world->fibers.size());
  fiber->work = &tenant.work;
  fiber->random.seed(seed);
  fiber->wake = world->now + 1000 * static_cast<int64_t>(seed % 977);
  world->card->used_mask |= uint64_t{1} << fiber->slot;
  world->card->slots[fiber->slot].gpu_instance = -1;  // of the whole card
  world->card->slots[fiber->slot].serial = static_cast<uint64_t>(fiber->slot) + 1;
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.data();
  fiber->context.uc_stack.ss_size = fiber->stack.size();
  fiber->context.uc_link = &world->scheduler;
  makecontext(&fiber->context, &enter, 0);
  world->fibers.push_back(std::move(fiber));
}

void add_tenant(const Tenant& tenant, uint64_t seed) {
  auto account = std::make_unique<Account>();
  std::memset(static_cast<void*>(account->usage.get()), 0, sizeof(heddle_guard_usage));
  Config& config = account->config;
  config.mode = Config::Mode::kActive;
  config.device_count = 1;
  config.devices[0].cores_percent = tenant.percent >= 100 ? 0 : static_cast<uint32_t>(tenant.percent);
  config.devices[0].gives_way = tenant.gives_way;
  config.any_compute_limit = config.devices[0].paced();
  config.burst_ns = 20000000;
  config.reopen_ns = 1000000;
  config.outstanding_ns = 2000000;
  config.usage = account->usage.get();
  config.hints = tenant.strict ? nullptr : account->hints;
  const size_t first = world->fibers.size();
  for (int i = 0; i < tenant.processes; ++i) add_process(tenant, account.get(), seed + static_cast<uint64_t>(i) * 131);
  world->fibers[first]->late_ns = static_cast<int64_t>(tenant.work.late_ms * 1e6);
  world->accounts.push_back(std::move(account));
}

int64_t busy_of(const Account& account) {
  int64_t busy = 0;
  for (const auto& fiber : world->fibers) {
    if (fiber->account == &account) busy += slot_of(*fiber).busy_ns;
  }
  return busy;
}

void tell_tenants(CardBroker& broker, const std::vector<Tenant>& tenants, const RunOptions& options) {
  std::vector<TenantView> views;
  for (size_t i = 0; i < tenants.size(); ++i) {
    Account& account = *world->accounts[i];
    const heddle_guard_device_usage& usage = account.usage->devices[0];
    // The vendor's account comes in whole percents of some time.
    const int64_t busy = busy_of(account);
    const int64_t percent = CardBroker::kAudit / 100;
    const int64_t whole = (busy - account.vendor_seen + percent / 2) / percent * percent;
    account.vendor_ns += whole;
    account.vendor_seen += whole;
    const bool unlimited = tenants[i].percent >= 100 && !tenants[i].gives_way;
    const bool shares = !unlimited && !tenants[i].gives_way;
    views.push_back({std::to_string(i), shares ? tenants[i].percent / 100 : 0, options.lending && shares, usage.want_ns,
                     usage.charged_ns * tenants[i].lies, account.vendor_ns, world->now, tenants[i].priority,
                     tenants[i].gives_way, unlimited});
  }
  const auto hints = broker.tick(world->now, views);
  for (size_t i = 0; i < tenants.size(); ++i) {
    const Hint hint{static_cast<uint64_t>(hints[i].rate * 1e6), static_cast<uint64_t>(hints[i].charge * 1e6)};
    world->accounts[i]->hints[0] = pack_hint(hint, world->now);
  }
}

// Lets the fiber whose turn comes first run until it sleeps, up to `until`.
void run_until(int64_t until) {
  for (;;) {
    Fiber* next = nullptr;
    for (const auto& fiber : world->fibers) {
      if (next == nullptr || fiber->wake < next->wake) next = fiber.get();
    }
    if (next == nullptr || next->wake >= until) break;
    world->now = std::max(world->now, next->wake);
    world->running = next;
    swapcontext(&world->scheduler, &next->context);
  }
  world->now = until;
  nvsim::advance(*world->card, until);
}

struct Reader {
  std::vector<int64_t> last;
  std::vector<double> step() {
    std::vector<double> shares;
    last.resize(world->accounts.size());
    for (size_t i = 0; i < world->accounts.size(); ++i) {
      const int64_t busy = busy_of(*world->accounts[i]);
      shares.push_back(100.0 * static_cast<double>(busy - last[i]) / static_cast<double>(kTick));
      last[i] = busy;
    }
    return shares;
  }
};

Outcome summary(const std::vector<std::vector<double>>& steps, size_t tenants) {
  Outcome outcome;
  outcome.timeline.resize(tenants);
  for (size_t i = 0; i < tenants; ++i) {
    double sum = 0;
    double worst = 0;
    double window = 0;
    for (size_t s = 0; s < steps.size(); ++s) {
      sum += steps[s][i];
      window += steps[s][i] - (s >= 10 ? steps[s - 10][i] : 0);
      if (s >= 9) worst = std::max(worst, window / 10);
      outcome.timeline[i].push_back(steps[s][i]);
    }
    outcome.percent.push_back(sum / static_cast<double>(steps.size()));
    outcome.worst_window.push_back(worst);
    outcome.used_percent += outcome.percent.back();
  }
  return outcome;
}

std::vector<std::vector<double>> answers_since(int64_t since) {
  std::vector<std::vector<double>> all;
  for (const auto& account : world->accounts) {
    std::vector<double>& mine = all.emplace_back();
    for (const auto& fiber : world->fibers) {
      if (fiber->account != account.get()) continue;
      for (const auto& [came, took] : fiber->answers) {
        if (came >= since) mine.push_back(static_cast<double>(took) / 1e6);
      }
    }
    std::sort(mine.begin(), mine.end());
  }
  return all;
}

}  // namespace

Outcome run(const std::vector<Tenant>& tenants, const RunOptions& options) {
  World here;
  world = &here;
  here.card = new_card(options.card);
  for (size_t i = 0; i < tenants.size(); ++i) add_tenant(tenants[i], options.seed * 7919 + i * 17);
  CardBroker broker;
  Reader reader;
  std::vector<std::vector<double>> steps;
  const auto ticks = static_cast<int64_t>((options.warm_up_s + options.measured_s) * 1e9) / kTick;
  const int64_t start = here.now;
  for (int64_t tick = 1; tick <= ticks; ++tick) {
    run_until(start + tick * kTick);
    const auto shares = reader.step();
    if (static_cast<double>(tick * kTick) > options.warm_up_s * 1e9) steps.push_back(shares);
    if (options.broker) tell_tenants(broker, tenants, options);
  }
  Outcome outcome = summary(steps, tenants.size());
  outcome.answers = answers_since(start + static_cast<int64_t>(options.warm_up_s * 1e9));
  for (const auto& fiber : here.fibers) {
    if (fiber->process.compute != nullptr) free(fiber->process.compute);
  }
  munmap(here.card, sizeof(nvsim::CardState));
  world = nullptr;
  return outcome;
}

}  // namespace test

// What the limiter asks of the rest of the library, in virtual time.
const CudaFunctions& cuda() {
  return test::virtual_driver();
}
const Config& config() {
  return test::world->running->account->config;
}
Process& process() {
  return test::world->running->process;
}
heddle_guard_slot* own_slot() {
  return &test::world->running->account->usage->slots[test::world->running->slot];
}
heddle_guard_unsettled* own_unsettled(int rule) {
  return &test::world->running->account->usage->unsettled[test::world->running->slot][rule];
}
uint64_t current_context() {
  return reinterpret_cast<uint64_t>(test::world->running);
}
int64_t now_ns() {
  return test::world->now;
}
void sleep_ns(int64_t duration) {
  test::sleep_until(test::world->now + duration + (duration >= test::kShortestWait ? test::kWakeUpNs : 0));
}
void* map_private(size_t bytes, OnFork) {
  return calloc(1, bytes);
}

}  // namespace heddle::guard
