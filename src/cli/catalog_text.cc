#include "cli/catalog_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json.h"
#include "base/quantity.h"
#include "catalog/reader.h"
#include "catalog/requests.h"

namespace heddle::cli {
namespace {

using catalog::Catalog;
using catalog::Figure;
using catalog::Model;
using catalog::Partition;
using catalog::PartitionTable;
using catalog::Vendor;
using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

// Columns as wide as their widest cell, two blanks between them, none at the end of a line.
std::string columns(const std::vector<Row>& rows, int indent) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line(static_cast<size_t>(indent), ' ');
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string bytes_text(int64_t bytes) {
  return Quantity::bytes(bytes).to_string();
}

template <typename T>
std::string or_dash(const std::optional<T>& number) {
  return number ? fmt::format("{}", *number) : "-";
}

std::string bytes_or_dash(const std::optional<int64_t>& bytes) {
  return bytes ? bytes_text(*bytes) : "-";
}

std::optional<int64_t> value_of(const std::optional<Figure<int64_t>>& figure) {
  return figure ? std::optional(figure->value) : std::nullopt;
}

// "hami", or "general (unverified)".
std::string source_text(const Vendor& vendor, const std::string& id) {
  const catalog::Source* source = vendor.find_source(id);
  const bool unverified = source != nullptr && source->kind == catalog::Source::Kind::kUnverified;
  return unverified ? id + " (unverified)" : id;
}

std::string starts_text(const Partition& partition) {
  if (partition.placements.empty()) return "-";
  std::string starts;
  for (const catalog::Placement& placement : partition.placements) {
    starts += (starts.empty() ? "" : ",") + std::to_string(placement.start);
  }
  return fmt::format("{} (size {})", starts, partition.placements.front().size);
}

std::string consumes_text(const Partition& partition) {
  std::string out;
  for (const auto& [counter, amount] : partition.consumes) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", amount, counter);
  }
  return out.empty() ? "-" : out;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

template <typename T>
void set(Json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

void set(Json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

void set(Json& object, const char* key, const std::vector<std::string>& values) {
  if (!values.empty()) object[key] = values;
}

Json figure_json(const Vendor& vendor, const Figure<int64_t>& figure) {
  Json out = Json::object();
  out["value"] = figure.value;
  out["source"] = figure.source;
  const catalog::Source* source = vendor.find_source(figure.source);
  out["verified"] = source != nullptr && source->kind != catalog::Source::Kind::kUnverified;
  return out;
}

Json partition_json(const Partition& partition) {
  Json out = Json::object();
  out["name"] = partition.name;
  set(out, "id", partition.id);
  set(out, "memoryBytes", partition.memory_bytes);
  set(out, "computeUnits", partition.compute_units);
  out["count"] = partition.count;
  if (!partition.consumes.empty()) out["consumes"] = partition.consumes;
  for (const catalog::Placement& placement : partition.placements) {
    Json place = Json::object();
    place["start"] = placement.start;
    place["size"] = placement.size;
    out["placements"].push_back(std::move(place));
  }
  out["source"] = partition.source;
  return out;
}

Json partitioning_json(const PartitionTable& table) {
  Json out = Json::object();
  out["table"] = table.name;
  out["mode"] = std::string(catalog::partition_mode_name(table.mode));
  if (table.slots != 0) {
    out["slot"] = table.slot;
    out["slots"] = table.slots;
  }
  if (!table.counters.empty()) out["counters"] = table.counters;
  for (const Partition& partition : table.partitions) out["profiles"].push_back(partition_json(partition));
  set(out, "notes", table.notes);
  return out;
}

Json model_json(const Vendor& vendor, const Model& model) {
  Json out = Json::object();
  out["vendor"] = vendor.name;
  out["name"] = model.name;
  out["kind"] = model.kind;
  set(out, "architecture", model.architecture);
  set(out, "products", model.products);
  set(out, "contains", model.contains);
  if (model.memory_bytes) out["memoryBytes"] = figure_json(vendor, *model.memory_bytes);
  if (model.allocatable_bytes) out["allocatableBytes"] = figure_json(vendor, *model.allocatable_bytes);
  if (model.compute_units) {
    out["computeUnits"] = figure_json(vendor, *model.compute_units);
    out["computeUnit"] = model.compute_unit;
  }
  if (model.devices_per_board != 1) out["devicesPerBoard"] = model.devices_per_board;
  if (!model.partitioning.partitions.empty()) out["partitioning"] = partitioning_json(model.partitioning);
  set(out, "notes", model.notes);
  out["source"] = model.source;
  return out;
}

Json system_json(const catalog::System& system) {
  Json out = Json::object();
  out["name"] = system.name;
  out["kind"] = system.kind;
  set(out, "link", system.link);
  out["models"] = system.models;
  set(out, "devices", system.devices);
  set(out, "devicesPerNode", system.devices_per_node);
  set(out, "nodes", system.nodes);
  if (!system.host.empty()) out["host"] = system.host;
  if (!system.shapes.empty()) out["shapes"] = system.shapes;
  if (system.wraps) out["wraps"] = true;
  set(out, "notes", system.notes);
  out["source"] = system.source;
  return out;
}

Json lists_json(const Vendor& vendor) {
  Json out = Json::object();
  for (const catalog::DeviceNode& node : vendor.nodes) {
    Json item = Json::object();
    item["path"] = node.path;
    item["per"] = node.per;
    set(item, "when", node.when);
    item["source"] = node.source;
    out["deviceNodes"].push_back(std::move(item));
  }
  for (const catalog::Variable& variable : vendor.variables) {
    Json item = Json::object();
    item["name"] = variable.name;
    item["readBy"] = variable.read_by;
    item["meaning"] = variable.meaning;
    set(item, "inClaim", variable.in_claim);
    item["source"] = variable.source;
    out["variables"].push_back(std::move(item));
  }
  for (const catalog::VersionPair& pair : vendor.versions) {
    Json item = Json::object();
    item["driver"] = pair.driver;
    item["runtime"] = pair.runtime;
    item["rule"] = pair.rule;
    item["source"] = pair.source;
    out["versions"].push_back(std::move(item));
  }
  for (const catalog::Source& source : vendor.sources) {
    Json item = Json::object();
    item["id"] = source.id;
    item["title"] = source.title;
    set(item, "version", source.version);
    set(item, "url", source.url);
    item["kind"] = std::string(catalog::source_kind_name(source.kind));
    out["sources"].push_back(std::move(item));
  }
  return out;
}

Json summary_json(const Vendor& vendor) {
  Json out = Json::object();
  out["vendor"] = vendor.name;
  out["title"] = vendor.title;
  out["kind"] = vendor.kind;
  out["support"] = std::string(catalog::support_name(vendor.support));
  out["supportText"] = vendor.support_text;
  set(out, "library", vendor.library);
  out["isolation"] = vendor.isolations;
  return out;
}

Json vendor_json(const Vendor& vendor) {
  Json out = summary_json(vendor);
  for (const Model& model : vendor.models) out["models"].push_back(model_json(vendor, model));
  for (const catalog::System& system : vendor.systems) out["systems"].push_back(system_json(system));
  out.update(lists_json(vendor));
  set(out, "notes", vendor.notes);
  return out;
}

void add_notes(std::string& out, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) out += fmt::format("  - {}\n", note);
}

Row model_row(const Model& model) {
  const auto memory = model.allocatable_bytes ? model.allocatable_bytes : model.memory_bytes;
  const auto units = value_of(model.compute_units);
  return {model.name, model.architecture.empty() ? "-" : model.architecture, bytes_or_dash(value_of(memory)),
          units ? fmt::format("{} {}", *units, model.compute_unit) : "-",
          model.partitioning.partitions.empty() ? "-"
                                                : fmt::format("{} ({})", model.partitioning.partitions.size(),
                                                              catalog::partition_mode_name(model.partitioning.mode))};
}

std::string systems_text(const Vendor& vendor) {
  if (vendor.systems.empty()) return "";
  std::vector<Row> rows = {{"SYSTEM", "KIND", "LINK", "DEVICES", "PER NODE", "MODELS", "SOURCE"}};
  for (const catalog::System& system : vendor.systems) {
    rows.push_back({system.name, system.kind, system.link.empty() ? "-" : system.link, or_dash(system.devices),
                    or_dash(system.devices_per_node), fmt::format("{}", fmt::join(system.models, ",")),
                    source_text(vendor, system.source)});
  }
  std::string out = "\n" + columns(rows, 0);
  for (const catalog::System& system : vendor.systems) {
    if (system.shapes.empty()) continue;
    std::string shapes;
    for (const auto& shape : system.shapes) shapes += (shapes.empty() ? "" : " ") + shape_text(shape);
    out += fmt::format("  {}: host {}, shapes {}\n", system.name, shape_text(system.host), shapes);
  }
  return out;
}

std::string vendor_text(const Vendor& vendor) {
  std::string out = fmt::format("{} ({}, {})\nsupport: {}. {}\nisolation: {}\nlibrary: {}\n\n", vendor.title,
                                vendor.name, vendor.kind, catalog::support_name(vendor.support), vendor.support_text,
                                fmt::join(vendor.isolations, ", "), vendor.library.empty() ? "none" : vendor.library);
  std::vector<Row> rows = {{"MODEL", "ARCHITECTURE", "MEMORY", "COMPUTE", "PARTITIONS"}};
  for (const Model& model : vendor.models) rows.push_back(model_row(model));
  out += columns(rows, 0) + systems_text(vendor);
  rows = {{"DEVICE NODE", "PER", "SOURCE", "WHEN"}};
  for (const auto& node : vendor.nodes)
    rows.push_back({node.path, node.per, source_text(vendor, node.source), node.when});
  out += "\n" + columns(rows, 0);
  if (!vendor.variables.empty()) {
    rows = {{"VARIABLE", "READ BY", "SOURCE", "MEANING"}};
    for (const auto& v : vendor.variables)
      rows.push_back({v.name, v.read_by, source_text(vendor, v.source), v.meaning});
    out += "\n" + columns(rows, 0);
  }
  if (!vendor.versions.empty()) {
    rows = {{"RUNTIME", "DRIVER", "SOURCE"}};
    for (const auto& pair : vendor.versions) {
      rows.push_back({pair.runtime, pair.rule + " " + pair.driver, source_text(vendor, pair.source)});
    }
    out += "\n" + columns(rows, 0);
  }
  rows = {{"SOURCE", "KIND", "VERSION", "TITLE"}};
  for (const auto& source : vendor.sources) {
    rows.push_back({source.id, std::string(catalog::source_kind_name(source.kind)),
                    source.version.empty() ? "-" : source.version, source.title});
  }
  out += "\n" + columns(rows, 0);
  if (!vendor.notes.empty()) out += "\n";
  add_notes(out, vendor.notes);
  return out;
}

std::string partitions_text(const Vendor& vendor, const PartitionTable& table) {
  std::vector<Row> rows = {{"PARTITION", "ID", "MEMORY", "COMPUTE", "AT MOST", "STARTS", "CONSUMES", "SOURCE"}};
  for (const Partition& partition : table.partitions) {
    rows.push_back({partition.name, or_dash(partition.id), bytes_or_dash(partition.memory_bytes),
                    or_dash(partition.compute_units), std::to_string(partition.count), starts_text(partition),
                    consumes_text(partition), source_text(vendor, partition.source)});
  }
  std::string out = fmt::format("\npartitions ({}):", catalog::partition_mode_name(table.mode));
  if (table.slots != 0) out += fmt::format(" {} slots of kind {};", table.slots, table.slot);
  for (const auto& [counter, amount] : table.counters) {
    out += fmt::format(" {} {};", counter == "memory" ? bytes_text(amount) : std::to_string(amount), counter);
  }
  if (out.back() == ';') out.pop_back();
  out += "\n" + columns(rows, 0);
  add_notes(out, table.notes);
  return out;
}

std::string model_text(const Vendor& vendor, const Model& model) {
  std::vector<Row> rows = {{"kind", model.kind}};
  const auto row = [&](const char* name, const std::string& value) {
    if (!value.empty()) rows.push_back({name, value});
  };
  const auto figure = [&](const char* name, const std::optional<Figure<int64_t>>& from, const std::string& text) {
    if (from) rows.push_back({name, text, "source: " + source_text(vendor, from->source)});
  };
  row("architecture", model.architecture);
  row("products", fmt::format("{}", fmt::join(model.products, "; ")));
  row("product part", fmt::format("{}", fmt::join(model.contains, "; ")));
  figure("memory", model.memory_bytes, bytes_or_dash(value_of(model.memory_bytes)));
  figure("allocatable", model.allocatable_bytes, bytes_or_dash(value_of(model.allocatable_bytes)));
  figure("compute", model.compute_units,
         fmt::format("{} {}", value_of(model.compute_units).value_or(0), model.compute_unit));
  if (model.devices_per_board != 1) row("devices per board", std::to_string(model.devices_per_board));
  row("source", source_text(vendor, model.source));
  std::string out = fmt::format("{} {}\n", vendor.title, model.name) + columns(rows, 2);
  add_notes(out, model.notes);
  if (!model.partitioning.partitions.empty()) out += partitions_text(vendor, model.partitioning);
  return out;
}

tl::unexpected<Error> unknown(const char* what, const std::string& name, const std::vector<std::string>& known) {
  const std::string meant = catalog::nearest(name, known);
  return fail(Code::kNotFound, fmt::format("the catalogue has no {} '{}'{}", what, name,
                                           meant.empty() ? fmt::format("; it has {}", fmt::join(known, ", "))
                                                         : fmt::format("; did you mean '{}'?", meant)));
}

template <typename T>
std::vector<std::string> names_of(const std::vector<T>& items) {
  std::vector<std::string> names(items.size());
  std::ranges::transform(items, names.begin(), [](const T& item) { return item.name; });
  return names;
}

std::string base_name(const CatalogFile& file) {
  return file.file.substr(file.file.rfind('/') + 1);
}

bool is_hardware(const CatalogFile& file) {
  return base_name(file).starts_with("hardware");
}

bool is_requests(const CatalogFile& file) {
  return base_name(file).starts_with("requests");
}

// The vendor of a requests file is its folder's name; one that is given without a folder may be any.
catalog::InputFile input_file(const CatalogFile& file) {
  const size_t slash = file.file.rfind('/');
  std::string folder = slash == std::string::npos ? "" : file.file.substr(0, slash);
  folder.erase(0, folder.rfind('/') + 1);
  if (folder == "." || folder == "..") folder.clear();
  return {file.file, folder, file.text};
}

}  // namespace

std::string catalog_list(const Catalog& catalog, Output output) {
  if (output == Output::kJson) {
    Json out = Json::object();
    for (const Vendor& vendor : catalog.vendors()) {
      Json item = summary_json(vendor);
      item["models"] = names_of(vendor.models);
      out["vendors"].push_back(std::move(item));
    }
    return dump_json(out, 2) + "\n";
  }
  std::vector<Row> rows = {{"VENDOR", "TITLE", "KIND", "SUPPORT", "ISOLATION", "MODELS"}};
  for (const Vendor& vendor : catalog.vendors()) {
    rows.push_back({vendor.name, vendor.title, vendor.kind, std::string(catalog::support_name(vendor.support)),
                    fmt::format("{}", fmt::join(vendor.isolations, ",")),
                    fmt::format("{}", fmt::join(names_of(vendor.models), " "))});
  }
  return columns(rows, 0);
}

Result<std::string> catalog_show(const Catalog& catalog, const std::string& what, Output output) {
  const size_t slash = what.find('/');
  const std::string vendor_name = what.substr(0, slash);
  const Vendor* vendor = catalog.find_vendor(vendor_name);
  if (vendor == nullptr) return unknown("vendor", vendor_name, names_of(catalog.vendors()));
  if (slash == std::string::npos) {
    return output == Output::kJson ? dump_json(vendor_json(*vendor), 2) + "\n" : vendor_text(*vendor);
  }
  const std::string model_name = what.substr(slash + 1);
  const Model* model = vendor->find_model(model_name);
  if (model == nullptr) model = catalog.match_product(vendor_name, model_name);
  if (model == nullptr) return unknown("model", model_name, names_of(vendor->models));
  return output == Output::kJson ? dump_json(model_json(*vendor, *model), 2) + "\n" : model_text(*vendor, *model);
}

Result<std::vector<ValidatedFile>> validate_catalog_files(const std::vector<CatalogFile>& files,
                                                          const std::vector<CatalogFile>& context) {
  for (const CatalogFile& file : files) {
    if (is_hardware(file) || is_requests(file)) continue;
    return fail(Code::kInvalidArgument,
                "the name must begin with 'hardware' or 'requests', so that it is clear what it holds", file.file);
  }
  std::vector<catalog::InputFile> hardware = catalog::embedded_inputs("hardware.yaml");
  const size_t built_in = hardware.size();
  for (const CatalogFile& file : context) hardware.push_back(input_file(file));
  if (!Catalog::load(hardware)) hardware.resize(built_in);
  std::vector<ValidatedFile> out(files.size());
  // Hardware first, because requests may name its models. A file with troubles is no part of what follows.
  const auto check = [&](std::vector<catalog::InputFile>& before, size_t i, const auto& load) {
    out[i].file = files[i].file;
    before.push_back(input_file(files[i]));
    const auto loaded = load(before);
    if (loaded) return;
    before.pop_back();
    std::istringstream lines(loaded.error().text());
    for (std::string line; std::getline(lines, line);) out[i].troubles.push_back(line);
  };
  for (size_t i = 0; i < files.size(); ++i) {
    if (is_hardware(files[i])) check(hardware, i, [](const auto& all) { return Catalog::load(all); });
  }
  HEDDLE_TRY(const Catalog models, Catalog::load(hardware));
  std::vector<catalog::InputFile> requests = catalog::embedded_inputs("requests.yaml");
  for (size_t i = 0; i < files.size(); ++i) {
    if (is_requests(files[i]))
      check(requests, i, [&](const auto& all) { return catalog::Requests::load(all, models); });
  }
  return out;
}

std::string validation_json(const std::vector<ValidatedFile>& files) {
  Json out = Json::object();
  for (const ValidatedFile& file : files) {
    Json item = Json::object();
    item["file"] = file.file;
    item["valid"] = file.troubles.empty();
    set(item, "troubles", file.troubles);
    out["files"].push_back(std::move(item));
  }
  return dump_json(out, 2) + "\n";
}

}  // namespace heddle::cli
