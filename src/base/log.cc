#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/json_text.h"

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

void append_value(std::string& out, const LogField& field) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) return append_json_string(out, *text);
  if (const auto* flag = std::get_if<bool>(&field.value)) {
    out += *flag ? "true" : "false";
    return;
  }
  if (const auto* number = std::get_if<int64_t>(&field.value)) {
    fmt::format_to(std::back_inserter(out), "{}", *number);
    return;
  }
  const double real = std::get<double>(field.value);
  if (!std::isfinite(real)) return append_json_string(out, fmt::format("{}", real));
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
  append_json_string(line, program_);
  line += ",\"message\":";
  append_json_string(line, message);
  for (const LogField& field : fields) {
    line.push_back(',');
    append_json_string(line, field.name);
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
