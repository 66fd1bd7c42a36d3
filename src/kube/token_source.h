// The bearer token of a configuration. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <ctime>
#include <string>
#include <tuple>

#include "kube/config.h"

namespace heddle::kube {

class TokenSource {
 public:
  explicit TokenSource(const Config& config) : token_(config.token), file_(config.token_file) {}

  // The token to send; empty: none. A file is read again when it changes (kubelet swaps projected tokens).
  const std::string& token();
  void replace(std::string token) { token_ = std::move(token); }

 private:
  using Stamp = std::tuple<ino_t, off_t, time_t, long>;
  std::string token_;
  std::string file_;
  Stamp stamp_{};
};

}  // namespace heddle::kube
