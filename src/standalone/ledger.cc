#include "standalone/ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/unique_fd.h"
#include "codec/codec.h"

namespace heddle::standalone {
namespace {

// Entry n brings a file of version n to version n + 1. Entries are never changed once released.
constexpr std::array<const char*, 3> kMigrations = {
    R"(CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
       CREATE TABLE job (
         id INTEGER PRIMARY KEY AUTOINCREMENT,
         uid TEXT NOT NULL UNIQUE,
         state TEXT NOT NULL CHECK (state IN ('waiting', 'granted', 'running', 'ended')),
         request TEXT NOT NULL,
         owner_uid INTEGER NOT NULL, owner_gid INTEGER NOT NULL, owner_name TEXT NOT NULL,
         submitted INTEGER NOT NULL, granted INTEGER, started INTEGER, ended INTEGER,
         client_pid INTEGER NOT NULL, client_start INTEGER NOT NULL, client_boot TEXT NOT NULL,
         runner_pid INTEGER, runner_start INTEGER, runner_boot TEXT,
         allocation TEXT,
         exit_code INTEGER,
         outcome TEXT,
         CHECK (state IN ('waiting', 'ended') OR allocation IS NOT NULL),
         CHECK (state != 'running' OR runner_pid IS NOT NULL)
       ) STRICT;
       CREATE INDEX job_live ON job (id) WHERE state != 'ended';)",
    R"(CREATE TABLE queue_past (
         queue TEXT PRIMARY KEY, at INTEGER NOT NULL, milli_device_seconds INTEGER NOT NULL
       ) STRICT;)",
    R"(ALTER TABLE job ADD COLUMN evicted_by INTEGER;
       ALTER TABLE job ADD COLUMN evicted_why TEXT;
       ALTER TABLE job ADD COLUMN evicted_at INTEGER;
       ALTER TABLE job ADD COLUMN evictions INTEGER NOT NULL DEFAULT 0;)"};

constexpr const char* kColumns =
    "id, uid, state, request, owner_uid, owner_gid, owner_name, submitted, granted, started, ended, client_pid, "
    "client_start, client_boot, runner_pid, runner_start, runner_boot, allocation, exit_code, outcome, "
    "evicted_by, evicted_why, evicted_at, evictions";

tl::unexpected<Error> database_error(sqlite3* database, std::string_view what) {
  const int code = sqlite3_errcode(database);
  Code kind = Code::kInternal;
  if (code == SQLITE_FULL) kind = Code::kExhausted;
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) kind = Code::kUnavailable;
  const char* file = sqlite3_db_filename(database, "main");
  return fail(kind, fmt::format("ledger {}: {}: {}", file == nullptr ? "" : file, what, sqlite3_errmsg(database)));
}

// It holds the command lines of all users. SQLite makes its other files with the mode of this one.
Result<void> make_private(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return fail_errno(fmt::format("cannot open {}", path), errno);
  for (const char* suffix : {"", "-wal", "-shm"}) {
    if (chmod((path + suffix).c_str(), 0600) != 0 && errno != ENOENT) {
      return fail_errno(fmt::format("cannot set the mode of {}{}", path, suffix), errno);
    }
  }
  return {};
}

Result<void> execute(sqlite3* database, const std::string& sql) {
  if (sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return database_error(database, "statement failed");
  }
  return {};
}

// A prepared statement with its parameters in order.
class Statement {
 public:
  Statement(sqlite3* database, const std::string& sql) : database_(database) {
    sqlite3_prepare_v2(database, sql.c_str(), -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int64_t value) {
    sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  Statement& bind(std::string_view value) {
    sqlite3_bind_text64(statement_, ++bound_, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    return *this;
  }
  Statement& bind(const std::optional<int64_t>& value) {
    if (value) return bind(*value);
    sqlite3_bind_null(statement_, ++bound_);
    return *this;
  }

  // True: there is a row. False: done.
  Result<bool> step() {
    if (statement_ == nullptr) return database_error(database_, "statement refused");
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    return database_error(database_, "statement failed");
  }
  [[nodiscard]] int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  [[nodiscard]] bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  [[nodiscard]] std::optional<int64_t> optional_integer(int column) const {
    return is_null(column) ? std::nullopt : std::optional<int64_t>(integer(column));
  }
  [[nodiscard]] std::optional<Time> time(int column) const {
    return is_null(column) ? std::nullopt : std::optional<Time>(Time{integer(column)});
  }
  [[nodiscard]] std::string text(int column) const {
    const auto* data = sqlite3_column_text(statement_, column);
    if (data == nullptr) return {};
    return {reinterpret_cast<const char*>(data), static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
  }

 private:
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

Result<Job> read_job(const Statement& row) {
  Job job;
  job.id = row.integer(0);
  job.uid = row.text(1);
  HEDDLE_TRY(job.state, parse_state(row.text(2)));
  HEDDLE_TRY(job.request, parse_request(row.text(3)));
  job.owner = {row.integer(4), row.integer(5), row.text(6)};
  job.submitted = Time{row.integer(7)};
  job.granted = row.time(8);
  job.started = row.time(9);
  job.ended = row.time(10);
  job.client = {row.integer(11), row.integer(12), row.text(13)};
  job.runner = {row.integer(14), row.integer(15), row.text(16)};
  if (!row.is_null(17)) {
    HEDDLE_TRY(job.allocation, codec::parse_allocation(row.text(17)));
  }
  job.exit_code = row.optional_integer(18);
  job.outcome = row.text(19);
  if (!row.is_null(20)) job.eviction = Eviction{row.integer(20), row.text(21), Time{row.integer(22)}};
  job.evictions = row.integer(23);
  return job;
}

Result<std::vector<Job>> read_jobs(Statement& statement) {
  std::vector<Job> jobs;
  while (true) {
    HEDDLE_TRY(const bool more, statement.step());
    if (!more) return jobs;
    HEDDLE_TRY(Job job, read_job(statement));
    jobs.push_back(std::move(job));
  }
}

// Runs an UPDATE of one job; kConflict when its state did not allow it.
Result<void> move(sqlite3* database, Statement& statement, int64_t id, std::string_view what) {
  HEDDLE_CHECK_OK(statement.step());
  if (sqlite3_changes(database) == 1) return {};
  return fail(Code::kConflict, fmt::format("job {} cannot be {} now", id, what));
}

}  // namespace

Result<std::unique_ptr<Ledger>> Ledger::open(const std::string& path, WriteHook hook) {
  HEDDLE_CHECK_OK(make_private(path));
  sqlite3* database = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  std::unique_ptr<Ledger> ledger(new Ledger(database, std::move(hook)));
  if (code != SQLITE_OK) return database_error(database, fmt::format("cannot open {}", path));
  sqlite3_extended_result_codes(database, 0);
  sqlite3_busy_timeout(database, 5000);
  HEDDLE_CHECK_OK(execute(database, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"));
  HEDDLE_CHECK_OK(ledger->migrate());
  return ledger;
}

Ledger::~Ledger() {
  sqlite3_close_v2(database_);
}

template <typename Body>
Result<void> Ledger::write(std::string_view name, Body body) {
  HEDDLE_CHECK_OK(execute(database_, "BEGIN IMMEDIATE"));
  // A full disk and the like end the transaction by themselves, and then there is nothing to roll back. What is told is
  // why it failed, whatever becomes of the rollback: the next BEGIN fails when that did not work.
  const auto undo = [this] {
    if (sqlite3_get_autocommit(database_) == 0) sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  };
  if (auto done = body(); !done) {
    undo();
    return done;
  }
  if (hook_) hook_(fmt::format("before {}", name));
  if (auto done = execute(database_, "COMMIT"); !done) {
    undo();
    return done;
  }
  if (hook_) hook_(fmt::format("after {}", name));
  return {};
}

Result<void> Ledger::migrate() {
  int64_t version = 0;
  {
    Statement statement(database_, "PRAGMA user_version");
    HEDDLE_CHECK_OK(statement.step());
    version = statement.integer(0);
  }
  const auto known = static_cast<int64_t>(kMigrations.size());
  if (version > known) {
    return fail(Code::kUnsupported,
                fmt::format("the ledger has version {}, written by a newer Heddle; this one knows {}", version, known));
  }
  for (; version < known; ++version) {
    const auto raise = [&]() -> Result<void> {
      HEDDLE_CHECK_OK(execute(database_, kMigrations.at(static_cast<size_t>(version))));
      return execute(database_, fmt::format("PRAGMA user_version = {}", version + 1));
    };
    HEDDLE_CHECK_OK(write("migration", raise));
  }
  return {};
}

Result<int64_t> Ledger::add(const Job& job) {
  int64_t id = 0;
  const auto insert = [&]() -> Result<void> {
    Statement statement(
        database_,
        "INSERT INTO job (uid, state, request, owner_uid, owner_gid, owner_name, submitted, client_pid, "
        "client_start, client_boot) VALUES (?, 'waiting', ?, ?, ?, ?, ?, ?, ?, ?)");
    statement.bind(job.uid).bind(request_json(job.request)).bind(job.owner.uid).bind(job.owner.gid);
    statement.bind(job.owner.name).bind(job.submitted.unix_nanos).bind(job.client.pid).bind(job.client.start_ticks);
    statement.bind(job.client.boot_id);
    HEDDLE_CHECK_OK(statement.step());
    id = sqlite3_last_insert_rowid(database_);
    return {};
  };
  HEDDLE_CHECK_OK(write("add", insert));
  return id;
}

Result<void> Ledger::grant(int64_t id, const model::Allocation& allocation, Time when) {
  return write("grant", [&]() -> Result<void> {
    Statement statement(
        database_, "UPDATE job SET state = 'granted', allocation = ?, granted = ? WHERE id = ? AND state = 'waiting'");
    statement.bind(codec::allocation_json(allocation)).bind(when.unix_nanos).bind(id);
    return move(database_, statement, id, "granted a share");
  });
}

Result<void> Ledger::start(int64_t id, const ProcessId& runner, Time when) {
  HEDDLE_TRY(const Job job, find(id));
  if (job.state == JobState::kRunning && job.runner == runner) return {};
  return write("start", [&]() -> Result<void> {
    Statement statement(
        database_,
        "UPDATE job SET state = 'running', runner_pid = ?, runner_start = ?, runner_boot = ?, started = ? "
        "WHERE id = ? AND state = 'granted'");
    statement.bind(runner.pid).bind(runner.start_ticks).bind(runner.boot_id).bind(when.unix_nanos).bind(id);
    return move(database_, statement, id, "started");
  });
}

Result<void> Ledger::evict(const std::vector<Evicted>& jobs) {
  return write("evict", [&]() -> Result<void> {
    for (const Evicted& job : jobs) {
      Statement statement(
          database_,
          "UPDATE job SET evicted_by = ?, evicted_why = ?, evicted_at = ? WHERE id = ? AND state = 'running'");
      statement.bind(job.eviction.by).bind(job.eviction.why).bind(job.eviction.at.unix_nanos).bind(job.id);
      HEDDLE_CHECK_OK(move(database_, statement, job.id, "evicted"));
    }
    return {};
  });
}

Result<void> Ledger::keep(int64_t id) {
  return write("keep", [&]() -> Result<void> {
    Statement statement(
        database_,
        "UPDATE job SET evicted_by = NULL, evicted_why = NULL, evicted_at = NULL WHERE id = ? AND state = "
        "'running'");
    statement.bind(id);
    return move(database_, statement, id, "kept");
  });
}

Result<void> Ledger::requeue(int64_t id) {
  return write("requeue", [&]() -> Result<void> {
    Statement statement(
        database_,
        "UPDATE job SET state = 'waiting', allocation = NULL, granted = NULL, started = NULL, runner_pid = NULL, "
        "runner_start = NULL, runner_boot = NULL, evicted_by = NULL, evicted_why = NULL, evicted_at = NULL, "
        "evictions = evictions + 1 WHERE id = ? AND state = 'running' AND evicted_by IS NOT NULL");
    statement.bind(id);
    return move(database_, statement, id, "put back into the queue");
  });
}

Result<void> Ledger::end(int64_t id, const std::string& outcome, std::optional<int64_t> exit_code, Time when) {
  return write("end", [&]() -> Result<void> {
    Statement statement(
        database_,
        "UPDATE job SET state = 'ended', outcome = ?, exit_code = ?, ended = ? WHERE id = ? AND state != 'ended'");
    statement.bind(outcome).bind(exit_code).bind(when.unix_nanos).bind(id);
    return move(database_, statement, id, "ended");
  });
}

Result<std::vector<Job>> Ledger::live() const {
  Statement statement(database_, fmt::format("SELECT {} FROM job WHERE state != 'ended' ORDER BY id", kColumns));
  return read_jobs(statement);
}

Result<std::vector<Job>> Ledger::ended(int64_t limit) const {
  Statement statement(
      database_,
      fmt::format("SELECT {} FROM job WHERE state = 'ended' ORDER BY ended DESC, id DESC LIMIT ?", kColumns));
  statement.bind(limit);
  return read_jobs(statement);
}

Result<Job> Ledger::find(int64_t id) const {
  Statement statement(database_, fmt::format("SELECT {} FROM job WHERE id = ?", kColumns));
  statement.bind(id);
  HEDDLE_TRY(const bool found, statement.step());
  if (!found) return fail(Code::kNotFound, fmt::format("there is no job {}", id));
  return read_job(statement);
}

Result<std::vector<int64_t>> Ledger::forget(int64_t keep) {
  std::vector<int64_t> ids;
  {
    Statement statement(database_,
                        "SELECT id FROM job WHERE state = 'ended' ORDER BY ended DESC, id DESC LIMIT -1 OFFSET ?");
    statement.bind(keep);
    while (true) {
      HEDDLE_TRY(const bool more, statement.step());
      if (!more) break;
      ids.push_back(statement.integer(0));
    }
  }
  if (ids.empty()) return ids;
  const auto remove = [&]() -> Result<void> {
    for (const int64_t id : ids) {
      Statement statement(database_, "DELETE FROM job WHERE id = ? AND state = 'ended'");
      statement.bind(id);
      HEDDLE_CHECK_OK(statement.step());
    }
    return {};
  };
  HEDDLE_CHECK_OK(write("forget", remove));
  return ids;
}

Result<std::optional<std::string>> Ledger::setting(std::string_view name) const {
  Statement statement(database_, "SELECT value FROM setting WHERE name = ?");
  statement.bind(name);
  HEDDLE_TRY(const bool found, statement.step());
  if (!found) return std::optional<std::string>();
  return std::optional<std::string>(statement.text(0));
}

Result<void> Ledger::set_setting(std::string_view name, std::string_view value) {
  return write("setting", [&]() -> Result<void> {
    Statement statement(database_,
                        "INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = "
                        "excluded.value");
    statement.bind(name).bind(value);
    HEDDLE_CHECK_OK(statement.step());
    return {};
  });
}

Result<std::map<std::string, model::QueuePast>> Ledger::past() const {
  std::map<std::string, model::QueuePast> past;
  Statement statement(database_, "SELECT queue, at, milli_device_seconds FROM queue_past");
  while (true) {
    HEDDLE_TRY(const bool more, statement.step());
    if (!more) return past;
    past[statement.text(0)] = {Time{statement.integer(1)}, statement.integer(2)};
  }
}

Result<void> Ledger::keep_past(const std::map<std::string, model::QueuePast>& past) {
  return write("past", [&]() -> Result<void> {
    HEDDLE_CHECK_OK(execute(database_, "DELETE FROM queue_past"));
    for (const auto& [queue, one] : past) {
      Statement statement(database_, "INSERT INTO queue_past (queue, at, milli_device_seconds) VALUES (?, ?, ?)");
      statement.bind(queue).bind(one.at.unix_nanos).bind(one.milli_device_seconds);
      HEDDLE_CHECK_OK(statement.step());
    }
    return {};
  });
}

}  // namespace heddle::standalone
