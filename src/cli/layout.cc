#include "cli/layout.h"

#include <algorithm>

namespace heddle::cli {

size_t columns(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return out;
}

std::string cut(const std::string& text, int width) {
  if (width <= 0 || columns(text) <= static_cast<size_t>(width)) return text;
  std::string out;
  size_t used = 0;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80 && ++used > static_cast<size_t>(width) - 3) break;
    out += c;
  }
  return out + "...";
}

std::string layout(const Rows& rows, int width) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - columns(row[i]) + 2, ' ');
    }
    out += cut(line, width) + "\n";
  }
  return out;
}

}  // namespace heddle::cli
