#include "kube/token_source.h"

#include <sys/stat.h>

#include "base/file.h"

namespace heddle::kube {

const std::string& TokenSource::token() {
  if (file_.empty()) return token_;
  struct stat info = {};
  if (::stat(file_.c_str(), &info) != 0) return token_;
  const Stamp stamp{info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
  if (stamp == stamp_) return token_;
  auto content = read_file(file_);
  if (!content) return token_;
  const size_t end = content->find_last_not_of(" \r\n\t");
  token_ = end == std::string::npos ? std::string() : content->substr(0, end + 1);
  stamp_ = stamp;
  return token_;
}

}  // namespace heddle::kube
