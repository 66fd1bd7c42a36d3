#include "catalog/embedded.h"

#include <fmt/format.h>

#include "base/file.h"

namespace heddle::catalog {

std::vector<InputFile> embedded_inputs(std::string_view file_name) {
  std::vector<InputFile> out;
  for (const EmbeddedFile& file : embedded_files()) {
    const size_t slash = file.path.find('/');
    if (slash == std::string_view::npos || file.path.substr(slash + 1) != file_name) continue;
    out.push_back(
        {"catalog/" + std::string(file.path), std::string(file.path.substr(0, slash)), std::string(file.text)});
  }
  return out;
}

Result<std::vector<InputFile>> folder_inputs(const std::string& directory, std::string_view file_name) {
  std::vector<InputFile> out;
  HEDDLE_TRY(const std::vector<std::string> vendors, list_directory(directory));
  for (const std::string& vendor : vendors) {
    if (vendor.starts_with('.')) continue;  // a mounted ConfigMap keeps its versions in such folders
    const std::string path = fmt::format("{}/{}/{}", directory, vendor, file_name);
    if (!file_exists(path)) continue;
    HEDDLE_TRY(std::string text, read_file(path));
    out.push_back({path, vendor, std::move(text)});
  }
  return out;
}

}  // namespace heddle::catalog
