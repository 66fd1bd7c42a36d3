#include "kube/paths.h"

namespace heddle::kube {
namespace {

std::string type_root(ResourceType type) {
  const bool core = type.group_version.find('/') == std::string_view::npos;
  return (core ? "/api/" : "/apis/") + std::string(type.group_version);
}

}  // namespace

std::string url_escape(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  // A segment of only dots would walk up the path.
  if (out == ".") return "%2E";
  if (out == "..") return "%2E%2E";
  return out;
}

std::string collection_path(ResourceType type) {
  return type_root(type) + "/" + std::string(type.plural);
}

std::string collection_path(ResourceType type, std::string_view name_space) {
  if (name_space.empty()) return collection_path(type);
  return type_root(type) + "/namespaces/" + url_escape(name_space) + "/" + std::string(type.plural);
}

std::string object_path(ResourceType type, std::string_view name_space, std::string_view name,
                        std::string_view subresource) {
  std::string path = collection_path(type, name_space) + "/" + url_escape(name);
  if (!subresource.empty()) path += "/" + std::string(subresource);
  return path;
}

}  // namespace heddle::kube
