#include "dialects/annotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/quantity.h"

namespace heddle::dialects {
namespace {

using catalog::Requests;
using catalog::RequestVendor;

constexpr size_t kMaxItems = 64;

// What schedulers and device plugins of the dialects write for each other.
constexpr std::array<std::string_view, 12> kWritten = {
    "hami.io/vgpu-*",       "hami.io/*-devices-to-allocate",  "hami.io/*-devices-allocated",
    "hami.io/*-allocated",  "hami.io/*-to-allocate",          "hami.io/bind-*",
    "volcano.sh/bind-*",    "volcano.sh/vgpu-ids-new",        "volcano.sh/vgpu-node",
    "volcano.sh/vgpu-time", "volcano.sh/devices-to-allocate", "*-assigned"};

constexpr std::string_view kNodePolicy = "hami.io/node-scheduler-policy";
constexpr std::string_view kCardPolicy = "hami.io/gpu-scheduler-policy";
constexpr std::string_view kWeights = "hami.io/device-scoring-weights";

std::string field(std::string_view key) {
  return fmt::format("metadata.annotations[{}]", key);
}

std::string trimmed(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return {};
  return std::string(text.substr(start, text.find_last_not_of(" \t\r\n") - start + 1));
}

std::vector<std::string> items_of(std::string_view list) {
  std::vector<std::string> out;
  while (true) {
    const size_t comma = list.find(',');
    std::string item = trimmed(list.substr(0, comma));
    if (!item.empty() && std::find(out.begin(), out.end(), item) == out.end()) out.push_back(std::move(item));
    if (comma == std::string_view::npos) return out;
    list.remove_prefix(comma + 1);
  }
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool written_by_others(const Requests& rules, const std::string& key) {
  const auto matches = [&](std::string_view pattern) { return catalog::matches_pattern(pattern, key); };
  if (std::any_of(kWritten.begin(), kWritten.end(), matches)) return true;
  return std::any_of(rules.vendors().begin(), rules.vendors().end(), [&](const RequestVendor& vendor) {
    return std::any_of(vendor.written.begin(), vendor.written.end(), matches);
  });
}

// A resource name; what schedulers write under one (huawei.com/Ascend910B4 = [{"UUID":...}]) is no amount.
bool misplaced(const Requests& rules, const std::string& key, const std::string& value) {
  const Requests::Owner owner = rules.owner(key);
  if (owner.family == nullptr && owner.partition == nullptr && owner.refused == nullptr) return false;
  if (owner.partition != nullptr) {
    const auto& prefixes = owner.partition->prefixes;
    const bool named = std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& prefix) {
      return key.starts_with(prefix) && partition_profile(owner.partition->rule, key, prefix);
    });
    if (!named) return false;
  }
  return !written_by_others(rules, key) || Quantity::parse(value).has_value();
}

// Every name that some vendor gives a meaning to.
bool known_to(const RequestVendor& vendor, const std::string& key) {
  const auto in = [&](const catalog::Restrictions& lists) {
    return contains(lists.use_type, key) || contains(lists.nouse_type, key) || contains(lists.use_uuid, key) ||
           contains(lists.nouse_uuid, key);
  };
  if (in(vendor.restrictions) || contains(vendor.same_numa_node, key) || contains(vendor.mode, key) ||
      contains(vendor.kept, key))
    return true;
  const bool family = std::any_of(vendor.families.begin(), vendor.families.end(), [&](const catalog::Family& one) {
    return in(one.restrictions) || one.soft_split_annotation == key;
  });
  return family || std::any_of(vendor.chosen.begin(), vendor.chosen.end(),
                               [&](const catalog::ChosenAnnotation& one) { return one.key == key; });
}

class AnnotationReader {
 public:
  AnnotationReader(const Requests& rules, const Annotations& annotations, std::vector<Refusal>& refusals,
                   std::vector<std::string>& warnings)
      : rules_(rules), annotations_(annotations), refusals_(refusals), warnings_(warnings) {}

  Wishes run(const std::set<std::string>& vendors) {
    for (const auto& [key, value] : annotations_) {
      if (misplaced(rules_, key, value)) {
        refuse(key,
               fmt::format("\"{}\": this is a resource, and an annotation of this name is never read, so the pod would "
                           "get something else; use resources.limits of the container",
                           value));
      } else if (!vendors.empty() && written_by_others(rules_, key)) {
        warnings_.push_back(fmt::format("annotation {} is written by schedulers and is never a request; ignored", key));
      } else {
        warn_unknown(key, vendors);
      }
    }
    if (!vendors.empty()) read_policies();
    for (const std::string& name : vendors) {
      if (const RequestVendor* vendor = rules_.find_vendor(name); vendor != nullptr) read_vendor(*vendor);
    }
    return std::move(out_);
  }

 private:
  void refuse(std::string_view key, std::string message) { refusals_.push_back({field(key), std::move(message)}); }

  void warn_unknown(const std::string& key, const std::set<std::string>& vendors) {
    for (const std::string& name : vendors) {
      const RequestVendor* vendor = rules_.find_vendor(name);
      if (vendor == nullptr) continue;
      const bool domain = std::any_of(vendor->domains.begin(), vendor->domains.end(),
                                      [&](const catalog::Domain& one) { return key.starts_with(one.prefix); });
      const bool known = std::any_of(rules_.vendors().begin(), rules_.vendors().end(),
                                     [&](const RequestVendor& one) { return known_to(one, key); });
      if (domain && !known) warnings_.push_back(fmt::format("annotation {} is not understood and has no effect", key));
    }
  }

  [[nodiscard]] const std::string* value(std::string_view key) const {
    const auto it = annotations_.find(std::string(key));
    return it == annotations_.end() ? nullptr : &it->second;
  }

  // Wishes about placement: the pod keeps them, and none changes what is granted, but for mutex.
  void read_policies() {
    constexpr std::array<std::string_view, 5> kCardPolicies = {"binpack", "spread", "numa", "mutex", "topology-aware"};
    if (const std::string* policy = value(kNodePolicy); policy != nullptr) {
      if (const std::string word = trimmed(*policy); word != "binpack" && word != "spread" && !word.empty())
        warnings_.push_back(
            fmt::format("annotation {}: \"{}\" is neither binpack nor spread; no effect", kNodePolicy, word));
    }
    if (const std::string* policy = value(kCardPolicy); policy != nullptr) {
      for (const std::string& word : items_of(*policy)) {
        if (std::find(kCardPolicies.begin(), kCardPolicies.end(), word) == kCardPolicies.end())
          warnings_.push_back(fmt::format("annotation {}: \"{}\" is none of {}; no effect", kCardPolicy, word,
                                          fmt::join(kCardPolicies, ", ")));
        if (word == "mutex") {
          out_.modes.alone = true;
          out_.modes.alone_key = fmt::format("{}: mutex", kCardPolicy);
        }
      }
    }
    const std::string* weights = value(kWeights);
    if (weights != nullptr && !known_weights(*weights))
      warnings_.push_back(fmt::format("annotation {}: \"{}\" is not of the form slot=1,core=1,memory=3; no effect",
                                      kWeights, *weights));
  }

  static bool known_weights(const std::string& text) {
    std::set<std::string> seen;
    for (const std::string& item : items_of(text)) {
      const size_t equals = item.find('=');
      const std::string name = item.substr(0, equals);
      const std::string number = equals == std::string::npos ? "" : item.substr(equals + 1);
      const bool digits = !number.empty() && number.size() < 10 &&
                          std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
      if ((name != "slot" && name != "core" && name != "memory") || !digits || !seen.insert(name).second) return false;
    }
    return seen.size() == 3;
  }

  void read_vendor(const RequestVendor& vendor) {
    for (const std::string& key : vendor.same_numa_node) read_numa(vendor, key);
    for (const std::string& key : vendor.mode) read_mode(key);
    for (const catalog::Family& family : vendor.families) read_soft_split(family);
    for (const catalog::ChosenAnnotation& chosen : vendor.chosen) {
      const std::string* text = value(chosen.key);
      if (text != nullptr && !text->empty() && !contains(chosen.values, *text))
        refuse(chosen.key, fmt::format("\"{}\" is none of {}; write one of them, or remove the annotation", *text,
                                       fmt::join(chosen.values, ", ")));
    }
    check_lists(vendor);
  }

  void check_lists(const RequestVendor& vendor) {
    std::vector<std::string> keys;
    const auto add = [&](const catalog::Restrictions& lists) {
      for (const auto* list : {&lists.use_type, &lists.nouse_type, &lists.use_uuid, &lists.nouse_uuid})
        keys.insert(keys.end(), list->begin(), list->end());
    };
    add(vendor.restrictions);
    for (const catalog::Family& family : vendor.families) add(family.restrictions);
    for (const std::string& key : keys) {
      const std::string* text = value(key);
      if (text == nullptr) continue;
      const std::vector<std::string> items = items_of(*text);
      const bool long_item = std::any_of(items.begin(), items.end(), [](const auto& item) { return item.size() > 64; });
      if (items.size() > kMaxItems || long_item)
        refuse(key,
               fmt::format("more than {} entries, or one longer than 64 characters; name fewer devices, or put a label "
                           "on their nodes and select that",
                           kMaxItems));
    }
  }

  void read_numa(const RequestVendor& vendor, const std::string& key) {
    const std::string* text = value(key);
    if (text == nullptr || text->empty() || *text == "false") return;
    if (*text == "true") {
      out_.one_numa_node.insert(vendor.name);
    } else {
      refuse(key, fmt::format("\"{}\" is neither \"true\" nor \"false\"; write one of them", *text));
    }
  }

  void read_mode(const std::string& key) {
    const std::string* text = value(key);
    const std::string mode = text == nullptr ? std::string() : trimmed(*text);
    if (mode.empty()) return;
    if (mode != "hami-core" && mode != "mig" && mode != "mps") {
      refuse(key, fmt::format("\"{}\" is no mode; write hami-core for a soft share, mig, or mps", mode));
    } else if (!out_.split.empty() && out_.split != mode) {
      refuse(key, fmt::format("\"{}\", while {} says {}; write only one", mode, out_.split_key, out_.split));
    } else {
      out_.split = mode;
      out_.split_key = key;
    }
  }

  void read_soft_split(const catalog::Family& family) {
    const std::string& key = family.soft_split_annotation;
    const std::string* text = key.empty() ? nullptr : value(key);
    if (text == nullptr || text->empty() || contains(out_.modes.soft_split, key) || !told_.insert(key).second) return;
    if (*text == family.soft_split_value) {
      out_.modes.soft_split.push_back(key);
    } else {
      refuse(key, fmt::format("\"{}\" is no mode that Heddle knows; write {} for a soft share, or remove it for the "
                              "hardware's templates",
                              *text, family.soft_split_value));
    }
  }

  const Requests& rules_;
  const Annotations& annotations_;
  std::vector<Refusal>& refusals_;
  std::vector<std::string>& warnings_;
  std::set<std::string> told_;
  Wishes out_;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return c < 128 ? static_cast<char>(std::tolower(c)) : static_cast<char>(c); });
  return text;
}

}  // namespace

bool has_misplaced_resource(const Requests& rules, const Annotations& annotations) {
  return std::any_of(annotations.begin(), annotations.end(),
                     [&](const auto& entry) { return misplaced(rules, entry.first, entry.second); });
}

Wishes read_annotations(const Requests& rules, const Annotations& annotations, const std::set<std::string>& vendors,
                        std::vector<Refusal>& refusals, std::vector<std::string>& warnings) {
  return AnnotationReader(rules, annotations, refusals, warnings).run(vendors);
}

std::vector<Selector> restrictions(const RequestVendor& vendor, const catalog::Restrictions& own,
                                   const Annotations& annotations, Ask::Kind kind) {
  std::vector<Selector> out;
  const auto each = [&](const std::vector<std::string>& keys, Selector::Op op) {
    for (const std::string& key : keys) {
      const auto it = annotations.find(key);
      if (it == annotations.end()) continue;
      Selector selector;
      selector.op = op;
      selector.values = items_of(it->second);
      if (selector.values.empty()) continue;
      const bool types = op == Selector::Op::kContainsAny || op == Selector::Op::kContainsNone;
      const bool part = kind == Ask::Kind::kPartition || kind == Ask::Kind::kTemplate;
      selector.attribute = types ? "model" : (part ? "parentUUID" : "uuid");
      if (types) {
        // The dialect's own names of products begin with this; the driver's do not.
        const std::string prefix = lower(vendor.type_prefix);
        for (std::string& item : selector.values) {
          item = lower(item);
          if (!prefix.empty() && item.starts_with(prefix)) selector.prefix = vendor.type_prefix;
        }
      }
      out.push_back(std::move(selector));
    }
  };
  for (const catalog::Restrictions* lists : {&vendor.restrictions, &own}) {
    each(lists->use_type, Selector::Op::kContainsAny);
    each(lists->nouse_type, Selector::Op::kContainsNone);
    each(lists->use_uuid, Selector::Op::kIn);
    each(lists->nouse_uuid, Selector::Op::kNotIn);
  }
  return out;
}

std::string restriction_words(const Selector& selector) {
  const std::string list = fmt::format("{}", fmt::join(selector.values, ", "));
  const char* of = selector.attribute == "parentUUID" ? "cards" : "devices";
  switch (selector.op) {
    case Selector::Op::kContainsAny:
      return "only product names with " + list;
    case Selector::Op::kContainsNone:
      return "no product name with " + list;
    case Selector::Op::kNotIn:
      return fmt::format("none of the {} {}", of, list);
    default:
      return fmt::format("only the {} {}", of, list);
  }
}

void check_chosen(const RequestVendor& vendor, const Annotations& annotations, const Ask& ask,
                  const std::string& container, std::vector<Refusal>& refusals) {
  for (const catalog::ChosenAnnotation& chosen : vendor.chosen) {
    const auto it = annotations.find(chosen.key);
    if (!chosen.one_device_only || it == annotations.end() || it->second.empty() || ask.count < 2) continue;
    refusals.push_back(
        {field(chosen.key), fmt::format("it holds for one device only, and container {} asks for {}; ask for 1, "
                                        "or remove the annotation",
                                        container, ask.count)});
  }
}

}  // namespace heddle::dialects
