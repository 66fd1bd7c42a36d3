// A non-blocking byte stream over a socket, plain or TLS as the server side. Internal to kube; hides OpenSSL.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace heddle::kube {

// A certificate and its key, ready for use. Immutable, thread-safe.
class TlsContext {
 public:
  // Errors: kInvalidArgument when the texts are no PEM or do not fit together.
  static Result<std::shared_ptr<const TlsContext>> create(const std::string& certificate_pem,
                                                          const std::string& key_pem);
  virtual ~TlsContext() = default;
};

// kWantRead, kWantWrite: nothing moved, wait for the socket. kEnd: the peer closed, or the stream is broken.
enum class StreamState { kOk, kWantRead, kWantWrite, kEnd };

class ByteStream {
 public:
  struct Moved {
    StreamState state = StreamState::kEnd;
    size_t bytes = 0;
  };
  // fd: non-blocking. context: empty for a plain stream.
  static std::unique_ptr<ByteStream> create(UniqueFd fd, std::shared_ptr<const TlsContext> context);
  virtual ~ByteStream() = default;
  [[nodiscard]] virtual int fd() const = 0;
  virtual Moved read(char* buffer, size_t size) = 0;
  virtual Moved write(const char* bytes, size_t size) = 0;
  // Says goodbye to the peer as far as that works without waiting.
  virtual void finish() = 0;
};

}  // namespace heddle::kube
