#include "cli/guard_selftest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace heddle::cli {
namespace {

constexpr int64_t kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

int64_t number(const ProbeAnswers& answers, const std::string& name) {
  const auto found = answers.find(name);
  int64_t value = -1;
  if (found == answers.end()) return value;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return value;
}

std::string mib(int64_t bytes) {
  return bytes < 0 ? "nothing" : fmt::format("{} MiB", bytes >> 20);
}

}  // namespace

ProbeAnswers parse_answers(std::string_view text) {
  ProbeAnswers answers;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t space = line.find(' ');
    if (space != std::string_view::npos) answers[std::string(line.substr(0, space))] = line.substr(space + 1);
  }
  return answers;
}

std::vector<Check> judge_probe(const ProbeAnswers& answers, int64_t limit, int64_t charged, int64_t unknown) {
  if (const auto error = answers.find("error"); error != answers.end()) {
    return {{"driver", false, error->second + ", under the guard"}};
  }
  const auto value = [&](const char* name) { return number(answers, name); };
  std::vector<Check> checks;
  const auto add = [&](const char* name, bool good, std::string detail) {
    checks.push_back({name, good, std::move(detail)});
  };
  add("total", value("total") == limit, fmt::format("the device shows {} of {}", mib(value("total")), mib(limit)));
  add("context", value("context") == 0, fmt::format("a context can be made: code {}", value("context")));
  if (value("context") != 0) return checks;
  add("info", value("info") == 0 && value("shown_total") == limit && value("shown_free") <= limit,
      fmt::format("total {} and free {} of {}", mib(value("shown_total")), mib(value("shown_free")), mib(limit)));
  add("beyond", value("beyond") == kOutOfMemory,
      fmt::format("more than the limit in one piece: code {}", value("beyond")));
  const int64_t taken = value("filled") * value("piece");
  add("fill", value("filled") > 0 && taken <= limit && value("fill_code") == kOutOfMemory,
      fmt::format("{} in {} pieces, then code {}", mib(taken), value("filled"), value("fill_code")));
  add("full", value("full_info") == 0 && value("full_free") >= 0 && value("full_free") < value("piece"),
      fmt::format("{} shown as free then", mib(value("full_free"))));
  add("again", value("again") == 0 && value("free_code") <= 0,
      fmt::format("after everything was given back: code {}", value("again")));
  add("account", charged == 0, fmt::format("{} charged when the program is gone", mib(charged)));
  add("coverage", unknown == 0,
      unknown < 0 ? "the guard did not say what it knows of the driver"
                  : fmt::format("{} of the driver's entry points are not known to the guard", unknown));
  return checks;
}

std::string verdict_text(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) {
    text += fmt::format("{:<4} {:<9} {}\n", check.good ? "ok" : "BAD", check.name, check.detail);
  }
  return text + (all_good(checks) ? "The guard holds here.\n" : "The guard does NOT hold here.\n");
}

bool all_good(const std::vector<Check>& checks) {
  return !checks.empty() && std::ranges::all_of(checks, &Check::good);
}

}  // namespace heddle::cli
