#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "base/json.h"
#include "cli/layout.h"
#include "standalone/job.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr size_t kBar = 24;
constexpr size_t kIndent = 4;               // of the further lines of a reason
constexpr size_t kShortName = 12;           // of models, names and users, where the terminal is narrow
constexpr std::ptrdiff_t kQueueColumn = 3;  // of jobs, where there are queues

std::string mebibytes(int64_t bytes) {
  return fmt::format("{}Mi", bytes / kMebibyte);
}

std::string bar(int64_t part, int64_t whole) {
  if (whole <= 0) return std::string(kBar, '?');
  auto filled = static_cast<size_t>(std::lround(static_cast<double>(part) / static_cast<double>(whole) * kBar));
  if (part > 0) filled = std::max<size_t>(filled, 1);
  filled = std::min(filled, kBar);
  return "[" + std::string(filled, '#') + std::string(kBar - filled, '.') + "]";
}

std::string command_of(const Json& job) {
  std::string text;
  for (const auto& word : job.at("request").at("command")) {
    text += (text.empty() ? "" : " ") + printable(word.get<std::string>());
  }
  return text;
}

std::string used_of(const Json& job) {
  int64_t used = 0;
  for (const auto& share : job.at("shares")) {
    if (!share.at("usedBytes").is_number_integer()) return "-";
    used += share["usedBytes"].get<int64_t>();
  }
  return job.at("shares").empty() ? "-" : mebibytes(used);
}

// Empty: there are no queues.
std::string queue_of(const Json& job) {
  const auto queue = job.find("queue");
  return queue != job.end() && queue->is_string() ? printable(queue->get<std::string>()) : std::string();
}

std::string where(const Json& job) {
  std::string text;
  for (const auto& share : job.at("shares")) text += (text.empty() ? "" : ",") + share.at("card").get<std::string>();
  return text.empty() ? "-" : text;
}

// Why its share is taken back; empty: it is not.
std::string eviction_of(const Json& job) {
  const auto why = job.value("evictedWhy", Json());
  return why.is_string() && job.at("state") == "running" ? printable(why.get<std::string>()) : std::string();
}

std::string after_eviction(const Json& job) {
  const auto request = job.value("request", Json::object());
  return request.value("requeue", false) ? "waits again" : "has ended";
}

std::string reasons(const Json& job) {
  std::string text;
  for (const auto& reason : job.at("reasons"))
    text += (text.empty() ? "" : "; ") + reason.at("message").get<std::string>();
  return printable(text);
}

Rows card_rows(const Json& status) {
  Rows rows = {{"CARD", "MODEL", "MEMORY GRANTED", "", "COMPUTE", "JOBS"}};
  for (const auto& card : status.at("cards")) {
    const auto granted = card.at("grantedBytes").get<int64_t>();
    const auto memory = card.at("memoryBytes").get<int64_t>();
    std::string holders;
    for (const auto& holder : card.at("holders")) {
      holders += fmt::format("{}{}", holders.empty() ? "" : ",", holder.at("job").get<int64_t>());
    }
    std::string model = printable(card.at("model").get<std::string>());
    if (card.at("simulated").get<bool>()) model += " (SIMULATED)";
    if (!card.at("healthy").get<bool>())
      model += " UNHEALTHY: " + printable(card.at("healthMessage").get<std::string>());
    rows.push_back({card.at("name").get<std::string>(), model, bar(granted, memory),
                    mebibytes(granted) + " of " + mebibytes(memory),
                    fmt::format("{}%", card.at("grantedCores").get<int64_t>()), holders.empty() ? "-" : holders});
  }
  return rows;
}

Rows job_rows(const Json& status) {
  Rows rows = {{"JOB", "NAME", "USER", "STATE", "SHARE", "CARD", "USED", "COMMAND"}};
  const auto& jobs = status.at("jobs");
  const bool queues = std::any_of(jobs.begin(), jobs.end(), [](const Json& job) { return !queue_of(job).empty(); });
  if (queues) rows.front().insert(rows.front().begin() + kQueueColumn, "QUEUE");
  for (const auto& job : jobs) {
    const auto name = printable(job.at("name").get<std::string>());
    auto& row = rows.emplace_back(
        std::vector<std::string>{fmt::format("{}", job.at("id").get<int64_t>()), name.empty() ? "-" : name,
                                 job.at("owner").get<std::string>(), job.at("state").get<std::string>(),
                                 job.at("what").get<std::string>(), where(job), used_of(job), command_of(job)});
    if (!eviction_of(job).empty()) row[3] = "giving way";
    if (queues) row.insert(row.begin() + kQueueColumn, queue_of(job).empty() ? "-" : queue_of(job));
  }
  return rows;
}

// Who gives way to whom, and what becomes of it.
std::string leaving_lines(const Json& status, int width) {
  std::string out;
  for (const auto& job : status.at("jobs")) {
    const std::string why = eviction_of(job);
    if (why.empty()) continue;
    const std::string line =
        fmt::format("  job {}: {}; then it {}", job.at("id").get<int64_t>(), why, after_eviction(job));
    out += wrap(line, width, kIndent) + "\n";
  }
  return out.empty() ? out : "\nGiving way, and to whom:\n" + out;
}

std::string waiting_lines(const Json& status, int width) {
  std::vector<std::tuple<std::string, int64_t, std::string>> lines;
  for (const auto& job : status.at("jobs")) {
    const auto position = job.at("position").get<int64_t>();
    if (position == 0) continue;
    const std::string queue = queue_of(job);
    lines.emplace_back(queue, position,
                       fmt::format("  {}{}. job {}: {}", queue.empty() ? "" : queue + " ", position,
                                   job.at("id").get<int64_t>(), reasons(job)));
  }
  if (lines.empty()) return "";
  std::sort(lines.begin(), lines.end());
  std::string out = "\nWaiting, and why:\n";
  for (const auto& [queue, position, line] : lines) out += wrap(line, width, kIndent) + "\n";
  return out;
}

Rows ended_rows(const Json& status) {
  Rows rows = {{"ENDED", "NAME", "USER", "AT", "HOW", "COMMAND"}};
  for (const auto& job : status.at("ended")) {
    const auto name = printable(job.at("name").get<std::string>());
    rows.push_back({fmt::format("{}", job.at("id").get<int64_t>()), name.empty() ? "-" : name,
                    job.at("owner").get<std::string>(),
                    job.at("endedAt").is_string() ? job["endedAt"].get<std::string>() : "-",
                    printable(job.at("outcome").get<std::string>()), command_of(job)});
  }
  return rows;
}

size_t widest(const Rows& rows) {
  size_t most = 0;
  const std::string text = layout(rows, 0);
  for (size_t from = 0, end = 0; (end = text.find('\n', from)) != std::string::npos; from = end + 1)
    most = std::max(most, columns(text.substr(from, end - from)));
  return most;
}

bool too_wide(const Rows& rows, int width) {
  return width > 0 && widest(rows) > static_cast<size_t>(width);
}

void shorten(Rows& rows, size_t column) {
  for (size_t i = 1; i < rows.size(); ++i) rows[i][column] = cut(rows[i][column], kShortName);
}

void replace_all(std::string& text, std::string_view part, std::string_view instead) {
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += instead.size())
    text.replace(at, part.size(), instead);
}

// Where the terminal is narrow: amounts stay whole, and what can be shorter gives way before a line is cut.
std::string cards_text(const Json& status, int width) {
  Rows rows = card_rows(status);
  constexpr std::ptrdiff_t kBarColumn = 2;
  constexpr size_t kModel = 1;
  if (too_wide(rows, width)) {
    for (auto& row : rows) row.erase(row.begin() + kBarColumn);
    rows.front()[kBarColumn] = "MEMORY GRANTED";
  }
  if (too_wide(rows, width)) shorten(rows, kModel);
  return layout(rows, width);
}

std::string jobs_text(const Json& status, int width) {
  Rows rows = job_rows(status);
  const size_t share = rows.front().size() - 4;
  if (width > 0) {
    const auto without_command = [&rows] {
      Rows some = rows;
      for (auto& row : some) row.pop_back();
      return widest(some);
    };
    constexpr size_t kCommand = 16;  // of it there is to be left so much
    const auto narrow = [&] { return without_command() + kCommand > static_cast<size_t>(width); };
    if (too_wide(rows, width) && narrow()) {
      for (size_t i = 1; i < rows.size(); ++i) {
        replace_all(rows[i][share], " of a card", "");
        replace_all(rows[i][share], " of the compute", "");
        replace_all(rows[i][share], " and ", ", ");
      }
    }
    for (const size_t column : {size_t{1}, size_t{2}}) {
      if (too_wide(rows, width) && narrow()) shorten(rows, column);
    }
  }
  return layout(rows, width);
}

tl::unexpected<Error> strange_answer() {
  return fail(Code::kInternal, "Heddle gave an answer that this version does not understand");
}

}  // namespace

Result<std::string> status_table(const std::string& status_json, Ended ended, int width) {
  try {
    const auto status = parse_json(status_json);
    std::string out =
        fmt::format("Heddle {} on {}", status.at("version").get<std::string>(), status.at("node").get<std::string>());
    if (status.at("simulated").get<bool>()) out += ": SIMULATED cards, nothing here is real hardware";
    out += "\n\n" + cards_text(status, width);
    if (status.at("jobs").empty()) {
      out += "\nNo jobs.\n";
    } else {
      out += "\n" + jobs_text(status, width) + leaving_lines(status, width) + waiting_lines(status, width);
    }
    if (const auto trouble = status.value("trouble", std::string()); !trouble.empty()) {
      out += "\nThe state of the cards is not known now: " + printable(trouble) + "\n";
    }
    for (const auto& stranger : status.value("strangers", Json::array())) {
      const auto& memory = stranger.at("memoryBytes");
      out += fmt::format("\nwarning: process {} ({}) on {}{}: {}\n", stranger.at("pid").get<int64_t>(),
                         printable(stranger.at("command").get<std::string>()), stranger.at("card").get<std::string>(),
                         memory.is_number_integer() ? ", " + mebibytes(memory.get<int64_t>()) : "",
                         stranger.at("what").get<std::string>());
    }
    if (ended == Ended::kShow && !status.at("ended").empty()) out += "\n" + layout(ended_rows(status), width);
    return out;
  } catch (const Json::exception&) {
    return strange_answer();
  }
}

Result<std::string> job_text(const std::string& job_json) {
  try {
    const auto job = parse_json(job_json);
    const auto state = job.at("state").get<std::string>();
    const auto time = [&job](const char* name) {
      return job.at(name).is_string() ? job[name].get<std::string>() : std::string("-");
    };
    std::string out = fmt::format(
        "job {}{}: {}\n", job.at("id").get<int64_t>(),
        job.at("name").get<std::string>().empty() ? "" : " (" + printable(job["name"].get<std::string>()) + ")", state);
    out += fmt::format("  asked for  {}\n", job.at("what").get<std::string>());
    out += fmt::format("  by         {}, at {}\n", job.at("owner").get<std::string>(), time("submittedAt"));
    out += fmt::format("  command    {}\n", command_of(job));
    if (const std::string queue = queue_of(job); !queue.empty()) out += fmt::format("  queue      {}\n", queue);
    const auto request = job.value("request", Json::object());
    if (const auto name = request.value("reservation", std::string()); !name.empty()) {
      out += fmt::format("  reserved   it runs inside reservation {} only\n", printable(name));
    }
    if (const auto seconds = request.value("deadlineSeconds", int64_t{0}); seconds > 0) {
      out += fmt::format("  deadline   {} s after it got its share\n", seconds);
    }
    if (state == "waiting") {
      out += fmt::format("  place      {} in the queue\n", job.at("position").get<int64_t>());
      for (const auto& reason : job.at("reasons")) {
        out += fmt::format("  {:<10} {}\n", reason.at("code").get<std::string>(),
                           printable(reason.at("message").get<std::string>()));
      }
    }
    for (const auto& share : job.at("shares")) {
      const auto& used = share.at("usedBytes");
      const std::string now =
          used.is_number_integer() ? "; used " + mebibytes(used.get<int64_t>()) : std::string("; used not known");
      out += fmt::format("  {:<10} {}: {} and {}% of the compute{}\n", state == "ended" ? "had" : "has",
                         share.at("card").get<std::string>(), mebibytes(share.at("memoryBytes").get<int64_t>()),
                         share.at("cores").get<int64_t>(), state == "running" ? now : std::string());
    }
    if (const std::string why = eviction_of(job); !why.empty()) {
      out += fmt::format("  gives way  {}; then it {}\n", why, after_eviction(job));
    }
    if (const auto times = job.value("evictions", int64_t{0}); times > 0) {
      out += fmt::format("  evicted    {} time{} so far; it began anew\n", times, times == 1 ? "" : "s");
    }
    if (state != "waiting") out += fmt::format("  granted    {}, started {}\n", time("grantedAt"), time("startedAt"));
    if (const auto output = job.value("output", Json()); output.is_string() && job.at("startedAt").is_string()) {
      out += fmt::format("  output     {}\n", output.get<std::string>());
    }
    if (state == "ended")
      out += fmt::format("  ended      {}: {}\n", time("endedAt"), printable(job.at("outcome").get<std::string>()));
    return out;
  } catch (const Json::exception&) {
    return strange_answer();
  }
}

}  // namespace heddle::cli
