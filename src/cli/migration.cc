#include "cli/migration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "cli/json_at.h"
#include "cli/quota_words.h"
#include "cli/workload.h"
#include "cli/yaml_json.h"
#include "dialects/registry.h"
#include "dialects/translate.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kVolcanoRegister = "volcano.sh/node-vgpu-register";
constexpr const char* kReviewUid = "00000000-0000-0000-0000-000000000000";

std::map<std::string, std::string> texts_at(const Json& object, const char* pointer) {
  std::map<std::string, std::string> out;
  const Json::json_pointer path(pointer);
  if (!object.contains(path) || !object.at(path).is_object()) return out;
  for (const auto& [key, value] : object.at(path).items()) {
    if (value.is_string()) out.emplace(key, value.get<std::string>());
  }
  return out;
}

std::string value_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

constexpr std::string_view kNotTakenOver =
    "the devices it holds now are not taken over: it is placed anew when it is created anew";

void add_once(std::vector<std::string>& lines, std::string_view line) {
  if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.emplace_back(line);
}

// Ascend's chips and Kunlunxin's XPUs have the word in front: hami.io/node-register-Ascend910B4.
bool is_hami_register(std::string_view key) {
  return key.starts_with("hami.io/node-register-") || (key.starts_with("hami.io/node-") && key.ends_with("-register"));
}

// "GPU-1[0-2]" is a MIG partition that an older HAMi made on the card GPU-1.
std::string card_of(const std::string& device) {
  const size_t bracket = device.find('[');
  return bracket != std::string::npos && device.ends_with("]") ? device.substr(0, bracket) : device;
}

bool is_granted(std::string_view key) {
  return key == "volcano.sh/vgpu-ids-new" || (key.starts_with("hami.io/") && key.ends_with("-devices-allocated")) ||
         key == "hami.io/kunlun-allocated";
}

class Reader {
 public:
  explicit Reader(const catalog::Requests& rules) : rules_(rules) {}

  Result<void> add(const Json& object) {
    if (!object.is_object()) return fail(Code::kInvalidArgument, "a document is not an object");
    const std::string kind = text_at(object, "/kind");
    if (kind.ends_with("List") && object.contains("items")) {
      if (!object["items"].is_array()) return fail(Code::kInvalidArgument, "must be a list", "items");
      for (const Json& item : object["items"]) HEDDLE_CHECK_OK(add(item));
      return {};
    }
    if (kind == "Node") add_node(object);
    if (kind == "ConfigMap") add_settings(object);
    if (kind == "BindRequest") add_bind_request(object);
    for (const std::string& line : quota_words(rules_, object)) {
      const std::string name_space = text_at(object, "/metadata/namespace");
      out_.settings.push_back(fmt::format("{} {}{}{}: {}", kind, name_space, name_space.empty() ? "" : "/",
                                          text_at(object, "/metadata/name"), line));
    }
    if (kind == "Pod") return add_pod(object, text_at(object, "/metadata/name"));
    if (kind != "Pod" && kind != "CustomResourceDefinition") {
      for (const PodTemplate& found : find_pod_templates(object)) {
        HEDDLE_CHECK_OK(add_pod(object.at(Json::json_pointer(found.at)),
                                fmt::format("{}/{}", kind, text_at(object, "/metadata/name")),
                                text_at(object, "/metadata/namespace")));
      }
    }
    return {};
  }

  Migration finish() {
    for (MigratedNode& node : out_.nodes) {
      for (MigratedDevice& device : node.devices) device.tenants = tenants_[device.id];
    }
    for (MigratedPod& bound : bound_) join(std::move(bound));
    return std::move(out_);
  }

 private:
  void add_node(const Json& object);
  void add_register(MigratedNode& node, const std::string& key, const std::string& value);
  Result<void> add_pod(const Json& object, const std::string& name, const std::string& name_space = {});
  void add_granted(const Json& object, MigratedPod& pod);
  void add_bind_request(const Json& object);
  void join(MigratedPod bound);
  void add_settings(const Json& object);
  void check_setting(const std::string& where, const std::string& name, const Json& value);
  void check_node_settings(const std::string& text);
  void check_filter(const std::string& where, const Json& filter);
  void check_vendor_settings(const std::string& vendor, const Json& settings);

  const catalog::Requests& rules_;
  Migration out_;
  std::map<std::string, int64_t> tenants_;
  std::vector<MigratedPod> bound_;  // what KAI's BindRequests say of pods, which may come before or after
};

// What a device that was registered so means to Heddle.
void compare_device(const dialects::RegisteredDevice& device, std::vector<std::string>& out) {
  const auto add = [&](const std::string& text) { add_once(out, text); };
  if (device.split > 1)
    add(fmt::format("{} tenants a card at most: Heddle has no such number, memory and cores alone decide",
                    device.split));
  if (device.cores > 100)
    add(fmt::format("{}: cores are registered as {} %, more than the card has; Heddle grants 100 % once", device.id,
                    device.cores));
  if (!device.healthy) add(fmt::format("{}: unhealthy, it would not be granted", device.id));
  if (device.mode == "mig")
    add(fmt::format(
        "{}: in MIG mode, whose partitions HAMi makes on demand; Heddle grants those that exist, by the resource "
        "name nvidia.com/mig-<profile>",
        device.id));
  if (device.mode == "mps")
    add(fmt::format(
        "{}: in MPS mode; Heddle uses an MPS control daemon that it is told of (heddle-agent --mps-pipe), for "
        "pods with nvidia.com/vgpu-mode: mps and cores; its guard isolates the other shares",
        device.id));
}

void Reader::add_register(MigratedNode& node, const std::string& key, const std::string& value) {
  const auto devices =
      key == kVolcanoRegister ? dialects::decode_volcano_register(value) : dialects::decode_hami_register(value);
  node.source += (node.source.empty() ? "" : ", ") + key;
  if (!devices) {
    node.differences.push_back(fmt::format("{} cannot be read: {}", key, devices.error().text()));
    return;
  }
  for (const dialects::RegisteredDevice& device : *devices) {
    node.devices.push_back({device.id, device.type, device.memory_mib, 0});
    compare_device(device, node.differences);
  }
}

void Reader::add_node(const Json& object) {
  MigratedNode node;
  node.name = text_at(object, "/metadata/name");
  const auto annotations = texts_at(object, "/metadata/annotations");
  for (const auto& [key, value] : annotations) {
    if (is_hami_register(key) || key == kVolcanoRegister) add_register(node, key, value);
    if (key == "hami.io/device-cordon" && !value.empty()) {
      node.differences.push_back(
          fmt::format("{}: {}: give these cards a DeviceTaintRule with effect NoSchedule instead", key, value));
    }
    if (key == "hami.io/mutex.lock" || key == "volcano.sh/mutex.lock")
      node.differences.push_back(fmt::format("{} is held: a pod is being bound; switch when it is done", key));
    if (key == "hami-vnpu-core" && value == "true")
      node.differences.push_back(
          "hami-vnpu-core: NPUs of this node are in the soft split; a pod has to say "
          "huawei.com/vnpu-mode: hami-core for it");
  }
  if (!node.devices.empty()) {
    node.differences.emplace_back(
        "sizes are as the plugin registered them; Heddle's agent publishes what the driver reports, in whole MiB");
  }
  if (!node.source.empty() || !node.differences.empty()) out_.nodes.push_back(std::move(node));
}

std::string describe_request(const model::DeviceRequest& request, const model::ClaimSpec& spec) {
  std::string out = request.name;
  if (!request.exactly) return out;
  out += fmt::format(": {} x {}", request.exactly->count.value_or(1), request.exactly->device_class);
  for (const auto& [name, quantity] : request.exactly->capacity)
    out += fmt::format(", {} {}{}", name, quantity.to_string(), name == "cores" ? " %" : "");
  for (const model::OpaqueConfig& config : spec.config) {
    if (std::find(config.requests.begin(), config.requests.end(), request.name) != config.requests.end())
      out += ", " + config.parameters_json;
  }
  return out;
}

void Reader::add_granted(const Json& object, MigratedPod& pod) {
  std::vector<std::string> names;
  for (const char* list : {"/spec/initContainers", "/spec/containers"}) {
    const Json::json_pointer path(list);
    if (!object.contains(path) || !object.at(path).is_array()) continue;
    for (const Json& container : object.at(path)) names.push_back(text_at(container, "/name"));
  }
  std::set<std::string> held;
  for (const auto& [key, value] : texts_at(object, "/metadata/annotations")) {
    if (!is_granted(key)) continue;
    const auto granted = dialects::decode_granted(value);
    if (!granted) {
      pod.differences.push_back(fmt::format("{} cannot be read: {}", key, granted.error().text()));
      continue;
    }
    for (size_t i = 0; i < granted->size(); ++i) {
      for (const dialects::GrantedDevice& device : (*granted)[i]) {
        pod.granted.push_back(fmt::format("container {}: {} {}: {} MiB, {} % of the cores",
                                          i < names.size() ? names[i] : std::to_string(i), device.type, device.id,
                                          device.memory_mib, device.cores));
        held.insert(card_of(device.id));
      }
    }
    if (granted->size() > names.size())
      pod.differences.push_back(fmt::format("{} has {} containers and the pod {}", key, granted->size(), names.size()));
  }
  const std::string phase = text_at(object, "/status/phase");
  if (phase == "Succeeded" || phase == "Failed") return;
  for (const std::string& id : held) ++tenants_[id];
}

// What KAI decided for a pod: spec.receivedResourceType, spec.receivedGPU{count, portion}, spec.selectedGPUGroups.
void Reader::add_bind_request(const Json& object) {
  MigratedPod pod;
  pod.name_space = text_at(object, "/metadata/namespace");
  pod.name = text_at(object, "/spec/podName");
  pod.outcome = "nothing";
  const std::string name = text_at(object, "/metadata/name");
  const std::string node = text_at(object, "/spec/selectedNode");
  const std::string phase = text_at(object, "/status/phase");
  if (pod.name.empty()) {
    out_.settings.push_back(fmt::format("BindRequest {}/{}: it names no pod", pod.name_space, name));
    return;
  }
  if (phase == "Failed") {
    pod.differences.push_back(fmt::format("BindRequest {}: KAI could not bind the pod to node {}", name, node));
  } else {
    const Json::json_pointer count("/spec/receivedGPU/count");
    const std::string portion = text_at(object, "/spec/receivedGPU/portion");
    std::string groups;
    const Json::json_pointer selected("/spec/selectedGPUGroups");
    if (object.contains(selected) && object.at(selected).is_array()) {
      for (const Json& group : object.at(selected)) groups += (groups.empty() ? "" : ", ") + value_text(group);
    }
    pod.granted.push_back(fmt::format(
        "KAI: {} GPU{} of node {}{}", object.contains(count) ? dump_json(object.at(count)) : "?",
        portion.empty() || text_at(object, "/spec/receivedResourceType") != "Fraction" ? ""
                                                                                       : ", " + portion + " of each",
        node, groups.empty() ? "" : ", group " + groups));
    if (phase != "Succeeded")
      pod.differences.push_back(fmt::format("BindRequest {}: the pod is being bound; switch when it is done", name));
  }
  bound_.push_back(std::move(pod));
}

void Reader::join(MigratedPod bound) {
  const auto same = [&](const MigratedPod& pod) {
    return pod.name_space == bound.name_space && pod.name == bound.name;
  };
  const auto pod = std::find_if(out_.pods.begin(), out_.pods.end(), same);
  if (pod == out_.pods.end()) {
    bound.differences.emplace_back("the dump has a BindRequest for it and no such pod with devices");
    out_.pods.push_back(std::move(bound));
    return;
  }
  pod->granted.insert(pod->granted.end(), bound.granted.begin(), bound.granted.end());
  pod->differences.insert(pod->differences.end(), bound.differences.begin(), bound.differences.end());
  if (pod->outcome == "claims" && !pod->granted.empty()) add_once(pod->differences, kNotTakenOver);
}

// KAI holds a card for its fractions by a pod of its own.
bool is_reservation(const MigratedPod& pod) {
  return pod.name_space == "kai-resource-reservation" && pod.name.starts_with("gpu-reservation-");
}

Result<void> Reader::add_pod(const Json& object, const std::string& name, const std::string& name_space) {
  MigratedPod pod;
  pod.name = name;
  pod.name_space = name_space.empty() ? text_at(object, "/metadata/namespace") : name_space;
  if (is_reservation(pod)) {
    pod.outcome = "nothing";
    pod.differences.emplace_back("it holds a card for KAI's fractions and goes with KAI; Heddle needs no such pod");
    out_.pods.push_back(std::move(pod));
    return {};
  }
  add_granted(object, pod);
  Json copy = object;
  copy["kind"] = "Pod";
  // A running pod has its node; what counts here is what a new one of the same form would be.
  if (copy.contains("spec") && copy["spec"].is_object()) copy["spec"].erase("nodeName");
  HEDDLE_TRY(const auto translation, dialects::translate_pod(rules_, dump_json(copy), kReviewUid));
  for (const dialects::Refusal& refusal : translation.refusals)
    pod.reasons.push_back(fmt::format("{}: {}", refusal.field, refusal.message));
  for (const dialects::ContainerRequest& request : translation.requests) {
    for (const model::DeviceRequest& one : request.spec.requests)
      pod.claims.push_back(fmt::format("container {}: {}", request.container, describe_request(one, request.spec)));
    for (const std::string& rounding : request.roundings)
      pod.differences.push_back(fmt::format("container {}: {}", request.container, rounding));
  }
  for (const std::string& warning : translation.warnings) {
    if (warning.find("is written by schedulers") == std::string::npos) pod.differences.push_back(warning);
  }
  pod.outcome = !pod.reasons.empty() ? "refused" : pod.claims.empty() ? "nothing" : "claims";
  if (pod.outcome == "claims" && !pod.granted.empty()) add_once(pod.differences, kNotTakenOver);
  if (pod.outcome != "nothing" || !pod.granted.empty() || !pod.differences.empty()) out_.pods.push_back(std::move(pod));
  return {};
}

// Settings that change what a request means. `off`: the value that means what Heddle does anyway.
struct Setting {
  const char* name;
  std::vector<std::string> off;
  const char* meaning;
};

const std::vector<Setting>& known_settings() {
  static const std::vector<Setting> settings = {
      {"memoryFactor",
       {"1", "0"},
       "memory keys count units of that many MiB; Heddle reads MiB, so multiply the values in the pods"},
      {"gpuMemoryFactor",
       {"1", "0"},
       "memory keys count units of that many MiB; Heddle reads MiB, so multiply the values in the pods"},
      {"deviceMemoryScaling", {"1", "1.0"}, "more memory was promised than the card has; Heddle grants what is there"},
      {"deviceCoreScaling", {"1", "1.0"}, "more cores were promised than the card has; Heddle grants 100 %"},
      {"deviceSplitCount", {}, "a number of tenants a card; Heddle has no such limit, memory and cores alone decide"},
      {"defaultMemory",
       {"0"},
       "pods without memory got that much; with Heddle they get the whole card: write memory in the pods"},
      {"defaultCores",
       {"0"},
       "pods without cores got that much; with Heddle a share without cores has no limit: write cores in the pods"},
      {"defaultGPUNum",
       {"1"},
       "pods with memory and no count got that many; Heddle takes one: write the count in the pods"},
      {"disableCoreLimit", {"false"}, "limits on cores were not held; Heddle holds them"},
      {"gpuCorePolicy", {"default"}, "when limits on cores are held; Heddle holds them always and lends what is idle"},
      {"overwriteEnv", {"false"}, "containers without devices are hidden from the card; with Heddle they never see it"},
      {"runtimeClassName", {""}, "pods got this runtime class; Heddle injects by CDI and needs none"},
      {"preConfiguredDeviceMemory",
       {"0"},
       "memory of the card as written by hand; Heddle reports what the driver says"},
      {"hamiVnpuCore",
       {"false"},
       "NPUs were in the soft split without being asked; say huawei.com/vnpu-mode: hami-core in the pods"}};
  return settings;
}

void Reader::check_setting(const std::string& where, const std::string& name, const Json& value) {
  for (const Setting& setting : known_settings()) {
    const std::string_view known = setting.name;
    const bool same = std::equal(known.begin(), known.end(), name.begin(), name.end(), [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
    });
    if (!same) continue;
    const std::string text = value_text(value);
    if (std::find(setting.off.begin(), setting.off.end(), text) == setting.off.end())
      out_.settings.push_back(fmt::format("{}.{}: {}: {}", where, setting.name, text, setting.meaning));
  }
}

void Reader::check_vendor_settings(const std::string& vendor, const Json& settings) {
  for (const auto& [name, value] : settings.items()) {
    if (name.starts_with("resource") && name.ends_with("Name") && value.is_string()) {
      const std::string key = value.get<std::string>();
      if (!key.empty() && rules_.owner(key).family == nullptr)
        out_.settings.push_back(
            fmt::format("{}.{}: \"{}\" is a name that Heddle does not know: write it into a catalogue "
                        "folder (<vendor>/requests.yaml), or rename it in the pods",
                        vendor, name, key));
      continue;
    }
    check_setting(vendor, name, value);
    if (value.is_array()) {  // vnpus: one entry a chip
      for (const Json& entry : value) {
        if (entry.is_object()) check_vendor_settings(fmt::format("{}.{}", vendor, name), entry);
      }
    }
  }
}

// HAMi's settings of single nodes: the ConfigMap of its device plugin.
void Reader::check_node_settings(const std::string& text) {
  const Json root = parse_ordered_json(text);
  if (!root.is_object() || !root.contains("nodeconfig") || !root["nodeconfig"].is_array()) return;
  for (const Json& entry : root["nodeconfig"]) {
    if (!entry.is_object()) continue;
    const std::string where = fmt::format("node {}", text_at(entry, "/name"));
    for (const auto& [name, value] : entry.items()) {
      std::string lower = name;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      check_setting(where, lower, value);
      if (lower == "operatingmode" && value.is_string() && value != "hami-core")
        out_.settings.push_back(
            fmt::format("{}: operatingmode: {}: write the pods' annotation nvidia.com/vgpu-mode; no node's setting "
                        "chooses the isolation",
                        where, value.get<std::string>()));
      if (lower == "filterdevices" && value.is_object()) check_filter(where, value);
    }
  }
}

void Reader::check_filter(const std::string& where, const Json& filter) {
  for (const auto& [kind, list] : filter.items()) {
    if (list.is_array() && !list.empty())
      out_.settings.push_back(
          fmt::format("{}: filterdevices: {} {}: these cards were hidden from HAMi and Heddle's agent publishes them; "
                      "give them a DeviceTaintRule with effect NoSchedule",
                      where, kind, dump_json(list)));
  }
}

void Reader::add_settings(const Json& object) {
  for (const auto& [file, text] : texts_at(object, "/data")) {
    if (file == "config.json") check_node_settings(text);
    if (file != "device-config.yaml") continue;
    const auto documents = yaml_to_json(text);
    if (!documents) {
      out_.settings.push_back(fmt::format("{} of ConfigMap {} cannot be read: {}", file,
                                          text_at(object, "/metadata/name"), documents.error().text()));
      continue;
    }
    for (const std::string& document : *documents) {
      const Json root = parse_ordered_json(document);
      if (!root.is_object()) continue;
      for (const auto& [vendor, settings] : root.items()) {
        if (settings.is_object()) check_vendor_settings(vendor, settings);
        if (!settings.is_array()) continue;
        for (const Json& entry : settings) {
          if (entry.is_object()) check_vendor_settings(vendor, entry);
        }
      }
    }
  }
}

void add_lines(std::string& out, const char* label, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) out += fmt::format("    {}{}\n", label, line);
}

}  // namespace

Result<Migration> read_migration(const catalog::Requests& rules, const std::vector<MigrationText>& manifests) {
  Reader reader(rules);
  size_t all = 0;
  for (const MigrationText& manifest : manifests) {
    const auto documents = yaml_to_json(manifest.text);
    if (!documents) return fail(documents.error().code, documents.error().text(), manifest.name);
    all += documents->size();
    for (const std::string& document : *documents) {
      if (const auto added = reader.add(parse_ordered_json(document)); !added)
        return fail(added.error().code, added.error().text(), manifest.name);
    }
  }
  if (all == 0)
    return fail(Code::kInvalidArgument, "there is no object in the input: write what `kubectl get -o yaml` prints");
  return reader.finish();
}

std::string migration_json(const Migration& migration) {
  Json nodes = Json::array();
  for (const MigratedNode& node : migration.nodes) {
    Json devices = Json::array();
    for (const MigratedDevice& device : node.devices) {
      devices.push_back(Json::object(
          {{"id", device.id}, {"type", device.type}, {"memoryMiB", device.memory_mib}, {"tenants", device.tenants}}));
    }
    nodes.push_back(Json::object({{"name", node.name},
                                  {"source", node.source},
                                  {"devices", std::move(devices)},
                                  {"differences", node.differences}}));
  }
  Json pods = Json::array();
  for (const MigratedPod& pod : migration.pods) {
    pods.push_back(Json::object({{"namespace", pod.name_space},
                                 {"name", pod.name},
                                 {"outcome", pod.outcome},
                                 {"granted", pod.granted},
                                 {"claims", pod.claims},
                                 {"reasons", pod.reasons},
                                 {"differences", pod.differences}}));
  }
  return dump_json(
      Json::object({{"nodes", std::move(nodes)}, {"pods", std::move(pods)}, {"settings", migration.settings}}), 2);
}

std::string migration_table(const Migration& migration) {
  std::string out;
  for (const MigratedNode& node : migration.nodes) {
    out += fmt::format("node {}{}\n", node.name, node.source.empty() ? "" : " (" + node.source + ")");
    for (const MigratedDevice& device : node.devices)
      out += fmt::format("    {}  {}  {} MiB  {} pods\n", device.id, device.type, device.memory_mib, device.tenants);
    add_lines(out, "differs: ", node.differences);
  }
  for (const MigratedPod& pod : migration.pods) {
    out += fmt::format("pod {}{}{}: {}\n", pod.name_space, pod.name_space.empty() ? "" : "/", pod.name, pod.outcome);
    add_lines(out, "now: ", pod.granted);
    add_lines(out, "heddle: ", pod.claims);
    add_lines(out, "change: ", pod.reasons);
    add_lines(out, "differs: ", pod.differences);
  }
  if (!migration.settings.empty()) out += "settings\n";
  add_lines(out, "differs: ", migration.settings);
  const auto refused = std::count_if(migration.pods.begin(), migration.pods.end(),
                                     [](const MigratedPod& pod) { return pod.outcome == "refused"; });
  out += fmt::format("{} nodes, {} pods, {} of them would be refused as they are\n", migration.nodes.size(),
                     migration.pods.size(), refused);
  return out;
}

}  // namespace heddle::cli
