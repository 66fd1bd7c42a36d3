#include "allocator/random_problem.h"

#include <algorithm>
#include <functional>
#include <set>

namespace heddle::allocator::testing {
namespace {

// --- the rules, once more and as plainly as possible ---

std::optional<int64_t> consumed(const TestDevice& device, const TestAlternative& alternative) {
  if (alternative.memory < 0) return device.memory;
  if (device.memory == 0 && alternative.memory >= 0) return std::nullopt;  // has no such capacity
  if (!device.shared || device.step == 0) return alternative.memory;
  return (alternative.memory + device.step - 1) / device.step * device.step;
}

bool selectable(const TestDevice& device, const TestAlternative& alternative) {
  if (alternative.want_x != 0 && device.x != alternative.want_x) return false;
  const auto takes = consumed(device, alternative);
  return takes && *takes <= device.memory;
}

const TestAlternative& alternative_of(const Problem& problem, const Chosen& chosen) {
  return problem.claims[chosen.claim].requests[chosen.request].alternatives[chosen.alternative];
}

std::string check_device_use(const Problem& problem, const std::vector<Chosen>& chosen) {
  for (size_t i = 0; i < chosen.size(); ++i) {
    const TestDevice& device = problem.devices[chosen[i].device];
    const TestAlternative& alternative = alternative_of(problem, chosen[i]);
    if (!selectable(device, alternative)) return "not selectable";
    if (device.tainted && !alternative.tolerates) return "tainted";
    if (!alternative.admin && device.held_whole) return "held whole";
    if (!alternative.admin && !device.shared && device.held_share >= 0) return "an exclusive device with a share";
    int64_t memory = std::max<int64_t>(device.held_share, 0) + *consumed(device, alternative);
    for (size_t j = 0; j < i; ++j) {
      if (chosen[j].device != chosen[i].device) continue;
      if (!device.shared && (!alternative.admin || chosen[j].claim == chosen[i].claim)) return "taken twice";
      const bool same_request = chosen[j].claim == chosen[i].claim && chosen[j].request == chosen[i].request;
      if (same_request) return "twice in one request";
      if (device.shared) memory += *consumed(device, alternative_of(problem, chosen[j]));
    }
    if (memory > device.memory) return "no room";
  }
  return {};
}

std::string check_counters(const Problem& problem, const std::vector<Chosen>& chosen) {
  for (size_t pool = 0; pool < problem.pool_counters.size(); ++pool) {
    if (problem.pool_counters[pool] < 0) continue;
    int64_t left = problem.pool_counters[pool];
    for (const TestDevice& device : problem.devices) {
      const bool held = device.held_whole || device.held_share >= 0;
      if (device.pool == static_cast<int>(pool) && held) left -= device.counter;
    }
    std::set<size_t> paid;
    bool uses = false;
    for (const Chosen& one : chosen) {
      const TestDevice& device = problem.devices[one.device];
      if (device.pool != static_cast<int>(pool) || device.counter == 0) continue;
      const bool free = device.shared && (device.held_share >= 0 || !paid.insert(one.device).second);
      if (free) continue;
      uses = true;
      left -= device.counter;
    }
    if (uses && left < 0) return "counter exceeded";
  }
  return {};
}

std::string check_constraints(const Problem& problem, const std::vector<Chosen>& chosen) {
  for (size_t c = 0; c < problem.claims.size(); ++c) {
    for (const TestConstraint& constraint : problem.claims[c].constraints) {
      std::vector<int> values;
      for (const Chosen& one : chosen) {
        if (one.claim != c) continue;
        if (constraint.request >= 0 && one.request != static_cast<size_t>(constraint.request)) continue;
        values.push_back(problem.devices[one.device].x);
      }
      if (std::find(values.begin(), values.end(), 0) != values.end()) return "attribute missing";
      const size_t different = std::set<int>(values.begin(), values.end()).size();
      if (constraint.match && different > 1) return "not equal";
      if (!constraint.match && different != values.size()) return "not distinct";
    }
  }
  return {};
}

// Everything that stays wrong however much is added.
std::string check_partial(const Problem& problem, const std::vector<Chosen>& chosen) {
  std::string wrong = check_device_use(problem, chosen);
  if (wrong.empty()) wrong = check_counters(problem, chosen);
  return wrong.empty() ? check_constraints(problem, chosen) : wrong;
}

std::vector<size_t> all_devices(const Problem& problem, const TestAlternative& alternative) {
  std::vector<size_t> result;
  for (size_t i = 0; i < problem.devices.size(); ++i) {
    if (selectable(problem.devices[i], alternative)) result.push_back(i);
  }
  return result;
}

class BruteForce {
 public:
  explicit BruteForce(const Problem& problem) : problem_(problem) {}

  Answer run() { return request(0, 0) ? Answer(chosen_) : Answer(); }

 private:
  bool request(size_t claim, size_t index) {
    if (claim == problem_.claims.size()) return true;
    if (index == problem_.claims[claim].requests.size()) return request(claim + 1, 0);
    const auto& alternatives = problem_.claims[claim].requests[index].alternatives;
    for (size_t a = 0; a < alternatives.size(); ++a) {
      if (alternatives[a].all) {
        if (everything(claim, index, a)) return true;
      } else if (combination(claim, index, a, alternatives[a].count, 0)) {
        return true;
      }
    }
    return false;
  }

  bool everything(size_t claim, size_t index, size_t alternative) {
    const std::vector<size_t> devices =
        all_devices(problem_, problem_.claims[claim].requests[index].alternatives[alternative]);
    if (devices.empty()) return false;
    const size_t before = chosen_.size();
    for (const size_t device : devices) chosen_.push_back({claim, index, alternative, device});
    if (check_partial(problem_, chosen_).empty() && request(claim, index + 1)) return true;
    chosen_.resize(before);
    return false;
  }

  bool combination(size_t claim, size_t index, size_t alternative, int64_t left, size_t start) {
    if (left == 0) return request(claim, index + 1);
    for (size_t device = start; device < problem_.devices.size(); ++device) {
      chosen_.push_back({claim, index, alternative, device});
      if (check_partial(problem_, chosen_).empty() && combination(claim, index, alternative, left - 1, device + 1)) {
        return true;
      }
      chosen_.pop_back();
    }
    return false;
  }

  const Problem& problem_;
  std::vector<Chosen> chosen_;
};

// --- objects for the allocator ---

std::string pool_name(int pool) {
  return "pool-" + std::to_string(pool);
}
std::string device_name(size_t device) {
  return "device-" + std::to_string(device);
}

model::Device make_device(const TestDevice& test, size_t index) {
  model::Device device;
  device.name = device_name(index);
  if (test.x != 0) device.attributes["x"] = int64_t{test.x};
  if (test.memory > 0) {
    model::Capacity& capacity = device.capacity["memory"];
    capacity.value = Quantity::from_int(test.memory);
    if (test.shared && test.step > 0) {
      capacity.policy = model::RequestPolicy{.default_value = capacity.value, .valid_values = {}, .valid_range = {}};
      capacity.policy->valid_range =
          model::RequestPolicy::Range{.min = Quantity::from_int(0), .max = {}, .step = Quantity::from_int(test.step)};
    }
  }
  device.allow_multiple_allocations = test.shared;
  if (test.counter > 0) {
    device.consumes_counters.push_back(
        {.counter_set = "set", .counters = {{"n", Quantity::from_int(test.counter)}}, .compatibility_groups = {}});
  }
  if (test.tainted) device.taints.push_back({.key = "t", .value = {}, .effect = "NoSchedule", .added = {}});
  return device;
}

model::DeviceSubRequest make_request(const TestAlternative& test) {
  model::DeviceSubRequest request;
  request.device_class = "any";
  request.allocation_mode = test.all ? "All" : "ExactCount";
  if (!test.all) request.count = test.count;
  request.admin_access = test.admin;
  if (test.want_x != 0) {
    request.selectors.push_back("has(device.attributes[\"d\"].x) && device.attributes[\"d\"].x == " +
                                std::to_string(test.want_x));
  }
  if (test.memory >= 0) request.capacity["memory"] = Quantity::from_int(test.memory);
  if (test.tolerates)
    request.tolerations.push_back({.key = "t", .op = "Exists", .value = {}, .effect = {}, .seconds = {}});
  return request;
}

model::ClaimSpec make_claim(const TestClaim& test) {
  model::ClaimSpec spec;
  for (size_t i = 0; i < test.requests.size(); ++i) {
    model::DeviceRequest& request = spec.requests.emplace_back();
    request.name = "r" + std::to_string(i);
    const auto& alternatives = test.requests[i].alternatives;
    if (alternatives.size() == 1) {
      request.exactly = make_request(alternatives.front());
      continue;
    }
    for (size_t a = 0; a < alternatives.size(); ++a) {
      request.first_available.push_back(make_request(alternatives[a]));
      request.first_available.back().name = "a" + std::to_string(a);
    }
  }
  for (const TestConstraint& test_constraint : test.constraints) {
    model::DeviceConstraint& constraint = spec.constraints.emplace_back();
    (test_constraint.match ? constraint.match_attribute : constraint.distinct_attribute) = "d/x";
    if (test_constraint.request >= 0) constraint.requests.push_back("r" + std::to_string(test_constraint.request));
  }
  return spec;
}

struct Objects {
  model::Node node;
  std::deque<model::ResourceSlice> slices;
  model::Allocation allocated;
  std::deque<model::ClaimSpec> claims;
};

Objects make_objects(const Problem& problem) {
  Objects objects;
  objects.node.meta.name = "node";
  for (size_t pool = 0; pool < problem.pool_counters.size(); ++pool) {
    const int64_t total = problem.pool_counters[pool];
    for (const bool counters : {false, true}) {
      if (counters && total < 0) continue;
      model::ResourceSlice& slice = objects.slices.emplace_back();
      slice.driver = "d";
      slice.pool = pool_name(static_cast<int>(pool));
      slice.meta.name = slice.pool + (counters ? "-counters" : "-devices");
      slice.pool_slice_count = total < 0 ? 1 : 2;
      slice.scope.kind = model::NodeScope::Kind::kAllNodes;
      if (counters) slice.shared_counters.push_back({"set", {{"n", Quantity::from_int(total)}}});
      for (size_t i = 0; !counters && i < problem.devices.size(); ++i) {
        if (problem.devices[i].pool == static_cast<int>(pool))
          slice.devices.push_back(make_device(problem.devices[i], i));
      }
    }
  }
  for (size_t i = 0; i < problem.devices.size(); ++i) {
    model::DeviceResult result;
    result.driver = "d";
    result.pool = pool_name(problem.devices[i].pool);
    result.device = device_name(i);
    if (problem.devices[i].held_whole) objects.allocated.results.push_back(result);
    if (problem.devices[i].held_share < 0) continue;
    result.share_id = "share";
    result.consumed_capacity["memory"] = Quantity::from_int(problem.devices[i].held_share);
    objects.allocated.results.push_back(result);
  }
  for (const TestClaim& claim : problem.claims) objects.claims.push_back(make_claim(claim));
  return objects;
}

}  // namespace

Problem random_problem(SeededRandom& random) {
  const auto below = [&](int bound) { return static_cast<int>(random.below(static_cast<uint64_t>(bound))); };
  const auto chance = [&](uint64_t percent) { return random.below(100) < percent; };
  Problem problem;
  const int pools = 1 + below(2);
  for (int i = 0; i < pools; ++i) problem.pool_counters.push_back(chance(30) ? below(6) : -1);
  for (int pool = 0; pool < pools; ++pool) {
    const int devices = 1 + below(pools == 1 ? 6 : 3);
    for (int i = 0; i < devices; ++i) {
      TestDevice device{.pool = pool, .x = below(4)};
      device.memory = chance(50) ? 2 + below(9) : 0;
      device.shared = device.memory > 0 && chance(60);
      device.step = chance(40) ? 1 + below(3) : 0;
      if (problem.pool_counters[static_cast<size_t>(pool)] >= 0) device.counter = below(4);
      device.tainted = chance(10);
      device.held_whole = chance(10);
      if (device.shared && !device.held_whole && chance(30)) device.held_share = below(5);
      problem.devices.push_back(device);
    }
  }
  const int claims = 1 + below(2);
  for (int c = 0; c < claims; ++c) {
    TestClaim& claim = problem.claims.emplace_back();
    const int requests = 1 + below(claims == 1 ? 4 : 2);
    bool all = false;
    for (int r = 0; r < requests; ++r) {
      TestRequest& request = claim.requests.emplace_back();
      const int alternatives = chance(25) ? 2 : 1;
      for (int a = 0; a < alternatives; ++a) {
        TestAlternative alternative{.count = 1 + below(3), .want_x = chance(30) ? 1 + below(3) : 0};
        alternative.all = chance(8);
        all = all || alternative.all;
        alternative.admin = alternatives == 1 && chance(8);
        alternative.tolerates = chance(30);
        alternative.memory = chance(30) ? below(7) : -1;
        request.alternatives.push_back(alternative);
      }
    }
    // A constraint that keeps All from a device is an error, not a "no".
    const int constraints = all ? 0 : below(3);
    for (int i = 0; i < constraints; ++i) claim.constraints.push_back({chance(60), chance(50) ? -1 : below(requests)});
  }
  return problem;
}

std::vector<Problem> smaller(const Problem& problem) {
  std::vector<Problem> result;
  const auto with = [&](const std::function<void(Problem&)>& change) {
    result.push_back(problem);
    change(result.back());
  };
  for (size_t c = 0; c < problem.claims.size(); ++c) {
    const auto at = static_cast<std::ptrdiff_t>(c);
    if (problem.claims.size() > 1) with([&](Problem& p) { p.claims.erase(p.claims.begin() + at); });
    if (!problem.claims[c].constraints.empty()) with([&](Problem& p) { p.claims[c].constraints.pop_back(); });
    const bool last_named = std::any_of(problem.claims[c].constraints.begin(), problem.claims[c].constraints.end(),
                                        [](const TestConstraint& constraint) { return constraint.request >= 0; });
    if (problem.claims[c].requests.size() > 1 && !last_named)
      with([&](Problem& p) { p.claims[c].requests.pop_back(); });
  }
  for (size_t i = 0; i < problem.devices.size(); ++i) {
    with([&](Problem& p) { p.devices.erase(p.devices.begin() + static_cast<std::ptrdiff_t>(i)); });
    if (problem.devices[i].held_whole) with([&](Problem& p) { p.devices[i].held_whole = false; });
    if (problem.devices[i].held_share >= 0) with([&](Problem& p) { p.devices[i].held_share = -1; });
    if (problem.devices[i].tainted) with([&](Problem& p) { p.devices[i].tainted = false; });
    if (problem.devices[i].counter > 0) with([&](Problem& p) { p.devices[i].counter = 0; });
  }
  return result;
}

std::string describe(const Problem& problem) {
  std::string text;
  for (const int64_t total : problem.pool_counters) text += "pool counter=" + std::to_string(total) + "\n";
  for (const TestDevice& d : problem.devices) {
    text += "device pool=" + std::to_string(d.pool) + " x=" + std::to_string(d.x) +
            " memory=" + std::to_string(d.memory) + " step=" + std::to_string(d.step) +
            " counter=" + std::to_string(d.counter) + (d.shared ? " shared" : "") + (d.tainted ? " tainted" : "") +
            (d.held_whole ? " held" : "") + (d.held_share >= 0 ? " share=" + std::to_string(d.held_share) : "") + "\n";
  }
  for (const TestClaim& claim : problem.claims) {
    text += "claim\n";
    for (const TestRequest& request : claim.requests) {
      text += "  request";
      for (const TestAlternative& a : request.alternatives) {
        text += " [" + (a.all ? std::string("all") : std::to_string(a.count)) + " x=" + std::to_string(a.want_x) +
                " memory=" + std::to_string(a.memory) + (a.admin ? " admin" : "") + (a.tolerates ? " tolerates" : "") +
                "]";
      }
      text += "\n";
    }
    for (const TestConstraint& constraint : claim.constraints) {
      text += std::string("  ") + (constraint.match ? "match" : "distinct") + " request " +
              std::to_string(constraint.request) + "\n";
    }
  }
  return text;
}

Answer brute_force(const Problem& problem) {
  return BruteForce(problem).run();
}

std::string check(const Problem& problem, const std::vector<Chosen>& chosen) {
  size_t at = 0;
  for (size_t c = 0; c < problem.claims.size(); ++c) {
    for (size_t r = 0; r < problem.claims[c].requests.size(); ++r) {
      size_t count = 0;
      const size_t alternative = at < chosen.size() ? chosen[at].alternative : 0;
      std::vector<size_t> devices;
      for (; at < chosen.size() && chosen[at].claim == c && chosen[at].request == r; ++at, ++count) {
        if (chosen[at].alternative != alternative) return "two alternatives of one request";
        devices.push_back(chosen[at].device);
      }
      const TestAlternative& asked = problem.claims[c].requests[r].alternatives.at(alternative);
      if (asked.all && devices != all_devices(problem, asked)) return "not all devices";
      if (!asked.all && static_cast<int64_t>(count) != asked.count) return "wrong number of devices";
    }
  }
  if (at != chosen.size()) return "devices for no request";
  return check_partial(problem, chosen);
}

Outcome ask_allocator(const Problem& problem, uint64_t steps) {
  const Objects objects = make_objects(problem);
  NodeInput input{.node = &objects.node, .slices = {}, .allocated = {&objects.allocated}, .features = {}};
  for (const model::ResourceSlice& slice : objects.slices) input.slices.push_back(&slice);
  std::vector<ClaimInput> claims;
  claims.reserve(objects.claims.size());
  for (size_t i = 0; i < objects.claims.size(); ++i) {
    claims.push_back({.key = "c" + std::to_string(i), .spec = &objects.claims[i], .memory_percent = {}});
  }
  ClassMap classes;
  classes["any"].meta.name = "any";
  const auto run = [&]() -> Result<Answer> {
    QueryCache cache;
    Options options;
    options.selector_errors = SelectorErrors::kAbort;
    HEDDLE_TRY(const auto pools, NodePools::make(input));
    HEDDLE_TRY(auto prepared, prepare(claims, classes, cache, options));
    HEDDLE_TRY(const auto solution, solve(pools->view(), prepared, FirstFit(), {}, {.steps = steps}, options));
    if (!solution) return Answer();
    std::vector<Chosen> chosen;
    for (size_t c = 0; c < prepared.size(); ++c) {
      for (const Pick& pick : solution->claims[c]) {
        for (size_t r = 0; r < prepared[c].requests.size(); ++r) {
          const auto& alternatives = prepared[c].requests[r].alternatives;
          const bool own =
              pick.alternative >= alternatives.data() && pick.alternative < alternatives.data() + alternatives.size();
          if (!own) continue;
          const auto alternative = static_cast<size_t>(pick.alternative - alternatives.data());
          chosen.push_back({c, r, alternative, std::stoul(pick.device->name().substr(7))});
        }
      }
    }
    return Answer(std::move(chosen));
  };
  auto answer = run();
  if (!answer) return {.answer = {}, .error = answer.error().text()};
  return {.answer = *std::move(answer), .error = {}};
}

}  // namespace heddle::allocator::testing
