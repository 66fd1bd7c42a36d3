// The cards of all vendors of a machine: a worker process and a CardSource for each, so that the library of one vendor
// that hangs keeps nothing of the others back.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "vendors/source.h"
#include "vendors/worker.h"

namespace heddle::vendors {

struct VendorWorker {
  std::string vendor;
  std::vector<std::string> command;  // argv of the process that calls the vendor's library
};

struct VendorSnapshot {
  std::string vendor;
  Snapshot snapshot;
  int64_t worker_starts = 0;
};

// Thread rule: refresh() and forget_missing() from one thread, the others from any.
class CardSources {
 public:
  // The last known inventories are kept as <memory_dir>/inventory-<vendor>.json; empty: nowhere.
  CardSources(const std::vector<VendorWorker>& workers, const std::string& memory_dir, const Clock& clock);

  // Asks all vendors side by side. Blocks as long as the slowest, up to two deadlines.
  void refresh();
  [[nodiscard]] std::vector<VendorSnapshot> by_vendor() const;
  // All cards and what is known of them, in the order of the workers; statuses only of libraries that answer.
  [[nodiscard]] std::vector<Card> cards() const;
  [[nodiscard]] std::vector<CardStatus> statuses() const;
  // All of it as if it were of one vendor: not current while any library does not answer, with the reasons of each.
  [[nodiscard]] Snapshot snapshot() const;
  // Errors: only when no vendor can say.
  [[nodiscard]] Result<TimesReport> times() const;
  // Hard partitions of a vendor's cards (vendors/partition.h). Errors: kUnsupported for a vendor that has no worker
  // here, and as its worker.
  [[nodiscard]] Result<int64_t> place_partition(const std::string& vendor, const PartitionOrder& order,
                                                const std::vector<int64_t>& taken) const;
  Result<Card> make_partition(const std::string& vendor, const PartitionOrder& order);
  Result<void> drop_partition(const std::string& vendor, const PartitionOrder& order);
  // For vendors whose library answers.
  void forget_missing(const std::function<bool(const std::string& uuid)>& keep);

 private:
  struct Entry;
  [[nodiscard]] Result<Entry*> entry_of(const std::string& vendor) const;
  std::vector<std::unique_ptr<Entry>> entries_;

 public:
  ~CardSources();
  CardSources(const CardSources&) = delete;
  CardSources& operator=(const CardSources&) = delete;
};

}  // namespace heddle::vendors
