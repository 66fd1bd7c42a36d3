#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "base/print.h"
#include "cli/catalog_text.h"
#include "cli/verbs.h"

namespace heddle::cli {
namespace {

// The hardware.yaml beside a requests file, unless it is to be validated itself.
Result<std::vector<CatalogFile>> beside(const std::vector<std::string>& files) {
  std::vector<CatalogFile> out;
  for (const std::string& file : files) {
    const size_t name = file.rfind('/') + 1;
    const std::string path = file.substr(0, name) + "hardware.yaml";
    if (file.compare(name, 8, "requests") != 0 || !file_exists(path)) continue;
    if (std::ranges::find(files, path) != files.end()) continue;
    HEDDLE_TRY(std::string text, read_input(path));
    out.push_back({path, std::move(text)});
  }
  return out;
}

int validate(const CatalogArgs& args) {
  std::vector<CatalogFile> texts;
  for (const std::string& file : args.files) {
    auto text = read_input(file);
    if (!text) return report(text.error());
    texts.push_back({file, std::move(*text)});
  }
  const auto context = beside(args.files);
  if (!context) return report(context.error());
  const auto validated = validate_catalog_files(texts, *context);
  if (!validated) return report(validated.error());
  const std::vector<ValidatedFile>& files = *validated;
  const bool valid = std::ranges::all_of(files, [](const ValidatedFile& file) { return file.troubles.empty(); });
  const int code = valid ? 0 : kNo;
  if (args.output == Output::kJson) {
    print_out("{}", validation_json(files));
    return code;
  }
  for (const ValidatedFile& file : files) {
    for (const std::string& trouble : file.troubles) print_to(stderr, "{}\n", trouble);
    if (file.troubles.empty()) print_out("{}: ok\n", file.file);
  }
  return code;
}

}  // namespace

int show_catalog(const CatalogArgs& args) {
  if (args.action == CatalogArgs::Action::kValidate) return validate(args);
  const auto catalog = catalog::Catalog::with_folder(args.folder);
  if (!catalog) {
    print_to(stderr, "heddle: {}\n", catalog.error().text());
    return kError;
  }
  if (args.action == CatalogArgs::Action::kList) {
    print_out("{}", catalog_list(*catalog, args.output));
    return 0;
  }
  const auto text = catalog_show(*catalog, args.what, args.output);
  if (!text) {
    print_to(stderr, "heddle: {}\n", text.error().text());
    return kNo;
  }
  print_out("{}", *text);
  return 0;
}

}  // namespace heddle::cli
