#include "kube/events.h"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/json.h"
#include "base/random.h"
#include "base/text.h"
#include "kube/paths.h"

namespace heddle::kube {
namespace {

constexpr size_t kMaxMessage = 1024;
constexpr size_t kMaxNamePrefix = 200;

using Key =
    std::tuple<std::string, std::string, int, std::string, std::string>;  // uid, name, severity, reason, message

struct Entry {
  ObjectReference object;
  EventSeverity severity = EventSeverity::kNormal;
  std::string reason;
  std::string message;
  std::string event_name;  // empty until created
  int64_t count = 0;
  int64_t written = 0;
  Time first{};
  Time last{};
  bool busy = false;  // a write is under way
  std::list<Key>::iterator age;
};

struct Budget {
  double tokens = 0;
  int64_t at = 0;
};

// Shared with the callbacks of writes, which may come after the recorder is gone.
class State : public std::enable_shared_from_this<State> {
 public:
  State(EventOptions options, Client& client, const Clock& clock, const Logger& log)
      : options_(std::move(options)),
        client_(client),
        clock_(clock),
        log_(log),
        names_(random_seed().value_or(static_cast<uint64_t>(clock.now().unix_nanos))) {}

  void record(const ObjectReference& object, EventSeverity severity, const std::string& reason,
              const std::string& message);
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  struct Write {
    Request request;
    int64_t count = 0;
  };
  std::optional<Write> next_write(const Key& key);
  [[nodiscard]] Request create_request(Entry& entry);
  [[nodiscard]] static Request count_request(const Entry& entry);
  void send(const Key& key, Write write);
  void written(const Key& key, Method method, int64_t count, const Result<Response>& answer);
  [[nodiscard]] bool take_token(const std::string& uid);
  void forget_oldest();

  EventOptions options_;
  Client& client_;
  const Clock& clock_;
  const Logger& log_;

  std::mutex mutex_;
  SeededRandom names_;
  bool closed_ = false;
  std::map<Key, Entry> entries_;
  std::list<Key> ages_;  // the least recently used first
  std::unordered_map<std::string, Budget> budgets_;
};

std::string name_space_of(const ObjectReference& object) {
  return object.name_space.empty() ? "default" : object.name_space;
}

void State::record(const ObjectReference& object, EventSeverity severity, const std::string& reason,
                   const std::string& message) {
  const std::string text = cut_text(message, kMaxMessage);
  const Key key{object.uid, object.name_space + "/" + object.name, static_cast<int>(severity), reason, text};
  std::optional<Write> write;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    auto [found, fresh] = entries_.try_emplace(key);
    Entry& entry = found->second;
    entry.last = clock_.now();
    ++entry.count;
    if (fresh) {
      entry.object = object;
      entry.severity = severity;
      entry.reason = reason;
      entry.message = text;
      entry.first = entry.last;
      entry.age = ages_.insert(ages_.end(), key);
    } else {
      ages_.splice(ages_.end(), ages_, entry.age);
    }
    write = next_write(key);
    forget_oldest();
  }
  if (write) send(key, std::move(*write));
}

std::optional<State::Write> State::next_write(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  if (closed_ || entry.busy || entry.written >= entry.count || !take_token(entry.object.uid)) return std::nullopt;
  entry.busy = true;
  return Write{entry.event_name.empty() ? create_request(entry) : count_request(entry), entry.count};
}

Request State::create_request(Entry& entry) {
  const ObjectReference& object = entry.object;
  const std::string id = make_uuid(names_);
  const std::string name = cut_text(object.name, kMaxNamePrefix) + "." + id.substr(0, 8) + id.substr(9, 4);
  const std::string name_space = name_space_of(object);
  nlohmann::json involved = {{"apiVersion", object.api_version}, {"kind", object.kind}, {"name", object.name}};
  if (!object.uid.empty()) involved["uid"] = object.uid;
  if (!object.name_space.empty()) involved["namespace"] = object.name_space;
  const nlohmann::json body = {{"apiVersion", "v1"},
                               {"kind", "Event"},
                               {"metadata", {{"name", name}, {"namespace", name_space}}},
                               {"involvedObject", involved},
                               {"reason", entry.reason},
                               {"message", entry.message},
                               {"type", entry.severity == EventSeverity::kWarning ? "Warning" : "Normal"},
                               {"count", entry.count},
                               {"firstTimestamp", format_rfc3339(entry.first)},
                               {"lastTimestamp", format_rfc3339(entry.last)},
                               {"source", {{"component", options_.component}, {"host", options_.instance}}},
                               {"reportingComponent", options_.component},
                               {"reportingInstance", options_.instance}};
  entry.event_name = name;
  Request request;
  request.method = Method::kPost;
  request.path = collection_path(kEvents, name_space);
  request.body = dump_json(body);
  return request;
}

Request State::count_request(const Entry& entry) {
  Request request;
  request.method = Method::kPatch;
  request.path = object_path(kEvents, name_space_of(entry.object), entry.event_name);
  request.content_type = std::string(kMergePatch);
  request.body = dump_json(nlohmann::json{{"count", entry.count}, {"lastTimestamp", format_rfc3339(entry.last)}});
  return request;
}

// Outside the lock: the client may answer at once.
void State::send(const Key& key, Write write) {
  const Method method = write.request.method;
  client_.send(std::move(write.request),
               [self = shared_from_this(), key, method, count = write.count](const Result<Response>& answer) {
                 self->written(key, method, count, answer);
               });
}

void State::written(const Key& key, Method method, int64_t count, const Result<Response>& answer) {
  std::optional<Write> write;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    entry.busy = false;
    if (answer) {
      entry.written = count;
    } else if (method == Method::kPost || answer.error().code == Code::kNotFound) {
      // Not made, or expired (the API server keeps Events for an hour): the next repetition makes it anew.
      entry.event_name.clear();
      if (method == Method::kPatch) entry.written = 0;
    }
    if (answer || answer.error().code == Code::kNotFound) write = next_write(key);
    if (!answer && answer.error().code != Code::kNotFound) {
      log_.warning("an event was not written", {{"reason", entry.reason}, {"why", answer.error().text()}});
    }
  }
  if (write) send(key, std::move(*write));
}

bool State::take_token(const std::string& uid) {
  const int64_t now = clock_.monotonic_nanos();
  const auto most = static_cast<double>(options_.burst);
  auto [found, fresh] = budgets_.try_emplace(uid, Budget{most, now});
  Budget& budget = found->second;
  if (options_.refill_period.nanos > 0) {
    budget.tokens = std::min(
        most, budget.tokens + static_cast<double>(now - budget.at) / static_cast<double>(options_.refill_period.nanos));
  }
  budget.at = now;
  if (budget.tokens < 1) return false;
  budget.tokens -= 1;
  return true;
}

void State::forget_oldest() {
  while (entries_.size() > options_.max_entries) {
    entries_.erase(ages_.front());
    ages_.pop_front();
  }
  // Budgets that are full again, or too many: forgetting one only gives its object a new budget.
  if (budgets_.size() > options_.max_entries) budgets_.clear();
}

class AsyncRecorder final : public EventRecorder {
 public:
  explicit AsyncRecorder(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~AsyncRecorder() override { state_->close(); }
  void record(const ObjectReference& object, EventSeverity severity, const std::string& reason,
              const std::string& message) override {
    state_->record(object, severity, reason, message);
  }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace

std::unique_ptr<EventRecorder> EventRecorder::create(EventOptions options, Client& client, const Clock& clock,
                                                     const Logger& log) {
  return std::make_unique<AsyncRecorder>(std::make_shared<State>(std::move(options), client, clock, log));
}

}  // namespace heddle::kube
