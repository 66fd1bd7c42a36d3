#include "cli/complaint.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace heddle::cli {

std::string complaint(const CLI::App& app, const CLI::ParseError& error, const std::string& verb) {
  const std::string help = fmt::format("`heddle {} --help` shows how to write it", verb);
  std::string text = error.what();
  const auto rest = app.remaining(true);
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  // A misspelt flag leaves the right one missing: the first is what there is to mend.
  const auto unknown = std::find_if(rest.begin(), rest.end(), [](const auto& word) { return word.starts_with('-'); });
  if (unknown != rest.end() && (extra || missing)) {
    return fmt::format("{}: unknown option '{}'; `heddle {} --help` lists them", verb, *unknown, verb);
  }
  if (extra) {
    const std::string word = rest.empty() ? std::string() : rest.front();
    return fmt::format("{}: '{}' is a word too many; {}", verb, word, help);
  }
  if (missing) {
    return fmt::format("{}: {} is missing; {}", verb, text.substr(0, text.find(' ')), help);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.ends_with(" missing")) {
    return fmt::format("{}: the value is missing; {}", text.substr(0, text.find(':')), help);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.find("At Most 1 ") != std::string::npos) {
    return fmt::format("{}: is given more than once: keep one", text.substr(0, text.find(':')));
  }
  return text;
}

std::optional<std::string> empty_value(const CLI::App& verb) {
  for (const auto* option : verb.get_options()) {
    const auto& values = option->results();
    if (std::find(values.begin(), values.end(), "") != values.end()) return option->get_name();
  }
  return std::nullopt;
}

}  // namespace heddle::cli
