// Keeps a WatchSink in step with one collection: a chunked list, then a watch from its version, again and again.
// Internal to kube. Thread rule: I/O thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "kube/client.h"
#include "kube/core.h"
#include "kube/wire.h"

namespace heddle::kube {

// Held by shared_ptr: a callback into the sink may end the watch, and with it all other owners.
class Reflector final : public ExchangeHandler, public std::enable_shared_from_this<Reflector> {
 public:
  Reflector(WatchOptions options, WatchSink& sink, Core& core);

  void start();
  // No call of the sink begins after this.
  void stop();

  void on_headers(int status) override;
  void on_data(std::string_view bytes) override;
  void on_done(const Ending& ending) override;

 private:
  enum class Next { kResume, kRelist };

  // The list.
  void list_page(const std::string& continue_token);
  void page_arrived(const std::string& continue_token, Result<Response> answer);
  void list_failed(const std::string& continue_token, const Error& error);
  // The watch.
  void open_watch();
  LineSplitter::Next event_line(std::string& line);
  void error_event(std::string_view object);
  void check_idle();
  void end_stream(Duration silence);
  void gap();
  void forgive_if_lasting();
  // Both.
  void recovered();
  void trouble(const std::string& text);
  void again(Next next, Duration at_least);
  [[nodiscard]] std::string selectors() const;

  WatchOptions options_;
  WatchSink& sink_;
  Core& core_;
  SeededRandom random_;
  bool stopped_ = false;

  std::vector<std::unique_ptr<std::string>> page_bodies_;  // what page_items_ points into
  std::vector<std::string_view> page_items_;
  bool whole_list_ = false;  // a page token expired: ask for everything at once

  std::string version_;  // the last one seen
  std::optional<Transport::ExchangeId> stream_;
  std::optional<Transport::TimerId> timer_;  // back-off
  std::optional<Transport::TimerId> idle_timer_;
  LineSplitter lines_;
  int stream_status_ = 0;
  std::string error_body_;  // of a watch that was not answered with 200
  int64_t opened_ = 0;
  int64_t last_byte_ = 0;

  int failures_ = 0;  // since the last event, or the last watch that lasted
  bool in_trouble_ = false;
};

}  // namespace heddle::kube
