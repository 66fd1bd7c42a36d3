// The watches of the controller: each object parsed on the client's I/O thread and handed to the owner's queue.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/log.h"
#include "controller/event_queue.h"
#include "kube/client.h"

namespace heddle::controller {

std::string_view kind_name(ObjectKind kind);
// Errors: as the codec's; also for quotas.
Result<ObjectEvent> parse_object(ObjectKind kind, std::string_view json);

// Turns what a watch delivers into events. Remembers names and uids, so that objects that a new list no longer has
// become removals. Thread rule: one watch at a time calls it.
class ObjectSink final : public kube::WatchSink {
 public:
  // on_list: called after the events of a list are queued.
  ObjectSink(ObjectKind kind, EventQueue& queue, const Logger& log, std::function<void()> on_list);

  void replace(const std::vector<std::string_view>& items) override;
  void added_or_modified(std::string_view object) override;
  void deleted(std::string_view object) override;
  void status(std::string_view trouble) override;

  [[nodiscard]] bool healthy() const { return healthy_.load(); }

 private:
  void queue_object(std::string_view object, std::map<std::string, std::string>& names);

  ObjectKind kind_;
  EventQueue& queue_;
  const Logger& log_;
  std::function<void()> on_list_;
  std::map<std::string, std::string> known_;  // name -> uid
  std::atomic<bool> healthy_{false};
};

// All watches together. start() may be called again: everything is listed anew, and synced() is false until all lists
// came.
class Watches {
 public:
  Watches(kube::Client& client, EventQueue& queue, const Logger& log);
  ~Watches();

  // on_synced: a task of the owner thread, queued behind the last object of the last list.
  void start(std::function<void()> on_synced);
  [[nodiscard]] bool synced() const { return synced_.load(); }
  [[nodiscard]] bool healthy() const;

 private:
  void listed(size_t index);

  kube::Client& client_;
  EventQueue& queue_;
  const Logger& log_;
  std::mutex mutex_;
  std::array<bool, kObjectKinds> listed_{};
  std::function<void()> on_synced_;
  std::atomic<bool> synced_{false};
  std::array<std::unique_ptr<ObjectSink>, kObjectKinds> sinks_;
  std::array<std::unique_ptr<kube::Watch>, kObjectKinds> watches_;
};

}  // namespace heddle::controller
