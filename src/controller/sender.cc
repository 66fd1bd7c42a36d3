#include "controller/sender.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <utility>

namespace heddle::controller {
namespace {

void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

}  // namespace

Result<DieAt> parse_die_at(std::string_view text) {
  DieAt out;
  if (text.empty()) return out;
  const size_t colon = text.find(':');
  const std::string_view number = text.substr(0, colon);
  const std::string_view when = colon == std::string_view::npos ? "after" : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), out.write);
  const bool good =
      error == std::errc() && end == number.data() + number.size() && (when == "after" || when == "before");
  if (!good) return fail(Code::kInvalidArgument, "must be N, N:after or N:before");
  out.when = when == "after" ? DieAt::When::kAfterAnswer : DieAt::When::kBeforeSending;
  return out;
}

// Shared with the callbacks of requests, which may come after the Sender is gone.
struct Sender::Shared : std::enable_shared_from_this<Sender::Shared> {
  Shared(kube::Client& the_client, EventQueue& the_queue, Limits the_limits, DieAt the_die_at,
         std::function<bool()> may)
      : client(&the_client), queue(&the_queue), limits(the_limits), die_at(the_die_at), may_write(std::move(may)) {}

  struct Launch {
    Write write;
    uint64_t number = 0;  // of writes that count for DieAt
  };

  // With the lock held: what can go now.
  std::deque<Launch> take() {
    std::deque<Launch> out;
    while (!first.empty() && in_flight < limits.in_flight) {
      ++in_flight;
      const uint64_t number = is_read(first.front().kind) ? 0 : ++counted;
      out.push_back({std::move(first.front()), number});
      first.pop_front();
    }
    while (first.empty() && !telling.empty() && telling_in_flight < limits.telling_in_flight) {
      ++telling_in_flight;
      out.push_back({std::move(telling.front()), 0});
      telling.pop_front();
    }
    return out;
  }

  void launch(std::deque<Launch> writes) {
    while (!writes.empty()) {
      const Launch one = std::move(writes.front());
      writes.pop_front();
      if (die_at.write != 0 && one.number == die_at.write && die_at.when == DieAt::When::kBeforeSending) die();
      if (!may_write()) {
        for (Launch& next : settle(one, fail(Code::kUnavailable, "this process does not lead")))
          writes.push_back(std::move(next));
        continue;
      }
      const uint64_t id = one.write.id;
      const WriteKind kind = one.write.kind;
      kube::Request request = one.write.request;
      client->send(std::move(request),
                   [self = shared_from_this(), id, kind, number = one.number](Result<kube::Response> response) {
                     Result<std::string> answer = response ? Result<std::string>(std::move(response->body))
                                                           : tl::unexpected<Error>(std::move(response).error());
                     self->launch(self->settle({{id, kind, {}}, number}, std::move(answer)));
                   });
    }
  }

  // Accounts for an answer; returns what can go now.
  std::deque<Launch> settle(const Launch& one, Result<std::string> answer) {
    if (die_at.write != 0 && one.number == die_at.write && die_at.when == DieAt::When::kAfterAnswer) die();
    const WriteKind kind = one.write.kind;
    const std::lock_guard lock(mutex);
    --(is_telling(kind) ? telling_in_flight : in_flight);
    ++counts[{std::string(write_name(kind)), answer ? "ok" : std::string(code_name(answer.error().code))}];
    if (gone) return {};
    queue->push(AnswerEvent{one.write.id, std::move(answer)});
    return take();
  }

  mutable std::mutex mutex;
  kube::Client* client;
  EventQueue* queue;
  Limits limits;
  DieAt die_at;
  std::function<bool()> may_write;
  bool gone = false;
  std::deque<Write> first;
  std::deque<Write> telling;
  int64_t in_flight = 0;
  int64_t telling_in_flight = 0;
  uint64_t counted = 0;
  std::map<std::pair<std::string, std::string>, uint64_t> counts;
};

Sender::Sender(kube::Client& client, EventQueue& queue, Limits limits, DieAt die_at, std::function<bool()> may_write)
    : shared_(std::make_shared<Shared>(client, queue, limits, die_at, std::move(may_write))) {}

Sender::~Sender() {
  const std::lock_guard lock(shared_->mutex);
  shared_->gone = true;
  shared_->first.clear();
  shared_->telling.clear();
}

void Sender::send(std::vector<Write> writes) {
  if (writes.empty()) return;
  std::deque<Shared::Launch> next;
  {
    const std::lock_guard lock(shared_->mutex);
    for (Write& write : writes) {
      auto& lane = is_telling(write.kind) ? shared_->telling : shared_->first;
      // A gate that goes lets kube-scheduler begin: it must not wait behind claims of pods that come later.
      if (write.kind == WriteKind::kUngatePod) {
        lane.push_front(std::move(write));
      } else {
        lane.push_back(std::move(write));
      }
    }
    while (shared_->telling.size() > shared_->limits.telling_waiting) {
      shared_->queue->push(
          AnswerEvent{shared_->telling.front().id, fail(Code::kUnavailable, "too much is to be told")});
      shared_->telling.pop_front();
    }
    next = shared_->take();
  }
  shared_->launch(std::move(next));
}

void Sender::drop_waiting() {
  const std::lock_guard lock(shared_->mutex);
  shared_->first.clear();
  shared_->telling.clear();
}

std::map<std::pair<std::string, std::string>, uint64_t> Sender::counts() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->counts;
}

int64_t Sender::waiting() const {
  const std::lock_guard lock(shared_->mutex);
  return static_cast<int64_t>(shared_->first.size() + shared_->telling.size()) + shared_->in_flight;
}

}  // namespace heddle::controller
