#include "cli/complaint.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace heddle::cli {

std::string complaint(const CLI::App& app, const CLI::ParseError& error, const std::string& verb) {
  const std::string help = fmt::format("`heddle {} --help` shows how to write it", verb);
  std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const auto rest = app.remaining(true);
    const std::string word = rest.empty() ? std::string() : rest.front();
    if (word.starts_with('-')) {
      return fmt::format("{}: unknown option '{}'; `heddle {} --help` lists them", verb, word, verb);
    }
    return fmt::format("{}: '{}' is a word too many; {}", verb, word, help);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return fmt::format("{}: {} is missing; {}", verb, text.substr(0, text.find(' ')), help);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.ends_with(" missing")) {
    return fmt::format("{}: the value is missing; {}", text.substr(0, text.find(':')), help);
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
