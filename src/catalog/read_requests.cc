#include "catalog/read_requests.h"

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

bool starts_with_any(std::string_view text, const std::vector<std::string>& starts) {
  return std::any_of(starts.begin(), starts.end(), [&](const std::string& start) { return text.starts_with(start); });
}

bool is_label(std::string_view text) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && text.size() <= 63 && text.front() != '-' && text.back() != '-' &&
         std::all_of(text.begin(), text.end(), plain);
}

// What follows the slash of a resource name.
bool is_resource_name(std::string_view text) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return !text.empty() && text.size() <= 63 && plain(text.front()) && plain(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return plain(c) || c == '-' || c == '_' || c == '.'; });
}

void check_label(const Value& value) {
  if (!value.present() || is_label(value.text())) return;
  value.wrong(
      fmt::format("\"{}\" must be up to 63 small letters, digits and '-', with no '-' at its ends", value.text()));
}

// The resource names of one file: each lies in one of its domains and means one thing.
class Keys {
 public:
  explicit Keys(const std::vector<Domain>& domains) : domains_(domains) {}

  std::vector<std::string> read(const Value& in) {
    std::vector<std::string> out;
    if (!in.is_list()) {
      if (in.present()) take(in, out);
      return out;
    }
    in.each([&](const Value& item) { take(item, out); });
    return out;
  }

  // A whole name, a beginning of names, or a pattern.
  void check_domain(const Value& in, std::string_view key) const {
    const bool covered = std::any_of(domains_.begin(), domains_.end(), [&](const Domain& domain) {
      if (!key.starts_with(domain.prefix)) return false;
      const std::string_view name = key.substr(domain.prefix.size());
      return !starts_with_any(name, domain.foreign) &&
             (domain.starts.empty() || starts_with_any(lower(name), domain.starts));
    });
    if (!covered) {
      in.wrong(fmt::format("\"{}\" lies in none of the file's `domains`; add its prefix, or its beginning to `starts`",
                           key));
    }
  }

 private:
  void take(const Value& in, std::vector<std::string>& out) {
    const std::string key = in.text();
    if (key.empty()) return;
    const size_t slash = key.find('/');
    if (slash == std::string::npos || !is_resource_name(std::string_view(key).substr(slash + 1))) {
      in.wrong(fmt::format("\"{}\" is no name of an extended resource; write it as vendor.example/name", key));
      return;
    }
    check_domain(in, key);
    const auto [first, fresh] = first_.emplace(key, in.path());
    if (!fresh) {
      in.wrong(fmt::format("\"{}\" has a meaning already, by {}; name it once", key, first->second));
      return;
    }
    out.push_back(key);
  }

  const std::vector<Domain>& domains_;
  std::map<std::string, std::string> first_;
};

constexpr std::array<std::string_view, 4> kPartitionRules = {"mig", "mim", "amd-mode", "ascend-template"};

MemoryKey read_memory(const Value& in, Keys& keys) {
  MemoryKey out;
  out.keys = keys.read(in.required("keys"));
  out.unit_bytes = in.required("unit").bytes().value_or(0);
  if (out.unit_bytes < 1 || out.unit_bytes % (int64_t{1} << 20) != 0) in["unit"].wrong("must be whole MiB");
  out.suffix_is_bytes = one_of(in["suffix"], Words<bool>{{"refused", false}, {"bytes", true}});
  out.zero_is_unset = one_of(in["zero"], Words<bool>{{"refused", false}, {"unset", true}});
  in["values"].each([&](const Value& value) {
    out.values.push_back(value.integer_in(1, INT32_MAX).value_or(1));
    if (out.values.size() > 1 && out.values.back() <= out.values[out.values.size() - 2])
      value.wrong("must be larger than the one before it; the last is a whole device");
  });
  in["steps"].each([&](const Value& step) {
    if (!out.steps.empty() && step["units"].integer().value_or(INT32_MAX) <= out.steps.back().units)
      step["units"].wrong("must be larger than the one before it");
    out.steps.push_back({step.required("units").integer_in(1, INT32_MAX).value_or(1),
                         step.required("cores").integer_in(1, 100).value_or(1)});
  });
  out.note = in["note"].text();
  return out;
}

CoresKey read_cores(const Value& in, Keys& keys) {
  CoresKey out;
  out.keys = keys.read(in.required("keys"));
  out.from = in.required("from").integer_in(0, 100).value_or(0);
  out.to = in.required("to").integer_in(1, 100).value_or(100);
  if (out.from > out.to) in["from"].wrong(fmt::format("must be at most `to`, {}", out.to));
  out.default_cores =
      one_of(in.required("default"), Words<DefaultCores>{{"none", DefaultCores::kNone},
                                                         {"all", DefaultCores::kAll},
                                                         {"all-without-memory", DefaultCores::kAllWithoutMemory}});
  return out;
}

std::map<std::string, std::string> text_map(const Value& in) {
  std::map<std::string, std::string> out;
  in.each_member([&](std::string_view key, const Value& value) { out.emplace(key, value.text()); });
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
        fmt::format("the hardware of {} has no model \"{}\" with memory, compute and templates; add it to the "
                    "vendor's hardware.yaml",
                    vendor, in.text()));
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

Family read_family(const Value& in, const std::string& vendor, const Catalog& hardware, Keys& keys) {
  Family out;
  out.place = fmt::format("{}:{}: {}", in.file(), in.line(), in.path());
  out.vendor = vendor;
  out.id = in.required("id").text();
  out.dialect = in.required("dialect").text();
  out.request = in.required("request").text();
  check_label(in["request"]);
  out.noun = in.required("noun").text();
  out.group = in["group"].text();
  out.count = keys.read(in["count"]);
  if (in["memory"].present()) out.memory = read_memory(in["memory"], keys);
  out.percent = keys.read(in["percent"]);
  if (in["cores"].present()) out.cores = read_cores(in["cores"], keys);
  out.priority = keys.read(in["priority"]);
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
  out.attributes = text_map(in["attributes"]);
  out.environment = text_map(in["environment"]);
  if (in["hard-split"].present()) out.hard_split = hard_split(in["hard-split"], hardware, vendor);
  if (const Value soft = in["soft-split"]; soft.present()) {
    out.soft_split_annotation = soft.required("annotation").text();
    out.soft_split_value = soft.required("value").text();
    if (!out.hard_split) soft.wrong("has no meaning without `hard-split`; leave it out");
  }
  out.restrictions = read_restrictions(in["annotations"]);
  out.notes = in["notes"].texts();
  if (out.count.empty() && (!out.memory || out.without_count == WithoutCount::kRefuse)) {
    in.wrong("needs count, or memory with without-count: one-device");
  }
  return out;
}

PartitionFamily read_partition(const Value& in, const std::string& vendor, const Keys& keys) {
  PartitionFamily out;
  out.vendor = vendor;
  out.id = in.required("id").text();
  out.dialect = in.required("dialect").text();
  out.request = in.required("request").text();
  out.noun = in.required("noun").text();
  check_label(in["request"]);
  out.prefixes = in.required("prefixes").texts();
  for (const std::string& prefix : out.prefixes) keys.check_domain(in["prefixes"], prefix);
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

void read_families(const Value& root, const Catalog& hardware, RequestVendor& out) {
  Keys keys(out.domains);
  std::set<std::string> ids;
  const auto check_id = [&](const Value& in, const std::string& id) {
    if (!ids.insert(id).second) in["id"].wrong(fmt::format("\"{}\" is there twice; each needs its own", id));
  };
  root.required("families").each([&](const Value& family) {
    out.families.push_back(read_family(family, out.name, hardware, keys));
    check_id(family, out.families.back().id);
  });
  root["partitions"].each([&](const Value& partition) {
    out.partitions.push_back(read_partition(partition, out.name, keys));
    check_id(partition, out.partitions.back().id);
  });
  root["refused"].each([&](const Value& refused) {
    out.refused.push_back(
        {refused.required("key").text(), refused.required("why").text(), refused.required("write").text()});
    const std::string& key = out.refused.back().key;
    keys.check_domain(refused["key"], std::string_view(key).substr(0, key.find('*')));
  });
}

}  // namespace

Result<RequestVendor> read_requests(const InputFile& file, const Catalog& hardware) {
  HEDDLE_TRY(const auto tree, Tree::parse(file.text, file.name));
  const Value root = tree->root();
  RequestVendor out;
  out.name = root.required("vendor").text();
  check_label(root["vendor"]);
  if (!file.vendor.empty() && out.name != file.vendor)
    root["vendor"].wrong(fmt::format("must be the name of its folder, {}", file.vendor));
  out.title = root.required("title").text();
  out.sources = root.required("sources").texts();
  out.notes = root["notes"].texts();
  out.unread_variables = text_map(root["unread-variables"]);
  root.required("domains").each([&](const Value& domain) {
    Domain one{domain.required("prefix").text(), domain["starts"].texts(), domain["foreign"].texts()};
    for (std::string& start : one.starts) start = lower(start);
    if (!one.prefix.ends_with('/')) domain["prefix"].wrong("must end with /");
    out.domains.push_back(std::move(one));
  });
  read_families(root, hardware, out);
  read_annotations(root["annotations"], out);
  const Vendor* known = hardware.find_vendor(out.name);
  if (!out.mode.empty() && known != nullptr) out.parts = parts_of(*known);
  HEDDLE_CHECK_OK(tree->finish());
  return out;
}

}  // namespace heddle::catalog
