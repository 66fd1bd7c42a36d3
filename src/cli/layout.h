// Text in columns, for terminals.
#pragma once

#include <string>
#include <vector>

namespace heddle::cli {

using Rows = std::vector<std::vector<std::string>>;

// Columns of the text on a terminal, for the texts that appear here: bytes that do not continue a UTF-8 sequence.
size_t columns(const std::string& text);
// Control characters must not reach the terminal.
std::string printable(const std::string& text);
// width: columns of the terminal; 0: not a terminal, nothing is cut.
std::string cut(const std::string& text, int width);
std::string layout(const Rows& rows, int width);

}  // namespace heddle::cli
