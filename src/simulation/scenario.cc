#include "simulation/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/json.h"
#include "base/random.h"
#include "engine/slice.h"
#include "engine/topology.h"
#include "engine/tori.h"
#include "engine/written_fields.h"
#include "simulation/json_fields.h"

namespace heddle::simulation {
namespace {

constexpr int64_t kMostNodes = 100'000;
constexpr int64_t kMostDevices = 128;  // of a node
constexpr int64_t kMostWorkloads = 1'000'000;
constexpr int64_t kMostMembers = 100'000;
constexpr int64_t kMostPriority = 1'000'000'000;
constexpr const char* kDefaultCpu = "64";
constexpr const char* kDefaultMemory = "1Ti";

tl::unexpected<Error> wrong(const std::string& path, std::string message) {
  return fail(Code::kInvalidArgument, std::move(message), path);
}

// The value is kept with the document that it is in.
Result<Json> parse(const NamedJson& file) {
  Json document = parse_json(file.text);
  if (document.is_discarded()) return wrong(file.name, "is not JSON");
  return document;
}

// What may stand inside a selector in quotes, and in names of objects.
Result<void> check_word(const std::string& word, const std::string& path) {
  const bool bad = std::any_of(word.begin(), word.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '"' || c == '\\' || c == '/';
  });
  if (bad) return wrong(path, "has a quote, a slash, a backslash or a control character: leave it out");
  return {};
}

Result<void> check_vendor(const std::string& vendor, const std::string& path) {
  const bool good = std::all_of(vendor.begin(), vendor.end(),
                                [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  if (!good)
    return wrong(path, fmt::format("'{}' has other than small letters, digits and -: write \"nvidia\"", vendor));
  return {};
}

Result<const Json*> list(Fields& fields, std::string_view name) {
  const Json* value = fields.find(name);
  if (value != nullptr && !value->is_array()) return wrong(fields.path(name), "write a list in brackets");
  return value;
}

std::string item_path(const Fields& fields, std::string_view name, size_t index) {
  return fmt::format("{}[{}]", fields.path(name), index);
}

Result<DeviceGroup> read_devices(const Json& value, const std::string& path) {
  HEDDLE_TRY(Fields fields, Fields::of(value, path));
  DeviceGroup group;
  HEDDLE_TRY(group.vendor, fields.text("vendor"));
  HEDDLE_TRY(group.model, fields.text("model"));
  HEDDLE_TRY(group.count, fields.integer("count", 1, 1, kMostDevices));
  HEDDLE_TRY(const auto memory, fields.quantity("memory"));
  HEDDLE_CHECK_OK(fields.done());
  if (group.vendor.empty()) return wrong(fields.path("vendor"), "is missing: write one such as \"nvidia\"");
  HEDDLE_CHECK_OK(check_vendor(group.vendor, fields.path("vendor")));
  if (group.model.empty()) return wrong(fields.path("model"), "is missing: write one such as \"H100\"");
  HEDDLE_CHECK_OK(check_word(group.model, fields.path("model")));
  constexpr int64_t kMiB = int64_t{1} << 20;
  if (!memory || *memory->value() < kMiB) {
    return wrong(fields.path("memory"), "is missing or less than 1Mi: write the memory of one device, \"80Gi\"");
  }
  group.memory_bytes = *memory->value() / kMiB * kMiB;
  return group;
}

// A torus of so many hosts as its shape has: their labels.
Result<std::vector<std::map<std::string, std::string>>> read_torus(const Json& value, const std::string& path,
                                                                   const std::string& name) {
  HEDDLE_TRY(Fields fields, Fields::of(value, path));
  engine::TorusPlan plan{.name = name, .shape = {}, .host = {}};
  HEDDLE_TRY(plan.shape, fields.text("shape"));
  HEDDLE_TRY(plan.host, fields.text("host"));
  const Json* wraps = fields.find("wraps");
  if (wraps != nullptr && !wraps->is_boolean()) return wrong(fields.path("wraps"), "write true or false");
  plan.wraps = wraps != nullptr && wraps->get<bool>();
  HEDDLE_CHECK_OK(fields.done());
  auto labels = engine::torus_labels(plan);
  if (!labels)
    return wrong(labels.error().field.empty() ? path : fields.path(labels.error().field), labels.error().message);
  return labels;
}

// One entry: `count` equal nodes, cut into domains in order; or the hosts of a torus.
Result<void> read_nodes(const Json& value, const std::string& path, std::vector<SimulatedNode>& nodes) {
  HEDDLE_TRY(Fields fields, Fields::of(value, path));
  SimulatedNode node;
  HEDDLE_TRY(node.name, fields.text("name"));
  HEDDLE_TRY(auto count, fields.maybe_integer("count", 1, kMostNodes));
  std::vector<std::map<std::string, std::string>> places;
  if (const Json* torus = fields.find("torus")) {
    if (count) return wrong(fields.path("count"), "a torus has as many nodes as hosts: leave it out");
    HEDDLE_TRY(places, read_torus(*torus, fields.path("torus"), node.name));
    count = static_cast<int64_t>(places.size());
  }
  HEDDLE_TRY(node.labels, fields.text_map("labels"));
  HEDDLE_TRY(const auto cpu, fields.quantity("cpu"));
  HEDDLE_TRY(const auto memory, fields.quantity("memory"));
  node.cpu = cpu.value_or(Quantity::parse(kDefaultCpu).value());
  node.memory = memory.value_or(Quantity::parse(kDefaultMemory).value());
  HEDDLE_TRY(const Json* devices, list(fields, "devices"));
  int64_t sum = 0;
  for (size_t i = 0; devices != nullptr && i < devices->size(); ++i) {
    HEDDLE_TRY(DeviceGroup group, read_devices((*devices)[i], item_path(fields, "devices", i)));
    sum += group.count;
    node.devices.push_back(std::move(group));
  }
  if (sum > kMostDevices) return wrong(fields.path("devices"), fmt::format("are more than {} of a node", kMostDevices));
  std::map<std::string, int64_t> domains;
  if (const Json* per_domain = fields.find("nodesPerDomain")) {
    HEDDLE_TRY(Fields sizes, Fields::of(*per_domain, fields.path("nodesPerDomain")));
    for (const auto& [label, size] : per_domain->items()) {
      HEDDLE_TRY(domains[label], sizes.integer(label, 1, 1, kMostNodes));
    }
  }
  HEDDLE_CHECK_OK(fields.done());
  if (node.name.empty()) return wrong(fields.path("name"), "is missing: nodes are called after it");
  HEDDLE_CHECK_OK(check_word(node.name, fields.path("name")));
  if (static_cast<int64_t>(nodes.size()) + count.value_or(1) > kMostNodes) {
    return wrong(path, fmt::format("makes more than {} nodes", kMostNodes));
  }
  for (int64_t i = 0; i < count.value_or(1); ++i) {
    SimulatedNode one = node;
    if (count) one.name = fmt::format("{}-{}", node.name, i);
    for (const auto& [label, size] : domains) one.labels[label] = fmt::format("{}-{}", node.name, i / size);
    if (!places.empty()) one.labels.merge(places[static_cast<size_t>(i)]);
    nodes.push_back(std::move(one));
  }
  return {};
}

// What is wrong with an object of ours, said of where the fields of its spec are written.
tl::unexpected<Error> in_spec(const std::string& path, const Error& error) {
  constexpr std::string_view kSpec = "spec.";
  std::string_view field = error.field;
  if (field.starts_with(kSpec)) field.remove_prefix(kSpec.size());
  return wrong(fmt::format("{}.{}", path, field), error.message);
}

// The fields of an AcceleratorQueue's spec, and its name beside them.
Result<engine::QueueObject> read_queue(const Json& value, const std::string& path) {
  if (!value.is_object()) return wrong(path, "write an object in braces");
  Json object = Json::object();
  object["metadata"] = Json::object();
  object["spec"] = value;
  const auto name = value.find("name");
  if (name == value.end() || !name->is_string())
    return wrong(path + ".name", "is missing: workloads name the queue by it");
  object["metadata"]["name"] = *name;
  object["spec"].erase("name");
  const std::string text = dump_json(object);
  if (const auto known = engine::check_queue_fields(text); !known) return in_spec(path, known.error());
  auto queue = engine::read_queue_object(text);
  if (!queue) return wrong(path, queue.error().text());
  if (!queue->queue) return wrong(path, queue->queue.error().text());
  return std::move(*queue);
}

// The fields of an AcceleratorReservation's spec, with times since the start, and its name beside them.
Result<engine::ReservationObject> read_reservation(const Json& value, const std::string& path) {
  HEDDLE_TRY(Fields fields, Fields::of(value, path));
  Json spec = Json::object();
  HEDDLE_TRY(const std::string name, fields.text("name"));
  if (name.empty()) return wrong(fields.path("name"), "is missing: workloads name the reservation by it");
  for (const char* field : {"start", "end"}) {
    if (fields.find(field) == nullptr) return wrong(fields.path(field), "is missing: write a time such as \"2h\"");
    HEDDLE_TRY(const Duration since, fields.duration(field, Duration{}));
    spec[field] = format_rfc3339(Time{} + since);
  }
  HEDDLE_TRY(const std::string queue, fields.text("queue"));
  if (queue.empty()) spec["namespaces"] = {kAnybody};
  if (!queue.empty()) spec["queue"] = queue;
  if (const Json* amounts = fields.find("amounts")) spec["amounts"] = *amounts;
  HEDDLE_CHECK_OK(fields.done());
  Json object = Json::object();
  object["metadata"] = {{"name", name}};
  object["spec"] = std::move(spec);
  const std::string text = dump_json(object);
  if (const auto known = engine::check_reservation_fields(text); !known) return in_spec(path, known.error());
  auto reservation = engine::read_reservation_object(text);
  if (!reservation) return wrong(path, reservation.error().text());
  if (!reservation->reservation) return wrong(path, reservation->reservation.error().text());
  return std::move(*reservation);
}

// A duration, or two that one between is drawn from.
struct Range {
  Duration least;
  Duration most;
};
Result<Range> read_range(Fields& fields, std::string_view name) {
  const Json* value = fields.find(name);
  const std::string path = fields.path(name);
  if (value == nullptr) return wrong(path, "is missing: write how long a run takes, such as \"2h\"");
  if (!value->is_array()) {
    HEDDLE_TRY(const Duration both, read_duration(*value, path));
    return Range{both, both};
  }
  if (value->size() != 2) return wrong(path, "write one duration, or two in brackets: the shortest and the longest");
  HEDDLE_TRY(const Duration least, read_duration((*value)[0], path + "[0]"));
  HEDDLE_TRY(const Duration most, read_duration((*value)[1], path + "[1]"));
  if (most < least) return wrong(path, "the second is shorter than the first: swap them");
  return Range{least, most};
}

Duration draw(const Range& range, SeededRandom& random) {
  const auto span = static_cast<uint64_t>(range.most.nanos - range.least.nanos);
  return {range.least.nanos + static_cast<int64_t>(random.below(span + 1))};
}

Result<DeviceAsk> read_ask(const Json* value, const std::string& path) {
  DeviceAsk ask;
  if (value == nullptr) return wrong(path, "is missing: write what each member asks for, such as {\"devices\": 8}");
  HEDDLE_TRY(Fields fields, Fields::of(*value, path));
  HEDDLE_TRY(ask.devices, fields.integer("devices", 1, 1, kMostDevices));
  HEDDLE_TRY(ask.vendor, fields.text("vendor"));
  HEDDLE_CHECK_OK(check_vendor(ask.vendor, fields.path("vendor")));
  HEDDLE_TRY(ask.model, fields.text("model"));
  HEDDLE_CHECK_OK(check_word(ask.model, fields.path("model")));
  HEDDLE_TRY(ask.memory, fields.quantity("memory"));
  HEDDLE_TRY(ask.memory_percent, fields.maybe_integer("memoryPercent", 1, 100));
  HEDDLE_TRY(ask.cores, fields.maybe_integer("cores", 0, 100));
  HEDDLE_CHECK_OK(fields.done());
  constexpr int64_t kMiB = int64_t{1} << 20;
  if (ask.memory && (*ask.memory->value() == 0 || *ask.memory->value() % kMiB != 0)) {
    return wrong(fields.path("memory"), "is no whole number of Mi: write one, such as \"3000Mi\"");
  }
  if (ask.memory && ask.memory_percent) {
    return wrong(fields.path("memoryPercent"), "stands beside memory: leave one of them out");
  }
  return ask;
}

Result<void> check_level(const std::string& level, const std::string& path) {
  if (level.empty() || level == engine::kNodeLevel || engine::is_slice(level) || level.find('/') != std::string::npos)
    return {};
  std::vector<std::string> known = {engine::kNodeLevel};
  for (const engine::TopologyLevel& one : engine::default_topology()) known.push_back(one.name);
  if (std::find(known.begin(), known.end(), level) != known.end()) return {};
  return wrong(path, fmt::format("'{}' is no level: write {}, or a node label", level, fmt::join(known, ", ")));
}

Result<void> read_gang(Fields& fields, SimulatedWorkload& workload) {
  if (const Json* gang = fields.find("gang")) {
    HEDDLE_TRY(Fields inside, Fields::of(*gang, fields.path("gang")));
    HEDDLE_TRY(workload.members, inside.integer("size", 1, 1, kMostMembers));
    HEDDLE_TRY(workload.minimum, inside.integer("minimum", workload.members, 1, workload.members));
    HEDDLE_TRY(workload.segment_size, inside.integer("segment", 0, 1, workload.members));
    HEDDLE_CHECK_OK(inside.done());
  }
  if (const Json* topology = fields.find("topology")) {
    HEDDLE_TRY(Fields inside, Fields::of(*topology, fields.path("topology")));
    HEDDLE_TRY(workload.required, inside.text("required"));
    HEDDLE_CHECK_OK(check_level(workload.required, inside.path("required")));
    HEDDLE_TRY(workload.preferred, inside.text("preferred"));
    HEDDLE_CHECK_OK(check_level(workload.preferred, inside.path("preferred")));
    HEDDLE_TRY(workload.segment_level, inside.text("segment"));
    HEDDLE_CHECK_OK(check_level(workload.segment_level, inside.path("segment")));
    HEDDLE_CHECK_OK(inside.done());
  }
  if ((workload.segment_size > 0) != !workload.segment_level.empty())
    return wrong(fields.path("gang"), "segments need gang.segment, the members of each, and topology.segment, a level");
  return {};
}

// An entry stands for `count` workloads, `every` apart.
struct Series {
  SimulatedWorkload first;
  std::optional<int64_t> count;
  Duration every;
  bool random_gaps = false;
  Range duration;
};

Result<Series> read_series(const Json& value, const std::string& path) {
  HEDDLE_TRY(Fields fields, Fields::of(value, path));
  Series series;
  SimulatedWorkload& workload = series.first;
  HEDDLE_TRY(workload.name, fields.text("name"));
  HEDDLE_TRY(series.count, fields.maybe_integer("count", 1, kMostWorkloads));
  HEDDLE_TRY(workload.arrival, fields.duration("arrival", Duration{}));
  HEDDLE_TRY(series.every, fields.duration("every", Duration{}));
  HEDDLE_TRY(const std::string gaps, fields.text("gaps", "even"));
  HEDDLE_TRY(series.duration, read_range(fields, "duration"));
  HEDDLE_TRY(workload.queue, fields.text("queue"));
  HEDDLE_TRY(workload.reservation, fields.text("reservation"));
  HEDDLE_TRY(const int64_t priority, fields.integer("priority", 0, -kMostPriority, kMostPriority));
  workload.priority = static_cast<int32_t>(priority);
  HEDDLE_TRY(const std::string policy, fields.text("preemptionPolicy", "PreemptLowerPriority"));
  if (policy != "PreemptLowerPriority" && policy != "Never")
    return wrong(fields.path("preemptionPolicy"), R"(write "PreemptLowerPriority" or "Never")");
  workload.never_preempts = policy == "Never";
  HEDDLE_CHECK_OK(read_gang(fields, workload));
  HEDDLE_TRY(workload.ask, read_ask(fields.find("request"), fields.path("request")));
  HEDDLE_TRY(const auto cpu, fields.quantity("cpu"));
  HEDDLE_TRY(const auto memory, fields.quantity("memory"));
  workload.cpu = cpu.value_or(Quantity());
  workload.memory = memory.value_or(Quantity());
  HEDDLE_TRY(workload.node_selector, fields.text_map("nodeSelector"));
  HEDDLE_CHECK_OK(fields.done());
  if (workload.name.empty()) return wrong(fields.path("name"), "is missing: the report names workloads by it");
  if (gaps != "even" && gaps != "random") return wrong(fields.path("gaps"), "write \"even\" or \"random\"");
  series.random_gaps = gaps == "random";
  return series;
}

}  // namespace

Result<SimulatedFleet> read_fleet(const NamedJson& file) {
  HEDDLE_TRY(const Json document, parse(file));
  HEDDLE_TRY(Fields fields, Fields::of(document, file.name + ": "));
  SimulatedFleet fleet;
  HEDDLE_TRY(const Json* nodes, list(fields, "nodes"));
  if (nodes == nullptr || nodes->empty())
    return wrong(fields.path("nodes"), "is missing or empty: name the nodes of the fleet");
  for (size_t i = 0; i < nodes->size(); ++i) {
    HEDDLE_CHECK_OK(read_nodes((*nodes)[i], item_path(fields, "nodes", i), fleet.nodes));
  }
  std::set<std::string> names;
  for (const SimulatedNode& node : fleet.nodes) {
    if (!names.insert(node.name).second) return wrong(fields.path("nodes"), "two nodes are called " + node.name);
  }
  HEDDLE_TRY(const Json* queues, list(fields, "queues"));
  std::set<std::string> queue_names;
  for (size_t i = 0; queues != nullptr && i < queues->size(); ++i) {
    HEDDLE_TRY(engine::QueueObject queue, read_queue((*queues)[i], item_path(fields, "queues", i)));
    if (!queue_names.insert(queue.meta.name).second)
      return wrong(item_path(fields, "queues", i) + ".name", "two queues are called " + queue.meta.name);
    fleet.queues.push_back(std::move(queue));
  }
  HEDDLE_TRY(const Json* reservations, list(fields, "reservations"));
  std::set<std::string> reserved;
  for (size_t i = 0; reservations != nullptr && i < reservations->size(); ++i) {
    const std::string path = item_path(fields, "reservations", i);
    HEDDLE_TRY(engine::ReservationObject one, read_reservation((*reservations)[i], path));
    if (!reserved.insert(one.meta.name).second)
      return wrong(path + ".name", "two reservations are called " + one.meta.name);
    fleet.reservations.push_back(std::move(one));
  }
  if (fields.find("patience") != nullptr) {
    HEDDLE_TRY(fleet.patience, fields.duration("patience", Duration{}));
  }
  HEDDLE_TRY(fleet.half_life, fields.duration("halfLife", fleet.half_life));
  if (fleet.half_life.nanos == 0) return wrong(fields.path("halfLife"), "is 0: write a time such as \"7d\"");
  HEDDLE_TRY(fleet.grace, fields.duration("grace", fleet.grace));
  HEDDLE_CHECK_OK(fields.done());
  return fleet;
}

Result<std::vector<SimulatedWorkload>> read_workloads(const NamedJson& file, uint64_t seed) {
  HEDDLE_TRY(const Json document, parse(file));
  HEDDLE_TRY(Fields fields, Fields::of(document, file.name + ": "));
  HEDDLE_TRY(const Json* entries, list(fields, "workloads"));
  HEDDLE_CHECK_OK(fields.done());
  if (entries == nullptr || entries->empty()) {
    return wrong(fields.path("workloads"), "is missing or empty: name what arrives");
  }
  SeededRandom random(seed);
  std::vector<SimulatedWorkload> workloads;
  std::set<std::string> names;
  for (size_t i = 0; i < entries->size(); ++i) {
    const std::string path = item_path(fields, "workloads", i);
    HEDDLE_TRY(const Series series, read_series((*entries)[i], path));
    Duration arrival = series.first.arrival;
    for (int64_t n = 0; n < series.count.value_or(1); ++n) {
      if (static_cast<int64_t>(workloads.size()) == kMostWorkloads) {
        return fail(Code::kExhausted, fmt::format("there are more than {} workloads", kMostWorkloads), path);
      }
      SimulatedWorkload one = series.first;
      if (series.count) one.name = fmt::format("{}-{}", one.name, n);
      one.arrival = arrival;
      one.duration = draw(series.duration, random);
      if (!names.insert(one.name).second) return wrong(path + ".name", "two workloads are called " + one.name);
      workloads.push_back(std::move(one));
      const Duration gap = series.random_gaps ? draw({Duration{}, {series.every.nanos * 2}}, random) : series.every;
      arrival = {arrival.nanos + gap.nanos};
      if (arrival > Duration::seconds(1LL << 32)) return wrong(path + ".every", "is too long for so many workloads");
    }
  }
  std::stable_sort(workloads.begin(), workloads.end(),
                   [](const auto& a, const auto& b) { return a.arrival < b.arrival; });
  return workloads;
}

}  // namespace heddle::simulation
