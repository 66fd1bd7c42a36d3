// Resource names that stand for ready-made partitions.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dialects/family.h"

namespace heddle::dialects {
namespace {

// Digits from the front; empty when there are none, or more than a profile ever has.
std::string_view take_digits(std::string_view& text) {
  size_t n = 0;
  while (n < text.size() && text[n] >= '0' && text[n] <= '9') ++n;
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return n > 4 || (n > 1 && digits.front() == '0') ? std::string_view() : digits;
}

bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

// 1g.5gb, 1g.5gb.me, 1g.12gb.me.all: resource names cannot have the "+" of the profile, and write "." for it.
std::optional<std::string> mig_profile(std::string_view rest) {
  const std::string_view all = rest;
  if (take_digits(rest).empty() || !take(rest, "g.")) return std::nullopt;
  if (take_digits(rest).empty() || !take(rest, "gb")) return std::nullopt;
  std::string base(all.substr(0, all.size() - rest.size()));
  if (rest.empty()) return base;
  for (const std::string_view attribute : {".me", ".me.all", ".gfx"}) {
    if (rest == attribute) return base + "+" + std::string(attribute.substr(1));
  }
  return rest == "-me" ? std::optional(base + "-me") : std::nullopt;
}

// 2m.8gb
std::optional<std::string> mim_profile(std::string_view rest) {
  const std::string profile(rest);
  if (take_digits(rest).empty() || !take(rest, "m.")) return std::nullopt;
  return !take_digits(rest).empty() && rest == "gb" ? std::optional(profile) : std::nullopt;
}

// cpx_nps4
std::optional<std::string> amd_mode(std::string_view name) {
  constexpr std::array<std::string_view, 5> kCompute = {"spx_nps", "dpx_nps", "tpx_nps", "qpx_nps", "cpx_nps"};
  for (const std::string_view compute : kCompute) {
    if (!name.starts_with(compute)) continue;
    const std::string_view memory = name.substr(compute.size());
    if (memory == "1" || memory == "2" || memory == "4" || memory == "8") return std::string(name);
  }
  return std::nullopt;
}

// 2c, 4c.3cpu, 5c.1cpu.16g -> vir02, vir04_3c, vir05_1c_16g
std::optional<std::string> ascend_template(std::string_view rest) {
  const std::string_view cores = take_digits(rest);
  if (cores.empty() || cores.size() > 2 || !take(rest, "c")) return std::nullopt;
  std::string name = fmt::format("vir{:0>2}", cores);
  if (rest.empty()) return name;
  if (!take(rest, ".")) return std::nullopt;
  std::string_view number = take_digits(rest);
  if (number.empty()) return std::nullopt;
  if (take(rest, "cpu")) {
    name += fmt::format("_{}c", number);
    if (rest.empty()) return name;
    if (!take(rest, ".")) return std::nullopt;
    number = take_digits(rest);
  }
  if (number.empty() || rest != "g") return std::nullopt;
  return name + fmt::format("_{}g", number);
}

}  // namespace

std::optional<std::string> partition_profile(const std::string& rule, std::string_view key, std::string_view prefix) {
  if (rule == "mig") return mig_profile(key.substr(prefix.size()));
  if (rule == "mim") return mim_profile(key.substr(prefix.size()));
  if (rule == "ascend-template") return ascend_template(key.substr(prefix.size()));
  if (rule == "amd-mode") return amd_mode(key.substr(key.find('/') + 1));
  return std::nullopt;
}

Understood read_partition(const catalog::PartitionFamily& family, const std::string& key, const Modes& modes,
                          const AmountReader& reader) {
  const size_t before = reader.refused();
  reader.check_agreement(key);
  const std::optional<int64_t> count = reader.number(key, {});
  const auto prefix = std::find_if(family.prefixes.begin(), family.prefixes.end(),
                                   [&](const std::string& start) { return key.starts_with(start); });
  const std::optional<std::string> profile =
      prefix == family.prefixes.end() ? std::nullopt : partition_profile(family.rule, key, *prefix);
  if (!profile) {
    reader.refuse(key, fmt::format("no {} has this name", family.noun));
  }
  if (count.value_or(0) > kMaxDevices) {
    reader.refuse(key,
                  fmt::format("{} devices for one container; a ResourceClaim holds at most {}", *count, kMaxDevices));
  }
  if ((modes.split == "hami-core" || modes.split == "mps") && count.value_or(0) > 0) {
    reader.refuse(key,
                  fmt::format("{}: {} asks for shares of cards, and this is a hard partition; leave one of the two "
                              "out",
                              modes.split_key, modes.split));
  }
  Understood out;
  if (reader.refused() != before || *count == 0) return out;
  Ask ask;
  ask.name = family.request;
  ask.vendor = family.vendor;
  ask.kind = Ask::Kind::kPartition;
  ask.count = *count;
  if (!family.model_prefixes.empty())
    ask.selectors.push_back({Selector::Op::kStartsWithAny, "model", family.model_prefixes, "", ""});
  ask.selectors.push_back({Selector::Op::kEquals, "profile", {*profile}, "", ""});
  out.remove.push_back(key);
  out.explanation = fmt::format("{}: {}={}: {}", family.dialect, key, *reader.text(key), describe(ask, family.noun));
  out.ask = std::move(ask);
  return out;
}

}  // namespace heddle::dialects
