#include <fmt/format.h>

#include <cstdio>

#include "base/print.h"
#include "cli/translation.h"
#include "cli/verbs.h"

namespace heddle::cli {
int translate(const TranslateArgs& args) {
  const auto text = read_input(args.file);
  if (!text) {
    print_to(stderr, "heddle: {}\n", text.error().text());
    return kError;
  }
  const auto rules = catalog::Requests::with_folder(args.catalog);
  if (!rules) {
    print_to(stderr, "heddle: {}\n", rules.error().text());
    return kError;
  }
  const auto translated = translate_manifest(*rules, *text, {.translate_ignored = args.ignored});
  if (!translated) {
    print_to(stderr, "heddle: {}: {}\n", args.file, translated.error().text());
    return kError;
  }
  for (const auto& line : translated->explanations) print_to(stderr, "{}\n", line);
  if (!translated->refusals.empty()) {
    for (const auto& line : translated->refusals) print_to(stderr, "refused: {}\n", line);
    return kNo;
  }
  print_out("{}\n", translated->list_json);
  return 0;
}

}  // namespace heddle::cli
