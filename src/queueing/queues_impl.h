// The inside of Queues, shared by the files of this folder.
#pragma once

#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/quantity.h"
#include "queueing/queueing.h"

namespace heddle::queueing {

inline constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
inline constexpr size_t kNone = std::numeric_limits<size_t>::max();

struct DeviceKind {
  std::string vendor;  // empty: not known yet
  std::string model;
  friend auto operator<=>(const DeviceKind&, const DeviceKind&) = default;
};

struct Entry {
  Workload spec;
  Amounts demand;
  std::vector<std::vector<size_t>> counted_by;  // the meters of each of its portions
  int64_t cost = 0;                             // thousandths of a device
  size_t leaf = 0;
  Phase phase = Phase::kWaiting;
  bool entitled = false;
  Time started;
  uint64_t order = 0;                  // of starts
  std::string leaving_for;             // with kLeaving: whom it makes room for
  std::vector<DeviceKind> kinds = {};  // of the devices that it asks for, each once
};

// Victims that have not gone yet.
struct Leavers {
  std::set<std::string> ids;
  std::map<size_t, Amounts> beyond;  // by queue: what they have there beyond what is held for their preemptor
};

// Bounds of one queue for one meter, absent ones made into numbers.
struct Bounds {
  int64_t guaranteed = 0;
  int64_t limit = kUnbounded;
  int64_t borrowing = kUnbounded;
  int64_t withheld = 0;   // of the guarantee, never lent
  bool promised = false;  // the guarantee is written down
};

using LeafOrder = std::tuple<int64_t, int64_t, std::string>;  // -priority, submitted, id

struct Queue {
  std::string name;
  size_t parent = kNone;
  std::vector<size_t> children;
  int64_t weight = 1;
  std::vector<Bounds> bounds;  // by meter
  Amounts used;                // running and held, of the subtree
  Amounts entitled;            // of those the entitled
  Amounts taken;               // what it takes of its parent: used, or withheld where that is more
  Amounts kept;                // the same while nothing runs
  Amounts leaving;             // of the subtree: has not gone yet, beyond what is held for those it makes room for
  int64_t cost = 0;            // of what runs and is held in the subtree
  int64_t past = 0;            // decayed to Impl::now
  std::set<LeafOrder> waiting;
  std::map<uint64_t, std::string> active;  // leaves: running and held, by order of start
  size_t own = 0;                          // of active, the entitled

  [[nodiscard]] bool leaf() const { return children.empty(); }
};

struct Queues::Impl {
  // admit.cc
  [[nodiscard]] std::optional<Reason> refusal(const Entry& entry) const;
  [[nodiscard]] std::optional<Reason> quota_refusal(const Entry& entry) const;
  [[nodiscard]] std::optional<Reason> shared_refusal(const Entry& entry, size_t meter) const;
  [[nodiscard]] bool admits(const Entry& entry) const;
  [[nodiscard]] int64_t taken_more(const Entry& entry, size_t meter) const;
  [[nodiscard]] bool root_is_short(const Entry& entry, size_t meter) const;
  [[nodiscard]] std::optional<Reason> reservation_refusal(const Entry& entry) const;
  [[nodiscard]] std::optional<Reason> member_refusal(const Entry& entry) const;
  [[nodiscard]] std::optional<Reason> window_refusal(const Entry& entry, size_t meter, Time when) const;
  [[nodiscard]] bool fits_guarantee(const Entry& entry) const;
  // The queues that have no room for it now.
  [[nodiscard]] std::vector<size_t> full_queues(const Entry& entry) const;
  // Its own demand is beyond a limit of its queue or of one above: nothing that ends makes room.
  [[nodiscard]] bool never_fits(const Entry& entry) const;
  // Beside this much entitled work of its leaf.
  [[nodiscard]] bool within_guarantee(const Entry& entry, const Amounts& entitled) const;
  [[nodiscard]] Amounts keep_intact(const Entry& entry) const;
  [[nodiscard]] int64_t reserved_at(size_t meter, Time when) const;

  // queues.cc
  // It counts: it runs, or its room is held.
  [[nodiscard]] static bool active(const Entry& entry) {
    return entry.phase == Phase::kRunning || entry.phase == Phase::kHeld;
  }
  void advance_to(Time time);
  void charge(Entry& entry, int64_t sign);
  void mark(Entry& entry);
  void promote(size_t leaf);
  void activate(Entry& entry, Phase phase);
  void discharge(Entry& entry);
  void deactivate(Entry& entry);
  // What this one's victims still have is in step again.
  void settle_leavers(const std::string& preemptor);
  // It does not leave any more: it has gone, or stays.
  void leave_no_more(Entry& entry);
  [[nodiscard]] std::map<size_t, Amounts> beyond(const std::string& preemptor, const std::set<std::string>& ids) const;
  // That a new one may not have: what counts, and what has not gone yet.
  [[nodiscard]] int64_t in_use(size_t queue, size_t meter) const {
    return queues[queue].used[meter] + queues[queue].leaving[meter];
  }
  [[nodiscard]] static LeafOrder leaf_order(const Entry& entry);
  [[nodiscard]] const Entry* find(const std::string& id) const;
  [[nodiscard]] Entry* find(const std::string& id);
  Result<Entry*> enter(Workload workload);
  // Demand, what counts it, and cost, of its portions.
  void assess(Entry& entry) const;
  [[nodiscard]] bool starving(const Entry& entry) const;
  // Of the waiting ones of a leaf: what starves first, oldest first, then by leaf_order.
  [[nodiscard]] std::tuple<bool, int64_t, LeafOrder> place(const Entry& entry) const;
  // Of two siblings, which one has had less for its weight.
  [[nodiscard]] bool goes_first(size_t a, size_t b) const;

  std::vector<Meter> meters;
  std::vector<Queue> queues;  // parents before children
  std::map<std::string, size_t> by_name;
  std::vector<Reservation> reservations;
  std::vector<Amounts> reserved;  // amounts of reservations, by meter
  std::vector<Amounts> drawn;     // what runs inside them
  Duration half_life;
  std::optional<Duration> patience;
  Time now;
  uint64_t next_order = 1;
  std::unordered_map<std::string, Entry> entries;
  std::map<std::string, Leavers> leavers;                   // by preemptor
  std::set<std::pair<int64_t, std::string>> by_submission;  // of what waits
};

}  // namespace heddle::queueing
