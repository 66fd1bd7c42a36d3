// From a Config to the tree, with everything checked.
#include <fmt/format.h>

#include <algorithm>

#include "queueing/queues_impl.h"

namespace heddle::queueing {
namespace {

tl::unexpected<Error> wrong(const std::string& queue, const std::string& field, std::string message) {
  return fail(Code::kInvalidArgument, std::move(message), fmt::format("queue {}: {}", queue, field));
}

class Builder {
 public:
  explicit Builder(Config& config, Queues::Impl& impl) : config_(config), impl_(impl) {}

  Result<void> run() {
    HEDDLE_CHECK_OK(check_meters());
    HEDDLE_CHECK_OK(order_queues());
    for (size_t i = 0; i < impl_.queues.size(); ++i) HEDDLE_CHECK_OK(read_bounds(i));
    HEDDLE_CHECK_OK(check_sums());
    for (size_t i = impl_.queues.size(); i-- > 0;) withhold(i);
    HEDDLE_CHECK_OK(read_reservations());
    return read_past();
  }

 private:
  Result<void> check_meters() {
    for (const Meter& meter : config_.meters) {
      if (meter.name.empty()) return fail(Code::kInvalidArgument, "must have a name", "meters");
      if (!index_.emplace(meter.name, index_.size()).second) {
        return fail(Code::kInvalidArgument, "is there twice", "meter " + meter.name);
      }
      if ((meter.kind == Meter::Kind::kBoxes) == meter.shape.empty()) {
        return fail(Code::kInvalidArgument, "boxes have a shape, and nothing else has", "meter " + meter.name);
      }
    }
    if (config_.half_life.nanos <= 0) return fail(Code::kInvalidArgument, "must be more than 0", "halfLife");
    return {};
  }

  Result<void> order_queues() {
    std::map<std::string, std::vector<const QueueSpec*>> children;
    std::set<std::string> names;
    for (const QueueSpec& spec : config_.queues) {
      if (spec.name.empty()) return fail(Code::kInvalidArgument, "a queue must have a name", "queues");
      if (!names.insert(spec.name).second) return wrong(spec.name, "name", "is there twice");
      if (spec.weight < 1 || spec.weight > 1'000'000) {
        return wrong(spec.name, "weight", fmt::format("is {}: write 1 to 1000000", spec.weight));
      }
      children[spec.parent].push_back(&spec);
    }
    if (children[""].size() != 1) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{} queues have no parent: there must be one root", children[""].size()), "queues");
    }
    for (const QueueSpec& spec : config_.queues) {
      if (!spec.parent.empty() && !names.contains(spec.parent)) {
        return wrong(spec.name, "parent", "there is no queue " + spec.parent);
      }
    }
    add(*children[""].front(), kNone);
    for (size_t i = 0; i < impl_.queues.size(); ++i) {
      const std::string name = impl_.queues[i].name;
      for (const QueueSpec* child : children[name]) add(*child, i);
    }
    if (impl_.queues.size() == config_.queues.size()) return {};
    for (const QueueSpec& spec : config_.queues) {
      if (!impl_.by_name.contains(spec.name)) return wrong(spec.name, "parent", "its parents form a ring");
    }
    return {};
  }

  void add(const QueueSpec& spec, size_t parent) {
    const size_t i = impl_.queues.size();
    Queue queue;
    queue.name = spec.name;
    queue.parent = parent;
    queue.weight = spec.weight;
    queue.used = queue.entitled = queue.taken = queue.leaving = Amounts(config_.meters.size(), 0);
    queue.bounds.resize(config_.meters.size());
    impl_.queues.push_back(std::move(queue));
    impl_.by_name[spec.name] = i;
    if (parent != kNone) impl_.queues[parent].children.push_back(i);
    specs_.push_back(&spec);
  }

  Result<void> read_bounds(size_t i) {
    const QueueSpec& spec = *specs_[i];
    Queue& queue = impl_.queues[i];
    const bool root = queue.parent == kNone;
    if (root) {
      for (Bounds& bounds : queue.bounds) bounds.guaranteed = kUnbounded;
    }
    for (const auto& [name, quota] : spec.quotas) {
      const auto meter = index_.find(name);
      if (meter == index_.end()) return wrong(spec.name, fmt::format("quotas[{}]", name), "there is no such meter");
      for (const auto& part : {quota.guaranteed, quota.limit, quota.borrowing, quota.lending}) {
        if (part && *part < 0) return wrong(spec.name, fmt::format("quotas[{}]", name), "must not be negative");
      }
      Bounds& bounds = queue.bounds[meter->second];
      bounds.guaranteed = quota.guaranteed.value_or(root ? kUnbounded : 0);
      bounds.promised = quota.guaranteed.has_value();
      bounds.limit = quota.limit.value_or(kUnbounded);
      bounds.borrowing = quota.borrowing.value_or(kUnbounded);
      if (quota.limit && quota.guaranteed && *quota.limit < *quota.guaranteed) {
        return wrong(spec.name, fmt::format("quotas[{}].limit", name),
                     fmt::format("is {}, less than the {} that are guaranteed", *quota.limit, *quota.guaranteed));
      }
      if (quota.lending && !root) bounds.withheld = std::max<int64_t>(bounds.guaranteed - *quota.lending, 0);
    }
    return {};
  }

  Result<void> check_sums() {
    for (const Queue& queue : impl_.queues) {
      for (size_t m = 0; m < config_.meters.size() && !queue.leaf(); ++m) {
        Int128 sum = 0;
        for (const size_t child : queue.children) sum += impl_.queues[child].bounds[m].guaranteed;
        if (sum <= queue.bounds[m].guaranteed) continue;
        return wrong(
            queue.name, fmt::format("quotas[{}].guaranteed", config_.meters[m].name),
            fmt::format("is {}, and its queues are guaranteed {} together",
                        amount_text(config_.meters[m], queue.bounds[m].guaranteed),
                        amount_text(config_.meters[m], static_cast<int64_t>(std::min<Int128>(sum, kUnbounded)))));
      }
    }
    return {};
  }

  // What its queues withhold is taken of the parent while nothing runs.
  void withhold(size_t i) {
    Queue& queue = impl_.queues[i];
    for (size_t m = 0; m < config_.meters.size(); ++m) {
      queue.taken[m] = std::max(queue.taken[m], queue.bounds[m].withheld);
      if (queue.parent != kNone) impl_.queues[queue.parent].taken[m] += queue.taken[m];
    }
    queue.kept = queue.taken;
  }

  Result<void> read_reservations() {
    for (const Reservation& reservation : config_.reservations) {
      const auto bad = [&](const char* field, std::string message) {
        return fail(Code::kInvalidArgument, std::move(message),
                    fmt::format("reservation {}: {}", reservation.name, field));
      };
      if (reservation.name.empty()) return bad("name", "must be set");
      if (reservation.end <= reservation.start) return bad("end", "is not after the start");
      Amounts amounts(config_.meters.size(), 0);
      for (const auto& [name, amount] : reservation.amounts) {
        const auto meter = index_.find(name);
        if (meter == index_.end()) return bad("amounts", "there is no meter " + name);
        if (amount < 0) return bad("amounts", name + " must not be negative");
        if (impl_.queues.front().bounds[meter->second].guaranteed == kUnbounded) {
          return bad("amounts", "the root queue does not say how much of " + name + " there is");
        }
        amounts[meter->second] = amount;
      }
      impl_.reserved.push_back(std::move(amounts));
      impl_.drawn.emplace_back(config_.meters.size(), 0);
    }
    impl_.reservations = std::move(config_.reservations);
    return {};
  }

  Result<void> read_past() {
    for (const auto& [name, past] : config_.past) impl_.now = std::max(impl_.now, past.at);
    for (const auto& [name, past] : config_.past) {
      const auto queue = impl_.by_name.find(name);
      if (queue == impl_.by_name.end()) continue;  // it is gone, and what it used with it
      if (past.milli_device_seconds < 0) return wrong(name, "past", "must not be negative");
      impl_.queues[queue->second].past = past.milli_device_seconds;
    }
    return {};
  }

  Config& config_;
  Queues::Impl& impl_;
  std::map<std::string, size_t> index_;
  std::vector<const QueueSpec*> specs_;
};

}  // namespace

Result<Queues> Queues::make(Config config) {
  auto impl = std::make_unique<Impl>();
  HEDDLE_CHECK_OK(Builder(config, *impl).run());
  impl->meters = std::move(config.meters);
  impl->half_life = config.half_life;
  impl->patience = config.patience;
  return Queues(std::move(impl));
}

}  // namespace heddle::queueing
