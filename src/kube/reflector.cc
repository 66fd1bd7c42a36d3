#include "kube/reflector.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "kube/paths.h"

namespace heddle::kube {
namespace {

constexpr size_t kMaxLineBytes = size_t{64} << 20;
constexpr size_t kMaxErrorBytes = size_t{64} << 10;
constexpr Duration kListTimeout = Duration::seconds(60);
constexpr int64_t kNanosPerSecond = 1'000'000'000;

std::string with_query(const std::string& path, const std::string& query) {
  return path + (path.find('?') == std::string::npos ? "?" : "&") + query;
}

}  // namespace

Reflector::Reflector(WatchOptions options, WatchSink& sink, Core& core)
    : options_(std::move(options)), sink_(sink), core_(core), random_(options_.seed), lines_(kMaxLineBytes) {}

void Reflector::start() {
  list_page({});
}

void Reflector::stop() {
  stopped_ = true;
  if (timer_) core_.transport().cancel_timer(*timer_);
  timer_.reset();
  end_stream({});
}

std::string Reflector::selectors() const {
  std::string query;
  if (!options_.field_selector.empty()) query += "&fieldSelector=" + url_escape(options_.field_selector);
  if (!options_.label_selector.empty()) query += "&labelSelector=" + url_escape(options_.label_selector);
  return query;
}

void Reflector::list_page(const std::string& continue_token) {
  if (stopped_) return;
  if (continue_token.empty()) {
    page_items_.clear();
    page_bodies_.clear();
  }
  std::string query = whole_list_ ? "limit=0" : "limit=" + std::to_string(options_.page_size);
  if (!continue_token.empty()) query += "&continue=" + url_escape(continue_token);
  Request request;
  request.path = with_query(options_.path, query + selectors());
  core_.submit(std::move(request), core_.clock().monotonic_nanos() + kListTimeout.nanos,
               [self = shared_from_this(), continue_token](Result<Response> answer) {
                 self->page_arrived(continue_token, std::move(answer));
               });
}

void Reflector::page_arrived(const std::string& continue_token, Result<Response> answer) {
  if (stopped_ || core_.closed()) return;
  if (!answer) return list_failed(continue_token, answer.error());
  page_bodies_.push_back(std::make_unique<std::string>(std::move(answer->body)));
  auto page = parse_list_page(*page_bodies_.back());
  if (!page) return list_failed({}, page.error());
  page_items_.insert(page_items_.end(), page->items.begin(), page->items.end());
  if (!page->continue_token.empty()) return list_page(page->continue_token);

  version_ = page->resource_version;
  whole_list_ = false;
  const auto self = shared_from_this();
  const auto bodies = std::exchange(page_bodies_, {});
  const auto items = std::exchange(page_items_, {});
  sink_.replace(items);
  recovered();
  open_watch();
}

void Reflector::list_failed(const std::string& continue_token, const Error& error) {
  if (error.code == Code::kGone && !continue_token.empty()) {
    // The pages' snapshot is compacted. In pages it might expire again and again; in one answer it cannot.
    whole_list_ = true;
    return list_page({});
  }
  trouble("list of " + options_.path + ": " + error.text());
  again(Next::kRelist, {});
}

void Reflector::open_watch() {
  if (stopped_) return;
  const int64_t seconds = std::max<int64_t>(options_.server_timeout.nanos / kNanosPerSecond, 1);
  const int64_t timeout = seconds + static_cast<int64_t>(random_.below(static_cast<uint64_t>(seconds) + 1));
  Exchange exchange;
  exchange.pool = Pool::kWatches;
  exchange.path =
      with_query(options_.path, "watch=true&allowWatchBookmarks=true&resourceVersion=" + url_escape(version_) +
                                    "&timeoutSeconds=" + std::to_string(timeout) + selectors());
  lines_ = LineSplitter(kMaxLineBytes);
  stream_status_ = 0;
  error_body_.clear();
  opened_ = last_byte_ = core_.clock().monotonic_nanos();
  stream_ = core_.transport().start(std::move(exchange), shared_from_this());
  check_idle();
}

void Reflector::check_idle() {
  idle_timer_.reset();
  const Duration silent{core_.clock().monotonic_nanos() - last_byte_};
  if (silent >= options_.idle_limit) {
    end_stream(options_.idle_limit);
    trouble("watch of " + options_.path + ": nothing was heard for too long");
    return again(Next::kResume, {});
  }
  idle_timer_ = core_.transport().after(Duration{options_.idle_limit.nanos - silent.nanos},
                                        [self = shared_from_this()] { self->check_idle(); });
}

void Reflector::end_stream(Duration silence) {
  if (idle_timer_) core_.transport().cancel_timer(*idle_timer_);
  idle_timer_.reset();
  if (stream_) core_.transport().abandon(*std::exchange(stream_, std::nullopt), silence);
}

void Reflector::on_headers(int status) {
  last_byte_ = core_.clock().monotonic_nanos();
  stream_status_ = status;
  if (status == 200 && stream_) recovered();
}

void Reflector::on_data(std::string_view bytes) {
  if (stopped_ || !stream_) return;
  last_byte_ = core_.clock().monotonic_nanos();
  if (stream_status_ != 200) {
    error_body_.append(bytes.substr(0, kMaxErrorBytes - std::min(kMaxErrorBytes, error_body_.size())));
    return;
  }
  const auto self = shared_from_this();
  const auto fed = lines_.feed(bytes, [this](std::string& line) { return event_line(line); });
  if (fed || stopped_) return;
  end_stream({});
  trouble("watch of " + options_.path + ": " + fed.error().text());
  again(Next::kRelist, {});
}

LineSplitter::Next Reflector::event_line(std::string& line) {
  auto event = parse_watch_event(line);
  if (!event) {
    // What the line said is lost, so only a new list tells the truth.
    end_stream({});
    trouble("watch of " + options_.path + ": " + event.error().text());
    again(Next::kRelist, {});
    return LineSplitter::Next::kStop;
  }
  if (event->type == EventType::kError) {
    error_event(event->object);
    return LineSplitter::Next::kStop;
  }
  version_ = event->resource_version;
  failures_ = 0;
  if (event->type == EventType::kDeleted) sink_.deleted(event->object);
  if (event->type == EventType::kAdded || event->type == EventType::kModified) sink_.added_or_modified(event->object);
  return stopped_ ? LineSplitter::Next::kStop : LineSplitter::Next::kGoOn;
}

void Reflector::error_event(std::string_view object) {
  const auto status = parse_status(object);
  const bool gone = status && (status->code == 410 || status->reason == "Expired" || status->reason == "Gone");
  end_stream({});
  if (gone) return gap();
  trouble("watch of " + options_.path + ": " + (status ? status->message : cut_text(object, 200)));
  again(Next::kResume, {});
}

void Reflector::on_done(const Ending& ending) {
  stream_.reset();
  if (idle_timer_) core_.transport().cancel_timer(*idle_timer_);
  idle_timer_.reset();
  if (stopped_ || core_.closed()) return;
  const int64_t lasted_ms = (core_.clock().monotonic_nanos() - opened_) / 1'000'000;
  core_.log().debug("watch ended", {{"path", options_.path}, {"status", ending.status}, {"lasted_ms", lasted_ms}});
  forgive_if_lasting();
  if (!ending.error && ending.status == 200) {
    // The server's time-out, or its restart. Counted, so that one that ends at once each time is not asked in a tight
    // loop.
    again(Next::kResume, {});
    ++failures_;
    return;
  }
  const Error error = ending.error ? *ending.error : error_of_answer("GET", ending.status, error_body_);
  if (error.code == Code::kGone) return gap();
  trouble("watch of " + options_.path + ": " + error.text());
  again(Next::kResume, ending.retry_after.value_or(Duration{}));
}

// The version is too old to go on from: nothing unusual after a pause, so the first time is not a trouble and does not
// wait.
void Reflector::gap() {
  again(Next::kRelist, {});
  ++failures_;
}

void Reflector::forgive_if_lasting() {
  if (core_.clock().monotonic_nanos() - opened_ >= options_.max_backoff.nanos) failures_ = 0;
}

void Reflector::recovered() {
  if (stopped_ || !std::exchange(in_trouble_, false)) return;
  core_.log().info("watch works again", {{"path", options_.path}});
  const auto self = shared_from_this();
  sink_.status({});
}

void Reflector::trouble(const std::string& text) {
  ++failures_;
  if (stopped_) return;
  in_trouble_ = true;
  core_.log().warning("watch fails", {{"path", options_.path}, {"why", text}, {"failures", failures_}});
  const auto self = shared_from_this();
  sink_.status(text);
}

void Reflector::again(Next next, Duration at_least) {
  if (stopped_) return;
  core_.counters().watch_restarts.fetch_add(1, std::memory_order_relaxed);
  Duration delay{};
  if (failures_ > 0) {
    const int doublings = std::min(failures_ - 1, 20);
    const int64_t full = std::min(options_.first_backoff.nanos << doublings, options_.max_backoff.nanos);
    // Half of it fixed and half at random, so that many watches do not come back together.
    delay.nanos = full / 2 + static_cast<int64_t>(random_.below(static_cast<uint64_t>(full / 2) + 1));
  }
  delay = std::max(delay, at_least);
  timer_ = core_.transport().after(delay, [self = shared_from_this(), next] {
    self->timer_.reset();
    if (self->stopped_) return;
    if (next == Next::kRelist) return self->list_page({});
    self->open_watch();
  });
}

}  // namespace heddle::kube
