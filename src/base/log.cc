#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <iterator>
#include <utility>

namespace heddle {
namespace {

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

// The length of the valid UTF-8 sequence at the front of text, 0 if there is none. A log line must stay valid JSON
// whatever bytes a container name or a driver gave us.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) || (first == 0xf0 && byte(1) < 0x90) ||
      (first == 0xf4 && byte(1) > 0x8f)) {
    return 0;
  }
  return length;
}

void append_string(std::string& out, std::string_view text) {
  out.push_back('"');
  while (!text.empty()) {
    const char c = text.front();
    size_t length = utf8_length(text);
    if (length == 0) {
      out += "\\ufffd";
      length = 1;
    } else if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  out.push_back('"');
}

void append_value(std::string& out, const LogField& field) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) return append_string(out, *text);
  if (const auto* flag = std::get_if<bool>(&field.value)) {
    out += *flag ? "true" : "false";
    return;
  }
  if (const auto* number = std::get_if<int64_t>(&field.value)) {
    fmt::format_to(std::back_inserter(out), "{}", *number);
    return;
  }
  const double real = std::get<double>(field.value);
  if (!std::isfinite(real)) return append_string(out, fmt::format("{}", real));
  fmt::format_to(std::back_inserter(out), "{}", real);
}

}  // namespace

Logger::Logger(std::string program, LogLevel level, const Clock& clock, int fd)
    : program_(std::move(program)), level_(level), clock_(clock), fd_(fd) {}

void Logger::debug(std::string_view message, std::initializer_list<LogField> fields) const {
  write(LogLevel::kDebug, message, fields);
}
void Logger::info(std::string_view message, std::initializer_list<LogField> fields) const {
  write(LogLevel::kInfo, message, fields);
}
void Logger::warning(std::string_view message, std::initializer_list<LogField> fields) const {
  write(LogLevel::kWarning, message, fields);
}
void Logger::error(std::string_view message, std::initializer_list<LogField> fields) const {
  write(LogLevel::kError, message, fields);
}

void Logger::write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) const {
  if (level < level_) return;
  std::string line =
      fmt::format(R"({{"time":"{}","level":"{}","program":)", format_rfc3339_micro(clock_.now()), level_name(level));
  append_string(line, program_);
  line += ",\"message\":";
  append_string(line, message);
  for (const LogField& field : fields) {
    line.push_back(',');
    append_string(line, field.name);
    line.push_back(':');
    append_value(line, field);
  }
  line += "}\n";
  // A log that cannot be written (a closed pipe, a full disk) must not stop the program, and there is nowhere to say
  // so.
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t put = ::write(fd_, line.data() + done, line.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    done += static_cast<size_t>(put);
  }
}

Result<LogLevel> parse_log_level(std::string_view text) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (text == level_name(level)) return level;
  }
  return fail(Code::kInvalidArgument,
              "log level \"" + std::string(text) + "\" is not one of debug, info, warning, error");
}

}  // namespace heddle
