#include "standalone/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/quantity.h"
#include "codec/codec.h"

namespace heddle::standalone {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kMoreThanAnyCard = int64_t{1} << 50;
constexpr int64_t kMoreThanAddressed = int64_t{16} << 40;  // what the guard's pages count

constexpr std::array<std::pair<JobState, std::string_view>, 4> kStates = {{{JobState::kWaiting, "waiting"},
                                                                           {JobState::kGranted, "granted"},
                                                                           {JobState::kRunning, "running"},
                                                                           {JobState::kEnded, "ended"}}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// As a CEL string literal.
std::string string_literal(std::string_view text) {
  return dump_json(nlohmann::json(text));
}

Result<int64_t> integer(const nlohmann::json& object, const char* name) {
  const auto& value = object.at(name);
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)) {
    return fail(Code::kInvalidArgument, "must be a whole number", name);
  }
  return value.get<int64_t>();
}

Result<std::string> text(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return std::string();
  if (!found->is_string()) return fail(Code::kInvalidArgument, "must be a string", name);
  return found->get<std::string>();
}

Result<std::optional<int64_t>> optional_integer(const nlohmann::json& object, const char* name) {
  if (!object.contains(name)) return std::optional<int64_t>();
  HEDDLE_TRY(const int64_t value, integer(object, name));
  return std::optional<int64_t>(value);
}

Result<std::vector<std::string>> parse_command(const nlohmann::json& object) {
  std::vector<std::string> command;
  const auto found = object.find("command");
  if (found == object.end()) return command;
  if (!found->is_array()) return fail(Code::kInvalidArgument, "must be a list of strings", "command");
  for (const auto& word : *found) {
    if (!word.is_string()) return fail(Code::kInvalidArgument, "must be a list of strings", "command");
    command.push_back(word.get<std::string>());
  }
  return command;
}

// The cards that the request's vendor and model leave: empty for one that it does not name.
struct Candidates {
  std::set<std::string> vendors;
  std::set<std::string> models;
};

// Errors: see claim_spec().
Result<Candidates> candidates(const JobRequest& request, const std::vector<vendors::Card>& cards) {
  Candidates found;
  std::set<std::string> vendors_here;
  std::set<std::string> models_here;  // of the vendor
  for (const auto& card : cards) {
    vendors_here.insert(card.vendor);
    if (!request.vendor.empty() && lower(request.vendor) != card.vendor) continue;
    models_here.insert(card.model);
    if (lower(card.model).find(lower(request.model)) == std::string::npos) continue;
    found.vendors.insert(card.vendor);
    found.models.insert(card.model);
  }
  if (!request.vendor.empty() && models_here.empty()) {
    return fail(Code::kNotFound,
                fmt::format("no card here is of '{}'; there are: {}", request.vendor, fmt::join(vendors_here, ", ")),
                "--vendor");
  }
  if (!request.model.empty() && found.models.empty()) {
    return fail(Code::kNotFound,
                fmt::format("no card here is a '{}'; there are: {}", request.model, fmt::join(models_here, ", ")),
                "--model");
  }
  if (found.vendors.size() > 1) {
    return fail(Code::kInvalidArgument,
                fmt::format("cards of {} are here, and a command runs on those of one: write --vendor {}, or --model",
                            fmt::join(found.vendors, " and "), fmt::join(found.vendors, " or --vendor ")),
                "--vendor");
  }
  if (vendors_here.size() < 2) found.vendors.clear();
  if (request.model.empty()) found.models.clear();
  return found;
}

// A name is shown in tables and is what a job is found by, as its number is.
Result<void> check_name(const std::string& name) {
  if (name.empty()) return {};
  const auto is = [&name](auto test) { return std::all_of(name.begin(), name.end(), test); };
  if (is([](unsigned char c) { return std::isdigit(c) != 0; })) {
    return fail(Code::kInvalidArgument, fmt::format("'{}' is a number, and so are jobs: add a letter", name), "--name");
  }
  if (!is([](unsigned char c) { return c >= 0x20 && c != 0x7F; })) {
    return fail(Code::kInvalidArgument, "a control character (a line break, a tab, an escape): leave it out", "--name");
  }
  // Bytes that do not continue a UTF-8 sequence.
  const auto length =
      static_cast<size_t>(std::count_if(name.begin(), name.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  if (length > kMaxName || name.size() > 4 * kMaxName) {
    return fail(Code::kInvalidArgument, fmt::format("{} characters: write at most {}", length, kMaxName), "--name");
  }
  return {};
}

}  // namespace

std::string_view state_name(JobState state) {
  for (const auto& [value, name] : kStates) {
    if (value == state) return name;
  }
  return "ended";
}

Result<JobState> parse_state(std::string_view text) {
  for (const auto& [value, name] : kStates) {
    if (name == text) return value;
  }
  return fail(Code::kInvalidArgument, fmt::format("unknown job state '{}'", text));
}

std::string request_json(const JobRequest& request) {
  nlohmann::ordered_json out;
  out["name"] = request.name;
  out["command"] = request.command;
  out["directory"] = request.directory;
  out["count"] = request.count;
  if (request.memory_bytes) out["memoryBytes"] = *request.memory_bytes;
  if (request.memory_percent) out["memoryPercent"] = *request.memory_percent;
  if (request.cores) out["cores"] = *request.cores;
  if (!request.model.empty()) out["model"] = request.model;
  out["priority"] = request.priority;
  if (request.lifetime == Lifetime::kDetached) out["detached"] = true;
  if (request.patience == Patience::kRefuse) out["noWait"] = true;
  if (request.on_eviction == OnEviction::kRequeue) out["requeue"] = true;
  if (!request.queue.empty()) out["queue"] = request.queue;
  if (!request.isolation.empty()) out["isolation"] = request.isolation;
  if (request.virtual_bytes) out["virtualMemoryBytes"] = *request.virtual_bytes;
  if (!request.reservation.empty()) out["reservation"] = request.reservation;
  if (request.deadline_seconds) out["deadlineSeconds"] = *request.deadline_seconds;
  if (request.placement_policy) out["placementPolicy"] = model::policy_name(*request.placement_policy);
  if (!request.vendor.empty()) out["vendor"] = request.vendor;
  // A command line may hold any bytes; what is not UTF-8 is replaced, for it is shown only.
  return dump_json(out);
}

Result<JobRequest> parse_request(std::string_view json) {
  const auto object = parse_json(json);
  if (!object.is_object()) return fail(Code::kInvalidArgument, "the request is not a JSON object");
  JobRequest request;
  HEDDLE_TRY(request.name, text(object, "name"));
  HEDDLE_TRY(request.directory, text(object, "directory"));
  HEDDLE_TRY(request.model, text(object, "model"));
  HEDDLE_TRY(request.queue, text(object, "queue"));
  HEDDLE_TRY(request.isolation, text(object, "isolation"));
  HEDDLE_TRY(request.reservation, text(object, "reservation"));
  HEDDLE_TRY(request.deadline_seconds, optional_integer(object, "deadlineSeconds"));
  HEDDLE_TRY(const std::string policy, text(object, "placementPolicy"));
  if (!policy.empty()) {
    const auto parsed = model::parse_placement_policy(policy);
    if (!parsed) return fail(parsed.error().code, parsed.error().message, "placementPolicy");
    request.placement_policy = *parsed;
  }
  HEDDLE_TRY(request.vendor, text(object, "vendor"));
  HEDDLE_TRY(request.command, parse_command(object));
  HEDDLE_TRY(const auto count, optional_integer(object, "count"));
  request.count = count.value_or(1);
  HEDDLE_TRY(request.memory_bytes, optional_integer(object, "memoryBytes"));
  HEDDLE_TRY(request.memory_percent, optional_integer(object, "memoryPercent"));
  HEDDLE_TRY(request.cores, optional_integer(object, "cores"));
  HEDDLE_TRY(request.virtual_bytes, optional_integer(object, "virtualMemoryBytes"));
  HEDDLE_TRY(const auto priority, optional_integer(object, "priority"));
  request.priority = priority.value_or(0);
  const auto is_set = [&object](const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_boolean() && found->get<bool>();
  };
  if (is_set("detached")) request.lifetime = Lifetime::kDetached;
  if (is_set("noWait")) request.patience = Patience::kRefuse;
  if (is_set("requeue")) request.on_eviction = OnEviction::kRequeue;
  return request;
}

Result<void> check_request(const JobRequest& request) {
  if (request.command.empty() || request.command.front().empty()) {
    return fail(Code::kInvalidArgument, "no command: write it behind --, as in: heddle run --memory 8Gi -- ./train");
  }
  HEDDLE_CHECK_OK(check_name(request.name));
  if (request.count < 1 || request.count > kMaxCount) {
    return fail(Code::kInvalidArgument, fmt::format("{} cards: write 1 to {}", request.count, kMaxCount), "--count");
  }
  if (request.priority < -kMaxPriority || request.priority > kMaxPriority) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: write a number from -{} to {}", request.priority, kMaxPriority, kMaxPriority),
                "--priority");
  }
  if (request.deadline_seconds && (*request.deadline_seconds < 1 || *request.deadline_seconds > kMaxDeadlineSeconds)) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} s: write 1s to {}h", *request.deadline_seconds, kMaxDeadlineSeconds / 3600),
                "--deadline");
  }
  if (request.memory_bytes && request.memory_percent) {
    return fail(Code::kInvalidArgument, "memory is given twice: keep --memory or --memory-percent", "--memory-percent");
  }
  if (request.memory_bytes && *request.memory_bytes < kMebibyte) {
    return fail(Code::kInvalidArgument, fmt::format("{} bytes: the least is 1Mi", *request.memory_bytes), "--memory");
  }
  if (request.memory_bytes && *request.memory_bytes % kMebibyte != 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} bytes are not a whole number of MiB: write {}Mi", *request.memory_bytes,
                            *request.memory_bytes / kMebibyte + 1),
                "--memory");
  }
  if (request.memory_percent && (*request.memory_percent < 1 || *request.memory_percent > 100)) {
    return fail(Code::kInvalidArgument, fmt::format("{}: write a whole number from 1 to 100", *request.memory_percent),
                "--memory-percent");
  }
  if (request.cores && (*request.cores < 0 || *request.cores > 100)) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: write a percentage of one card's compute, 0 (no cap) to 100 (alone on the card)",
                            *request.cores),
                "--cores");
  }
  if (request.cores && !request.memory_bytes && !request.memory_percent) {
    return fail(Code::kInvalidArgument,
                "a share of the compute needs a share of the memory: add --memory 8Gi or --memory-percent 50 (or leave "
                "--cores out for a whole card)",
                "--cores");
  }
  if (!request.isolation.empty() && request.isolation != model::kIsolationSoft &&
      request.isolation != model::kIsolationMps) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}': write soft (launches are paced) or mps (a part of the SMs)", request.isolation),
                "--isolation");
  }
  const int64_t cores = request.cores.value_or(0);
  if (request.isolation == model::kIsolationMps && (cores < 1 || cores > 99)) {
    return fail(Code::kInvalidArgument, "mps needs --cores of 1 to 99: the percentage of the SMs", "--isolation");
  }
  if (request.virtual_bytes && *request.virtual_bytes % kMebibyte != 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} bytes are not a whole number of MiB: write {}Mi", *request.virtual_bytes,
                            *request.virtual_bytes / kMebibyte + 1),
                "--virtual-memory");
  }
  if (request.virtual_bytes && *request.virtual_bytes >= kMoreThanAddressed) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} is too much: write less than 16Ti", format_bytes(*request.virtual_bytes)),
                "--virtual-memory");
  }
  if (request.virtual_bytes && *request.virtual_bytes <= request.memory_bytes.value_or(0)) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} must be more than the {} of --memory: it counts both what the card holds and what "
                            "may lie outside",
                            format_bytes(*request.virtual_bytes), format_bytes(request.memory_bytes.value_or(0))),
                "--virtual-memory");
  }
  return {};
}

Result<void> check_on_cards(const JobRequest& request, const std::vector<vendors::Card>& cards) {
  if (!request.virtual_bytes || request.memory_bytes) return {};
  constexpr int64_t kAll = 100;
  const int64_t percent = request.memory_percent.value_or(kAll);
  for (const auto& card : cards) {
    if (!request.vendor.empty() && lower(request.vendor) != card.vendor) continue;
    if (lower(card.model).find(lower(request.model)) == std::string::npos) continue;
    const auto granted = static_cast<int64_t>(Int128{card.memory_bytes} * percent / kAll) / kMebibyte * kMebibyte;
    if (*request.virtual_bytes > granted) continue;
    return fail(Code::kInvalidArgument,
                fmt::format("{} is not more than the {} that {} of a card ({}) {}: ask for more, or leave it out",
                            format_bytes(*request.virtual_bytes), format_bytes(granted),
                            request.memory_percent ? fmt::format("{}%", percent) : "the whole", card.model,
                            request.memory_percent ? "are" : "is"),
                "--virtual-memory");
  }
  return {};
}

Result<int64_t> parse_memory(std::string_view text) {
  auto quantity = Quantity::parse(text);
  if (!quantity) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("'{}' is not an amount of memory: write a number with a unit, such as 8Gi or 3000Mi", text));
  }
  const bool has_unit = std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  const auto bytes = quantity->value();
  if (!has_unit && bytes && *bytes < kMebibyte) {
    return fail(Code::kInvalidArgument, fmt::format("'{}' has no unit: write {}Gi or {}Mi", text, text, text));
  }
  if (!bytes || *bytes > kMoreThanAnyCard) {
    return fail(Code::kInvalidArgument, fmt::format("'{}' is more than any card has", text));
  }
  if (*bytes < kMebibyte)
    return fail(Code::kInvalidArgument, fmt::format("'{}' is too little: the least is 1Mi", text));
  if (!quantity->is_integer() || *bytes % kMebibyte != 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not a whole number of MiB: write {}Mi", text, *bytes / kMebibyte + 1));
  }
  return *bytes;
}

model::DeviceClass device_class() {
  model::DeviceClass out;
  out.meta.name = std::string(kClass);
  out.selectors = {"device.driver == \"accelerator.heddle.dev\""};
  return out;
}

Result<model::ClaimSpec> claim_spec(const JobRequest& request, const std::vector<vendors::Card>& cards) {
  model::DeviceSubRequest exactly;
  exactly.device_class = std::string(kClass);
  exactly.allocation_mode = "ExactCount";
  exactly.count = request.count;
  // Every device carries Heddle's own taint; the engine is the one that may pass it.
  exactly.tolerations.push_back({"heddle.dev/managed", "Exists", "", "NoSchedule", std::nullopt});
  HEDDLE_TRY(const auto wanted, candidates(request, cards));
  for (const auto& vendor : wanted.vendors) {
    exactly.selectors.push_back(
        fmt::format("device.attributes[\"accelerator.heddle.dev\"].vendor == {}", string_literal(vendor)));
  }
  if (!wanted.models.empty()) {
    std::vector<std::string> literals;
    literals.reserve(wanted.models.size());
    for (const auto& name : wanted.models) literals.push_back(string_literal(name));
    exactly.selectors.push_back(
        fmt::format("device.attributes[\"accelerator.heddle.dev\"].model in [{}]", fmt::join(literals, ", ")));
  }
  model::ClaimSpec spec;
  if (request.memory_bytes) exactly.capacity["memory"] = Quantity::bytes(*request.memory_bytes);
  if (request.memory_bytes || request.memory_percent) {
    exactly.capacity["cores"] = Quantity::from_int(request.cores.value_or(0));
  }
  model::ShareConfig share{.memory_percent = request.memory_percent};
  if (exactly.capacity.contains("cores") && request.cores.value_or(0) == 0 && request.priority < 0) share.priority = 1;
  share.virtual_memory = request.virtual_bytes;
  if (!request.isolation.empty()) share.isolation = request.isolation;
  if (share != model::ShareConfig{}) {
    model::OpaqueConfig config;
    config.requests = {std::string(kClaimRequest)};
    config.driver = "accelerator.heddle.dev";
    config.parameters_json = codec::share_config_json(share);
    spec.config.push_back(std::move(config));
  }
  model::DeviceRequest device_request;
  device_request.name = std::string(kClaimRequest);
  device_request.exactly = std::move(exactly);
  spec.requests.push_back(std::move(device_request));
  if (request.count > 1) {
    spec.constraints.push_back({{std::string(kClaimRequest)}, "", "accelerator.heddle.dev/uuid"});
  }
  return spec;
}

std::string describe(const JobRequest& request) {
  std::string what;
  if (!request.memory_bytes && !request.memory_percent) {
    what = request.count == 1 ? "a whole card" : fmt::format("{} whole cards", request.count);
  } else {
    const std::string memory = request.memory_bytes ? format_bytes(*request.memory_bytes)
                                                    : fmt::format("{}% of the memory", *request.memory_percent);
    const int64_t cores = request.cores.value_or(0);
    what = memory + (cores > 0 ? fmt::format(" and {}% of the compute", cores) : std::string()) +
           (request.count == 1 ? " of a card" : fmt::format(" of each of {} cards", request.count));
  }
  if (request.isolation == model::kIsolationMps) what += ", held by MPS";
  if (request.virtual_bytes) what += fmt::format(", {} of virtual memory", format_bytes(*request.virtual_bytes));
  if (!request.vendor.empty() || !request.model.empty()) {
    const char* both = request.vendor.empty() || request.model.empty() ? "" : " ";
    what += fmt::format(" ({}{}{})", request.vendor, both, request.model);
  }
  return what;
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array<std::pair<int64_t, std::string_view>, 3> kUnits = {
      {{int64_t{1} << 40, "Ti"}, {int64_t{1} << 30, "Gi"}, {kMebibyte, "Mi"}}};
  for (const auto& [unit, name] : kUnits) {
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, name);
  }
  return fmt::format("{}", bytes);
}

}  // namespace heddle::standalone
