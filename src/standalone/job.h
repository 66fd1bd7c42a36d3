// A job of the standalone form: a command that asked for a share, as the queue and the ledger know it. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/claim.h"
#include "model/placement_policy.h"
#include "vendors/vendor.h"

namespace heddle::standalone {

enum class Lifetime {
  kAttached,  // ends with its client
  kDetached,  // goes on without a terminal; its output is in the job's folder
};

enum class Patience {
  kWait,    // queue until there is room
  kRefuse,  // start now, or not at all
};

// What becomes of a job whose share is taken back for another one.
enum class OnEviction {
  kEnd,      // it ends; its command is never run twice
  kRequeue,  // it waits again, and its command is run again from its beginning
};

// What `heddle run` asks for. Neither memory nor cores: whole cards.
struct JobRequest {
  std::string name;  // for people; may be empty
  std::vector<std::string> command;
  std::string directory;                  // where it was asked, for people
  int64_t count = 1;                      // cards, each with the share below
  std::optional<int64_t> memory_bytes;    // a card, whole MiB
  std::optional<int64_t> memory_percent;  // of a card's memory, 1..100
  std::optional<int64_t> cores;           // percent of a card's compute, 0 (no cap) .. 100 (alone)
  std::string model;                      // part of a model's name, in any case; empty: any
  int64_t priority = 0;                   // higher goes first
  Lifetime lifetime = Lifetime::kAttached;
  Patience patience = Patience::kWait;
  std::string queue;  // where there are queues: the one it is in; empty: none was named
  // What may be addressed on each card, managed memory beyond the share included; whole MiB. Without: the share.
  std::optional<int64_t> virtual_bytes = std::nullopt;
  std::string isolation = {};  // how the share of the compute is held: "soft", "mps"; empty: soft
  std::optional<model::PlacementPolicy> placement_policy;  // how its cards are chosen; nothing: as its queue says
  std::string reservation;                                 // runs inside this one only; empty: in none
  std::optional<int64_t> deadline_seconds;                 // it is ended so long after it got its share
  OnEviction on_eviction = OnEviction::kEnd;
  std::string vendor = {};  // "ascend"; empty: that of the machine's cards, or of the model
  friend bool operator==(const JobRequest&, const JobRequest&) = default;
};

// A process that keeps its identity when pids are used again and when the machine restarts.
struct ProcessId {
  int64_t pid = 0;  // 0: none
  int64_t start_ticks = 0;
  std::string boot_id;
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

struct Owner {
  int64_t uid = 0;
  int64_t gid = 0;
  std::string name;
  std::vector<std::string> groups = {};  // by name, the primary one first; not kept in the ledger
};

enum class JobState {
  kWaiting,  // in the queue
  kGranted,  // its share is written down, its command is not started yet
  kRunning,
  kEnded,
};

// Its share is being taken back for another job.
struct Eviction {
  int64_t by = 0;   // the job that is to have the room
  std::string why;  // in words
  Time at;
};

struct Job {
  int64_t id = 0;   // counts up; the age in the queue
  std::string uid;  // names its claim
  JobState state = JobState::kWaiting;
  JobRequest request;
  Owner owner;
  Time submitted;
  std::optional<Time> granted;
  std::optional<Time> started;
  std::optional<Time> ended;
  ProcessId client;  // `heddle run`; while waiting and granted the job lives as long as this
  ProcessId runner;  // parent of the command; while running the job lives as long as this
  std::optional<model::Allocation> allocation;
  std::optional<int64_t> exit_code;
  std::string outcome;                    // once ended: why, in words
  std::optional<Eviction> eviction = {};  // while it runs, or how it ended
  int64_t evictions = 0;                  // how often it went back to the queue
};

std::string_view state_name(JobState state);
Result<JobState> parse_state(std::string_view text);

inline constexpr int64_t kMaxCount = 32;  // results of one claim
inline constexpr int64_t kMaxPriority = 1000;
inline constexpr int64_t kMaxDeadlineSeconds = int64_t{365} * 24 * 3600;
inline constexpr size_t kMaxName = 64;  // characters

// The request as JSON, for the API and the ledger. parse_request checks the form only: a ledger may hold requests that
// an earlier Heddle took. Errors: kInvalidArgument with the member.
std::string request_json(const JobRequest& request);
Result<JobRequest> parse_request(std::string_view json);
// Everything that a request alone can tell. Errors: kInvalidArgument; `field` is the flag of `heddle run` ("--memory").
Result<void> check_request(const JobRequest& request);
// What only the cards can tell of it: virtual memory must be more than what is granted of each card that it may get, be
// that a percentage or the whole. Errors: as check_request().
Result<void> check_on_cards(const JobRequest& request, const std::vector<vendors::Card>& cards);

// "8Gi" -> bytes. A unit is required, and a whole number of MiB. Errors: kInvalidArgument with the fix; field is empty.
Result<int64_t> parse_memory(std::string_view text);

// The claim that the request means on these cards: one request, named kClaimRequest, on the class kClass.
// All of its cards are of one vendor. Errors: kNotFound when no card is of the vendor or has the model (lists those
// that are there), kInvalidArgument when the cards that it names are of several vendors: a program is written for one.
inline constexpr std::string_view kClaimRequest = "card";
inline constexpr std::string_view kClass = "heddle";
model::DeviceClass device_class();  // of every card that Heddle serves
Result<model::ClaimSpec> claim_spec(const JobRequest& request, const std::vector<vendors::Card>& cards);

// "5000Mi and 50% of the compute of a card", "2 whole cards".
std::string describe(const JobRequest& request);
// "3000Mi", "8Gi": the largest binary unit that is exact, from bytes.
std::string format_bytes(int64_t bytes);

}  // namespace heddle::standalone
