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

struct ValidatedFile {
  std::string file;
  std::vector<std::string> troubles;  // empty: valid
};

// One catalogue file's text, as a file of an administrator's folder would be read: on top of the built-in catalogue.
// Errors: kInvalidArgument when the name does not tell what the file is.
Result<ValidatedFile> validate_catalog_file(const std::string& file, const std::string& text);
std::string validation_json(const std::vector<ValidatedFile>& files);

}  // namespace heddle::cli
