#include "kube/client.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "kube/core.h"
#include "kube/reflector.h"

namespace heddle::kube {
namespace {

class WatchHandle final : public Watch {
 public:
  WatchHandle(std::shared_ptr<Core> core, std::shared_ptr<Reflector> reflector)
      : core_(std::move(core)), reflector_(std::move(reflector)) {}

  ~WatchHandle() override {
    Transport& transport = core_->transport();
    if (transport.on_io_thread()) {
      reflector_->stop();
      return;
    }
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
    // A client that has ended has no thread left that could call the sink.
    const bool posted = transport.post([&] {
      reflector_->stop();
      const std::lock_guard lock(mutex);
      done = true;
      ended.notify_one();
    });
    if (!posted) return;
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return done; });
  }

 private:
  std::shared_ptr<Core> core_;
  std::shared_ptr<Reflector> reflector_;
};

class CurlClient final : public Client {
 public:
  explicit CurlClient(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  ~CurlClient() override {
    core_->transport().stop([core = core_.get()] { core->shut_down(); });
  }

  void send(Request request, Callback done) override {
    const int64_t deadline = core_->clock().monotonic_nanos() + request.timeout.nanos;
    auto shared = std::make_shared<Callback>(std::move(done));
    const bool posted =
        core_->transport().post([core = core_.get(), request = std::move(request), deadline, shared]() mutable {
          core->submit(std::move(request), deadline, std::move(*shared));
        });
    if (!posted && *shared) (*shared)(fail(Code::kUnavailable, "the client is shutting down"));
  }

  Result<Response> call(Request request) override {
    if (core_->transport().on_io_thread()) return fail(Code::kInternal, "call() on the client's own I/O thread");
    std::mutex mutex;
    std::condition_variable ended;
    std::optional<Result<Response>> answer;
    send(std::move(request), [&](Result<Response> result) {
      const std::lock_guard lock(mutex);
      answer.emplace(std::move(result));
      ended.notify_one();
    });
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return answer.has_value(); });
    return std::move(*answer);
  }

  std::unique_ptr<Watch> watch(WatchOptions options, WatchSink& sink) override {
    auto reflector = std::make_shared<Reflector>(std::move(options), sink, *core_);
    core_->transport().post([reflector] { reflector->start(); });
    return std::make_unique<WatchHandle>(core_, std::move(reflector));
  }

  [[nodiscard]] ClientStats stats() const override {
    const Counters& counters = core_->counters();
    return {counters.requests.load(), counters.failures.load(), counters.watch_restarts.load(),
            counters.in_flight.load(), counters.queued.load()};
  }

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace

Result<std::unique_ptr<Client>> Client::create(Config config, Limits limits, const Clock& clock, const Logger& log) {
  HEDDLE_TRY(auto transport, Transport::create(config, clock));
  return std::make_unique<CurlClient>(std::make_shared<Core>(limits, clock, log, std::move(transport)));
}

}  // namespace heddle::kube
