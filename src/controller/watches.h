// The watches of the controller: each object parsed on the client's I/O thread and handed to the owner's queue.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "controller/event_queue.h"
#include "controller/gang_kinds.h"
#include "kube/client.h"

namespace heddle::controller {

// Not of kGangObject.
std::string_view kind_name(ObjectKind kind);
// Errors: as the codec's; also for quotas. Not of kGangObject.
Result<ObjectEvent> parse_object(ObjectKind kind, std::string_view json);

// Turns what a watch delivers into events. Remembers names and uids, so that objects that a new list no longer has
// become removals. Thread rule: one watch at a time calls it.
class ObjectSink final : public kube::WatchSink {
 public:
  // on_list: called after the events of a list are queued.
  ObjectSink(ObjectKind kind, EventQueue& queue, const Logger& log, std::function<void()> on_list);
  // Objects that say the size of a gang; gang_kind: "group/Kind". on_list is called also when the list fails: they are
  // other people's, and do not hold up everything else.
  ObjectSink(std::string gang_kind, EventQueue& queue, const Logger& log, std::function<void()> on_list);

  void replace(const std::vector<std::string_view>& items) override;
  void added_or_modified(std::string_view object) override;
  void deleted(std::string_view object) override;
  void status(std::string_view trouble) override;

 private:
  [[nodiscard]] std::string_view name() const;
  [[nodiscard]] std::string key_of(const model::ObjectMeta& meta) const;
  [[nodiscard]] Result<ObjectEvent> parse(std::string_view object) const;
  void queue_object(std::string_view object, std::map<std::string, std::string>& names);

  ObjectKind kind_;
  std::string gang_kind_;
  EventQueue& queue_;
  const Logger& log_;
  std::function<void()> on_list_;
  std::map<std::string, std::string> known_;  // name -> uid
};

// All watches together. start() may be called again: everything is listed anew, and synced() is false until all lists
// came. Kinds of objects that say the size of a gang are watched where they are served and may be read, which is looked
// up at each start() and again now and then.
// Thread rule: start() and look_if_due() on the owner thread, or before it runs; the others on any.
class Watches {
 public:
  static constexpr Duration kLookInterval = Duration::seconds(30);
  static constexpr Duration kLookAgain = Duration::seconds(1);  // after a look that failed, and from one to the next

  // on_gang_kinds: what of these is watched from now on; on the owner thread, before the first of their objects.
  Watches(kube::Client& client, EventQueue& queue, const Clock& clock, const Logger& log,
          std::function<void(std::set<std::string>)> on_gang_kinds);
  ~Watches();

  // on_synced: a task of the owner thread, queued behind the last object of the last list.
  void start(std::function<void()> on_synced);
  // Asks again which kinds of gangs are served, where that was long ago.
  void look_if_due();
  // Asks again at once. False: not now, since that is being asked, or was a moment ago.
  bool look_now();
  [[nodiscard]] bool synced() const { return synced_.load(); }

 private:
  // How a callback that comes late finds out that this is gone.
  struct Link {
    std::mutex mutex;
    Watches* watches = nullptr;
  };
  struct GangWatch {
    std::unique_ptr<ObjectSink> sink;
    std::unique_ptr<kube::Watch> watch;  // null: not since the last start()
    std::string path;
  };

  void look();
  void looked(uint64_t round, const Result<GangKinds>& kinds);
  void watch_gangs(const std::vector<GangKind>& kinds);
  void tell_denied(const std::set<std::string>& denied);
  void awaits(const std::string& name);
  void listed(const std::string& name);

  kube::Client& client_;
  EventQueue& queue_;
  const Clock& clock_;
  const Logger& log_;
  std::function<void(std::set<std::string>)> on_gang_kinds_;
  std::shared_ptr<Link> link_;

  std::mutex mutex_;
  std::set<std::string> awaited_;  // names of what has not been listed since start()
  std::function<void()> on_synced_;
  std::atomic<bool> synced_{false};
  std::array<std::unique_ptr<ObjectSink>, kObjectKinds> sinks_;
  std::array<std::unique_ptr<kube::Watch>, kObjectKinds> watches_;

  // The owner thread's.
  std::map<std::string, GangWatch> gangs_;  // by "group/Kind"
  std::set<std::string> denied_;
  uint64_t round_ = 0;  // of looks; an answer to an earlier one is not used
  bool looking_ = false;
  int64_t next_look_ = 0;  // monotonic
  int64_t last_look_ = 0;  // when it began
};

}  // namespace heddle::controller
