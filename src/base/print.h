// What a person reads, on standard output or standard error. Instead of fmt's print, which throws when a stream is
// closed, full or hung up: nobody loses a job because its terminal is gone. ferror() of the stream tells afterwards.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <tuple>
#include <utility>

namespace heddle {

template <typename... Args>
void print_to(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::ignore = std::fwrite(text.data(), 1, text.size(), stream);
}

template <typename... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  print_to(stdout, format, std::forward<Args>(args)...);
}

}  // namespace heddle
