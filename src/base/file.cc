#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "base/random.h"
#include "base/unique_fd.h"

namespace heddle {
namespace {

UniqueFd open_retry(const std::string& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return UniqueFd(fd);
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<void> write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t put = ::write(fd, content.data(), content.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      return fail_errno("write " + path, errno);
    }
    content.remove_prefix(static_cast<size_t>(put));
  }
  return {};
}

Result<void> sync_directory(const std::string& path) {
  const UniqueFd fd = open_retry(path, O_RDONLY | O_DIRECTORY);
  if (!fd.valid()) return fail_errno("open " + path, errno);
  // Some file systems cannot sync a folder (EINVAL); there is nothing more to do on those.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return fail_errno("fsync " + path, errno);
  return {};
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using DirectoryHandle = std::unique_ptr<DIR, CloseDirectory>;

Result<std::vector<std::string>> names_in(DIR* directory, const std::string& path) {
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name(static_cast<const char*>(entry->d_name));
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return fail_errno("readdir " + path, errno);
  std::sort(names.begin(), names.end());
  return names;
}

// Removes name below the open folder `at`. Only descriptors are used on the way down, so that a link put in the path
// meanwhile is removed and not followed.
Result<void> remove_at(int at, const std::string& name, const std::string& shown) {
  if (::unlinkat(at, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return fail_errno("unlink " + shown, errno);
  const int unlink_error = errno;
  UniqueFd fd(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("unlink " + shown, errno == ENOTDIR ? unlink_error : errno);
  DirectoryHandle directory(::fdopendir(fd.get()));
  if (!directory) return fail_errno("opendir " + shown, errno);
  const int inner = fd.release();  // the handle owns it now
  HEDDLE_TRY(const std::vector<std::string> names, names_in(directory.get(), shown));
  for (const std::string& child : names) {
    std::string below = shown;
    below.append("/").append(child);
    HEDDLE_CHECK_OK(remove_at(inner, child, below));
  }
  if (::unlinkat(at, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) return fail_errno("rmdir " + shown, errno);
  return {};
}

}  // namespace

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  const UniqueFd fd = open_retry(path, O_RDONLY);
  if (!fd.valid()) return fail_errno("open " + path, errno);
  std::string content;
  std::array<char, size_t{64} * 1024> buffer{};
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0) {
      if (errno == EINTR) continue;
      return fail_errno("read " + path, errno);
    }
    if (got == 0) return content;
    if (content.size() + static_cast<size_t>(got) > max_bytes) {
      return fail(Code::kExhausted, path + " is larger than " + std::to_string(max_bytes) + " bytes");
    }
    content.append(buffer.data(), static_cast<size_t>(got));
  }
}

Result<void> write_file_atomic(const std::string& path, std::string_view content, mode_t mode) {
  HEDDLE_TRY(const uint64_t number, random_seed());
  const std::string temporary = path + ".tmp-" + std::to_string(number);
  UniqueFd fd = open_retry(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!fd.valid()) return fail_errno("create " + temporary, errno);
  const auto put = [&]() -> Result<void> {
    HEDDLE_CHECK_OK(write_all(fd.get(), content, temporary));
    if (::fchmod(fd.get(), mode) != 0) return fail_errno("chmod " + temporary, errno);
    if (::fsync(fd.get()) != 0) return fail_errno("fsync " + temporary, errno);
    fd.reset();
    if (::rename(temporary.c_str(), path.c_str()) != 0) return fail_errno("rename to " + path, errno);
    return {};
  };
  if (auto result = put(); !result) {
    ::unlink(temporary.c_str());
    return result;
  }
  return sync_directory(parent_of(path));
}

Result<void> make_directories(const std::string& path, mode_t mode) {
  if (path.empty()) return fail(Code::kInvalidArgument, "an empty path cannot be made a folder");
  size_t end = 0;
  while (end != std::string::npos) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), mode) == 0 || errno == EISDIR) continue;
    if (errno != EEXIST) return fail_errno("mkdir " + part, errno);
    struct stat info{};
    if (::stat(part.c_str(), &info) != 0) return fail_errno("stat " + part, errno);
    if (!S_ISDIR(info.st_mode)) return fail(Code::kAlreadyExists, part + " exists and is not a folder");
  }
  return {};
}

Result<void> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("unlink " + path, errno);
  return {};
}

Result<void> remove_tree(const std::string& path) {
  return remove_at(AT_FDCWD, path, path);
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  const DirectoryHandle directory(::opendir(path.c_str()));
  if (!directory) return fail_errno("opendir " + path, errno);
  return names_in(directory.get(), path);
}

bool file_exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace heddle
