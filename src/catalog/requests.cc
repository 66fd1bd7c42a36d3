#include "catalog/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "catalog/catalog.h"
#include "catalog/reader.h"

namespace heddle::catalog {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

template <typename T>
using Words = std::vector<std::pair<std::string_view, T>>;

// The first is what an absent value means.
template <typename T>
T one_of(const Value& value, const Words<T>& words) {
  if (!value.present()) return words.front().second;
  const std::string text = value.text();
  std::vector<std::string> known;
  for (const auto& [word, meaning] : words) {
    if (text == word) return meaning;
    known.emplace_back(word);
  }
  value.wrong(fmt::format("\"{}\" is none of {}", text, fmt::join(known, ", ")));
  return words.front().second;
}

constexpr std::array<std::string_view, 3> kPartitionRules = {"mig", "amd-mode", "ascend-template"};

MemoryKey read_memory(const Value& in) {
  MemoryKey out;
  out.keys = in.required("keys").texts();
  out.unit_bytes = in.required("unit").bytes().value_or(0);
  if (out.unit_bytes < 1 || out.unit_bytes % (int64_t{1} << 20) != 0) in["unit"].wrong("must be whole MiB");
  out.suffix_is_bytes = one_of(in["suffix"], Words<bool>{{"refused", false}, {"bytes", true}});
  out.zero_is_unset = one_of(in["zero"], Words<bool>{{"refused", false}, {"unset", true}});
  in["values"].each([&](const Value& value) { out.values.push_back(value.integer_in(1, INT32_MAX).value_or(1)); });
  in["steps"].each([&](const Value& step) {
    out.steps.push_back({step.required("units").integer_in(1, INT32_MAX).value_or(1),
                         step.required("cores").integer_in(1, 100).value_or(1)});
  });
  out.note = in["note"].text();
  return out;
}

CoresKey read_cores(const Value& in) {
  CoresKey out;
  out.keys = in.required("keys").texts();
  out.from = in.required("from").integer_in(0, 100).value_or(0);
  out.to = in.required("to").integer_in(1, 100).value_or(100);
  out.default_cores =
      one_of(in.required("default"), Words<DefaultCores>{{"none", DefaultCores::kNone},
                                                         {"all", DefaultCores::kAll},
                                                         {"all-without-memory", DefaultCores::kAllWithoutMemory}});
  return out;
}

Restrictions read_restrictions(const Value& in) {
  return {in["use-type"].texts(), in["nouse-type"].texts(), in["use-uuid"].texts(), in["nouse-uuid"].texts()};
}

HardSplit hard_split(const Value& in, const Catalog& hardware, const std::string& vendor) {
  HardSplit out;
  const Model* model = hardware.find_model(vendor, in.text());
  if (model == nullptr || !model->memory_bytes || !model->compute_units || model->partitioning.partitions.empty()) {
    in.wrong(
        fmt::format("the hardware of {} has no model \"{}\" with memory, compute and templates", vendor, in.text()));
    return out;
  }
  out.capacity_mib = model->memory_bytes->value / kMib;
  out.whole_mib = model->allocatable_bytes ? model->allocatable_bytes->value / kMib : out.capacity_mib;
  out.cores = model->compute_units->value;
  for (const Partition& partition : model->partitioning.partitions) {
    if (!partition.memory_bytes || !partition.compute_units) continue;
    out.templates.push_back({partition.name, *partition.memory_bytes / kMib, *partition.compute_units});
  }
  std::sort(out.templates.begin(), out.templates.end(),
            [](const Template& a, const Template& b) { return std::tie(a.mib, a.name) < std::tie(b.mib, b.name); });
  return out;
}

Family read_family(const Value& in, const std::string& vendor, const Catalog& hardware) {
  Family out;
  out.vendor = vendor;
  out.id = in.required("id").text();
  out.dialect = in.required("dialect").text();
  out.request = in.required("request").text();
  out.noun = in.required("noun").text();
  out.group = in["group"].text();
  out.count = in["count"].texts();
  if (in["memory"].present()) out.memory = read_memory(in["memory"]);
  out.percent = in["percent"].texts();
  if (in["cores"].present()) out.cores = read_cores(in["cores"]);
  out.priority = in["priority"].texts();
  out.without_count = one_of(in["without-count"], Words<WithoutCount>{{"refuse", WithoutCount::kRefuse},
                                                                      {"one-device", WithoutCount::kOneDevice}});
  out.several = one_of(
      in["several"],
      Words<Several>{{"shares", Several::kShares}, {"whole", Several::kWhole}, {"whole-only", Several::kWholeOnly}});
  out.one_whole_without_memory = in["one-whole-without-memory"].flag().value_or(false);
  out.units_per_device = in["units-per-device"].integer_in(1, 64).value_or(1);
  out.devices_per_module = in["devices-per-module"].integer_in(1, 16).value_or(1);
  out.count_is_slices = in["count-is-slices"].flag().value_or(false);
  out.models = in["models"].texts();
  out.model_prefixes = in["model-prefixes"].texts();
  if (in["hard-split"].present()) out.hard_split = hard_split(in["hard-split"], hardware, vendor);
  if (const Value soft = in["soft-split"]; soft.present()) {
    out.soft_split_annotation = soft.required("annotation").text();
    out.soft_split_value = soft.required("value").text();
  }
  out.restrictions = read_restrictions(in["annotations"]);
  out.notes = in["notes"].texts();
  if (out.count.empty() && (!out.memory || out.without_count == WithoutCount::kRefuse)) {
    in.wrong("needs count, or memory with without-count: one-device");
  }
  return out;
}

PartitionFamily read_partition(const Value& in, const std::string& vendor) {
  PartitionFamily out;
  out.vendor = vendor;
  out.id = in.required("id").text();
  out.dialect = in.required("dialect").text();
  out.request = in.required("request").text();
  out.noun = in.required("noun").text();
  out.prefixes = in.required("prefixes").texts();
  out.rule = in.required("rule").text();
  if (std::find(kPartitionRules.begin(), kPartitionRules.end(), out.rule) == kPartitionRules.end())
    in["rule"].wrong(fmt::format("must be one of {}", fmt::join(kPartitionRules, ", ")));
  out.model_prefixes = in["model-prefixes"].texts();
  out.notes = in["notes"].texts();
  return out;
}

// Profiles with an attribute (1g.5gb+me) share the size of the plain one and are given by name only.
std::vector<ModelParts> parts_of(const Vendor& vendor) {
  std::vector<ModelParts> out;
  for (const Model& model : vendor.models) {
    ModelParts one;
    for (const std::string& product : model.products) one.products.push_back(lower(product));
    for (const Partition& partition : model.partitioning.partitions) {
      const bool plain = partition.name.find_first_of("+-") == std::string::npos;
      if (plain && partition.memory_bytes) one.parts.push_back({partition.name, *partition.memory_bytes / kMib});
    }
    std::stable_sort(one.parts.begin(), one.parts.end(),
                     [](const ModelParts::Part& a, const ModelParts::Part& b) { return a.mib < b.mib; });
    if (!one.parts.empty()) out.push_back(std::move(one));
  }
  return out;
}

void read_annotations(const Value& in, RequestVendor& out) {
  out.restrictions = read_restrictions(in);
  out.type_prefix = in["type-prefix"].text();
  out.same_numa_node = in["same-numa-node"].texts();
  out.mode = in["mode"].texts();
  in["chosen"].each([&](const Value& one) {
    out.chosen.push_back({one.required("key").text(), one.required("values").texts(), one.required("meaning").text(),
                          one["one-device-only"].flag().value_or(false)});
  });
  out.kept = in["kept"].texts();
  out.written = in["written"].texts();
}

Result<RequestVendor> read_vendor(const InputFile& file, const Catalog& hardware) {
  HEDDLE_TRY(const auto tree, Tree::parse(file.text, file.name));
  const Value root = tree->root();
  RequestVendor out;
  out.name = root.required("vendor").text();
  if (out.name != file.vendor) root["vendor"].wrong(fmt::format("must be the name of its folder, {}", file.vendor));
  out.title = root.required("title").text();
  out.sources = root.required("sources").texts();
  out.notes = root["notes"].texts();
  root.required("domains").each([&](const Value& domain) {
    Domain one{domain.required("prefix").text(), domain["starts"].texts(), domain["foreign"].texts()};
    for (std::string& start : one.starts) start = lower(start);
    if (!one.prefix.ends_with('/')) domain["prefix"].wrong("must end with /");
    out.domains.push_back(std::move(one));
  });
  root.required("families").each([&](const Value& family) {
    out.families.push_back(read_family(family, out.name, hardware));
  });
  root["partitions"].each(
      [&](const Value& partition) { out.partitions.push_back(read_partition(partition, out.name)); });
  root["refused"].each([&](const Value& refused) {
    out.refused.push_back(
        {refused.required("key").text(), refused.required("why").text(), refused.required("write").text()});
  });
  read_annotations(root["annotations"], out);
  const Vendor* known = hardware.find_vendor(out.name);
  if (!out.mode.empty() && known != nullptr) out.parts = parts_of(*known);
  HEDDLE_CHECK_OK(tree->finish());
  return out;
}

// Every list of names of a family.
std::vector<const std::vector<std::string>*> key_lists(const Family& family) {
  std::vector<const std::vector<std::string>*> out = {&family.count, &family.percent, &family.priority};
  if (family.memory) out.push_back(&family.memory->keys);
  if (family.cores) out.push_back(&family.cores->keys);
  return out;
}

bool starts_with_any(std::string_view text, const std::vector<std::string>& starts) {
  return std::any_of(starts.begin(), starts.end(), [&](const std::string& start) { return text.starts_with(start); });
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= text.size(); ++at) {
    if (matches_pattern(rest, text.substr(at))) return true;
  }
  return false;
}

Result<Requests> Requests::load(const std::vector<InputFile>& files, const Catalog& hardware) {
  Requests out;
  for (const InputFile& file : files) {
    HEDDLE_TRY(RequestVendor vendor, read_vendor(file, hardware));
    // An administrator's file takes the place of the whole vendor: keys that vanish must not live on.
    std::erase_if(out.vendors_, [&](const RequestVendor& other) { return other.name == vendor.name; });
    out.vendors_.push_back(std::move(vendor));
  }
  std::sort(out.vendors_.begin(), out.vendors_.end(),
            [](const RequestVendor& a, const RequestVendor& b) { return a.name < b.name; });
  HEDDLE_CHECK_OK(out.index());
  return out;
}

Result<Requests> Requests::built_in() {
  HEDDLE_TRY(const Catalog hardware, Catalog::built_in());
  return load(embedded_inputs("requests.yaml"), hardware);
}

Result<Requests> Requests::with_folder(const std::string& directory) {
  if (directory.empty()) return built_in();
  HEDDLE_TRY(const Catalog hardware, Catalog::with_folder(directory));
  std::vector<InputFile> files = embedded_inputs("requests.yaml");
  HEDDLE_TRY(std::vector<InputFile> more, folder_inputs(directory, "requests.yaml"));
  for (InputFile& file : more) files.push_back(std::move(file));
  return load(files, hardware);
}

Result<void> Requests::index() {
  for (const RequestVendor& vendor : vendors_) {
    for (const Family& family : vendor.families) {
      for (const auto* list : key_lists(family)) {
        for (const std::string& key : *list) {
          if (!by_key_.contains(key) && owner(key).vendor != &vendor) {
            return fail(Code::kInvalidArgument, fmt::format("{} lies in no domain of {}", key, vendor.name));
          }
          if (!by_key_.emplace(key, Owner{&vendor, &family, nullptr, nullptr}).second) {
            return fail(Code::kInvalidArgument,
                        fmt::format("{} is claimed twice, the second time by {} {}", key, vendor.name, family.id));
          }
        }
      }
    }
  }
  return {};
}

const RequestVendor* Requests::find_vendor(std::string_view vendor) const {
  const auto it =
      std::find_if(vendors_.begin(), vendors_.end(), [&](const RequestVendor& one) { return one.name == vendor; });
  return it == vendors_.end() ? nullptr : &*it;
}

Requests::Owner Requests::owner(std::string_view resource) const {
  if (const auto it = by_key_.find(std::string(resource)); it != by_key_.end()) return it->second;
  for (const RequestVendor& vendor : vendors_) {
    for (const Domain& domain : vendor.domains) {
      if (!resource.starts_with(domain.prefix)) continue;
      const std::string_view name = resource.substr(domain.prefix.size());
      if (name.empty() || starts_with_any(name, domain.foreign)) continue;
      if (!domain.starts.empty() && !starts_with_any(lower(name), domain.starts)) continue;
      Owner out{&vendor, nullptr, nullptr, nullptr};
      for (const RefusedKey& refused : vendor.refused) {
        if (matches_pattern(refused.key, resource)) return {&vendor, nullptr, nullptr, &refused};
      }
      for (const PartitionFamily& partition : vendor.partitions) {
        if (starts_with_any(resource, partition.prefixes)) out.partition = &partition;
      }
      return out;
    }
  }
  return {};
}

std::string Requests::nearest_key(std::string_view resource) const {
  const RequestVendor* vendor = owner(resource).vendor;
  const auto distance = [&](std::string_view other) {
    std::vector<size_t> row(other.size() + 1);
    for (size_t j = 0; j <= other.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= resource.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= other.size(); ++j) {
        const size_t replaced = diagonal + (resource[i - 1] == other[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
      }
    }
    return row[other.size()];
  };
  std::string best;
  size_t best_distance = SIZE_MAX;
  if (vendor == nullptr) return best;
  for (const Family& family : vendor->families) {
    for (const auto* list : key_lists(family)) {
      for (const std::string& key : *list) {
        if (const size_t d = distance(key); d < best_distance) {
          best_distance = d;
          best = key;
        }
      }
    }
  }
  return best;
}

}  // namespace heddle::catalog
