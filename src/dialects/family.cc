#include "dialects/family.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::dialects {
namespace {

using catalog::Family;

constexpr int64_t kMebibyte = int64_t{1} << 20;

std::string unit_word(int64_t bytes) {
  if (bytes == kMebibyte) return "MiB";
  if (bytes == kMebibyte * 1024) return "GiB";
  return fmt::format("{} MiB", bytes / kMebibyte);
}

// What is written, with the key that says it; a value without a key is not written.
struct Amount {
  std::string key;
  std::optional<int64_t> value;
  [[nodiscard]] int64_t or_zero() const { return value.value_or(0); }
};

struct Amounts {
  Amount count, memory, percent, cores, priority;  // memory in the family's unit; MiB where suffixes are bytes
  [[nodiscard]] bool any() const { return memory.or_zero() > 0 || percent.or_zero() > 0 || cores.or_zero() > 0; }
  // The first of memory, percent and cores that is above 0.
  [[nodiscard]] const Amount& first() const {
    if (memory.or_zero() > 0) return memory;
    return percent.or_zero() > 0 ? percent : cores;
  }
};

// One family in one container: the steps from amounts to an ask, each of which may refuse.
class FamilyReader {
 public:
  FamilyReader(const Family& family, const Modes& modes, const AmountReader& reader)
      : family_(family), modes_(modes), reader_(reader), before_(reader.refused()) {}

  Understood run();

 private:
  void read_amounts();
  void check_ranges();
  void check_several();
  void choose_memory();
  void choose_kind();
  void choose_units();
  void choose_hard_split();
  void choose_modules();
  void choose_mode();
  void choose_part();
  void choose_mps();
  void be_alone();
  void fill_environment();
  void choose_priority();
  void finish();
  Understood without_device();
  Amount read(const std::vector<std::string>& names, AmountReader::Unit unit);
  [[nodiscard]] bool failed() const { return reader_.refused() != before_; }
  void refuse(const Amount& amount, std::string_view message) const { reader_.refuse(amount.key, message); }
  // States what is granted in place of what was asked.
  void round(std::string what) { out_.roundings.push_back(std::move(what)); }
  [[nodiscard]] std::string count_name() const { return family_.count.empty() ? "" : family_.count.front(); }
  [[nodiscard]] bool soft_split() const;

  const Family& family_;
  const Modes& modes_;
  const AmountReader& reader_;
  size_t before_;
  Amounts amounts_;
  Ask ask_;
  Understood out_;
};

Amount FamilyReader::read(const std::vector<std::string>& names, AmountReader::Unit unit) {
  Amount out;
  out.key = reader_.written(names);
  if (out.key.empty()) return out;
  for (const std::string& name : names) reader_.check_agreement(name);
  out.value = reader_.number(out.key, unit);
  return out;
}

void FamilyReader::read_amounts() {
  amounts_.count = read(family_.count, {});
  if (family_.memory && family_.memory->suffix_is_bytes) {
    amounts_.memory.key = reader_.written(family_.memory->keys);
    reader_.check_agreement(amounts_.memory.key);
    amounts_.memory.value = reader_.mebibytes(amounts_.memory.key, family_.memory->unit_bytes);
  } else if (family_.memory) {
    const std::string word = unit_word(family_.memory->unit_bytes);
    amounts_.memory = read(family_.memory->keys, {word, family_.memory->unit_bytes});
  }
  amounts_.percent = read(family_.percent, {});
  if (family_.cores) amounts_.cores = read(family_.cores->keys, {});
  amounts_.priority = read(family_.priority, {});
}

void FamilyReader::check_ranges() {
  const auto& [count, memory, percent, cores, priority] = amounts_;
  const bool none = count.value && *count.value == 0;
  // Families without a count ask for a device by these alone.
  const bool some = family_.count.empty() || (count.value && !none);
  if (percent.or_zero() > 100) {
    refuse(percent, fmt::format("{} % is more than a whole card; write 1 to 100", *percent.value));
  } else if (percent.value && *percent.value == 0 && !none) {
    refuse(percent, "0 % of a card is no memory at all; write 1 to 100, or leave the key out for a whole card");
  }
  if (cores.value && family_.cores) {
    const auto [from, to] = std::pair{family_.cores->from, family_.cores->to};
    // What the dialect's own webhook writes for several whole cards: their sum.
    const bool sum = family_.several == catalog::Several::kWholeOnly && count.or_zero() > 1 &&
                     *cores.value == to * std::min(*count.value, kMaxDevices);
    if (*cores.value > to && !sum) {
      refuse(cores,
             fmt::format("{} is more than a whole card, which has {}; write {} to {}", *cores.value, to, from, to));
    } else if (*cores.value < from && some) {
      refuse(cores, fmt::format("{} is too little; write {} to {}, or leave the key out", *cores.value, from, to));
    }
  }
  if (priority.or_zero() > 1) refuse(priority, "write 0 (high) or 1 (low)");
  if (memory.or_zero() > 0 && percent.or_zero() > 0)
    refuse(percent, fmt::format("given together with {}; write only one of the two", memory.key));
  if (memory.value && *memory.value == 0 && some && !family_.memory->zero_is_unset)
    refuse(memory, "0 is no memory at all; write more, or leave the key out for all memory of the card");
}

// A count above 1 beside memory or cores, where the dialect knows whole cards only.
void FamilyReader::check_several() {
  const auto& [count, memory, percent, cores, priority] = amounts_;
  if (count.or_zero() > kMaxDevices) {
    refuse(count,
           fmt::format("{} devices for one container; a ResourceClaim holds at most {}", *count.value, kMaxDevices));
    return;
  }
  if (count.or_zero() < 2 || family_.several == catalog::Several::kShares) return;
  const int64_t n = *count.value;
  const auto says_whole = [&](const Amount& amount, int64_t all) {
    return family_.several == catalog::Several::kWholeOnly && all > 0 &&
           (amount.or_zero() == all || amount.or_zero() == all * n);
  };
  const int64_t all_memory = family_.memory && !family_.memory->values.empty() ? family_.memory->values.back() : 0;
  const int64_t all_cores = family_.cores ? family_.cores->to : 0;
  for (const auto& [amount, all] : {std::pair{&memory, all_memory}, std::pair{&cores, all_cores}}) {
    if (amount->value && !says_whole(*amount, all)) {
      refuse(*amount, fmt::format("{} cards ({}) are whole cards in this dialect, and a part of each has no meaning; "
                                  "write {}: 1, or leave this key out",
                                  n, count.key, count.key));
    }
  }
  amounts_.memory.value.reset();
  amounts_.cores.value.reset();
}

void FamilyReader::choose_memory() {
  const Amount& memory = amounts_.memory;
  if (memory.or_zero() == 0) return;
  const catalog::MemoryKey& rule = *family_.memory;
  const int64_t units = *memory.value;
  if (!rule.values.empty() && std::find(rule.values.begin(), rule.values.end(), units) == rule.values.end()) {
    refuse(memory, fmt::format("{} is none of the sizes that the hardware has; write one of {} (units of {})", units,
                               fmt::join(rule.values, ", "), unit_word(rule.unit_bytes)));
    return;
  }
  const int64_t unit_mib = rule.suffix_is_bytes ? 1 : rule.unit_bytes / kMebibyte;
  if (units > kMaxUnits / unit_mib || units > kMaxUnits / ask_.count) {
    refuse(memory, fmt::format("{} devices of {} x {} are more than {}", ask_.count, units,
                               rule.suffix_is_bytes ? "MiB" : unit_word(rule.unit_bytes), kMaxUnits));
    return;
  }
  ask_.memory_mib = units * unit_mib;
  if (rule.steps.empty()) return;
  const auto step = std::find_if(rule.steps.begin(), rule.steps.end(),
                                 [&](const catalog::MemoryStep& one) { return one.units >= units; });
  if (step == rule.steps.end()) {
    refuse(memory, fmt::format("{} {} is more than the largest part, {}; write that or less", units,
                               unit_word(rule.unit_bytes), rule.steps.back().units));
    return;
  }
  ask_.memory_mib = step->units * unit_mib;
  ask_.kind = Ask::Kind::kShare;
  ask_.cores = step->cores;
  if (step->units != units) {
    round(fmt::format("{}: {} asked, {} granted, the next size that the hardware has, with {} % of the compute",
                      memory.key, units, step->units, step->cores));
  }
}

// Whole, or a share with its cores.
void FamilyReader::choose_kind() {
  if (ask_.kind == Ask::Kind::kShare) return;  // a step chose the cores already
  const Amount& cores = amounts_.cores;
  const bool memory = ask_.memory_mib > 0;
  const int64_t percent = amounts_.percent.or_zero();
  const int64_t to = family_.cores ? family_.cores->to : 100;
  const bool part_of_cores = cores.or_zero() > 0 && *cores.value < to;
  if (family_.one_whole_without_memory && !memory && part_of_cores) {
    refuse(cores, fmt::format("without {} the dialect gives the whole card, whatever this says; write {} too, or "
                              "leave this key out",
                              family_.memory->keys.front(), family_.memory->keys.front()));
    return;
  }
  if (percent > 0 && percent < 100) ask_.percent = percent;
  if (!memory && ask_.percent == 0 && !part_of_cores) return;
  ask_.kind = Ask::Kind::kShare;
  if (cores.value) {
    ask_.cores = (*cores.value * 100 + to - 1) / to;
    if (*cores.value * 100 % to != 0) {
      round(fmt::format("{}: {} of {} asked, {} % granted, rounded up to whole percent", cores.key, *cores.value, to,
                        ask_.cores));
    }
    return;
  }
  const catalog::DefaultCores rule = family_.cores ? family_.cores->default_cores : catalog::DefaultCores::kNone;
  const bool all = rule == catalog::DefaultCores::kAll || (rule == catalog::DefaultCores::kAllWithoutMemory && !memory);
  ask_.cores = all ? 100 : 0;
}

// Counts of something else than devices.
void FamilyReader::choose_units() {
  const int64_t n = amounts_.count.or_zero();
  if (family_.count_is_slices) {
    ask_.kind = Ask::Kind::kPartition;
    ask_.count = 1;
    ask_.selectors.push_back({Selector::Op::kEquals, "profile", {fmt::format("{}g", n)}, "", ""});
    return;
  }
  const int64_t per = family_.units_per_device;
  if (per == 1) return;
  if (n == 1) {
    ask_.kind = Ask::Kind::kShare;
    ask_.percent = 100 / per;
    ask_.cores = 100 / per;
  } else if (n % per == 0) {
    ask_.count = n / per;
  } else {
    refuse(
        amounts_.count,
        fmt::format("{} is no whole number of devices, which have {} each; write 1, or a multiple of {}", n, per, per));
  }
}

bool FamilyReader::soft_split() const {
  return std::find(modes_.soft_split.begin(), modes_.soft_split.end(), family_.soft_split_annotation) !=
         modes_.soft_split.end();
}

// Hardware that only templates divide.
void FamilyReader::choose_hard_split() {
  const catalog::HardSplit& split = *family_.hard_split;
  const Amount& memory = amounts_.memory;
  const int64_t asked = ask_.memory_mib;
  if (asked > split.capacity_mib) {
    refuse(memory, fmt::format("{} MiB is more than one {} has, {} MiB", asked, family_.noun, split.capacity_mib));
    return;
  }
  if (soft_split()) {
    if (asked > 0 && ask_.count > 1) {
      refuse(memory, fmt::format("{} NPUs with memory in the soft split: documents say it is their sum, the code says "
                                 "each; write {}: 1",
                                 ask_.count, amounts_.count.key));
    }
    if (ask_.kind == Ask::Kind::kShare)
      ask_.selectors.push_back({Selector::Op::kEquals, "isolation", {"soft"}, "soft", ""});
    return;
  }
  if (amounts_.cores.value) {
    refuse(amounts_.cores,
           fmt::format("cores are chosen by the template; leave this key out, or annotate the pod with {}: {}",
                       family_.soft_split_annotation, family_.soft_split_value));
    return;
  }
  ask_.kind = Ask::Kind::kWhole;
  ask_.memory_mib = 0;
  if (asked == 0) return;
  const auto found = std::find_if(split.templates.begin(), split.templates.end(),
                                  [&](const catalog::Template& one) { return one.mib >= asked; });
  if (found == split.templates.end()) {
    if (asked != split.whole_mib)
      round(fmt::format("{}: {} MiB asked, a whole NPU with {} MiB granted, because no template is as large",
                        memory.key, asked, split.whole_mib));
    return;
  }
  if (ask_.count > 1) {
    refuse(memory,
           fmt::format("a vNPU is a part of one NPU, and {} are asked with {} MiB each; write {}: 1, or leave this "
                       "key out for whole NPUs",
                       ask_.count, asked, amounts_.count.key));
    return;
  }
  ask_.kind = Ask::Kind::kTemplate;
  ask_.memory_mib = found->mib;
  ask_.cores = 0;  // the template's
  ask_.selectors.push_back({Selector::Op::kEquals, "profile", {found->name}, found->name, ""});
  if (found->mib != asked)
    round(fmt::format("{}: {} MiB asked, {} MiB granted, template {} with {} of {} AI cores", memory.key, asked,
                      found->mib, found->name, found->cores, split.cores));
}

void FamilyReader::choose_modules() {
  const int64_t per = family_.devices_per_module;
  if (per == 1 || ask_.kind != Ask::Kind::kWhole) return;
  if (ask_.count == 1) {
    ask_.count = per;
    round(fmt::format("{}: 1 asked, {} granted, all of a module", amounts_.count.key, per));
  } else if (ask_.count % per != 0) {
    refuse(amounts_.count,
           fmt::format("{} is no whole number of modules, which have {} each; write 1 or a multiple of {}", ask_.count,
                       per, per));
  }
}

// Isolation is no preference: who names a kind of it gets that kind.
void FamilyReader::choose_mode() {
  if (modes_.split == "hami-core" && ask_.kind == Ask::Kind::kShare)
    ask_.selectors.push_back({Selector::Op::kEquals, "isolation", {"soft"}, "soft", ""});
  if (modes_.split == "mig") choose_part();
  if (modes_.split == "mps") choose_mps();
}

// MPS holds one percentage of the SMs for all that a process has, which runs beside others on them: nothing is lent.
void FamilyReader::choose_mps() {
  const bool part = ask_.kind == Ask::Kind::kShare && ask_.cores > 0 && ask_.cores < 100;
  if (!part) {
    const Amount& named = amounts_.cores.value ? amounts_.cores : amounts_.any() ? amounts_.first() : amounts_.count;
    refuse(named, fmt::format("{}: mps holds a part of the SMs; write {} of 1 to 99, or hami-core in place of mps",
                              modes_.split_key, family_.cores ? family_.cores->keys.front() : "nvidia.com/gpucores"));
  } else if (amounts_.priority.or_zero() == 1) {
    refuse(amounts_.priority, fmt::format("{}: under mps nobody gives way; leave it out, or write hami-core in place "
                                          "of mps",
                                          modes_.split_key));
  }
  ask_.mps = true;
}

// Memory is a minimum: of each model the smallest part that holds it; cores follow from the part.
void FamilyReader::choose_part() {
  const Amount& named = amounts_.any() ? amounts_.first() : amounts_.count;
  if (ask_.memory_mib == 0 || amounts_.cores.value) {
    const Amount& wrong = amounts_.cores.value ? amounts_.cores : named;
    refuse(wrong,
           fmt::format("{}: mig chooses a partition by its memory alone, and its cores follow; write {} and nothing "
                       "else, or a partition by name, such as nvidia.com/mig-1g.10gb: 1",
                       modes_.split_key, family_.memory ? family_.memory->keys.front() : "the memory"));
    return;
  }
  Selector pairs{Selector::Op::kPairIn, "model", {}, "", ""};
  for (const catalog::ModelParts& model : *modes_.parts) {
    const auto part = std::find_if(model.parts.begin(), model.parts.end(),
                                   [&](const catalog::ModelParts::Part& one) { return one.mib >= ask_.memory_mib; });
    if (part == model.parts.end()) continue;
    for (const std::string& product : model.products) pairs.values.push_back(product + "|" + part->profile);
  }
  if (pairs.values.empty()) {
    refuse(named, fmt::format("no MIG partition of a known model has {} MiB; write less, or remove the annotation {}",
                              ask_.memory_mib, modes_.split_key));
    return;
  }
  round(fmt::format("{}: {} MiB asked, the smallest MIG partition of the card that holds it granted", named.key,
                    ask_.memory_mib));
  ask_.kind = Ask::Kind::kPartition;
  ask_.memory_mib = 0;
  ask_.cores = 0;
  ask_.different_cards = ask_.count > 1;
  ask_.selectors.push_back(std::move(pairs));
}

void FamilyReader::be_alone() {
  if (!modes_.alone || ask_.kind == Ask::Kind::kWhole) return;
  const std::string_view key = amounts_.cores.value ? amounts_.cores.key : std::string_view();
  if (ask_.kind == Ask::Kind::kPartition || family_.hard_split || ask_.cores % 100 != 0) {
    const Amount& named = key.empty() ? amounts_.first() : amounts_.cores;
    refuse(
        named.key.empty() ? amounts_.count : named,
        fmt::format("{} asks for a card without other tenants, and this is a limited part of one; leave one of the two "
                    "out",
                    modes_.alone_key));
    return;
  }
  ask_.cores = 100;
  out_.warnings.push_back(
      fmt::format("{}: nobody else gets a part of the card (all of its compute is reserved)", modes_.alone_key));
}

Understood FamilyReader::without_device() {
  const Amounts& a = amounts_;
  for (const Amount* amount : {&a.memory, &a.percent, &a.cores}) {
    if (amount->or_zero() > 0)
      refuse(*amount, fmt::format("{} is 0, so no card can have this; write at least 1", a.count.key));
  }
  if (!a.count.value && a.priority.value) out_.warnings.push_back(a.priority.key + " without a device has no effect");
  // A literal 0 may stay; a priority is no device, and would keep the pod from ever being scheduled.
  if (a.priority.or_zero() > 0) out_.remove.push_back(a.priority.key);
  return std::move(out_);
}

void FamilyReader::fill_environment() {
  for (const auto& [name, value] : family_.environment) {
    if (value == "{priority}" && !amounts_.priority.value) continue;
    std::string text = value == "{priority}" ? std::to_string(amounts_.priority.or_zero()) : value;
    if (text == "{container}") text = reader_.container();
    out_.environment.emplace(name, std::move(text));
  }
}

// A whole device has no other tenants.
void FamilyReader::choose_priority() {
  const Amount& priority = amounts_.priority;
  if (!priority.value || ask_.kind != Ask::Kind::kShare) return;
  ask_.gives_way = *priority.value == 1;
  if (ask_.gives_way) return;
  round(
      fmt::format("{}: 0 (high) asked: the pod comes before those of the card that state 1, and is the equal of those "
                  "that state none, which are 1 in HAMi; state 1 on what is to give way",
                  priority.key));
  out_.warnings.push_back(out_.roundings.back());
}

void FamilyReader::finish() {
  for (const auto& [attribute, value] : family_.attributes)
    ask_.selectors.push_back({Selector::Op::kEquals, attribute, {value}, value, ""});
  if (!family_.models.empty()) {
    ask_.selectors.insert(ask_.selectors.begin(), {Selector::Op::kIn, "model", family_.models, "", ""});
  }
  if (!family_.model_prefixes.empty()) {
    ask_.selectors.insert(ask_.selectors.begin(),
                          {Selector::Op::kStartsWithAny, "model", family_.model_prefixes, "", ""});
  }
  std::string wrote;
  for (const Amount* amount :
       {&amounts_.count, &amounts_.memory, &amounts_.percent, &amounts_.cores, &amounts_.priority}) {
    if (amount->key.empty()) continue;
    out_.remove.push_back(amount->key);
    wrote += fmt::format("{}{}={}", wrote.empty() ? "" : ", ", amount->key, *reader_.text(amount->key));
  }
  choose_priority();
  fill_environment();
  out_.explanation = fmt::format("{}: {}: {}", family_.dialect, wrote, describe(ask_, family_.noun));
  for (const std::string& rounding : out_.roundings) out_.explanation += "; rounded: " + rounding;
  out_.ask = std::move(ask_);
}

Understood FamilyReader::run() {
  read_amounts();
  if (failed()) return {};
  check_ranges();
  if (failed()) return {};
  const Amount& count = amounts_.count;
  if ((count.value && *count.value == 0) || (!count.value && !amounts_.any())) return without_device();
  if (!count.value && family_.without_count == catalog::WithoutCount::kRefuse) {
    refuse(amounts_.first(), fmt::format("a part of how many devices? write {}: 1 too", count_name()));
    return {};
  }
  check_several();
  if (failed()) return {};
  ask_.name = family_.request;
  ask_.vendor = family_.vendor;
  ask_.count = count.value.value_or(1);
  for (const auto step : {&FamilyReader::choose_memory, &FamilyReader::choose_units, &FamilyReader::choose_kind}) {
    (this->*step)();
    if (failed()) return {};
  }
  if (family_.hard_split) choose_hard_split();
  choose_modules();
  choose_mode();
  be_alone();
  if (failed()) return {};
  finish();
  return std::move(out_);
}

}  // namespace

std::string describe(const Ask& ask, std::string_view noun) {
  const std::string devices = fmt::format("{} {}{}", ask.count, noun, ask.count == 1 ? "" : "s");
  if (ask.kind == Ask::Kind::kWhole) return devices + ", whole";
  const bool part = ask.kind == Ask::Kind::kPartition || ask.kind == Ask::Kind::kTemplate;
  if (part) {
    std::string profile;
    for (const Selector& selector : ask.selectors) {
      if (selector.attribute == "profile" && !selector.values.empty())
        profile = " of profile " + selector.values.front();
    }
    if (profile.empty()) {
      return fmt::format("{} hard partition{} of {}{}, the smallest that holds it", ask.count,
                         ask.count == 1 ? "" : "s", noun, ask.different_cards ? "s, each of a different card" : "");
    }
    const bool sized = ask.kind == Ask::Kind::kTemplate;
    return (sized ? fmt::format("a hard part of {}", devices) : devices) + profile +
           (sized ? fmt::format(", {} MiB", ask.memory_mib) : std::string());
  }
  std::string memory = "all memory";
  if (ask.memory_mib > 0) memory = fmt::format("{} MiB", ask.memory_mib);
  if (ask.percent > 0) memory = fmt::format("{} % of the memory", ask.percent);
  std::string compute = ask.cores == 0 ? "no limit on compute" : fmt::format("{} % of the compute", ask.cores);
  if (ask.mps) compute = fmt::format("{} % of the SMs by MPS", ask.cores);
  return fmt::format("{}{}: {} and {}{}", ask.count == 1 ? "a share of " : "shares of ", devices, memory, compute,
                     ask.count == 1 ? "" : ", each on a different card");
}

Understood read_family(const catalog::Family& family, const Modes& modes, const AmountReader& reader) {
  return FamilyReader(family, modes, reader).run();
}

}  // namespace heddle::dialects
