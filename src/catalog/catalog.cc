#include "catalog/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "catalog/read_hardware.h"
#include "catalog/reader.h"

namespace heddle::catalog {
namespace {

constexpr std::string_view kHardware = "hardware.yaml";

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// Appends, or takes the place of the one with the same name.
template <typename T, typename Name>
void merge_list(std::vector<T>& into, std::vector<T> from, Name name) {
  for (T& item : from) {
    const auto same = std::ranges::find_if(into, [&](const T& other) { return name(other) == name(item); });
    if (same == into.end()) {
      into.push_back(std::move(item));
    } else {
      *same = std::move(item);
    }
  }
}

void take(std::string& into, std::string from) {
  if (!from.empty()) into = std::move(from);
}

void merge(Vendor& into, Vendor from) {
  take(into.title, std::move(from.title));
  take(into.kind, std::move(from.kind));
  take(into.library, std::move(from.library));
  if (!from.support_text.empty()) {
    into.support = from.support;
    into.support_text = std::move(from.support_text);
  }
  if (!from.isolations.empty()) into.isolations = std::move(from.isolations);
  merge_list(into.sources, std::move(from.sources), [](const Source& s) { return s.id; });
  merge_list(into.nodes, std::move(from.nodes), [](const DeviceNode& n) { return n.path; });
  merge_list(into.variables, std::move(from.variables), [](const Variable& v) { return v.name; });
  merge_list(into.versions, std::move(from.versions), [](const VersionPair& v) { return v.driver + v.runtime; });
  merge_list(into.systems, std::move(from.systems), [](const System& s) { return s.name; });
  merge_list(into.tables, std::move(from.tables), [](const PartitionTable& t) { return t.name; });
  merge_list(into.models, std::move(from.models), [](const Model& m) { return m.name; });
  into.notes.insert(into.notes.end(), from.notes.begin(), from.notes.end());
}

// What can only be seen when all files of a vendor are together.
class Completion {
 public:
  explicit Completion(Vendor& vendor) : vendor_(vendor) {}

  std::vector<std::string> run() {
    if (vendor_.title.empty()) trouble("title", "is missing");
    if (vendor_.kind.empty()) trouble("kind", "is missing: gpu, npu, tpu, ...");
    if (vendor_.support_text.empty()) trouble("support", "is missing");
    for (const DeviceNode& node : vendor_.nodes) check_source("device_nodes " + node.path, node.source);
    for (const Variable& variable : vendor_.variables) check_source("variables " + variable.name, variable.source);
    for (const VersionPair& pair : vendor_.versions) check_source("versions " + pair.driver, pair.source);
    for (const PartitionTable& table : vendor_.tables) check_table(table);
    for (Model& model : vendor_.models) complete(model);
    for (const System& system : vendor_.systems) check_system(system);
    return std::move(troubles_);
  }

 private:
  void trouble(std::string_view where, std::string_view what) {
    troubles_.push_back(fmt::format("{}: {}: {}", vendor_.name, where, what));
  }

  void check_source(const std::string& where, const std::string& id) {
    if (vendor_.find_source(id) != nullptr) return;
    std::vector<std::string> ids(vendor_.sources.size());
    std::ranges::transform(vendor_.sources, ids.begin(), [](const Source& source) { return source.id; });
    const std::string meant = nearest(id, ids);
    trouble(where, fmt::format("the source '{}' is not among the vendor's sources{}", id,
                               meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant)));
  }

  void check_table(const PartitionTable& table) {
    check_source("partition_tables " + table.name, table.source);
    for (const Partition& partition : table.partitions) {
      check_source("partition_tables " + table.name + " " + partition.name, partition.source);
    }
  }

  void complete(Model& model) {
    const std::string where = "models " + model.name;
    if (model.kind.empty()) model.kind = vendor_.kind;
    check_source(where, model.source);
    for (const auto& figure : {model.memory_bytes, model.allocatable_bytes, model.compute_units}) {
      if (figure && figure->source != model.source) check_source(where, figure->source);
    }
    if (model.partitioning.name.empty()) return;
    const auto table =
        std::ranges::find_if(vendor_.tables, [&](const auto& t) { return t.name == model.partitioning.name; });
    if (table == vendor_.tables.end()) {
      trouble(where, fmt::format("there is no partition table '{}'", model.partitioning.name));
      return;
    }
    model.partitioning = *table;
  }

  void check_system(const System& system) {
    const std::string where = "systems " + system.name;
    check_source(where, system.source);
    for (const std::string& model : system.models) {
      if (vendor_.find_model(model) == nullptr) trouble(where, fmt::format("there is no model '{}'", model));
    }
  }

  Vendor& vendor_;
  std::vector<std::string> troubles_;
};

}  // namespace

std::string_view support_name(Support support) {
  switch (support) {
    case Support::kVerified:
      return "verified";
    case Support::kSimulated:
      return "simulated";
    case Support::kDocumented:
      return "documented";
    case Support::kUnverified:
      return "unverified";
  }
  return "unverified";
}

std::string_view source_kind_name(Source::Kind kind) {
  switch (kind) {
    case Source::Kind::kVendor:
      return "vendor";
    case Source::Kind::kThirdParty:
      return "third-party";
    case Source::Kind::kUnverified:
      return "unverified";
  }
  return "unverified";
}

std::string_view partition_mode_name(PartitionMode mode) {
  switch (mode) {
    case PartitionMode::kNone:
      return "none";
    case PartitionMode::kMixed:
      return "mixed";
    case PartitionMode::kUniform:
      return "uniform";
  }
  return "none";
}

const Partition* PartitionTable::find(std::string_view partition) const {
  const auto found = std::ranges::find_if(partitions, [&](const Partition& p) { return p.name == partition; });
  return found == partitions.end() ? nullptr : &*found;
}

const Source* Vendor::find_source(std::string_view id) const {
  const auto found = std::ranges::find_if(sources, [&](const Source& source) { return source.id == id; });
  return found == sources.end() ? nullptr : &*found;
}

const Model* Vendor::find_model(std::string_view model) const {
  const auto found = std::ranges::find_if(models, [&](const Model& m) { return m.name == model; });
  return found == models.end() ? nullptr : &*found;
}

Result<Catalog> Catalog::load(const std::vector<InputFile>& files) {
  Catalog catalog;
  std::string troubles;
  const auto add = [&](const std::string& text) { troubles += (troubles.empty() ? "" : "\n") + text; };
  for (const InputFile& file : files) {
    auto vendor = read_hardware(file);
    if (!vendor) {
      add(vendor.error().text());
      continue;
    }
    const auto known = std::ranges::find_if(catalog.vendors_, [&](const Vendor& v) { return v.name == vendor->name; });
    if (known == catalog.vendors_.end()) {
      catalog.vendors_.push_back(std::move(*vendor));
    } else {
      merge(*known, std::move(*vendor));
    }
  }
  if (!troubles.empty()) return fail(Code::kInvalidArgument, troubles);
  for (Vendor& vendor : catalog.vendors_) {
    for (const std::string& text : Completion(vendor).run()) add(text);
  }
  if (!troubles.empty()) return fail(Code::kInvalidArgument, troubles);
  std::ranges::sort(catalog.vendors_, {}, &Vendor::name);
  return catalog;
}

Result<Catalog> Catalog::built_in() {
  return load(embedded_inputs(kHardware));
}

Result<Catalog> Catalog::with_folder(const std::string& directory) {
  std::vector<InputFile> files = embedded_inputs(kHardware);
  if (!directory.empty()) {
    HEDDLE_TRY(const std::vector<InputFile> more, folder_inputs(directory, kHardware));
    files.insert(files.end(), more.begin(), more.end());
  }
  return load(files);
}

const Vendor* Catalog::find_vendor(std::string_view vendor) const {
  const auto found = std::ranges::find_if(vendors_, [&](const Vendor& v) { return v.name == vendor; });
  return found == vendors_.end() ? nullptr : &*found;
}

const Model* Catalog::find_model(std::string_view vendor, std::string_view model) const {
  const Vendor* known = find_vendor(vendor);
  return known == nullptr ? nullptr : known->find_model(model);
}

const Model* Catalog::match_product(std::string_view vendor, std::string_view product) const {
  const Vendor* known = find_vendor(vendor);
  if (known == nullptr) return nullptr;
  const std::string wanted = lower(product);
  for (const Model& model : known->models) {
    if (std::ranges::any_of(model.products, [&](const auto& name) { return lower(name) == wanted; })) return &model;
  }
  const Model* best = nullptr;
  size_t length = 0;
  bool tie = false;
  for (const Model& model : known->models) {
    for (const std::string& part : model.contains) {
      if (part.size() < length || wanted.find(lower(part)) == std::string::npos) continue;
      tie = part.size() == length && best != &model;
      best = &model;
      length = part.size();
    }
  }
  return tie ? nullptr : best;
}

}  // namespace heddle::catalog
