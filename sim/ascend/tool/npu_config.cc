#include "tool/npu_config.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "tool/fields.h"

namespace ascendsim {
namespace {

using nvsim::ConfigError;
using nvsim::Fields;

const std::set<std::string> kModelFields = {
    "chip",       "npu-name",    "ai-cores",       "memory",      "reserved",  "memory-kind",      "context-overhead",
    "slice",      "kernel",      "chips-per-card", "switch-cost", "super-pod", "temperature-idle", "temperature-busy",
    "power-idle", "power-limit", "pci-device-id"};
const std::set<std::string> kCardFields = {"model", "count", "numa", "die", "server"};

template <std::size_t Size>
void copy_text(const Fields& fields, const std::string& key, char (&out)[Size], const std::string& text) {
  if (text.size() >= Size) {
    fields.fail(key, "is longer than " + std::to_string(Size - 1) + " characters");
  }
  std::copy(text.begin(), text.end(), out);
}

// A stable hash: the same description gives the same die ids on every run.
std::uint32_t hash_text(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325ULL;
  for (const char character : text) {
    value = (value ^ static_cast<unsigned char>(character)) * 0x100000001b3ULL;
  }
  value = (value ^ value >> 29U) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<std::uint32_t>(value ^ value >> 32U);
}

YAML::Node model_of(const Fields& fields, const std::string& folder) {
  const std::string name = fields.text("model", "910B4");
  if (const char* text = npu_model_text(name)) {
    return YAML::Load(text);
  }
  const std::string path = folder + "/" + name;
  if (!std::filesystem::exists(path)) {
    fields.fail("model", "'" + name + "' is unknown; write " + npu_model_names() + ", or a file beside this one");
  }
  return YAML::LoadFile(path);
}

nvsim::CardConfig card_of(const Fields& fields) {
  nvsim::CardConfig card = {};
  copy_text(fields, "chip", card.name, fields.text("chip", "910B4"));
  card.sms = static_cast<std::uint32_t>(fields.number("ai-cores", 20, 1, 1024));
  card.memory_bytes = static_cast<std::uint64_t>(fields.bytes("memory", 32768LL << 20));
  card.memory_reserved_bytes = static_cast<std::uint64_t>(fields.bytes("reserved", 0));
  if (card.memory_reserved_bytes >= card.memory_bytes) {
    fields.fail("reserved", "is not less than the memory");
  }
  card.context_bytes = static_cast<std::uint64_t>(fields.bytes("context-overhead", 100LL << 20));
  card.slice_ns = fields.duration("slice", 2'000'000);
  card.switch_ns = fields.duration("switch-cost", 50'000);
  card.default_kernel_ns = fields.duration("kernel", 100'000);
  card.gated_events = 1;
  card.numa_node = static_cast<std::int32_t>(fields.number("numa", -1, -1, 1023));
  card.temperature_idle = static_cast<std::uint32_t>(fields.number("temperature-idle", 35, 0, 120));
  card.temperature_busy = static_cast<std::uint32_t>(fields.number("temperature-busy", 70, 0, 120));
  card.power_idle_mw = static_cast<std::uint32_t>(fields.power("power-idle", 90'000));
  card.power_limit_mw = static_cast<std::uint32_t>(fields.power("power-limit", 310'000));
  card.pci_device_id = static_cast<std::uint32_t>(fields.number("pci-device-id", 0xd802, 0, 0xffff));
  return card;
}

struct Draft {
  LoadedNpus loaded;
  std::string identity, folder;
  int next_card = 0;
};

void read_card(const YAML::Node& node, const std::string& where, Draft& draft) {
  const Fields named(node, where);
  const YAML::Node model = model_of(named, draft.folder);
  Fields(model, where + ".model").only(kModelFields);
  const Fields fields(node, where, model);
  std::set<std::string> known = kModelFields;
  known.insert(kCardFields.begin(), kCardFields.end());
  fields.only(known);
  const std::int64_t count = fields.number("count", 1, 1, nvsim::kMaxCards);
  const std::int64_t chips = fields.number("chips-per-card", 1, 1, 8);
  for (std::int64_t i = 0; i < count; ++i) {
    if (draft.loaded.cards.size() >= nvsim::kMaxCards) {
      fields.fail("count", "makes more than " + std::to_string(nvsim::kMaxCards) + " NPUs");
    }
    const auto physical = static_cast<std::uint32_t>(draft.loaded.cards.size());
    nvsim::CardConfig card = card_of(fields);
    card.minor = physical;
    card.bus = 0x01 + 4 * physical;
    Npu& npu = draft.loaded.machine->npus[physical];
    npu.device = static_cast<std::int32_t>(i % chips);
    draft.next_card += npu.device == 0 ? 1 : 0;
    npu.card = draft.next_card - 1;
    npu.logic = static_cast<std::int32_t>(physical);
    npu.ddr = fields.text("memory-kind", "hbm") == "ddr" ? 1 : 0;
    npu.super_pod = static_cast<std::uint32_t>(fields.number("super-pod", 0xffffffff, 0, 0xffffffff));
    npu.server = static_cast<std::uint32_t>(fields.number("server", 0, 0, 0xffff));
    npu.sdid = npu.super_pod == 0xffffffff ? 0 : npu.server << 16U | physical;
    copy_text(fields, "npu-name", npu.npu_name, fields.text("npu-name", ""));
    for (std::uint32_t word = 0; word < 5; ++word) {
      npu.die[word] = hash_text(draft.identity + "/" + std::to_string(physical) + "/" + std::to_string(word));
    }
    draft.loaded.cards.push_back(card);
  }
}

void read_all(const YAML::Node& root, Draft& draft) {
  const Fields fields(root, "");
  fields.only({"machine", "cards"});
  const Fields machine(fields.node("machine") ? fields.node("machine") : YAML::Node(), "machine");
  machine.only({"driver", "name"});
  NpuMachine& state = *draft.loaded.machine;
  copy_text(machine, "driver", state.machine.driver_version, machine.text("driver", "25.5.1"));
  draft.identity = machine.text("name", draft.identity);
  const YAML::Node cards = fields.node("cards");
  if (!cards || !cards.IsSequence() || cards.size() == 0) {
    fields.fail("cards", "is not a list of at least one card; write cards: [{model: 910B4}]");
  }
  for (std::size_t index = 0; index < cards.size(); ++index) {
    read_card(cards[index], "cards[" + std::to_string(index) + "]", draft);
  }
  state.magic = kNpuMagic;
  state.version = kNpuVersion;
  state.machine.magic = nvsim::kMachineMagic;
  state.machine.version = nvsim::kLayoutVersion;
  state.machine.card_count = static_cast<std::uint32_t>(draft.loaded.cards.size());
}

}  // namespace

LoadedNpus load_npus(const std::string& path, const std::string& identity) {
  Draft draft;
  draft.loaded.machine = std::make_unique<NpuMachine>();
  draft.identity = identity;
  draft.folder = std::filesystem::path(path).parent_path();
  try {
    read_all(YAML::LoadFile(path), draft);
  } catch (const ConfigError& error) {
    draft.loaded.error = path + ": " + error.text;
  } catch (const YAML::BadFile&) {
    draft.loaded.error = path + ": cannot be read; name a YAML file with a list 'cards'";
  } catch (const YAML::Exception& error) {
    draft.loaded.error = path + ": line " + std::to_string(error.mark.line + 1) + ": " + error.msg;
  }
  return std::move(draft.loaded);
}

}  // namespace ascendsim
