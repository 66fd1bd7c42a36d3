#include "cli/guard_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"
#include "cli/layout.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::json;
using guard::DeviceHint;
using guard::ProcessUsage;

constexpr double kShareNoise = 0.001;  // smaller changes of what may be used are not told

std::string mib(int64_t bytes) {
  return fmt::format("{}Mi", bytes >> 20);
}

std::string percent(double share) {
  return fmt::format("{:.1f}%", share * 100);
}

bool has_share(const guard::DeviceLimit& device) {
  return device.cores_percent > 0 && device.cores_percent < 100;
}

// What it may use changes while it runs.
bool is_told(const guard::DeviceLimit& device) {
  return has_share(device) || device.gives_way;
}

// What the tenant may use of the device's time just now.
std::string rate_text(const GuardView& view, size_t index) {
  const guard::DeviceLimit& device = view.limits.devices[index];
  const DeviceHint& hint = view.hints[index];
  if (device.gives_way && hint.fresh && !view.limits.flags.strict_share && hint.rate < 1) return percent(hint.rate);
  if (!has_share(device)) return "all";
  const bool told = hint.fresh && !view.limits.flags.strict_share;
  return percent(told ? std::max(hint.rate, device.cores_percent / 100.0) : device.cores_percent / 100.0);
}

std::string counts_text(const GuardView& view, size_t index) {
  const DeviceHint& hint = view.hints[index];
  return has_share(view.limits.devices[index]) && hint.fresh ? fmt::format("{:.2f}", hint.charge) : "-";
}

std::vector<std::string> row(const GuardView& view, size_t index) {
  const guard::DeviceLimit& device = view.limits.devices[index];
  std::string limit = device.whole_card ? "whole card" : mib(device.memory_bytes);
  if (device.virtual_bytes > 0) limit += fmt::format(" ({} virtual)", mib(device.virtual_bytes));
  std::vector<std::string> cells = {view.limits.claim_uid,
                                    view.limits.request,
                                    device.uuid,
                                    "?",
                                    limit,
                                    has_share(device)              ? fmt::format("{}%", device.cores_percent)
                                    : view.limits.mask_percent > 0 ? fmt::format("{}% mps", view.limits.mask_percent)
                                                                   : "-",
                                    rate_text(view, index),
                                    counts_text(view, index),
                                    "?",
                                    "?"};
  if (!view.usage) return cells;
  if (index < view.usage->devices.size()) {
    const guard::DeviceUsage& used = view.usage->devices[index];
    cells[3] = mib(used.charged_bytes);
    if (used.managed_bytes > 0) cells[3] += fmt::format(" + {} managed", mib(used.managed_bytes));
  }
  cells[8] = fmt::format("{}", view.usage->processes.size());
  cells[9] = fmt::format("{:.1f}s", static_cast<double>(view.usage->throttled_ns) / 1e9);
  return cells;
}

Json device_json(const GuardView& view, size_t index) {
  const guard::DeviceLimit& device = view.limits.devices[index];
  const DeviceHint& hint = view.hints[index];
  Json out = Json::object();
  out["uuid"] = device.uuid;
  out["memoryBytes"] = device.memory_bytes;
  out["wholeCard"] = device.whole_card;
  out["coresPercent"] = device.cores_percent;
  out["givesWay"] = device.gives_way;
  if (view.limits.mask_percent > 0) out["maskPercent"] = view.limits.mask_percent;
  if (device.virtual_bytes > 0) out["virtualBytes"] = device.virtual_bytes;
  if (hint.fresh) {
    out["rate"] = hint.rate;
    out["intervalsCount"] = hint.charge;
  }
  if (view.usage && index < view.usage->devices.size()) {
    out["chargedBytes"] = view.usage->devices[index].charged_bytes;
    out["contextBytes"] = view.usage->devices[index].context_overhead_bytes;
    if (device.virtual_bytes > 0) {
      out["managedBytes"] = view.usage->devices[index].managed_bytes;
      out["managedResidentBytes"] = view.usage->devices[index].managed_resident_bytes;
    }
  }
  return out;
}

Json process_json(const ProcessUsage& process) {
  Json out = Json::object();
  out["pid"] = process.owner.pid;
  out["pidNamespace"] = process.owner.pid_namespace;
  out["launches"] = process.launches;
  out["heldBackNanos"] = process.throttled_ns;
  out["chargedBytes"] = process.charged_bytes;
  out["busyNanos"] = process.busy_ns;
  return out;
}

using ProcessKey = std::tuple<uint32_t, uint32_t, uint64_t>;

ProcessKey key_of(const ProcessUsage& process) {
  return {process.owner.pid, process.owner.pid_namespace, process.owner.start_time};
}

void process_changes(const guard::UsageReport& before, const guard::UsageReport& after,
                     std::vector<std::string>& lines) {
  std::map<ProcessKey, const ProcessUsage*> known;
  for (const ProcessUsage& process : before.processes) known[key_of(process)] = &process;
  for (const ProcessUsage& process : after.processes) {
    const auto found = known.find(key_of(process));
    const ProcessUsage* old = found == known.end() ? nullptr : found->second;
    if (old == nullptr) lines.push_back(fmt::format("process {} began", process.owner.pid));
    const int64_t launches = process.launches - (old == nullptr ? 0 : old->launches);
    const int64_t held = process.throttled_ns - (old == nullptr ? 0 : old->throttled_ns);
    if (launches != 0 || held != 0) {
      lines.push_back(fmt::format("process {} launched {}, held back {:.1f} ms", process.owner.pid, launches,
                                  static_cast<double>(held) / 1e6));
    }
    if (found != known.end()) known.erase(found);
  }
  for (const auto& [key, process] : known) lines.push_back(fmt::format("process {} ended", process->owner.pid));
}

}  // namespace

Result<std::vector<std::string>> guard_folders(const std::string& state_dir) {
  HEDDLE_TRY(const std::vector<std::string> claims, list_directory(state_dir + "/claims"));
  std::vector<std::string> folders;
  for (const std::string& claim : claims) {
    const auto requests = list_directory(fmt::format("{}/claims/{}", state_dir, claim));
    if (!requests) continue;
    for (const std::string& request : *requests) {
      std::string folder = fmt::format("{}/claims/{}/{}", state_dir, claim, request);
      if (file_exists(folder + "/limits")) folders.push_back(std::move(folder));
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

Result<GuardView> look_at_guard(const std::string& folder, int64_t now_ns) {
  HEDDLE_TRY(const std::string content, read_file(folder + "/limits", size_t{1} << 20));
  HEDDLE_TRY(guard::ClaimLimits limits, guard::decode_limits(content));
  GuardView view{folder, std::move(limits), {}, guard::read_usage(folder + "/usage")};
  for (uint32_t i = 0; i < view.limits.devices.size(); ++i) {
    view.hints.push_back(guard::hint_in(content, i, now_ns));
  }
  return view;
}

std::vector<GuardJob> guard_jobs(const std::string& status_json) {
  std::vector<GuardJob> jobs;
  const Json status = parse_json(status_json);
  if (!status.is_object() || !status.contains("jobs")) return jobs;
  for (const Json& job : status["jobs"]) {
    const std::string claim = json_text(job, "claim");
    if (claim.empty() || !job.contains("id") || !job["id"].is_number_integer()) continue;
    const std::string name = printable(json_text(job, "name"));
    jobs.push_back({claim, fmt::format("{}{}", job["id"].get<int64_t>(), name.empty() ? "" : " (" + name + ")")});
  }
  return jobs;
}

void name_jobs(std::vector<GuardView>& views, const std::vector<GuardJob>& jobs) {
  for (GuardView& view : views) {
    for (const GuardJob& job : jobs) {
      if (job.claim == view.limits.claim_uid) view.job = job.label;
    }
  }
}

std::string guard_table(const std::vector<GuardView>& views) {
  if (views.empty()) return "no claim is prepared here\n";
  std::vector<std::vector<std::string>> rows = {
      {"CLAIM", "REQUEST", "CARD", "CHARGED", "MEMORY", "CORES", "NOW", "COUNTS", "PROCESSES", "HELD BACK"}};
  const bool jobs = std::any_of(views.begin(), views.end(), [](const GuardView& view) { return !view.job.empty(); });
  if (jobs) rows.front().insert(rows.front().begin(), "JOB");
  for (const GuardView& view : views) {
    for (size_t i = 0; i < view.limits.devices.size(); ++i) {
      rows.push_back(row(view, i));
      if (jobs) rows.back().insert(rows.back().begin(), view.job.empty() ? "-" : view.job);
    }
  }
  std::vector<size_t> widths(rows.front().size());
  for (const auto& cells : rows) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text;
  for (const auto& cells : rows) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) line += fmt::format("{:<{}}  ", cells[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  for (const GuardView& view : views) {
    if (!view.usage) text += fmt::format("{}: {}\n", view.folder, view.usage.error().text());
    if (view.usage && view.usage->unknown_symbols > 0) {
      text += fmt::format("{}: its driver has {} entry points that the guard does not know\n", view.folder,
                          view.usage->unknown_symbols);
    }
  }
  return text;
}

std::string guard_json(const std::vector<GuardView>& views) {
  Json claims = Json::array();
  for (const GuardView& view : views) {
    Json claim = Json::object();
    claim["claim"] = view.limits.claim_uid;
    claim["request"] = view.limits.request;
    if (!view.job.empty()) claim["job"] = std::strtoll(view.job.c_str(), nullptr, 10);
    claim["folder"] = view.folder;
    claim["strict"] = view.limits.flags.strict_share;
    claim["priority"] = view.limits.priority;
    claim["devices"] = Json::array();
    for (size_t i = 0; i < view.limits.devices.size(); ++i) claim["devices"].push_back(device_json(view, i));
    claim["processes"] = Json::array();
    if (view.usage) {
      for (const ProcessUsage& process : view.usage->processes) claim["processes"].push_back(process_json(process));
      claim["unknownSymbols"] = view.usage->unknown_symbols;
    } else {
      claim["usageError"] = view.usage.error().text();
    }
    claims.push_back(std::move(claim));
  }
  Json out = Json::object();
  out["claims"] = std::move(claims);
  return dump_json(out, 2) + "\n";
}

std::vector<std::string> guard_changes(const GuardView& before, const GuardView& after) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < after.limits.devices.size() && i < before.limits.devices.size(); ++i) {
    const std::string& uuid = after.limits.devices[i].uuid;
    if (before.usage && after.usage && i < before.usage->devices.size() && i < after.usage->devices.size()) {
      const int64_t now = after.usage->devices[i].charged_bytes;
      const int64_t change = now - before.usage->devices[i].charged_bytes;
      if (change != 0)
        lines.push_back(
            fmt::format("{} charged {} ({}{})", uuid, mib(now), change > 0 ? "+" : "-", mib(std::abs(change))));
    }
    const bool moved = std::abs(after.hints[i].rate - before.hints[i].rate) >= kShareNoise ||
                       after.hints[i].fresh != before.hints[i].fresh;
    const guard::DeviceLimit& device = after.limits.devices[i];
    if (is_told(device) && moved) {
      const std::string own = device.gives_way ? "gives way" : fmt::format("its share: {}%", device.cores_percent);
      lines.push_back(fmt::format("{} may be used {} now ({})", uuid, rate_text(after, i), own));
    }
  }
  if (before.usage && after.usage) process_changes(*before.usage, *after.usage, lines);
  if (before.usage.has_value() != after.usage.has_value()) {
    lines.push_back(after.usage ? "the usage file can be read again" : after.usage.error().text());
  }
  return lines;
}

}  // namespace heddle::cli
