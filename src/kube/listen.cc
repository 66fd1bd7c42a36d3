#include "kube/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace heddle::kube {
namespace {

constexpr int kBacklog = 512;

tl::unexpected<Error> cannot_take(const std::string& what, int error_number) {
  if (error_number == EADDRINUSE) return fail(Code::kAlreadyExists, what + " is in use");
  return fail_errno(what, error_number);
}

Result<Listener> listen_unix(const HttpServerOptions& options) {
  const std::string& path = options.unix_socket;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return fail(Code::kInvalidArgument, "is longer than a socket path can be (107 bytes)", "unix_socket");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  struct stat info = {};
  if (::lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) return fail(Code::kAlreadyExists, path + " exists and is no socket", "unix_socket");
    const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(probe.get(), generic, sizeof(address)) == 0) {
      return fail(Code::kAlreadyExists, path + " is served by another process", "unix_socket");
    }
    ::unlink(path.c_str());
  }
  Listener listener;
  listener.fd.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.fd.valid()) return fail_errno("socket", errno);
  if (::bind(listener.fd.get(), generic, sizeof(address)) != 0) return cannot_take(path, errno);
  // Before listen(): nobody can connect while the mode is still the umask's.
  if (::chmod(path.c_str(), options.unix_mode) != 0) return fail_errno(path, errno);
  if (::listen(listener.fd.get(), kBacklog) != 0) return fail_errno(path, errno);
  listener.inode = inode_of(path);
  return listener;
}

Result<Listener> listen_tcp(const HttpServerOptions& options) {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, options.address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(options.port);
    size = sizeof(*v4);
  } else if (inet_pton(AF_INET6, options.address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(options.port);
    size = sizeof(*v6);
  } else {
    return fail(Code::kInvalidArgument, "\"" + options.address + "\" is not an IP address", "address");
  }
  Listener listener;
  listener.fd.reset(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.fd.valid()) return fail_errno("socket", errno);
  const int on = 1;
  setsockopt(listener.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(listener.fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // accepted sockets inherit it
  auto* generic = reinterpret_cast<sockaddr*>(&storage);
  const std::string what = options.address + ":" + std::to_string(options.port);
  if (::bind(listener.fd.get(), generic, size) != 0) return cannot_take(what, errno);
  if (::listen(listener.fd.get(), kBacklog) != 0) return cannot_take(what, errno);
  if (::getsockname(listener.fd.get(), generic, &size) != 0) return fail_errno("getsockname", errno);
  listener.port = ntohs(storage.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
  return listener;
}

}  // namespace

uint64_t inode_of(const std::string& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

Result<Listener> open_listener(const HttpServerOptions& options) {
  return options.unix_socket.empty() ? listen_tcp(options) : listen_unix(options);
}

std::string peer_name(int fd) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(v4->sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(v6->sin6_port));
  }
  return "unix";
}

int64_t peer_uid(int fd) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  int domain = 0;
  socklen_t domain_size = sizeof(domain);
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_size) != 0 || domain != AF_UNIX) return -1;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return -1;
  return int64_t{credentials.uid};
}

}  // namespace heddle::kube
