#include <fmt/format.h>

#include <cstdio>

#include "cli/catalog_text.h"
#include "cli/verbs.h"

namespace heddle::cli {
namespace {

int validate(const CatalogArgs& args) {
  std::vector<ValidatedFile> files;
  int code = 0;
  for (const std::string& file : args.files) {
    const auto text = read_input(file);
    if (!text) return report(text.error());
    auto validated = validate_catalog_file(file, *text);
    if (!validated) return report(validated.error());
    if (!validated->troubles.empty()) code = kNo;
    files.push_back(std::move(*validated));
  }
  if (args.output == Output::kJson) {
    fmt::print("{}", validation_json(files));
    return code;
  }
  for (const ValidatedFile& file : files) {
    for (const std::string& trouble : file.troubles) fmt::print(stderr, "{}\n", trouble);
    if (file.troubles.empty()) fmt::print("{}: ok\n", file.file);
  }
  return code;
}

}  // namespace

int show_catalog(const CatalogArgs& args) {
  if (args.action == CatalogArgs::Action::kValidate) return validate(args);
  const auto catalog = catalog::Catalog::with_folder(args.folder);
  if (!catalog) {
    fmt::print(stderr, "heddle: {}\n", catalog.error().text());
    return kError;
  }
  if (args.action == CatalogArgs::Action::kList) {
    fmt::print("{}", catalog_list(*catalog, args.output));
    return 0;
  }
  const auto text = catalog_show(*catalog, args.what, args.output);
  if (!text) {
    fmt::print(stderr, "heddle: {}\n", text.error().text());
    return kNo;
  }
  fmt::print("{}", *text);
  return 0;
}

}  // namespace heddle::cli
