#include "placement/steady.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <set>
#include <utility>

#include "placement/fragmentation.h"
#include "placement/replay.h"
#include "placement/ways.h"

namespace heddle::placement {
namespace {

constexpr int64_t kMicros = 1'000'000;  // of a second
constexpr int64_t kSampleEvery = 64;    // arrivals between two looks at fragmentation

struct Running {
  int64_t ends = 0;  // microseconds
  int64_t number = 0;
  RequestId request = 0;
  Choice choice;

  // The one that ends first is on top; equal ends in the order of their start.
  friend bool operator<(const Running& a, const Running& b) {
    return a.ends != b.ends ? a.ends > b.ends : a.number > b.number;
  }
};

struct Waiting {
  int64_t since = 0;
  uint32_t pod = 0;
};

class Steady {
 public:
  Steady(const Trace& trace, PlacerOptions options, const SteadyOptions& steady)
      : trace_(trace), steady_(steady), placer_(std::move(options)), random_(steady.seed), mix_(mix_of(trace)) {}

  Result<SteadyResult> run() {
    HEDDLE_CHECK_OK(prepare());
    for (int64_t i = 0; i < steady_.pods; ++i) {
      if (i == steady_.pods / 2) start_measuring();
      now_ += gap();
      HEDDLE_CHECK_OK(leave_until(now_));
      move_clock(now_);
      HEDDLE_CHECK_OK(arrive(static_cast<uint32_t>(random_.below(trace_.pods.size()))));
      if (measuring_ && i % kSampleEvery == 0) sample_fragmentation();
    }
    return finish();
  }

 private:
  [[nodiscard]] int64_t runs_seconds(const TracePod& pod) const {
    return std::clamp<int64_t>(pod.deleted - pod.created, 1, std::max<int64_t>(1, steady_.longest_seconds));
  }

  Result<void> prepare() {
    if (!trace_.has_times) return fail(Code::kInvalidArgument, "the pods of this trace have no times");
    double milli_seconds = 0;
    for (const TracePod& pod : trace_.pods) {
      milli_seconds += static_cast<double>(pod.request.card_milli()) * static_cast<double>(runs_seconds(pod));
    }
    capacity_ = trace_.card_milli();
    if (capacity_ == 0) return fail(Code::kInvalidArgument, "no node of the trace has a card");
    if (milli_seconds <= 0) return fail(Code::kInvalidArgument, "no pod of the trace asks for a card");
    const double asked = static_cast<double>(capacity_) * static_cast<double>(steady_.load_percent) / 100;
    mean_gap_ = milli_seconds / static_cast<double>(trace_.pods.size()) / asked * kMicros;
    for (const Node& node : trace_.nodes) {
      HEDDLE_TRY([[maybe_unused]] const NodeId id, placer_.nodes().add(node));
    }
    for (const TracePod& pod : trace_.pods) requests_.push_back(placer_.intern(pod.request));
    waiting_.resize(trace_.pods.size());
    fragmentation_ = Fragmentation(mix_);
    return {};
  }

  int64_t gap() {
    constexpr uint64_t kParts = 1'000'000;
    return static_cast<int64_t>(mean_gap_ * 2 * static_cast<double>(random_.below(kParts)) / kParts);
  }

  void start_measuring() {
    measuring_ = true;
    measured_from_ = now_;
    last_ = now_;
  }

  void move_clock(int64_t to) {
    if (measuring_) allocated_time_ += static_cast<double>(allocated_) * static_cast<double>(to - last_);
    last_ = to;
  }

  Result<void> arrive(uint32_t pod) {
    const RequestId id = requests_[pod];
    placer_.arrive(id);
    HEDDLE_TRY(const bool placed, try_place(id, {now_, pod}));
    if (placed) return {};
    if (waiting_[id].empty()) heads_.emplace(now_, id);
    waiting_[id].push_back({now_, pod});
    return {};
  }

  Result<bool> try_place(RequestId id, const Waiting& pod) {
    ++result_.decisions;
    std::optional<Choice> choice = placer_.choose(id);
    if (!choice) return false;
    if (auto taken = placer_.take(id, *choice); !taken) {
      return fail(Code::kInternal, "placement chose what is not free: " + taken.error().text());
    }
    allocated_ += placer_.request(id).card_milli();
    running_.push({last_ + runs_seconds(trace_.pods[pod.pod]) * kMicros, number_++, id, *std::move(choice)});
    if (measuring_ && pod.since >= measured_from_) waits_.push_back(last_ - pod.since);
    return true;
  }

  Result<void> leave_until(int64_t time) {
    while (!running_.empty() && running_.top().ends <= time) {
      const Running left = running_.top();
      running_.pop();
      move_clock(left.ends);
      HEDDLE_CHECK_OK(placer_.give_back(left.request, left.choice));
      allocated_ -= placer_.request(left.request).card_milli();
      HEDDLE_CHECK_OK(try_waiting(left.choice.node));
    }
    return {};
  }

  // What waits fitted nowhere before; now it can fit on this node alone.
  Result<void> try_waiting(NodeId node) {
    auto head = heads_.begin();
    while (head != heads_.end()) {
      const auto [since, id] = *head;
      std::deque<Waiting>& queue = waiting_[id];
      bool moved = false;
      while (!queue.empty() && fits_on(node, placer_.request(id))) {
        HEDDLE_TRY(const bool placed, try_place(id, queue.front()));
        if (!placed) break;
        queue.pop_front();
        moved = true;
      }
      if (!moved) {
        ++head;
        continue;
      }
      head = heads_.erase(head);
      if (!queue.empty()) heads_.emplace(queue.front().since, id);
    }
    return {};
  }

  [[nodiscard]] bool fits_on(NodeId id, const Request& request) const {
    const Node& node = placer_.nodes().node(id);
    const auto large = [&request](uint16_t milli) { return milli >= request.milli; };
    return node.cpu_milli >= request.cpu_milli && node.memory_bytes >= request.memory_bytes &&
           (request.kinds.empty() || std::binary_search(request.kinds.begin(), request.kinds.end(), node.kind)) &&
           std::count_if(node.free_milli.begin(), node.free_milli.end(), large) >= request.cards;
  }

  void sample_fragmentation() {
    double weighted = 0;
    for (const KindPool& pool : placer_.nodes().pools()) {
      for (const NodeClass& state : pool.classes) {
        if (state.nodes.empty()) continue;
        weighted +=
            static_cast<double>(fragmentation_.weighted(state.view())) * static_cast<double>(state.nodes.size());
      }
    }
    fragmented_ += weighted / static_cast<double>(mix_.total);
    ++samples_;
  }

  SteadyResult finish() {
    const auto capacity = static_cast<double>(capacity_);
    const auto time = static_cast<double>(last_ - measured_from_);
    if (time > 0) result_.allocated_percent = 100 * allocated_time_ / time / capacity;
    if (samples_ > 0) result_.fragmented_percent = 100 * fragmented_ / static_cast<double>(samples_) / capacity;
    std::sort(waits_.begin(), waits_.end());
    double sum = 0;
    int64_t waited = 0;
    for (const int64_t wait : waits_) {
      sum += static_cast<double>(wait);
      waited += wait > 0 ? 1 : 0;
    }
    if (!waits_.empty()) {
      const auto count = static_cast<double>(waits_.size());
      result_.mean_wait_seconds = sum / count / kMicros;
      result_.p99_wait_seconds = static_cast<double>(waits_[(waits_.size() - 1) * 99 / 100]) / kMicros;
      result_.waited_percent = 100 * static_cast<double>(waited) / count;
    }
    for (RequestId id = 0; id < waiting_.size(); ++id) {
      const auto count = static_cast<int64_t>(waiting_[id].size());
      result_.waiting += count;
      if (count > 0) result_.waiting_card_milli += count * placer_.request(id).card_milli();
    }
    return result_;
  }

  const Trace& trace_;
  SteadyOptions steady_;
  Placer placer_;
  SeededRandom random_;
  Mix mix_;
  Fragmentation fragmentation_;
  std::vector<RequestId> requests_;                // by pod of the trace
  std::vector<std::deque<Waiting>> waiting_;       // by request
  std::set<std::pair<int64_t, RequestId>> heads_;  // of each queue that is not empty: who came first, and its request
  std::priority_queue<Running> running_;
  std::vector<int64_t> waits_;
  SteadyResult result_;
  double mean_gap_ = 0;
  double allocated_time_ = 0;
  double fragmented_ = 0;
  int64_t samples_ = 0;
  int64_t capacity_ = 0;
  int64_t allocated_ = 0;
  int64_t number_ = 0;
  int64_t now_ = 0;
  int64_t last_ = 0;
  int64_t measured_from_ = 0;
  bool measuring_ = false;
};

}  // namespace

Result<SteadyResult> run_steady(const Trace& trace, PlacerOptions options, const SteadyOptions& steady) {
  return Steady(trace, std::move(options), steady).run();
}

}  // namespace heddle::placement
