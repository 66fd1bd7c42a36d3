// A folder of its own for a test.
#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <string>
#include <tuple>

#include "base/file.h"

namespace heddle {

// Made below $TEST_TMPDIR or /tmp, removed with all that is in it with the object. A test without one cannot go on:
// it ends the process.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* parent = std::getenv("TEST_TMPDIR");
    path_ = std::string(parent == nullptr ? "/tmp" : parent) + "/heddle-test-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TemporaryFolder() { std::ignore = remove_tree(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // The path of a new file with this content, readable by its owner only. Its folder is there.
  [[nodiscard]] std::string write(const std::string& name, const std::string& content) const {
    const std::string path = path_ + "/" + name;
    if (!write_file_atomic(path, content, 0600)) std::abort();
    return path;
  }
  // Empty when there is no such file.
  [[nodiscard]] std::string read(const std::string& name) const {
    return read_file(path_ + "/" + name).value_or(std::string());
  }

 private:
  std::string path_;
};

}  // namespace heddle
