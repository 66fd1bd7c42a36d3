// Listening sockets. Internal to kube.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "kube/http_server.h"

namespace heddle::kube {

struct Listener {
  UniqueFd fd;  // non-blocking
  uint16_t port = 0;
  uint64_t inode = 0;  // of the socket's file; 0 where it has none
};

// Of a file; 0 when it is not there.
uint64_t inode_of(const std::string& path);

// By options.unix_socket or options.address and port. A socket file that nobody serves any more is replaced.
Result<Listener> open_listener(const HttpServerOptions& options);

// "127.0.0.1:5000", "[::1]:5000" or "unix".
std::string peer_name(int fd);
// The user at the other end of a unix socket; -1 for others.
int64_t peer_uid(int fd);

}  // namespace heddle::kube
