#include "dialects/container.h"

#include <fmt/format.h>

#include <algorithm>

#include "dialects/family.h"
#include "dialects/wire_names.h"

namespace heddle::dialects {
namespace {

using catalog::Requests;

// "heddle" -> "", "heddle-nvidia" -> "nvidia"; nothing for classes that are not named like ours.
std::optional<std::string> class_word(std::string_view resource) {
  if (!resource.starts_with(kClassResource)) return std::nullopt;
  resource.remove_prefix(kClassResource.size());
  if (resource == kAnyClass) return std::string();
  if (!resource.starts_with(kAnyClass) || resource[kAnyClass.size()] != '-') return std::nullopt;
  return std::string(resource.substr(kAnyClass.size() + 1));
}

std::set<std::string> keys_of(const Resources& resources) {
  std::set<std::string> keys;
  for (const auto* list : {&resources.limits, &resources.requests}) {
    for (const auto& [key, value] : *list) keys.insert(key);
  }
  return keys;
}

class ContainerReader {
 public:
  ContainerReader(const Requests& rules, const Resources& resources, const Annotations& annotations,
                  const Wishes& wishes, std::vector<Refusal>& refusals)
      : rules_(rules),
        annotations_(annotations),
        wishes_(wishes),
        refusals_(refusals),
        resources_(resources),
        reader_(resources, refusals) {}

  ContainerAsk run() {
    const std::set<std::string> keys = keys_of(resources_);
    std::vector<const catalog::Family*> families;
    for (const std::string& key : keys) {
      const Requests::Owner owner = rules_.owner(key);
      if (owner.family != nullptr) {
        if (std::find(families.begin(), families.end(), owner.family) == families.end())
          families.push_back(owner.family);
      } else if (owner.partition != nullptr) {
        take(read_partition(*owner.partition, key, modes(*owner.vendor), reader_), owner.vendor, {});
      } else if (const auto word = class_word(key); word) {
        take(read_class(*word, key), rules_.find_vendor(*word), {});
      } else if (owner.refused != nullptr) {
        reader_.refuse(key, fmt::format("{}; write {}", owner.refused->why, owner.refused->write));
      } else if (owner.unknown()) {
        reader_.refuse(key, fmt::format("unknown resource; the nearest known one is {}", rules_.nearest_key(key)));
      }
    }
    for (const catalog::Family* family : families) {
      const catalog::RequestVendor* vendor = rules_.find_vendor(family->vendor);
      Understood understood = read_family(*family, modes(*vendor), reader_);
      if (understood.ask) check_group(*family);
      take(std::move(understood), vendor, family->restrictions);
    }
    finish();
    return std::move(out_);
  }

 private:
  [[nodiscard]] Modes modes(const catalog::RequestVendor& vendor) const {
    Modes modes = wishes_.modes;
    if (!vendor.mode.empty()) {
      modes.split = wishes_.split;
      modes.split_key = wishes_.split_key;
      modes.parts = &vendor.parts;
    }
    return modes;
  }

  Understood read_class(const std::string& word, const std::string& key) {
    const size_t before = reader_.refused();
    reader_.check_agreement(key);
    const std::optional<int64_t> count = reader_.number(key, {});
    if (!word.empty() && rules_.find_vendor(word) == nullptr)
      reader_.refuse(key, "Heddle has no such DeviceClass; write a ResourceClaim for a class of your own");
    if (count.value_or(0) > kMaxDevices) {
      reader_.refuse(
          key, fmt::format("{} devices for one container; a ResourceClaim holds at most {}", *count, kMaxDevices));
    }
    Understood out;
    if (reader_.refused() != before || *count == 0) return out;
    Ask ask;
    ask.name = "device";
    ask.vendor = word;
    ask.count = *count;
    out.remove.push_back(key);
    out.explanation = fmt::format("DeviceClass: {}={}: {}", key, *count,
                                  describe(ask, word.empty() ? "device" : rules_.find_vendor(word)->title + " device"));
    out.ask = std::move(ask);
    return out;
  }

  // The same cards in two dialects: two requests, or one written twice?
  void check_group(const catalog::Family& family) {
    if (family.group.empty()) return;
    const auto [it, fresh] = groups_.emplace(family.vendor + "/" + family.group, &family);
    if (fresh) return;
    const std::string name = family.count.empty() ? family.memory->keys.front() : family.count.front();
    const catalog::Family& other = *it->second;
    const std::string other_name = other.count.empty() ? other.memory->keys.front() : other.count.front();
    for (const std::string& key : keys_of(resources_)) {
      if (rules_.owner(key).family != &family) continue;
      reader_.refuse(key,
                     fmt::format("asks for the same kind of device as {} in another way; write only one of {} and {}",
                                 other_name, name, other_name));
      return;
    }
  }

  void take(Understood understood, const catalog::RequestVendor* vendor, const catalog::Restrictions& own) {
    out_.remove.insert(out_.remove.end(), understood.remove.begin(), understood.remove.end());
    out_.warnings.insert(out_.warnings.end(), understood.warnings.begin(), understood.warnings.end());
    if (!understood.ask) return;
    Ask ask = std::move(*understood.ask);
    if (vendor != nullptr) {
      for (Selector& selector : restrictions(*vendor, own, annotations_, ask.kind)) {
        understood.explanation += "; " + restriction_words(selector);
        ask.selectors.push_back(std::move(selector));
      }
      check_chosen(*vendor, annotations_, ask, resources_.container, refusals_);
      understood.explanation += passed_on(*vendor);
    }
    const auto taken = [&](const std::string& name) {
      return std::any_of(out_.form.asks.begin(), out_.form.asks.end(),
                         [&](const Ask& other) { return other.name == name; });
    };
    const std::string base = ask.name;
    for (int i = 2; taken(ask.name); ++i) ask.name = fmt::format("{}-{}", base, i);
    out_.explanations.push_back(std::move(understood.explanation));
    for (std::string& rounding : understood.roundings) out_.roundings.push_back(std::move(rounding));
    out_.environment.merge(understood.environment);
    out_.form.asks.push_back(std::move(ask));
  }

  // Wishes that the pod keeps for the vendor's driver.
  [[nodiscard]] std::string passed_on(const catalog::RequestVendor& vendor) const {
    std::string out;
    const auto add = [&](const std::string& key, std::string_view meaning) {
      const auto it = annotations_.find(key);
      if (it != annotations_.end() && !it->second.empty()) out += fmt::format("; {}={}: {}", key, it->second, meaning);
    };
    for (const catalog::ChosenAnnotation& chosen : vendor.chosen) add(chosen.key, chosen.meaning);
    for (const std::string& key : vendor.kept) add(key, "a wish, passed on");
    return out;
  }

  void finish() {
    int64_t devices = 0;
    std::set<std::string> vendors;
    for (const Ask& ask : out_.form.asks) {
      devices += ask.count;
      vendors.insert(ask.vendor);
    }
    if (devices > kMaxDevices) {
      refusals_.push_back(
          {resources_.path, fmt::format("container {} asks for {} devices; a ResourceClaim holds at most {}",
                                        resources_.container, devices, kMaxDevices)});
    }
    for (const std::string& vendor : wishes_.one_numa_node) {
      if (!vendors.contains(vendor) || devices < 2) continue;
      if (vendors.size() > 1) {
        refusals_.push_back(
            {resources_.path, fmt::format("container {} asks for devices of several vendors, and only those of "
                                          "{} shall be on one NUMA node; use a container for each",
                                          resources_.container, vendor)});
      }
      out_.form.one_numa_node = true;
      for (std::string& explanation : out_.explanations) explanation += "; all of the container on one NUMA node";
    }
  }

  const Requests& rules_;
  const Annotations& annotations_;
  const Wishes& wishes_;
  std::vector<Refusal>& refusals_;
  const Resources& resources_;
  AmountReader reader_;
  std::map<std::string, const catalog::Family*> groups_;
  ContainerAsk out_;
};

}  // namespace

bool asks_for_device(const Requests& rules, std::string_view resource) {
  return rules.owner(resource).vendor != nullptr || class_word(resource).has_value();
}

std::set<std::string> vendors_of(const Requests& rules, const Resources& resources) {
  std::set<std::string> out;
  for (const std::string& key : keys_of(resources)) {
    if (const auto* vendor = rules.owner(key).vendor; vendor != nullptr) out.insert(vendor->name);
    if (const auto word = class_word(key); word) out.insert(*word);
  }
  return out;
}

ContainerAsk read_container(const Requests& rules, const Resources& resources, const Annotations& annotations,
                            const Wishes& wishes, std::vector<Refusal>& refusals) {
  return ContainerReader(rules, resources, annotations, wishes, refusals).run();
}

void restrict(const Requests& rules, const Annotations& annotations, const Wishes& wishes, Ask& ask) {
  const catalog::RequestVendor* vendor = rules.find_vendor(ask.vendor);
  if (vendor == nullptr) return;
  if (wishes.split == "hami-core") ask.selectors.push_back({Selector::Op::kEquals, "isolation", {"soft"}, "soft", ""});
  for (Selector& selector : restrictions(*vendor, {}, annotations, ask.kind))
    ask.selectors.push_back(std::move(selector));
  if (wishes.modes.alone && ask.kind == Ask::Kind::kShare && ask.cores == 0) ask.cores = 100;
}

}  // namespace heddle::dialects
