// The seam to the file system: whole files read, and written so that a crash leaves the old or the new, never a part.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle {

// The whole file. Errors: kNotFound, kPermissionDenied, kExhausted (larger than max_bytes), kInternal.
Result<std::string> read_file(const std::string& path, size_t max_bytes = size_t{64} << 20);

// Writes a temporary file beside path, fsyncs it, renames it over path and fsyncs the folder.
Result<void> write_file_atomic(const std::string& path, std::string_view content, mode_t mode);

// mkdir -p. An existing folder is fine.
Result<void> make_directories(const std::string& path, mode_t mode);

// Removes one file; a missing one is fine.
Result<void> remove_file(const std::string& path);

// Removes a folder with all in it without following links; a missing one is fine.
Result<void> remove_tree(const std::string& path);

// Names in a folder, sorted, without "." and "..". Errors: kNotFound, ...
Result<std::vector<std::string>> list_directory(const std::string& path);

[[nodiscard]] bool file_exists(const std::string& path);

}  // namespace heddle
