#include "tool/config.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include "state/mig.h"
#include "tool/fields.h"

namespace nvsim {
namespace {

const std::set<std::string> kModelFields = {"name",
                                            "architecture",
                                            "compute-capability",
                                            "sms",
                                            "memory",
                                            "reserved",
                                            "pci-device-id",
                                            "pci-subsystem-id",
                                            "part-number",
                                            "sm-clock",
                                            "memory-clock",
                                            "power-idle",
                                            "power-limit",
                                            "temperature-idle",
                                            "temperature-busy",
                                            "pcie-generation",
                                            "pcie-width",
                                            "nvlinks",
                                            "nvlink-version",
                                            "nvswitch",
                                            "ecc",
                                            "mig",
                                            "mig-profiles",
                                            "mig-reset",
                                            "context-overhead",
                                            "slice",
                                            "switch-cost",
                                            "gated-events",
                                            "concurrent-managed",
                                            "kernel"};
const std::set<std::string> kCardOnlyFields = {"model",          "count",         "uuid",         "serial",
                                               "minor",          "pci",           "numa",         "pcie-root",
                                               "pcie-switch",    "cpus",          "mig-mode",     "mig-instances",
                                               "fabric-cluster", "fabric-clique", "fabric-state", "fabric-status"};

struct Place {
  std::int64_t root = 0, pcie_switch = 0;
};

struct Draft {
  MachineConfig config;
  std::vector<Place> places;
  std::string identity;
  std::string folder;
};

template <std::size_t Size>
void copy_text(const Fields& fields, const std::string& key, char (&out)[Size], const std::string& text) {
  if (text.size() >= Size) {
    fields.fail(key, "is longer than " + std::to_string(Size - 1) + " characters");
  }
  std::copy(text.begin(), text.end(), out);
}

// A stable 64-bit hash: the same description gives the same UUIDs on every run.
std::uint64_t hash_text(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325ULL;
  for (const char character : text) {
    value = (value ^ static_cast<unsigned char>(character)) * 0x100000001b3ULL;
  }
  value ^= value >> 29U;
  value *= 0xbf58476d1ce4e5b9ULL;
  return value ^ value >> 32U;
}

std::string made_uuid(const std::string& identity, unsigned minor) {
  const std::uint64_t high = hash_text(identity + "/high/" + std::to_string(minor));
  const std::uint64_t low = hash_text(identity + "/low/" + std::to_string(minor));
  char text[48];
  std::snprintf(text, sizeof(text), "GPU-%08llx-%04llx-%04llx-%04llx-%012llx", high >> 32U & 0xffffffffULL,
                high >> 16U & 0xffffULL, high & 0xffffULL, low >> 48U & 0xffffULL, low & 0xffffffffffffULL);
  return text;
}

std::uint32_t architecture_number(const Fields& fields) {
  static const std::map<std::string, std::uint32_t> numbers = {{"volta", 5}, {"turing", 6}, {"ampere", 7},
                                                               {"ada", 8},   {"hopper", 9}, {"blackwell", 10}};
  const std::string name = fields.text("architecture", "hopper");
  const auto found = numbers.find(name);
  if (found == numbers.end()) {
    fields.fail("architecture", "'" + name + "' is unknown; write volta, turing, ampere, ada, hopper or blackwell");
  }
  return found->second;
}

void read_capability(const Fields& fields, CardConfig& card) {
  const std::string text = fields.text("compute-capability", "9.0");
  unsigned major = 0, minor = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%u.%u%c", &major, &minor, &rest) != 2) {
    fields.fail("compute-capability", "'" + text + "' is not a version; write it like \"9.0\"");
  }
  card.cc_major = major;
  card.cc_minor = minor;
}

MigProfile read_profile(const YAML::Node& node, const std::string& where) {
  const Fields fields(node, where);
  fields.only({"profile", "id", "name", "slices", "instances", "sms", "copy-engines", "decoders", "jpegs", "ofas",
               "memory", "starts", "size"});
  const auto small = [&](const char* key) { return static_cast<std::uint32_t>(fields.number(key, 0, 0, 1024)); };
  MigProfile profile = {};
  profile.profile = small("profile");
  profile.id = small("id");
  profile.slices = small("slices");
  profile.instances = small("instances");
  profile.multiprocessors = small("sms");
  profile.copy_engines = small("copy-engines");
  profile.decoders = small("decoders");
  profile.jpegs = small("jpegs");
  profile.ofas = small("ofas");
  profile.placement_size = small("size");
  profile.memory_mib = static_cast<std::uint64_t>(fields.bytes("memory", 0) >> 20);
  copy_text(fields, "name", profile.name, fields.text("name", ""));
  const YAML::Node starts = fields.node("starts");
  if (!starts || !starts.IsSequence()) {
    fields.fail("starts", "is not a list; write the memory slices where it may start, like [0, 4]");
  }
  for (const auto& start : starts) {
    const int at = start.as<int>(-1);
    if (at < 0 || at > 31) {
      fields.fail("starts", "holds a value outside 0..31");
    }
    profile.placement_mask |= 1U << static_cast<unsigned>(at);
  }
  return profile;
}

void read_profiles(const Fields& fields, const std::string& where, CardConfig& card) {
  const YAML::Node list = fields.node("mig-profiles");
  if (!list) {
    return;
  }
  if (!list.IsSequence() || list.size() > kMaxMigProfiles) {
    fields.fail("mig-profiles", "is not a list of at most " + std::to_string(kMaxMigProfiles) + " profiles");
  }
  for (std::size_t index = 0; index < list.size(); ++index) {
    card.mig_profiles[index] = read_profile(list[index], where + ".mig-profiles[" + std::to_string(index) + "]");
  }
  card.mig_profile_count = static_cast<std::uint32_t>(list.size());
}

// Cards on switches from Hopper on are registered with a fabric: that of their machine, or of a whole rack.
void read_fabric(const Fields& fields, CardConfig& card) {
  const bool registers = card.nvswitch != 0 && card.architecture >= 9;
  const std::string cluster = fields.text("fabric-cluster", "");
  const std::string state = fields.text("fabric-state", registers ? "completed" : "not-supported");
  static const std::map<std::string, std::uint32_t> states = {
      {"not-supported", 0}, {"not-started", 1}, {"in-progress", 2}, {"completed", 3}};
  const auto known = states.find(state);
  if (known == states.end()) {
    fields.fail("fabric-state",
                "'" + state + "' is unknown; write not-supported, not-started, in-progress or completed");
  }
  if (!registers && (!cluster.empty() || known->second != 0)) {
    fields.fail(cluster.empty() ? "fabric-state" : "fabric-cluster",
                "is for cards on switches from Hopper on; leave it out, or set nvswitch: true");
  }
  card.fabric_state = known->second;
  card.fabric_clique = static_cast<std::uint32_t>(fields.number("fabric-clique", 0, 0, 0xffffffffLL));
  card.fabric_status = static_cast<std::uint32_t>(fields.number("fabric-status", 0, 0, 999));
  if (cluster.empty()) {
    return;
  }
  std::string digits = cluster;
  digits.erase(std::remove(digits.begin(), digits.end(), '-'), digits.end());
  const bool uuid = cluster.size() == 36 && digits.size() == 32 &&
                    digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  if (!uuid) {
    fields.fail("fabric-cluster", "'" + cluster + "' is no UUID; write it like 6c1e0b4a-32f5-4d0c-9a52-0c7b8c1d2e3f");
  }
  for (std::size_t at = 0; at < sizeof(card.fabric_cluster); ++at) {
    card.fabric_cluster[at] = static_cast<std::uint8_t>(std::stoul(digits.substr(2 * at, 2), nullptr, 16));
  }
}

// "3g.40gb@4": what an administrator has made before.
void read_instances(const Fields& fields, CardState& state) {
  const YAML::Node list = fields.node("mig-instances");
  if (fields.flag("mig-mode", false) || list) {
    if (state.config.mig == 0) {
      fields.fail("mig-mode", "is set for a card that cannot be partitioned; leave it out or set mig: true");
    }
    state.mig.current = state.mig.pending = 1;
  }
  for (std::size_t index = 0; list && index < list.size(); ++index) {
    const std::string text = list[index].as<std::string>("");
    const std::size_t at = text.find('@');
    int made = -1;
    for (std::uint32_t profile = 0; profile < state.config.mig_profile_count && at != std::string::npos; ++profile) {
      if (text.substr(0, at) == state.config.mig_profiles[profile].name) {
        made = make_instance(state, profile, static_cast<std::uint32_t>(std::atoi(text.c_str() + at + 1)));
      }
    }
    if (made < 0) {
      fields.fail("mig-instances", "'" + text + "' fits no free place; write a profile and its first slice: 1g.10gb@3");
    }
    make_compute_instance(state, made, profile_of(state, made).slices, 0);
  }
}

void read_hardware(const Fields& fields, CardConfig& card) {
  const auto number = [&](const char* key, std::int64_t otherwise, std::int64_t low, std::int64_t high) {
    return static_cast<std::uint32_t>(fields.number(key, otherwise, low, high));
  };
  copy_text(fields, "name", card.name, fields.text("name", "NVIDIA Simulated GPU"));
  copy_text(fields, "part-number", card.part_number, fields.text("part-number", ""));
  card.architecture = architecture_number(fields);
  read_capability(fields, card);
  card.brand = 14;
  card.sms = number("sms", 132, 1, 4096);
  card.pci_device_id = number("pci-device-id", 0x233010de, 0, 0xffffffffLL);
  card.pci_subsystem_id = number("pci-subsystem-id", 0x16c110de, 0, 0xffffffffLL);
  card.sm_clock_mhz = number("sm-clock", 1980, 1, 100000);
  card.memory_clock_mhz = number("memory-clock", 2619, 1, 100000);
  card.power_idle_mw = static_cast<std::uint32_t>(fields.power("power-idle", 70'000));
  card.power_limit_mw = static_cast<std::uint32_t>(fields.power("power-limit", 700'000));
  card.temperature_idle = number("temperature-idle", 32, 0, 200);
  card.temperature_busy = number("temperature-busy", 67, 0, 200);
  card.pcie_generation = number("pcie-generation", 5, 1, 9);
  card.pcie_width = number("pcie-width", 16, 1, 16);
  card.nvlinks = number("nvlinks", 0, 0, 18);
  card.nvlink_version = number("nvlink-version", 4, 0, 9);
  card.nvswitch = fields.flag("nvswitch", false) ? 1 : 0;
  card.ecc = fields.flag("ecc", true) ? 1 : 0;
  card.mig = fields.flag("mig", false) ? 1 : 0;
  const std::string reset = fields.text("mig-reset", card.architecture == 7 ? "driver" : "none");
  if (reset != "none" && reset != "driver" && reset != "external") {
    fields.fail("mig-reset", "'" + reset + "' is unknown; write none, driver or external");
  }
  card.mig_reset = reset == "none" ? 0 : 1;
  card.mig_external = reset == "external" ? 1 : 0;
  card.memory_bytes = static_cast<std::uint64_t>(fields.bytes("memory", 80LL << 30));
  card.memory_reserved_bytes = static_cast<std::uint64_t>(fields.bytes("reserved", 0));
  card.context_bytes = static_cast<std::uint64_t>(fields.bytes("context-overhead", 300LL << 20));
  card.slice_ns = fields.duration("slice", 2'000'000);
  card.switch_ns = fields.duration("switch-cost", 50'000);
  card.gated_events = fields.flag("gated-events", true) ? 1 : 0;
  card.managed_fixed = fields.flag("concurrent-managed", true) ? 0 : 1;
  card.default_kernel_ns = fields.duration("kernel", 100'000);
  if (card.power_idle_mw > card.power_limit_mw) {
    fields.fail("power-idle", "is above power-limit; lower it");
  }
  if (card.temperature_idle > card.temperature_busy) {
    fields.fail("temperature-idle", "is above temperature-busy; lower it");
  }
  if (card.memory_bytes <= card.memory_reserved_bytes) {
    fields.fail("memory", "is not larger than what is reserved; write the whole memory of the card, like 81559Mi");
  }
  if (card.slice_ns < 10'000) {
    fields.fail("slice", "is shorter than 10us; write at least that, usually 2ms");
  }
}

YAML::Node read_model(const Fields& fields, const std::string& folder) {
  const std::string name = fields.text("model", "");
  if (name.empty()) {
    return YAML::Node();
  }
  if (const char* text = model_text(name); text != nullptr) {
    return YAML::Load(text);
  }
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  if (!std::filesystem::exists(path)) {
    fields.fail("model", "'" + name + "' is neither a ready-made model (" + model_names() + ") nor a file");
  }
  YAML::Node model = YAML::LoadFile(path);
  Fields(model, path).only(kModelFields);
  return model;
}

void read_cpus(const Fields& fields, CardConfig& card) {
  const std::string text = fields.text("cpus", "");
  if (text.empty()) {
    std::fill(std::begin(card.cpu_affinity), std::end(card.cpu_affinity), 0);
    card.cpu_affinity[0] = ~0ULL;
    return;
  }
  unsigned first = 0, last = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%u-%u%c", &first, &last, &rest) != 2 || last < first || last >= 1024) {
    fields.fail("cpus", "'" + text + "' is not a range; write it like 0-31");
  }
  for (unsigned cpu = first; cpu <= last; ++cpu) {
    card.cpu_affinity[cpu / 64] |= 1ULL << (cpu % 64);
  }
}

// Where the card sits; without a field each card gets the next free address.
void read_place(const Fields& fields, Draft& draft, CardConfig& card) {
  const auto index = static_cast<unsigned>(draft.config.cards.size());
  const std::string pci = fields.text("pci", "");
  unsigned domain = 0, bus = 0x18 + index * 4, device = 0;
  if (!pci.empty() && std::sscanf(pci.c_str(), "%x:%x:%x", &domain, &bus, &device) != 3) {
    fields.fail("pci", "'" + pci + "' is no PCI address; write it like 0000:18:00.0");
  }
  card.domain = domain;
  card.bus = bus;
  card.device = device;
  card.minor = static_cast<std::uint32_t>(fields.number("minor", index, 0, kMaxCards - 1));
  card.numa_node = static_cast<std::int32_t>(fields.number("numa", -1, -1, 63));
  draft.places.push_back({fields.number("pcie-root", index, 0, 1024), fields.number("pcie-switch", index, 0, 1024)});
  copy_text(fields, "uuid", card.uuid, fields.text("uuid", made_uuid(draft.identity, card.minor)));
  char serial[32];
  std::snprintf(
      serial, sizeof(serial), "16%011llu",
      static_cast<unsigned long long>(hash_text(draft.identity + std::to_string(card.minor)) % 100000000000ULL));
  copy_text(fields, "serial", card.serial, fields.text("serial", serial));
  read_cpus(fields, card);
}

void read_card(const YAML::Node& node, const std::string& where, Draft& draft) {
  const Fields own(node, where);
  std::set<std::string> known = kModelFields;
  known.insert(kCardOnlyFields.begin(), kCardOnlyFields.end());
  own.only(known);
  const Fields fields(node, where, read_model(own, draft.folder));
  const std::int64_t count = own.number("count", 1, 1, kMaxCards);
  for (const char* key : {"uuid", "serial", "minor", "pci"}) {
    if (count > 1 && own.node(key)) {
      own.fail(key, "names one card but count is " + std::to_string(count) + "; write the cards one by one");
    }
  }
  for (std::int64_t copy = 0; copy < count; ++copy) {
    CardConfig card = {};
    read_hardware(fields, card);
    read_profiles(fields, where, card);
    read_place(fields, draft, card);
    read_fabric(fields, card);
    for (const CardConfig& other : draft.config.cards) {
      if (other.minor == card.minor) {
        own.fail("minor", std::to_string(card.minor) + " is taken by an earlier card; give each card its own");
      }
      if (std::string(other.uuid) == card.uuid) {
        own.fail("uuid", std::string(card.uuid) + " is taken by an earlier card; give each card its own");
      }
    }
    if (draft.config.cards.size() == kMaxCards) {
      own.fail("count", "makes more than " + std::to_string(kMaxCards) + " cards; a machine has at most that many");
    }
    draft.config.cards.push_back(card);
    // The state is large; what is read of it here is small.
    const auto state = std::make_unique<CardState>();
    state->config = card;
    read_instances(own, *state);
    draft.config.mig.push_back(state->mig);
  }
}

void read_machine(const YAML::Node& node, Draft& draft) {
  const Fields fields(node, "machine");
  fields.only({"driver", "cuda", "nvml", "name"});
  Machine& machine = draft.config.machine;
  const std::string driver = fields.text("driver", "575.57.08");
  copy_text(fields, "driver", machine.driver_version, driver);
  copy_text(fields, "nvml", machine.nvml_version, fields.text("nvml", "12." + driver));
  const std::string cuda = fields.text("cuda", "12.9");
  int major = 0, minor = 0;
  char rest = 0;
  if (std::sscanf(cuda.c_str(), "%d.%d%c", &major, &minor, &rest) != 2) {
    fields.fail("cuda", "'" + cuda + "' is not a version; write it like \"12.9\"");
  }
  machine.cuda_version = major * 1000 + minor * 10;
  draft.identity = fields.text("name", draft.identity);
}

void derive_topology(Draft& draft) {
  const std::vector<CardConfig>& cards = draft.config.cards;
  for (std::size_t a = 0; a < cards.size(); ++a) {
    for (std::size_t b = 0; b < cards.size(); ++b) {
      const bool same_root = draft.places[a].root == draft.places[b].root;
      const bool same_node = cards[a].numa_node == cards[b].numa_node;
      std::uint8_t level = same_node ? 40 : 50;
      level = same_root ? 30 : level;
      level = same_root && draft.places[a].pcie_switch == draft.places[b].pcie_switch ? 10 : level;
      draft.config.machine.topology[cards[a].minor][cards[b].minor] = a == b ? std::uint8_t{0} : level;
    }
  }
}

void read_links(const YAML::Node& list, Draft& draft) {
  if (!list) {
    return;
  }
  for (std::size_t index = 0; index < list.size(); ++index) {
    const YAML::Node& link = list[index];
    const std::string where = "links[" + std::to_string(index) + "]";
    if (!link.IsSequence() || link.size() != 3) {
      throw ConfigError{where + ": is not a list of three; write [card, card, number of links]"};
    }
    const int a = link[0].as<int>(-1), b = link[1].as<int>(-1), count = link[2].as<int>(-1);
    const int cards = static_cast<int>(draft.config.cards.size());
    if (a < 0 || b < 0 || a >= cards || b >= cards || a == b || count < 1 || count > 18) {
      throw ConfigError{where + ": names no two cards of this file (counted from 0) and 1 to 18 links"};
    }
    const std::uint32_t first = draft.config.cards[static_cast<std::size_t>(a)].minor;
    const std::uint32_t second = draft.config.cards[static_cast<std::size_t>(b)].minor;
    draft.config.machine.links[first][second] = draft.config.machine.links[second][first] =
        static_cast<std::uint8_t>(count);
  }
}

void read_all(const YAML::Node& root, Draft& draft) {
  const Fields fields(root, "");
  fields.only({"machine", "cards", "links"});
  read_machine(fields.node("machine") ? fields.node("machine") : YAML::Node(), draft);
  const YAML::Node cards = fields.node("cards");
  if (!cards || !cards.IsSequence() || cards.size() == 0) {
    fields.fail("cards", "is not a list of at least one card; write cards: [{model: H100}]");
  }
  for (std::size_t index = 0; index < cards.size(); ++index) {
    read_card(cards[index], "cards[" + std::to_string(index) + "]", draft);
  }
  derive_topology(draft);
  read_links(fields.node("links"), draft);
  Machine& machine = draft.config.machine;
  machine.magic = kMachineMagic;
  machine.version = kLayoutVersion;
  machine.card_count = static_cast<std::uint32_t>(draft.config.cards.size());
}

}  // namespace

LoadedConfig load_config(const std::string& path, const std::string& identity) {
  Draft draft;
  draft.identity = identity;
  draft.folder = std::filesystem::path(path).parent_path();
  try {
    read_all(YAML::LoadFile(path), draft);
  } catch (const ConfigError& error) {
    return {{}, path + ": " + error.text};
  } catch (const YAML::BadFile&) {
    return {{}, path + ": cannot be read; name a YAML file with a list 'cards'"};
  } catch (const YAML::Exception& error) {
    return {{}, path + ": line " + std::to_string(error.mark.line + 1) + ": " + error.msg};
  }
  return {draft.config, ""};
}

}  // namespace nvsim
