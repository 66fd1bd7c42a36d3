// Text in columns, for terminals.
#pragma once

#include <string>
#include <vector>

namespace heddle::cli {

using Rows = std::vector<std::vector<std::string>>;

// Columns of the text on a terminal, for the texts that appear here: bytes that do not continue a UTF-8 sequence.
size_t columns(const std::string& text);
// Text of others as it may reach a terminal: no control character, of either set (C0, C1), is left in it. For every
// text that is not the program's own.
std::string printable(const std::string& text);
// The same for a text of several lines, whose ends stay.
std::string printable_lines(const std::string& text);
// width: columns of the terminal; 0: not a terminal, nothing is cut.
std::string cut(const std::string& text, int width);
// On several lines where it is wider, broken at spaces where there are any; further lines begin with `indent` spaces.
std::string wrap(const std::string& text, int width, size_t indent);
std::string layout(const Rows& rows, int width);

}  // namespace heddle::cli
