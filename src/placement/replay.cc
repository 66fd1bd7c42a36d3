#include "placement/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace heddle::placement {
namespace {

constexpr size_t kMaxArrivals = 50'000'000;

}  // namespace

Result<std::vector<uint32_t>> arrival_stream(const Trace& trace, int64_t load_percent, uint64_t seed) {
  const int64_t capacity = trace.card_milli();
  if (capacity == 0) return fail(Code::kInvalidArgument, "no node of the trace has a card");
  const auto asks = [](const TracePod& pod) { return pod.request.cards > 0; };
  if (std::none_of(trace.pods.begin(), trace.pods.end(), asks)) {
    return fail(Code::kInvalidArgument, "no pod of the trace asks for a card, so it reaches no load");
  }
  SeededRandom random(seed);
  std::vector<uint32_t> order(trace.pods.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  std::vector<uint32_t> stream;
  int64_t asked = 0;
  while (asked * 100 < capacity * load_percent) {
    if (stream.size() == kMaxArrivals) {
      return fail(Code::kExhausted, fmt::format("the load is not reached with {} pods", kMaxArrivals));
    }
    const size_t at = stream.size();
    stream.push_back(at < order.size() ? order[at] : static_cast<uint32_t>(random.below(order.size())));
    asked += trace.pods[stream.back()].request.card_milli();
  }
  return stream;
}

Mix mix_of(const Trace& trace) {
  RequestTable requests;
  std::vector<int64_t> weights;
  for (const TracePod& pod : trace.pods) {
    const RequestId id = requests.intern(pod.request);
    if (id >= weights.size()) weights.push_back(0);
    ++weights[id];
  }
  Mix mix;
  for (RequestId id = 0; id < weights.size(); ++id) mix.classes.push_back({requests[id], weights[id]});
  mix.total = static_cast<int64_t>(trace.pods.size());
  return mix;
}

double ReplayResult::allocated_percent() const {
  if (card_milli_total == 0) return 0;
  return 100.0 * static_cast<double>(card_milli_allocated) / static_cast<double>(card_milli_total);
}

Result<Replay> Replay::start(const Trace& trace, PlacerOptions options) {
  Replay replay(std::move(options));
  for (const Node& node : trace.nodes) {
    HEDDLE_TRY([[maybe_unused]] const NodeId id, replay.placer_.nodes().add(node));
  }
  replay.requests_.reserve(trace.pods.size());
  for (const TracePod& pod : trace.pods) replay.requests_.push_back(replay.placer_.intern(pod.request));
  replay.result_.card_milli_total = trace.card_milli();
  return replay;
}

Result<void> Replay::run(const std::vector<uint32_t>& arrivals, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) {
    const RequestId id = requests_[arrivals[i]];
    placer_.arrive(id);
    std::optional<Choice> choice = placer_.choose(id);
    ++result_.decisions;
    if (!choice) continue;
    if (auto taken = placer_.take(id, *choice); !taken) {
      return fail(Code::kInternal, "placement chose what is not free: " + taken.error().text());
    }
    ++result_.placed;
    result_.card_milli_allocated += placer_.request(id).card_milli();
    granted_.push_back({id, *std::move(choice)});
  }
  return {};
}

Result<void> Replay::clear() {
  for (auto it = granted_.rbegin(); it != granted_.rend(); ++it) {
    HEDDLE_CHECK_OK(placer_.give_back(it->request, it->choice));
  }
  granted_.clear();
  result_ = {0, 0, 0, result_.card_milli_total};
  return {};
}

}  // namespace heddle::placement
