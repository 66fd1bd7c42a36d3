// Queue and ledger of the standalone form, in one SQLite file (WAL, synchronous=FULL).
//
// Every method is one transaction that is on disk when it returns: a crash leaves it done or not done. A job moves
// waiting -> granted -> running -> ended, and never back, but for one that was evicted: its share can be taken away
// once nothing of it runs any more, and it waits again. A move that the file does not allow is kConflict. So a share is
// granted at most once, and it is written down before anything starts.
//
// One owner thread (or one lock) for an object; one process for a file (the state folder's lock).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/queue.h"
#include "standalone/job.h"

struct sqlite3;

namespace heddle::standalone {

class Ledger {
 public:
  // Called with "before NAME" and "after NAME" around the commit of each write. Tests end the process there.
  using WriteHook = std::function<void(std::string_view point)>;

  // Opens or makes the file and brings an older schema up to date.
  // Errors: kUnsupported when a newer Heddle wrote it, kInternal when it is damaged or cannot be opened.
  static Result<std::unique_ptr<Ledger>> open(const std::string& path, WriteHook hook = {});
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Adds a waiting job; its id is given by the file. Returns the id.
  Result<int64_t> add(const Job& job);
  // waiting -> granted.
  Result<void> grant(int64_t id, const model::Allocation& allocation, Time when);
  // granted -> running. Fine again with the same runner.
  Result<void> start(int64_t id, const ProcessId& runner, Time when);
  // Running ones are to give way, before they are told; `eviction` is what each of them is evicted for. All or none.
  struct Evicted {
    int64_t id = 0;
    Eviction eviction;
  };
  Result<void> evict(const std::vector<Evicted>& jobs);
  // Its eviction is none any more: something else ends it.
  Result<void> keep(int64_t id);
  // A running one that is evicted -> waiting, without a share.
  Result<void> requeue(int64_t id);
  // any but ended -> ended.
  Result<void> end(int64_t id, const std::string& outcome, std::optional<int64_t> exit_code, Time when);

  // All that are not ended, oldest first.
  [[nodiscard]] Result<std::vector<Job>> live() const;
  // The last `limit` that ended, newest first.
  [[nodiscard]] Result<std::vector<Job>> ended(int64_t limit) const;
  // Errors: kNotFound.
  [[nodiscard]] Result<Job> find(int64_t id) const;
  // Forgets ended jobs beyond the newest `keep`; returns their ids.
  Result<std::vector<int64_t>> forget(int64_t keep);

  [[nodiscard]] Result<std::optional<std::string>> setting(std::string_view name) const;
  Result<void> set_setting(std::string_view name, std::string_view value);

  // What each queue has had so far; keep_past() replaces all of it.
  [[nodiscard]] Result<std::map<std::string, model::QueuePast>> past() const;
  Result<void> keep_past(const std::map<std::string, model::QueuePast>& past);

 private:
  Ledger(sqlite3* database, WriteHook hook) : database_(database), hook_(std::move(hook)) {}
  template <typename Body>
  Result<void> write(std::string_view name, Body body);
  Result<void> migrate();

  sqlite3* database_;
  WriteHook hook_;
};

}  // namespace heddle::standalone
