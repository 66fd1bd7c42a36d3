// What the tests of kube share: waiting for conditions, a raw TCP server whose every byte is scripted, and a recording
// sink.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "kube/client.h"

namespace heddle::kube::testing {

inline constexpr std::chrono::seconds kPatience{60};

// A value that threads change and others wait for.
template <typename T>
class Watched {
 public:
  explicit Watched(T value = {}) : value_(std::move(value)) {}

  template <typename F>
  void change(F&& change) {
    const std::lock_guard lock(mutex_);
    change(value_);
    changed_.notify_all();
  }
  // False when the condition does not come true within kPatience.
  template <typename F>
  [[nodiscard]] bool wait(F&& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return condition(static_cast<const T&>(value_)); });
  }
  [[nodiscard]] T get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  T value_;
};

// One connection of a RawServer, from its thread.
class RawConnection {
 public:
  explicit RawConnection(int fd, const std::atomic<bool>& stopping) : fd_(fd), stopping_(stopping) {}

  // The next request's head and body, as sent; empty when the client closed or the server stops.
  std::string read_request() {
    while (true) {
      const size_t head = input_.find("\r\n\r\n");
      if (head != std::string::npos) {
        size_t length = head + 4;
        const size_t field = input_.find("Content-Length: ");
        if (field != std::string::npos && field < head) length += std::stoul(input_.substr(field + 16));
        if (input_.size() >= length) {
          std::string request = input_.substr(0, length);
          input_.erase(0, length);
          return request;
        }
      }
      if (!receive()) return {};
    }
  }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(put));
    }
    return true;
  }
  bool send_chunk(std::string_view bytes) { return send(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes)); }
  bool start_stream() {
    return send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  }
  bool end_stream() { return send("0\r\n\r\n"); }
  bool reply(int status, std::string_view body, std::string_view headers = "") {
    return send(fmt::format("HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}", status,
                            body.size(), headers, body));
  }
  // Returns when the client has closed or the server stops.
  void wait_for_close() {
    while (receive()) input_.clear();
  }
  [[nodiscard]] bool stopping() const { return stopping_; }

 private:
  bool receive() {
    char buffer[4096];
    while (!stopping_) {
      pollfd waiting = {fd_, POLLIN, 0};
      if (::poll(&waiting, 1, 20) <= 0) continue;
      const ssize_t got = ::recv(fd_, buffer, sizeof(buffer), 0);
      if (got <= 0) return false;
      input_.append(buffer, static_cast<size_t>(got));
      return true;
    }
    return false;
  }

  int fd_;
  const std::atomic<bool>& stopping_;
  std::string input_;
};

// Every connection gets a thread that runs the script; the connection is closed when the script returns.
class RawServer {
 public:
  using Script = std::function<void(RawConnection&)>;
  explicit RawServer(Script script) : script_(std::move(script)) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) std::abort();
    ::listen(listener_.get(), 64);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_loop(); });
  }
  ~RawServer() {
    stopping_ = true;
    acceptor_.join();
    for (auto& thread : threads_) thread.join();
  }
  [[nodiscard]] std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  void accept_loop() {
    while (!stopping_) {
      pollfd waiting = {listener_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20) <= 0) continue;
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      ++connections_;
      threads_.emplace_back([this, fd] {
        const UniqueFd owned(fd);
        RawConnection connection(fd, stopping_);
        script_(connection);
      });
    }
  }

  Script script_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  std::list<std::thread> threads_;  // used by the acceptor, then by the destructor after it has ended
  std::thread acceptor_;
};

struct Seen {
  std::vector<std::string> calls;  // "replace a b", "put a", "delete a", "trouble ...", "works"
  std::vector<std::string> items;  // raw text of each object delivered
};

// What a sink was told. Objects are named by their metadata.name.
class RecordingSink final : public WatchSink {
 public:
  void replace(const std::vector<std::string_view>& items) override {
    std::string call = "replace";
    for (const auto item : items) call += " " + name_of(item);
    note(call, items.empty() ? std::string_view() : items.back());
  }
  void added_or_modified(std::string_view object) override { note("put " + name_of(object), object); }
  void deleted(std::string_view object) override { note("delete " + name_of(object), object); }
  void status(std::string_view trouble) override {
    note(trouble.empty() ? "works" : "trouble " + std::string(trouble), {});
  }

  // The calls without those of status().
  static std::vector<std::string> data_calls(const Seen& seen) {
    std::vector<std::string> calls;
    std::copy_if(seen.calls.begin(), seen.calls.end(), std::back_inserter(calls),
                 [](const std::string& call) { return !call.starts_with("trouble") && call != "works"; });
    return calls;
  }
  [[nodiscard]] bool wait_for(const std::vector<std::string>& calls) {
    return seen.wait([&](const Seen& now) { return data_calls(now) == calls; });
  }

  Watched<Seen> seen;

 private:
  static std::string name_of(std::string_view object) {
    const size_t start = object.find("\"name\":\"");
    if (start == std::string_view::npos) return "?";
    return std::string(object.substr(start + 8, object.find('"', start + 8) - start - 8));
  }
  void note(const std::string& call, std::string_view item) {
    seen.change([&](Seen& now) {
      now.calls.push_back(call);
      if (!item.empty()) now.items.emplace_back(item);
    });
  }
};

inline std::string object_json(std::string_view name, int version, std::string_view more = "") {
  return fmt::format(R"({{"kind":"Thing","metadata":{{"name":"{}","resourceVersion":"{}"}}{}}})", name, version, more);
}
inline std::string event_json(std::string_view type, std::string_view name, int version, std::string_view more = "") {
  return fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object_json(name, version, more));
}
inline std::string list_json(const std::vector<std::string>& names, int version, std::string_view continue_token = "") {
  std::string items;
  for (const auto& name : names) items += (items.empty() ? "" : ",") + object_json(name, version);
  return fmt::format(R"({{"kind":"ThingList","metadata":{{"resourceVersion":"{}","continue":"{}"}},"items":[{}]}})",
                     version, continue_token, items);
}

}  // namespace heddle::kube::testing
