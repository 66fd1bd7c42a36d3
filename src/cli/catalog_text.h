// What `heddle catalog` prints. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "catalog/catalog.h"
#include "cli/args.h"

namespace heddle::cli {

// One line a vendor.
std::string catalog_list(const catalog::Catalog& catalog, Output output);

// what: VENDOR, or VENDOR/MODEL where MODEL is a name of the catalogue or a product name that the driver reports.
// Errors: kNotFound with the nearest known name.
Result<std::string> catalog_show(const catalog::Catalog& catalog, const std::string& what, Output output);

struct CatalogFile {
  std::string file;  // its name tells what it is: hardware*.yaml or requests*.yaml; its folder is the vendor
  std::string text;
};

struct ValidatedFile {
  std::string file;
  std::vector<std::string> troubles;  // empty: valid
};

// Files of the catalogue, as they would be read from an administrator's folder: on top of the built-in catalogue, and
// requests with the hardware that is given beside them. context: hardware files that are only read for that. Errors:
// kInvalidArgument when a name does not tell what the file is.
Result<std::vector<ValidatedFile>> validate_catalog_files(const std::vector<CatalogFile>& files,
                                                          const std::vector<CatalogFile>& context = {});
std::string validation_json(const std::vector<ValidatedFile>& files);

}  // namespace heddle::cli
