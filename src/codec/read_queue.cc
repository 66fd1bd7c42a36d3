// The objects of heddle.dev/v1alpha1.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "codec/codec.h"
#include "codec/readers.h"

namespace heddle::codec {
namespace {

using Counts = model::QuotaMeter::Counts;

constexpr int64_t kMostWeight = 1'000'000;
constexpr int64_t kLargestBox = 64;          // of one node
constexpr int64_t kLargestWideBox = 65'536;  // of one domain, or slice
constexpr size_t kAxes = 3;
constexpr int64_t kMostReserved = 4096;  // nodes of a domain

Counts read_counts(const JsonValue& in) {
  if (!in.present()) return Counts::kDevices;
  const std::string text = in.text();
  for (const Counts counts : {Counts::kDevices, Counts::kMemory, Counts::kCores, Counts::kBoxes}) {
    if (text == model::counts_name(counts)) return counts;
  }
  in.wrong("must be Devices, Memory, Cores or Boxes");
  return Counts::kDevices;
}

// "4x8x4" as its sides, ascending, without those of 1 beyond two; empty: it is not of that form, or too large.
std::vector<int64_t> sides_of(std::string_view text) {
  std::vector<int64_t> sides;
  int64_t devices = 1;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end && sides.size() < kAxes) {
    int64_t side = 0;
    const auto [next, error] = std::from_chars(at, end, side);
    if (error != std::errc() || side < 1 || side > kLargestWideBox) return {};
    devices *= side;
    if (devices > kLargestWideBox) return {};
    sides.push_back(side);
    at = next;
    if (at == end) break;
    if (*at != 'x') return {};
    ++at;
    if (at == end) return {};
  }
  if (at != end || devices < 2 || sides.size() < 2) return {};
  std::sort(sides.begin(), sides.end());
  if (sides.size() == kAxes && sides.front() == 1) sides.erase(sides.begin());
  return sides;
}

void read_shape(const JsonValue& in, model::QuotaMeter& meter) {
  const std::vector<int64_t> sides = sides_of(in.text());
  if (sides.empty())
    return in.wrong(fmt::format("must be the sides of a slice, such as 4x4x8, of 2 to {} devices", kLargestWideBox));
  meter.box_devices = 1;
  for (const int64_t side : sides) meter.box_devices *= side;
  meter.box_shape = fmt::format("{}", fmt::join(sides, "x"));
}

void read_box(const JsonValue& in, model::QuotaMeter& meter) {
  const JsonValue box = in["boxDevices"];
  const JsonValue level = in["boxLevel"];
  const JsonValue shape = in["boxShape"];
  if (meter.counts != Counts::kBoxes) {
    for (const JsonValue* field : {&box, &level, &shape}) {
      if (field->present()) field->wrong("is for counts: Boxes only; leave it out, or count Boxes");
    }
    return;
  }
  if (shape.present()) {
    if (box.present()) box.wrong("a slice has the devices of its shape: leave it out");
    if (level.present()) level.wrong("a slice lies in one torus: leave it out");
    return read_shape(shape, meter);
  }
  meter.box_level = level.text();
  if (meter.box_level == "node") meter.box_level.clear();
  const int64_t largest = meter.box_level.empty() ? kLargestBox : kLargestWideBox;
  const auto devices = box.integer();
  if (!devices) box.wrong("must be set where boxes are counted, such as 8");
  if (devices && (*devices < 2 || *devices > largest)) {
    box.wrong(fmt::format(
        "is {}: write 2 to {}{}", *devices, largest,
        *devices > largest && meter.box_level.empty() ? ", or more with the boxLevel that they lie in" : ""));
  }
  meter.box_devices = devices.value_or(0);
}

model::QuotaMeter read_meter(const JsonValue& in) {
  model::QuotaMeter meter{.counts = read_counts(in["counts"]),
                          .device_class = in["deviceClass"].text(),
                          .vendor = in["vendor"].text(),
                          .model = in["model"].text()};
  read_box(in, meter);
  return meter;
}

// In the unit of the meter: thousandths of a device, bytes, percent, boxes.
std::optional<int64_t> read_amount(const JsonValue& in, Counts counts) {
  const auto quantity = in.quantity();
  if (!quantity) return std::nullopt;
  const std::optional<Int128> nano = quantity->nano_value();
  const int64_t unit = counts == Counts::kDevices ? 1'000'000 : 1'000'000'000;
  if (quantity->sign() < 0) {
    in.wrong("must not be negative");
  } else if (!nano || *nano / unit > INT64_MAX) {
    in.wrong("is too large: write at most 2^63-1; leave it out for no bound");
  } else if (*nano % unit != 0) {
    in.wrong(counts == Counts::kDevices ? "is finer than a thousandth of a device; round it to thousandths"
                                        : "must be a whole number");
  } else {
    return static_cast<int64_t>(*nano / unit);
  }
  return std::nullopt;
}

model::QueueQuota read_quota(const JsonValue& in) {
  model::QueueQuota quota{.meter = read_meter(in), .guaranteed = {}, .limit = {}, .borrowing = {}, .lending = {}};
  const Counts counts = quota.meter.counts;
  quota.guaranteed = read_amount(in["guaranteed"], counts);
  quota.limit = read_amount(in["limit"], counts);
  quota.borrowing = read_amount(in["borrowing"], counts);
  quota.lending = read_amount(in["lending"], counts);
  if (quota.limit && quota.guaranteed && *quota.limit < *quota.guaranteed)
    in["limit"].wrong("is less than what is guaranteed; raise it, or lower guaranteed");
  return quota;
}

model::Requirement read_label_requirement(const JsonValue& in) {
  using Operator = model::Requirement::Operator;
  static constexpr std::array<std::pair<std::string_view, Operator>, 4> kNames = {{
      {"In", Operator::kIn},
      {"NotIn", Operator::kNotIn},
      {"Exists", Operator::kExists},
      {"DoesNotExist", Operator::kDoesNotExist},
  }};
  model::Requirement out{.key = in["key"].text(), .op = Operator::kIn, .values = in["values"].texts()};
  const std::string text = in["operator"].text();
  bool known = false;
  for (const auto& [name, op] : kNames) {
    if (text != name) continue;
    known = true;
    out.op = op;
  }
  if (!known) in["operator"].wrong("must be In, NotIn, Exists or DoesNotExist");
  return out;
}

model::LabelSelector read_label_selector(const JsonValue& in) {
  return {.match_labels = in["matchLabels"].text_map(),
          .match_expressions = read_list(in["matchExpressions"], read_label_requirement)};
}

model::AcceleratorQueueSpec read_queue_spec(const JsonValue& in) {
  model::AcceleratorQueueSpec spec;
  spec.parent = in["parent"].text();
  spec.weight = in["weight"].integer().value_or(1);
  if (spec.weight < 1 || spec.weight > kMostWeight)
    in["weight"].wrong(fmt::format("is {}: write 1 to {}", spec.weight, kMostWeight));
  in["quotas"].each([&](const JsonValue& item) {
    model::QueueQuota quota = read_quota(item);
    for (const model::QueueQuota& other : spec.quotas) {
      if (other.meter == quota.meter)
        item.wrong("counts the same as an entry before it: write one entry for " + model::meter_name(quota.meter));
    }
    spec.quotas.push_back(std::move(quota));
  });
  spec.namespaces = in["namespaces"].texts();
  if (in["namespaceSelector"].present()) spec.namespace_selector = read_label_selector(in["namespaceSelector"]);
  if (in["placementPolicy"].present()) {
    const auto policy = model::parse_placement_policy(in["placementPolicy"].text());
    if (!policy) in["placementPolicy"].wrong(policy.error().message);
    if (policy) spec.placement_policy = *policy;
  }
  return spec;
}

model::AcceleratorQueue read_queue(const JsonValue& in) {
  model::AcceleratorQueue queue;
  queue.meta = read_meta(in["metadata"]);
  queue.generation = in["metadata"]["generation"].integer().value_or(0);
  queue.spec = read_queue_spec(in["spec"]);
  queue.spec_json = in["spec"].raw();
  if (queue.spec.parent == queue.meta.name && !queue.spec.parent.empty())
    in["spec"]["parent"].wrong("is the queue itself; name another queue, or leave it out");
  const JsonValue status = in["status"];
  if (status["inForce"].present()) queue.in_force = read_queue_spec(status["inForce"]);
  const JsonValue past = status["past"];
  if (past.present()) {
    queue.past = {past["at"].time().value_or(Time{}), past["milliDeviceSeconds"].integer().value_or(0)};
    if (queue.past->milli_device_seconds < 0) past["milliDeviceSeconds"].wrong("must not be negative");
  }
  return queue;
}

model::TopologyLevel read_level(const JsonValue& in) {
  model::TopologyLevel level{.name = in["name"].text(),
                             .node_label = in["nodeLabel"].text(),
                             .device_attribute = in["deviceAttribute"].text()};
  if (level.name.empty()) in["name"].wrong("must be set");
  const JsonValue reserved = in["reserveNodes"];
  level.reserve_nodes = reserved.integer().value_or(0);
  if (level.reserve_nodes < 0 || level.reserve_nodes > kMostReserved)
    reserved.wrong(fmt::format("is {}: write 0 to {}", level.reserve_nodes, kMostReserved));
  const JsonValue use = in["reserveUse"];
  if (use.text() == "Replacements") {
    level.reserve_use = model::ReserveUse::kReplacements;
  } else if (use.present() && use.text() != "WhenNeeded") {
    use.wrong("must be WhenNeeded (also by what fits nowhere else) or Replacements");
  }
  if (use.present() && level.reserve_nodes == 0) use.wrong("is for reserveNodes: write how many, or leave it out");
  if (level.node_label.empty() == level.device_attribute.empty())
    in.wrong("must have either nodeLabel or deviceAttribute");
  return level;
}

model::AcceleratorTopology read_topology(const JsonValue& in) {
  model::AcceleratorTopology topology;
  topology.meta = read_meta(in["metadata"]);
  const JsonValue levels = in["spec"]["levels"];
  levels.each([&](const JsonValue& item) {
    model::TopologyLevel level = read_level(item);
    for (const model::TopologyLevel& other : topology.levels) {
      if (other.name == level.name) item["name"].wrong("is the name of a narrower level already");
    }
    if (level.name == "node") {
      const auto reserves = [](const model::TopologyLevel& one) { return one.reserve_nodes > 0; };
      if (reserves(level) || std::any_of(topology.levels.begin(), topology.levels.end(), reserves))
        item["name"].wrong("is the node itself: reserveNodes goes with levels that are wider");
    }
    topology.levels.push_back(std::move(level));
  });
  if (topology.levels.empty()) levels.wrong("must name at least one level");
  return topology;
}

model::AcceleratorReservation read_reservation(const JsonValue& in) {
  model::AcceleratorReservation reservation;
  reservation.meta = read_meta(in["metadata"]);
  const JsonValue spec = in["spec"];
  for (const char* field : {"start", "end"}) {
    if (!spec[field].present()) spec[field].wrong("must be set, such as 2027-01-31T08:00:00Z");
  }
  reservation.start = spec["start"].time().value_or(Time{});
  reservation.end = spec["end"].time().value_or(Time{});
  if (reservation.end <= reservation.start) spec["end"].wrong("must be after start");
  spec["amounts"].each([&](const JsonValue& item) {
    const model::QuotaMeter meter = read_meter(item);
    const auto amount = read_amount(item["amount"], meter.counts);
    if (!item["amount"].present()) item["amount"].wrong("must be set");
    if (!reservation.amounts.emplace(meter, amount.value_or(0)).second)
      item.wrong("counts the same as an entry before it: write one entry for " + model::meter_name(meter));
  });
  if (reservation.amounts.empty()) spec["amounts"].wrong("must name what is reserved");
  reservation.queue = spec["queue"].text();
  reservation.namespaces = spec["namespaces"].texts();
  if (reservation.queue.empty() && reservation.namespaces.empty())
    spec.wrong("must say who may use it: a queue, namespaces, or both");
  return reservation;
}

model::Namespace read_namespace(const JsonValue& in) {
  return {.meta = read_meta(in["metadata"])};
}

}  // namespace

Result<model::AcceleratorQueue> parse_queue(std::string_view json) {
  return read_document(json, read_queue);
}
Result<model::AcceleratorTopology> parse_topology(std::string_view json) {
  return read_document(json, read_topology);
}
Result<model::AcceleratorReservation> parse_reservation(std::string_view json) {
  return read_document(json, read_reservation);
}
Result<model::Namespace> parse_namespace(std::string_view json) {
  return read_document(json, read_namespace);
}

}  // namespace heddle::codec
