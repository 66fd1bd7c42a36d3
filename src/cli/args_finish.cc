// Checks of what the parser has read.
#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <utility>

#include "cli/args_raw.h"

namespace heddle::cli {
namespace {

constexpr int64_t kMaxLoadPercent = 10'000;
constexpr int64_t kMaxGraceSeconds = int64_t{24} * 3600;
constexpr int64_t kMaxSeconds = int64_t{365} * 24 * 3600;

// The value of a flag that takes a whole number from `least` to `most`.
Result<int64_t> whole_number(const std::string& text, const char* flag, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec == std::errc() && parsed.ptr == end && value >= least && value <= most) return value;
  return fail(Code::kInvalidArgument, fmt::format("'{}': write a whole number from {} to {}", text, least, most), flag);
}

Result<void> read_numbers(const Raw& raw, standalone::JobRequest& request) {
  if (!raw.memory_percent.empty()) {
    HEDDLE_TRY(request.memory_percent, whole_number(raw.memory_percent, "--memory-percent", 1, 100));
  }
  if (!raw.cores.empty()) {
    HEDDLE_TRY(request.cores, whole_number(raw.cores, "--cores", 0, 100));
  }
  if (!raw.count.empty()) {
    HEDDLE_TRY(request.count, whole_number(raw.count, "--count", 1, standalone::kMaxCount));
  }
  if (!raw.priority.empty()) {
    HEDDLE_TRY(request.priority,
               whole_number(raw.priority, "--priority", -standalone::kMaxPriority, standalone::kMaxPriority));
  }
  return {};
}

}  // namespace

Message usage_error(const std::string& text) {
  return {fmt::format("heddle: {}\n", text), 1};
}

Message usage_error(const Error& error, const std::string& flag) {
  return usage_error(error.field.empty() && !flag.empty() ? flag + ": " + error.message : error.text());
}

std::variant<Args, Message> finish_up(Raw& raw) {
  auto& options = raw.up.options;
  if (!raw.dashboard_port.empty()) {
    int64_t port = -1;
    const auto& text = raw.dashboard_port;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
    if (text == "off") {
      options.page = standalone::Page::kOff;
    } else if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && port >= 0 && port <= 65535) {
      options.page = standalone::Page::kPort;
      options.page_port = static_cast<uint16_t>(port);
    } else {
      return usage_error(fmt::format("--dashboard-port: '{}' is not a port: write 0 to 65535, or off", text));
    }
  }
  if (!raw.starvation.empty()) {
    const auto seconds = parse_duration(raw.starvation);
    if (!seconds) return usage_error(seconds.error(), "--starve-after");
    options.queue.starvation_bound = Duration::seconds(*seconds);
  }
  if (!raw.eviction_grace.empty()) {
    const auto seconds = parse_duration(raw.eviction_grace);
    if (!seconds) return usage_error(seconds.error(), "--evict-grace");
    if (*seconds < 1 || *seconds > kMaxGraceSeconds) {
      return usage_error(fmt::format("--evict-grace: '{}': write 1s to 24h", raw.eviction_grace));
    }
    options.eviction_grace = Duration::seconds(*seconds);
  }
  return Args(raw.up);
}

std::variant<Args, Message> finish_run(Raw& raw, std::vector<std::string> command) {
  auto& request = raw.run.request;
  request.command = std::move(command);
  if (!raw.memory.empty()) {
    const auto bytes = standalone::parse_memory(raw.memory);
    if (!bytes) return usage_error(bytes.error(), "--memory");
    request.memory_bytes = *bytes;
  }
  if (!raw.virtual_memory.empty()) {
    const auto bytes = standalone::parse_memory(raw.virtual_memory);
    if (!bytes) return usage_error(bytes.error(), "--virtual-memory");
    request.virtual_bytes = *bytes;
  }
  if (auto numbers = read_numbers(raw, request); !numbers) return usage_error(numbers.error(), "");
  if (!raw.deadline.empty()) {
    const auto seconds = parse_duration(raw.deadline);
    if (!seconds) return usage_error(seconds.error(), "--deadline");
    request.deadline_seconds = *seconds;
  }
  if (!raw.placement_policy.empty()) {
    const auto policy = model::parse_placement_policy(raw.placement_policy);
    if (!policy) return usage_error(policy.error(), "--placement-policy");
    request.placement_policy = *policy;
  }
  if (raw.no_wait && !raw.timeout.empty()) {
    return usage_error("--timeout: --no-wait does not wait at all: keep one of the two");
  }
  if (raw.requeue && raw.no_requeue)
    return usage_error("--no-requeue: --requeue says the opposite: keep one of the two");
  if (raw.requeue) request.on_eviction = standalone::OnEviction::kRequeue;
  if (raw.no_wait) request.patience = standalone::Patience::kRefuse;
  if (raw.detach) request.lifetime = standalone::Lifetime::kDetached;
  if (!raw.timeout.empty()) {
    const auto seconds = parse_duration(raw.timeout);
    if (!seconds) return usage_error(seconds.error(), "--timeout");
    raw.run.timeout_seconds = *seconds;
  }
  if (auto checked = standalone::check_request(request); !checked) return usage_error(checked.error(), "");
  return Args(raw.run);
}

std::variant<Args, Message> finish_simulate(Raw& raw) {
  using placement::PolicyName;
  auto& args = raw.simulate;
  const bool fleet = !args.fleet_file.empty() || !args.workloads_file.empty();
  const bool trace = !args.nodes_file.empty() || !args.pods_file.empty();
  if (fleet && (trace || !raw.load.empty() || !raw.policy.empty() || !raw.mix.empty())) {
    return usage_error(
        "simulate: --fleet and --workloads stand for themselves: leave --nodes, --pods, --load, --policy and --mix "
        "out; a queue of the fleet says how its work is placed (placementPolicy)");
  }
  const auto missing = [](const std::string& flag, const std::string& other) {
    return usage_error(fmt::format("simulate: {} is missing beside {}; `heddle simulate --help`", flag, other));
  };
  if (fleet && args.fleet_file.empty()) return missing("--fleet", "--workloads");
  if (fleet && args.workloads_file.empty()) return missing("--workloads", "--fleet");
  if (trace && args.nodes_file.empty()) return missing("--nodes", "--pods");
  if (trace && args.pods_file.empty()) return missing("--pods", "--nodes");
  if (!fleet && !trace) {
    return usage_error("simulate: write --fleet and --workloads, or --nodes and --pods; `heddle simulate --help`");
  }
  const std::string& name = raw.policy;
  args.policy = name == "fgd"       ? PolicyName::kFgd
                : name == "bestfit" ? PolicyName::kBestFit
                : name == "random"  ? PolicyName::kRandom
                                    : PolicyName::kHeddle;
  args.mix_is_known = raw.mix == "known";
  args.output = raw.output == "json" ? Output::kJson : Output::kTable;
  if (!raw.seed.empty()) {
    const auto seed = whole_number(raw.seed, "--seed", 0, std::numeric_limits<int64_t>::max());
    if (!seed) return usage_error(seed.error(), "");
    args.seed = static_cast<uint64_t>(*seed);
  }
  if (!raw.load.empty()) {
    const auto load = whole_number(raw.load, "--load", 1, kMaxLoadPercent);
    if (!load) return usage_error(load.error(), "");
    args.load_percent = *load;
  }
  return Args(args);
}

std::variant<Args, Message> finish_uninstall(const Raw& raw) {
  if (raw.uninstall.plan == raw.uninstall.yes) {
    return usage_error("uninstall: write --plan to see what would be cleared, or --yes to clear it");
  }
  return Args(raw.uninstall);
}

std::variant<Args, Message> finish_catalog(Raw& raw) {
  const std::vector<std::string>& words = raw.catalog_words;
  const std::string& action = words.front();
  CatalogArgs& args = raw.catalog;
  args.output = raw.output == "json" ? Output::kJson : Output::kTable;
  if (action == "list" && words.size() == 1) {
    args.action = CatalogArgs::Action::kList;
  } else if (action == "show" && words.size() == 2) {
    args.action = CatalogArgs::Action::kShow;
    args.what = words[1];
  } else if (action == "validate" && words.size() > 1) {
    args.action = CatalogArgs::Action::kValidate;
    args.files.assign(words.begin() + 1, words.end());
  } else {
    return usage_error("catalog: write `list`, `show VENDOR[/MODEL]` or `validate FILE...`");
  }
  return Args(args);
}

Result<int64_t> parse_duration(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  const std::string unit(parsed.ptr, end);
  const int64_t scale = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (parsed.ec != std::errc() || scale == 0 || value < 0 || value > kMaxSeconds / scale) {
    return fail(Code::kInvalidArgument, fmt::format("'{}' is not a duration: write 90s, 10m or 2h", text));
  }
  return value * scale;
}

}  // namespace heddle::cli
