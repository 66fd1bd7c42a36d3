// Structured logs: one JSON object a line on standard error, with time, level, message and typed fields.
//
//   log.info("claim written", {{"claim", key}, {"node", node}, {"attempt", 2}});
//
// A Logger is passed in, never global. Thread-safe. A line is one write(2), so lines of several threads do not mix.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/clock.h"

namespace heddle {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogField {
  LogField(std::string_view key, std::string_view text) : name(key), value(text) {}
  LogField(std::string_view key, const std::string& text) : name(key), value(std::string_view(text)) {}
  LogField(std::string_view key, const char* text) : name(key), value(std::string_view(text)) {}
  LogField(std::string_view key, bool flag) : name(key), value(flag) {}
  template <typename T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  LogField(std::string_view key, T number) : name(key), value(static_cast<int64_t>(number)) {}
  LogField(std::string_view key, double number) : name(key), value(number) {}

  std::string_view name;
  std::variant<std::string_view, bool, int64_t, double> value;
};

class Logger {
 public:
  // fd: where lines go (2 for standard error); borrowed. program: the field "program" of each line.
  Logger(std::string program, LogLevel level, const Clock& clock, int fd = 2);

  void debug(std::string_view message, std::initializer_list<LogField> fields = {}) const;
  void info(std::string_view message, std::initializer_list<LogField> fields = {}) const;
  void warning(std::string_view message, std::initializer_list<LogField> fields = {}) const;
  void error(std::string_view message, std::initializer_list<LogField> fields = {}) const;

 private:
  void write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) const;

  std::string program_;
  LogLevel level_;
  const Clock& clock_;
  int fd_;
};

// "debug", "info", "warning", "error". Errors: kInvalidArgument.
Result<LogLevel> parse_log_level(std::string_view text);

}  // namespace heddle
