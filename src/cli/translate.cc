#include <fmt/format.h>

#include <cstdio>

#include "cli/translation.h"
#include "cli/verbs.h"

namespace heddle::cli {
int translate(const TranslateArgs& args) {
  const auto text = read_input(args.file);
  if (!text) {
    fmt::print(stderr, "heddle: {}\n", text.error().text());
    return kError;
  }
  const auto rules = catalog::Requests::with_folder(args.catalog);
  if (!rules) {
    fmt::print(stderr, "heddle: {}\n", rules.error().text());
    return kError;
  }
  const auto translated = translate_manifest(*rules, *text, {.translate_ignored = args.ignored});
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
