// What is wrong with a command line, in our words.
#pragma once

#include <optional>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
class ParseError;
}  // namespace CLI

namespace heddle::cli {

// What the parser holds against the line: the flag, and where to look.
std::string complaint(const CLI::App& app, const CLI::ParseError& error, const std::string& verb);

// The first option with an empty value. A variable that is not set makes `--memory "$MEMORY"` one, which must not pass
// for "not given".
std::optional<std::string> empty_value(const CLI::App& verb);

}  // namespace heddle::cli
