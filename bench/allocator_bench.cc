// Heddle's allocator on the shapes of bench/allocator/shapes.py, beside upstream.go: the same loop over the same
// objects. Prints one JSON object a line. See docs/benchmarks.md for what is inside the clock.
//
//   allocator_bench SECONDS SHAPE.json...
//   allocator_bench --memory DEVICES      bytes that the inventory needs for each of so many devices
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "allocator/allocator.h"
#include "codec/codec.h"
#include "engine/inventory.h"
#include "engine/ledger.h"

namespace {

namespace allocator = heddle::allocator;
namespace codec = heddle::codec;
namespace engine = heddle::engine;
namespace model = heddle::model;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr size_t kComparedPods = 5;
constexpr int kFailure = 3;

template <typename T>
T must(heddle::Result<T> result) {
  if (!result) {
    fmt::print(stderr, "allocator_bench: {}\n", result.error().text());
    std::exit(kFailure);
  }
  return *std::move(result);
}

size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

struct Fleet {
  engine::Ledger ledger;
  allocator::QueryCache cache;
  engine::Inventory inventory{"accelerator.heddle.dev", ledger, cache};
  allocator::ClassMap classes;
  std::vector<const allocator::NodeView*> nodes;  // in the order of the input

  void apply(const model::ResourceClaim& claim) {
    for (const engine::DeviceKey& device : ledger.upsert(claim)) inventory.refresh(device);
  }
  void release(const std::string& uid) {
    for (const engine::DeviceKey& device : ledger.remove(uid)) inventory.refresh(device);
  }
};

struct Shape {
  std::string name;
  size_t wanted = 0;
  std::vector<std::vector<model::ResourceClaim>> pods;
};

Shape load(const std::string& path, Fleet& fleet) {
  std::ifstream file(path);
  const Json whole = Json::parse(file);
  Shape shape{.name = whole.at("name"), .wanted = whole.at("wanted"), .pods = {}};
  std::vector<std::string> names;
  for (const Json& object : whole.at("objects")) {
    const std::string kind = object.at("kind");
    const std::string text = object.dump();
    if (kind == "Node") {
      model::Node node = must(codec::parse_node(text));
      names.push_back(node.meta.name);
      fleet.inventory.upsert_node(std::move(node));
    } else if (kind == "ResourceSlice") {
      fleet.inventory.upsert_slice(must(codec::parse_slice(text)));
    } else if (kind == "DeviceClass") {
      model::DeviceClass device_class = must(codec::parse_class(text));
      fleet.classes[device_class.meta.name] = device_class;
    } else if (kind == "ResourceClaim") {
      fleet.apply(must(codec::parse_claim(text)));
    }
  }
  for (const std::string& name : names) fleet.nodes.push_back(&fleet.inventory.nodes().at(name).view);
  for (const Json& pod : whole.at("pods")) {
    std::vector<model::ResourceClaim>& claims = shape.pods.emplace_back();
    for (const Json& claim : pod) claims.push_back(must(codec::parse_claim(claim.dump())));
  }
  return shape;
}

struct Placed {
  std::string node;
  std::vector<model::Allocation> allocations;
};

class Run {
 public:
  Run(Fleet& fleet, const Shape& shape) : fleet_(fleet), shape_(shape) {}

  // Nodes are looked at until enough fit; the first that fits is taken.
  Placed place(const std::vector<model::ResourceClaim>& claims) {
    std::vector<allocator::ClaimInput> inputs;
    for (const model::ResourceClaim& claim : claims) {
      inputs.push_back({.key = claim.meta.key(), .spec = &claim.spec, .memory_percent = {}});
    }
    auto prepared = must(allocator::prepare(inputs, fleet_.classes, fleet_.cache, options_));
    allocator::Solver solver(prepared, policy_, options_);
    Placed placed;
    const size_t count = fleet_.nodes.size();
    size_t processed = 0;
    for (size_t fitting = 0; processed < count && fitting < shape_.wanted; ++processed) {
      const allocator::NodeView& node = *fleet_.nodes[(next_ + processed) % count];
      const allocator::Solution* solution = must(solver.solve(node));
      if (solution == nullptr) continue;
      ++fitting;
      if (!placed.node.empty()) continue;
      placed.node = node.node;
      for (size_t i = 0; i < prepared.size(); ++i) {
        placed.allocations.push_back(
            must(allocator::make_allocation(prepared[i], *solution, i, node.node, random_, options_)));
      }
    }
    next_ = (next_ + processed) % count;
    return placed;
  }

  // One pod from request to grant, and its end.
  Placed cycle(const std::vector<model::ResourceClaim>& claims) {
    Placed placed = place(claims);
    for (size_t i = 0; i < placed.allocations.size(); ++i) {
      model::ResourceClaim granted = claims[i];
      granted.allocation = placed.allocations[i];
      fleet_.apply(granted);
    }
    for (size_t i = 0; i < placed.allocations.size(); ++i) fleet_.release(claims[i].meta.uid);
    return placed;
  }

 private:
  Fleet& fleet_;
  const Shape& shape_;
  allocator::Options options_;
  allocator::FirstFit policy_;
  heddle::SeededRandom random_{1};
  size_t next_ = 0;
};

std::string answer(const Placed& placed) {
  std::string text = placed.node;
  for (const model::Allocation& allocation : placed.allocations) {
    for (const model::DeviceResult& result : allocation.results) {
      text += " " + result.request + "=" + result.pool + "/" + result.device;
    }
  }
  return text;
}

void measure(const std::string& path, double seconds) {
  Fleet fleet;
  const Shape shape = load(path, fleet);
  Run run(fleet, shape);
  Json answers = Json::array();
  std::chrono::duration<double> total{0};
  size_t pods = 0;
  size_t heap_at_half = 0;
  for (size_t i = 0; i < 2 * shape.pods.size() || total.count() < seconds; ++i) {
    const auto begin = Clock::now();
    const Placed placed = run.cycle(shape.pods[i % shape.pods.size()]);
    const std::chrono::duration<double> took = Clock::now() - begin;
    if (answers.size() < kComparedPods) answers.push_back(answer(placed));
    if (i < shape.pods.size()) continue;  // the first round warms up
    total += took;
    ++pods;
    if (heap_at_half == 0 && total.count() * 2 > seconds) heap_at_half = heap_bytes();
  }
  const auto growth = static_cast<int64_t>(heap_bytes()) - static_cast<int64_t>(heap_at_half);
  const Json line = {{"shape", shape.name},
                     {"us", total.count() * 1e6 / static_cast<double>(pods)},
                     {"pods", pods},
                     {"answers", answers},
                     {"heap_growth", growth}};
  fmt::print("{}\n", line.dump());
}

// A card as the agent publishes it, with a name and an address of its own.
model::Device make_card(int64_t node, int64_t card) {
  model::Device device;
  device.name = fmt::format("gpu-{}", card);
  device.allow_multiple_allocations = true;
  device.attributes = {{"vendor", std::string("nvidia")},
                       {"kind", std::string("gpu")},
                       {"type", std::string("card")},
                       {"isolation", std::string("soft")},
                       {"model", std::string("NVIDIA H100 80GB HBM3")},
                       {"architecture", std::string("Hopper")},
                       {"uuid", fmt::format("GPU-{:08x}-0000-4000-8000-{:012x}", node, card)},
                       {"index", card},
                       {"minor", card},
                       {"driverVersion", model::Version{"580.65.6"}},
                       {"runtimeVersion", model::Version{"13.0.0"}},
                       {"resource.kubernetes.io/pciBusID", fmt::format("0000:{:02x}:00.0", card)},
                       {"resource.kubernetes.io/pcieRoot", fmt::format("pci0000:{:02x}", card / 4)},
                       {"resource.kubernetes.io/numaNode", card / 4}};
  const auto quantity = [](const char* text) { return *heddle::Quantity::parse(text); };
  const auto shared = [&](const char* value, const char* least) {
    model::RequestPolicy::Range range{.min = quantity(least), .max = quantity(value), .step = quantity(least)};
    if (range.min.sign() == 0) range.step = quantity("1");
    model::Capacity capacity{.value = quantity(value), .policy = model::RequestPolicy{}};
    capacity.policy->default_value = capacity.value;
    capacity.policy->valid_range = std::move(range);
    return capacity;
  };
  device.capacity = {{"memory", shared("81559Mi", "1Mi")}, {"cores", shared("100", "0")}};
  device.taints = {{.key = "heddle.dev/managed", .value = {}, .effect = "NoSchedule", .added = {}}};
  return device;
}

void upsert_cards(Fleet& fleet, int64_t node, int64_t cards) {
  const std::string name = fmt::format("node-{:06}", node);
  model::ResourceSlice slice;
  slice.meta.name = name + "-heddle-nvidia-0";
  slice.driver = "accelerator.heddle.dev";
  slice.pool = name + "/nvidia";
  slice.generation = 1;
  slice.scope = {.kind = model::NodeScope::Kind::kNode, .node = name, .selector = {}};
  for (int64_t card = 0; card < cards; ++card) slice.devices.push_back(make_card(node, card));
  fleet.inventory.upsert_slice(std::move(slice));
}

// The heap that devices and pools need, with the answers of one selector remembered for each device.
void measure_memory(int64_t devices) {
  constexpr int64_t kCards = 8;
  Fleet fleet;
  for (int64_t node = 0; node * kCards < devices; ++node) {
    model::Node object;
    object.meta.name = fmt::format("node-{:06}", node);
    fleet.inventory.upsert_node(std::move(object));
  }
  const size_t before = heap_bytes();
  for (int64_t node = 0; node * kCards < devices; ++node) upsert_cards(fleet, node, kCards);
  model::DeviceClass device_class;
  device_class.meta.name = "heddle";
  device_class.selectors = {R"(device.attributes["accelerator.heddle.dev"].vendor == "nvidia")"};
  fleet.classes["heddle"] = device_class;
  model::ClaimSpec spec;
  spec.requests.push_back({.name = "gpu", .exactly = model::DeviceSubRequest{}, .first_available = {}});
  spec.requests[0].exactly->device_class = "heddle";
  spec.requests[0].exactly->tolerations = {
      {.key = "heddle.dev/managed", .op = "Exists", .value = {}, .effect = {}, .seconds = {}}};
  const allocator::Options options;
  auto prepared = must(
      allocator::prepare({{.key = "claim", .spec = &spec, .memory_percent = {}}}, fleet.classes, fleet.cache, options));
  int64_t fitting = 0;
  for (const auto& [name, node] : fleet.inventory.nodes()) {
    fitting += must(allocator::solve(node.view, prepared, allocator::BestFit(), {}, {}, options)) ? 1 : 0;
  }
  if (fitting * kCards < devices) std::exit(kFailure);
  const size_t each = (heap_bytes() - before) / static_cast<size_t>(devices);
  fmt::print("{}\n", Json({{"allocator.bytes_per_device", each}}).dump());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() < 2) {
    fmt::print(stderr, "usage: allocator_bench SECONDS SHAPE.json... or --memory DEVICES\n");
    return 1;
  }
  if (args[0] == "--memory") {
    measure_memory(std::stoll(args[1]));
    return 0;
  }
  for (size_t i = 1; i < args.size(); ++i) measure(args[i], std::stod(args[0]));
  return 0;
}
