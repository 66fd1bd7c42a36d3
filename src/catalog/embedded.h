// The files of catalog/ as they were when this program was built: nothing is read from disk at run time.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle::catalog {

struct EmbeddedFile {
  std::string_view path;  // below catalog/: "nvidia/hardware.yaml", "schema/hardware.schema.json"
  std::string_view text;
};

// In the order of paths.
std::span<const EmbeddedFile> embedded_files();

// A file of the catalogue from anywhere.
struct InputFile {
  std::string name;    // for messages
  std::string vendor;  // its folder
  std::string text;
};

// The built-in files with this name, such as "hardware.yaml", in the order of vendors.
std::vector<InputFile> embedded_inputs(std::string_view file_name);

// DIR/<vendor>/<file_name> for every folder of an administrator's catalogue that has one, in the order of vendors; a
// folder without one adds nothing. Errors: kNotFound and others for DIR itself and unreadable files.
Result<std::vector<InputFile>> folder_inputs(const std::string& directory, std::string_view file_name);

}  // namespace heddle::catalog
