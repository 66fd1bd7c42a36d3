#include "catalog/read_hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "catalog/reader.h"

namespace heddle::catalog {
namespace {

template <typename T>
using Words = std::vector<std::pair<std::string_view, T>>;

template <typename T>
T one_of(const Value& value, const Words<T>& words, T otherwise) {
  if (!value.present()) return otherwise;
  const std::string text = value.text();
  std::string known;
  for (const auto& [word, meaning] : words) {
    if (word == text) return meaning;
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  value.wrong(fmt::format("must be one of {}, not '{}'", known, text));
  return otherwise;
}

Words<Support> support_words() {
  return {{"verified", Support::kVerified},
          {"simulated", Support::kSimulated},
          {"documented", Support::kDocumented},
          {"unverified", Support::kUnverified}};
}

Words<Source::Kind> source_words() {
  return {{"vendor", Source::Kind::kVendor},
          {"third-party", Source::Kind::kThirdParty},
          {"unverified", Source::Kind::kUnverified}};
}

std::string word_of(const Value& value, const std::vector<std::string>& words) {
  Words<std::string> pairs;
  for (const std::string& word : words) pairs.emplace_back(word, word);
  return one_of<std::string>(value, pairs, "");
}

// The source of what stands in this map: its own, else that of what it stands in.
std::string source_of(const Value& value, const std::string& outer) {
  const Value source = value["source"];
  if (source.present()) return source.text();
  if (outer.empty()) source.wrong("is missing: every figure names where it comes from");
  return outer;
}

enum class Unit : uint8_t { kBytes, kCount };

// 108, or {value: 108, source: x}.
std::optional<Figure<int64_t>> read_figure(const Value& value, Unit unit, const std::string& outer) {
  if (!value.present()) return {};
  const Value number = value.is_map() ? value.required("value") : value;
  const auto read = unit == Unit::kBytes ? number.bytes() : number.integer_in(0, std::numeric_limits<int32_t>::max());
  return Figure<int64_t>{read.value_or(0), value.is_map() ? source_of(value, outer) : outer};
}

Source read_source(std::string_view id, const Value& value) {
  return {.id = std::string(id),
          .title = value.required("title").text(),
          .version = value["version"].text(),
          .url = value["url"].text(),
          .kind = one_of(value["kind"], source_words(), Source::Kind::kVendor)};
}

DeviceNode read_node(const Value& value) {
  return {.path = value.required("path").text(),
          .per = word_of(value.required("per"), {"driver", "device", "partition"}),
          .when = value["when"].text(),
          .source = source_of(value, "")};
}

Variable read_variable(const Value& value) {
  return {.name = value.required("name").text(),
          .read_by = value.required("read_by").text(),
          .meaning = value.required("meaning").text(),
          .in_claim = value["in_claim"].text(),
          .source = source_of(value, "")};
}

VersionPair read_version(const Value& value) {
  return {.driver = value.required("driver").text(),
          .runtime = value.required("runtime").text(),
          .rule = value.required("rule").text(),
          .source = source_of(value, "")};
}

std::vector<int64_t> read_axes(const Value& value) {
  std::vector<int64_t> out;
  value.each([&](const Value& item) { out.push_back(item.integer_in(1, 1'000'000).value_or(1)); });
  return out;
}

System read_system(const Value& value) {
  constexpr int64_t kMost = 10'000'000;
  System system{.name = value.required("name").text(),
                .kind = word_of(value.required("kind"), {"node", "rack", "supernode", "slice"}),
                .link = value["link"].text(),
                .models = value.required("models").texts(),
                .devices = value["devices"].integer_in(1, kMost),
                .devices_per_node = value["devices_per_node"].integer_in(1, kMost),
                .nodes = value["nodes"].integer_in(1, kMost),
                .host = read_axes(value["host"]),
                .shapes = {},
                .wraps = value["wraps"].flag().value_or(false),
                .notes = value["notes"].texts(),
                .source = source_of(value, "")};
  value["shapes"].each([&](const Value& shape) { system.shapes.push_back(read_axes(shape)); });
  return system;
}

Partition read_partition(const Value& value, const PartitionTable& table) {
  Partition partition{.name = value.required("name").text(),
                      .id = value["id"].integer_in(0, std::numeric_limits<int32_t>::max()),
                      .memory_bytes = value["memory"].bytes(),
                      .compute_units = value["compute_units"].integer_in(0, 1'000'000),
                      .consumes = value["consumes"].integer_map(),
                      .placements = {},
                      .count = value.required("count").integer_in(1, 1024).value_or(1),
                      .source = source_of(value, table.source)};
  const int64_t size = value["size"].integer_in(1, 1024).value_or(1);
  value["starts"].each(
      [&](const Value& start) { partition.placements.push_back({start.integer_in(0, 1023).value_or(0), size}); });
  if (partition.placements.empty() != (table.slots == 0)) {
    value["starts"].wrong(table.slots == 0 ? "needs 'slots' of the table" : "is missing: the table has slots");
  }
  for (const Placement& placement : partition.placements) {
    if (table.slots != 0 && placement.start + placement.size > table.slots) {
      value["starts"].wrong(fmt::format("{}..{} lies outside the card's {} slots", placement.start,
                                        placement.start + placement.size - 1, table.slots));
    }
  }
  const auto memory = table.counters.find("memory");
  if (memory != table.counters.end() && partition.memory_bytes.value_or(0) > memory->second / partition.count) {
    value["memory"].wrong(fmt::format("for each of {} is more than the card has", partition.count));
  }
  for (const auto& [counter, amount] : partition.consumes) {
    const auto total = table.counters.find(counter);
    if (total == table.counters.end()) {
      value["consumes"][counter].wrong("is not a counter of the table");
    } else if (amount < 1 || amount > total->second / partition.count) {
      value["consumes"][counter].wrong(
          fmt::format("{} of {} for each of {} is more than the card has", amount, total->second, partition.count));
    }
  }
  return partition;
}

PartitionTable read_table(std::string_view name, const Value& value) {
  PartitionTable table{
      .name = std::string(name),
      .mode = one_of(value.required("mode"),
                     Words<PartitionMode>{{"mixed", PartitionMode::kMixed}, {"uniform", PartitionMode::kUniform}},
                     PartitionMode::kMixed),
      .slot = value["slot"].text(),
      .slots = value["slots"].integer_in(1, 1024).value_or(0),
      .counters = {},
      .partitions = {},
      .notes = value["notes"].texts(),
      .source = source_of(value, "")};
  value["counters"].each_member([&](std::string_view counter, const Value& amount) {
    const auto number = counter == "memory" ? amount.bytes() : amount.integer_in(1, 1'000'000);
    table.counters.emplace(counter, number.value_or(1));
  });
  if ((table.slots == 0) != table.slot.empty()) value["slot"].wrong("and 'slots' go together");
  value.required("profiles").each([&](const Value& item) {
    Partition partition = read_partition(item, table);
    if (table.find(partition.name) != nullptr) {
      item["name"].wrong(fmt::format("'{}' is there twice", partition.name));
      return;
    }
    table.partitions.push_back(std::move(partition));
  });
  return table;
}

Model read_model(const Value& value, const Vendor& vendor) {
  Model model;
  model.name = value.required("name").text();
  model.source = source_of(value, "");
  model.products = value["products"].texts();
  model.contains = value["contains"].texts();
  model.architecture = value["architecture"].text();
  model.kind = value["kind"].present() ? value["kind"].text() : vendor.kind;
  model.memory_bytes = read_figure(value["memory"], Unit::kBytes, model.source);
  model.allocatable_bytes = read_figure(value["allocatable"], Unit::kBytes, model.source);
  model.compute_units = read_figure(value["compute_units"], Unit::kCount, model.source);
  model.compute_unit = value["compute_unit"].text();
  model.devices_per_board = value["devices_per_board"].integer_in(1, 64).value_or(1);
  model.partitioning.name = value["partitions"].text();  // made whole when the vendor is
  model.notes = value["notes"].texts();
  if (model.compute_units && model.compute_unit.empty()) value["compute_unit"].wrong("is missing");
  if (model.memory_bytes && model.allocatable_bytes && model.allocatable_bytes->value > model.memory_bytes->value) {
    value["allocatable"].wrong("is more than 'memory'");
  }
  return model;
}

// Reads a list whose items have names, refusing one that is there twice.
template <typename T, typename Read, typename Name>
std::vector<T> read_named(const Value& list, Read read, Name name) {
  std::vector<T> out;
  list.each([&](const Value& value) {
    T item = read(value);
    if (std::ranges::any_of(out, [&](const T& other) { return name(other) == name(item); })) {
      value.wrong(fmt::format("'{}' is there twice", name(item)));
      return;
    }
    out.push_back(std::move(item));
  });
  return out;
}

void read_lists(const Value& root, Vendor& vendor) {
  root["sources"].each_member(
      [&](std::string_view id, const Value& value) { vendor.sources.push_back(read_source(id, value)); });
  vendor.nodes = read_named<DeviceNode>(root["device_nodes"], read_node, [](const auto& n) { return n.path; });
  vendor.variables = read_named<Variable>(root["variables"], read_variable, [](const auto& v) { return v.name; });
  vendor.versions =
      read_named<VersionPair>(root["versions"], read_version, [](const auto& v) { return v.driver + v.runtime; });
  vendor.systems = read_named<System>(root["systems"], read_system, [](const auto& s) { return s.name; });
  root["partition_tables"].each_member(
      [&](std::string_view name, const Value& value) { vendor.tables.push_back(read_table(name, value)); });
  vendor.models = read_named<Model>(
      root["models"], [&](const Value& value) { return read_model(value, vendor); },
      [](const Model& model) { return model.name; });
}

}  // namespace

Result<Vendor> read_hardware(const InputFile& file) {
  HEDDLE_TRY(const auto tree, Tree::parse(file.text, file.name));
  const Value root = tree->root();
  Vendor vendor;
  vendor.name = root.required("vendor").text();
  if (!file.vendor.empty() && vendor.name != file.vendor) {
    root["vendor"].wrong(fmt::format("is '{}' in the folder of '{}'", vendor.name, file.vendor));
  }
  vendor.title = root["title"].text();
  vendor.kind = root["kind"].text();
  const Value support = root["support"];
  if (support.present()) {
    vendor.support = one_of(support.required("level"), support_words(), Support::kUnverified);
    vendor.support_text = support.required("text").text();
  }
  vendor.library = root["library"].text();
  root["isolation"].each(
      [&](const Value& item) { vendor.isolations.push_back(word_of(item, {"hard", "mask", "soft", "whole"})); });
  vendor.notes = root["notes"].texts();
  read_lists(root, vendor);
  HEDDLE_CHECK_OK(tree->finish());
  return vendor;
}

}  // namespace heddle::catalog
