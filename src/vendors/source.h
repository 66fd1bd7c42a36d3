// The cards of one vendor as the rest of the agent sees them: always an answer, the last known one while the vendor's
// library hangs, crashes or is being replaced.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "vendors/vendor.h"

namespace heddle::vendors {

// Asks the vendor: "cards" or "status". A Worker in production.
using Ask = std::function<Result<std::string>(std::string_view operation, Duration deadline)>;

inline constexpr std::string_view kAskCards = "cards";
inline constexpr std::string_view kAskStatus = "status";
inline constexpr std::string_view kAskTimes = "times";  // and those of vendors/partition.h

struct SourceOptions {
  Duration deadline = Duration::seconds(4);  // of one call
  int64_t failures_until_unhealthy = 3;      // calls in a row
  Duration discover_interval = Duration::seconds(60);
  Duration event_hold = Duration::seconds(600);         // a card is unhealthy for so long after the last event of its
  std::string memory_file = {};                         // where the last known inventory is kept; empty: nowhere
  Duration partition_deadline = Duration::seconds(20);  // of making a partition, or taking it away
};

struct Snapshot {
  Inventory inventory;               // health of each card already judged
  std::vector<CardStatus> statuses;  // of the last good call; empty while the library does not answer
  bool current = false;              // the last call succeeded
  std::string trouble;               // why not
};

// Thread rule: refresh() from one thread; all others from any.
class CardSource {
 public:
  CardSource(SourceOptions options, Ask ask, const Clock& clock);

  // Asks for the status of all cards, and for the cards themselves at the first call, after a failure and each
  // discover_interval. Blocks up to two deadlines. A failure is not an error here: it shows in the snapshot.
  void refresh();
  [[nodiscard]] Snapshot snapshot() const;

  // Asks how long each process had each card since the last such question. Blocks up to the deadline, and while a
  // refresh is under way. Errors: as the vendor's worker.
  [[nodiscard]] Result<TimesReport> times() const;

  // Of vendors/partition.h. What is made or gone shows in the snapshot when these return. Block up to the deadline of
  // partitions, and while a refresh is under way. Errors: as the vendor's worker.
  [[nodiscard]] Result<int64_t> place_partition(const PartitionOrder& order, const std::vector<int64_t>& taken) const;
  Result<Card> make_partition(const PartitionOrder& order);
  Result<void> drop_partition(const PartitionOrder& order);

  // Forgets cards that the driver no longer reports unless `keep` says that something still holds them.
  void forget_missing(const std::function<bool(const std::string& uuid)>& keep);

 private:
  void load_memory();
  void save_memory() const;
  void merge(Inventory found);
  Result<void> take_in(const std::string& answer);
  void judge(const StatusReport& report);
  void hold_events(const StatusReport& report);
  void note_failure(const std::string& why);

  const SourceOptions options_;
  const Ask ask_;
  const Clock& clock_;
  std::atomic<bool> stale_ = false;  // somebody else changed the cards: the next refresh asks for them
  std::mutex discovering_;           // from a question about the cards until its answer is taken in
  mutable std::mutex mutex_;
  Snapshot state_;
  // What the driver reported once, by uuid. An event that a reset ends stays until the card was away and is back.
  struct Held {
    HealthEvent event;
    int64_t since_nanos = 0;
    bool away = false;
  };
  std::map<std::string, Held> events_;
  std::map<std::string, std::string> missing_;  // uuid -> why
  int64_t failures_in_row_ = 0;
  bool discovered_ = false;
  int64_t last_discovery_nanos_ = 0;
};

}  // namespace heddle::vendors
