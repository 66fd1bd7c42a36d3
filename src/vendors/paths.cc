#include "vendors/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <deque>
#include <string_view>

namespace heddle::vendors {
namespace {

constexpr std::array<std::string_view, 8> kFolders = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
    "/lib/x86_64-linux-gnu",     "/lib/aarch64-linux-gnu",     "/lib64",     "/lib"};

std::deque<std::string> split(std::string_view path) {
  std::deque<std::string> parts;
  size_t start = 0;
  while (start <= path.size()) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (end > start) parts.emplace_back(path.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

}  // namespace

std::string under(const std::string& root, const std::string& path) {
  std::string base = root;
  while (!base.empty() && base.back() == '/') base.pop_back();
  return base + path;
}

std::vector<std::string> library_folders(const std::string& driver_root) {
  std::vector<std::string> folders;
  folders.reserve(kFolders.size());
  for (const std::string_view folder : kFolders) folders.push_back(under(driver_root, std::string(folder)));
  return folders;
}

Result<std::string> resolve_under(const std::string& root, const std::string& path) {
  std::deque<std::string> todo = split(path);
  std::vector<std::string> done;
  const auto joined = [&] {
    std::string text;
    for (const std::string& part : done) text += "/" + part;
    return text;
  };
  int links = 0;
  while (!todo.empty()) {
    const std::string part = todo.front();
    todo.pop_front();
    if (part == ".") continue;
    if (part == "..") {
      if (!done.empty()) done.pop_back();
      continue;
    }
    done.push_back(part);
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlink(under(root, joined()).c_str(), target.data(), target.size() - 1);
    if (length < 0) continue;  // not a link, or missing: the check at the end tells
    if (++links > 40) return fail(Code::kInvalidArgument, "too many links in " + path);
    done.pop_back();
    const std::string_view text(target.data(), static_cast<size_t>(length));
    if (text.starts_with('/')) done.clear();
    std::deque<std::string> parts = split(text);
    todo.insert(todo.begin(), parts.begin(), parts.end());
  }
  std::string result = under(root, joined());
  struct stat info{};
  if (::stat(result.c_str(), &info) != 0) return fail(Code::kNotFound, path + " does not exist under " + root);
  return result;
}

}  // namespace heddle::vendors
