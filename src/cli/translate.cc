#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/file.h"
#include "cli/translation.h"
#include "cli/verbs.h"

namespace heddle::cli {
namespace {

Result<std::string> read_input(const std::string& file) {
  if (file != "-") return read_file(file);
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (std::cin.bad()) return fail(Code::kInternal, "standard input cannot be read");
  return text;
}

}  // namespace

int translate(const TranslateArgs& args) {
  const auto text = read_input(args.file);
  if (!text) {
    fmt::print(stderr, "heddle: {}\n", text.error().text());
    return kError;
  }
  const auto translated = translate_manifest(*text);
  if (!translated) {
    fmt::print(stderr, "heddle: {}: {}\n", args.file, translated.error().text());
    return kError;
  }
  for (const auto& line : translated->explanations) fmt::print(stderr, "{}\n", line);
  if (!translated->refusals.empty()) {
    for (const auto& line : translated->refusals) fmt::print(stderr, "refused: {}\n", line);
    return kNo;
  }
  fmt::print("{}\n", translated->list_json);
  return 0;
}

}  // namespace heddle::cli
