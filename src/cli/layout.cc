#include "cli/layout.h"

#include <algorithm>

namespace heddle::cli {

size_t columns(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string printable(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, in UTF-8.
    const bool second_set = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    out += byte < 0x20 || byte == 0x7F || second_set ? '?' : text[i];
    if (second_set) ++i;
  }
  return out;
}

std::string printable_lines(const std::string& text) {
  std::string out;
  size_t from = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', from)) {
    out += printable(text.substr(from, end - from)) + "\n";
    from = end + 1;
  }
  return out + printable(text.substr(from));
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

std::string wrap(const std::string& text, int width, size_t indent) {
  const auto room = static_cast<size_t>(std::max(width, 0));
  if (room <= indent + 1 || columns(text) <= room) return text;
  std::string out;
  size_t from = 0;  // of the line
  while (columns(text.substr(from)) + (from == 0 ? 0 : indent) > room) {
    const size_t most = room - (from == 0 ? 0 : indent);
    size_t end = from;    // behind the last byte that fits
    size_t space = from;  // the last space that may be a break: none before the first word
    bool word = false;
    for (size_t used = 0; end < text.size(); ++end) {
      const bool begins = (text[end] & 0xC0) != 0x80;
      if (begins && used == most && text[end] != ' ') break;
      if (begins && text[end] == ' ' && word) space = end;
      if (begins && used++ == most) break;
      word = word || text[end] != ' ';
    }
    const bool at_space = space > from;
    if (from > 0) out += std::string(indent, ' ');
    out += text.substr(from, (at_space ? space : end) - from) + "\n";
    from = at_space ? space + 1 : end;
  }
  return out + (from > 0 ? std::string(indent, ' ') : "") + text.substr(from);
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
