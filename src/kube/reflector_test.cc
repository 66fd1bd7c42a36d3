#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "kube/client.h"
#include "kube/testing.h"

namespace heddle::kube {
namespace {

using testing::event_json;
using testing::list_json;
using testing::object_json;
using testing::RawConnection;
using testing::RawServer;
using testing::RecordingSink;
using testing::Seen;
using testing::Watched;

// Serves "/things": each list and each watch gets the next scripted answer; the last watch stays open.
class FakeCollection {
 public:
  using Answer = std::function<void(RawConnection&)>;
  FakeCollection(std::vector<Answer> lists, std::vector<Answer> watches)
      : lists_(std::move(lists)), watches_(std::move(watches)), server_([this](RawConnection& c) { serve(c); }) {}

  [[nodiscard]] std::string url() const { return server_.url(); }
  // The query of each request, in order: "list ...", "watch ...".
  Watched<std::vector<std::string>> requests;

 private:
  void serve(RawConnection& connection) {
    for (std::string request = connection.read_request(); !request.empty(); request = connection.read_request()) {
      const std::string target = request.substr(4, request.find(' ', 4) - 4);
      if (!target.starts_with("/things?")) {
        connection.reply(404, "{}");
        continue;
      }
      const bool watch = target.find("watch=true") != std::string::npos;
      Answer answer;
      requests.change([&](std::vector<std::string>& all) {
        all.push_back((watch ? "watch " : "list ") + target.substr(target.find('?') + 1));
        const auto& script = watch ? watches_ : lists_;
        size_t& next = watch ? next_watch_ : next_list_;
        if (next < script.size()) answer = script[next++];
      });
      if (answer) {
        answer(connection);
      } else {
        connection.start_stream();
        connection.wait_for_close();
      }
      if (watch) return;
    }
  }

  std::vector<Answer> lists_;
  std::vector<Answer> watches_;
  size_t next_list_ = 0;
  size_t next_watch_ = 0;
  RawServer server_;
};

FakeCollection::Answer reply(int status, std::string body, std::string headers = "") {
  return [=](RawConnection& connection) { connection.reply(status, body, headers); };
}
// Sends the text as one chunk and ends the stream as the API server does at its time-out.
FakeCollection::Answer stream(std::string text) {
  return [=](RawConnection& connection) {
    connection.start_stream();
    if (!text.empty()) connection.send_chunk(text);
    connection.end_stream();
  };
}
FakeCollection::Answer cut_stream(std::string text) {
  return [=](RawConnection& connection) {
    connection.start_stream();
    connection.send_chunk(text);
  };
}
FakeCollection::Answer open_stream(std::string text) {
  return [=](RawConnection& connection) {
    connection.start_stream();
    connection.send_chunk(text);
    connection.wait_for_close();
  };
}
const std::string kGone = R"({"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"})";

class ReflectorTest : public ::testing::Test {
 protected:
  void watch(const FakeCollection& server, WatchOptions options = {}) {
    Config config;
    config.server = server.url();
    client_ = std::move(*Client::create(config, {}, clock_, log_));
    options.path = "/things";
    options.first_backoff = Duration::millis(1);
    options.max_backoff = Duration::millis(5);
    watch_ = client_->watch(options, sink_);
  }
  void stop() {
    watch_.reset();
    client_.reset();
  }
  // "limit=500" or the resourceVersion of each request.
  static std::vector<std::string> summary(FakeCollection& server) {
    std::vector<std::string> out;
    for (const std::string& request : server.requests.get()) {
      if (request.starts_with("list ")) {
        out.push_back(request);
        continue;
      }
      const size_t start = request.find("resourceVersion=");
      out.push_back("watch " + request.substr(start + 16, request.find('&', start) - start - 16));
    }
    return out;
  }
  static FakeCollection::Answer list(const std::vector<std::string>& names, int version) {
    return reply(200, list_json(names, version));
  }

  SystemClock clock_;
  Logger log_{"test", LogLevel::kError, clock_};
  RecordingSink sink_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Watch> watch_;
};

TEST_F(ReflectorTest, ListsInPagesThenWatches) {
  FakeCollection server({reply(200, list_json({"a", "b"}, 10, "p=2")), reply(200, list_json({"c"}, 10))},
                        {open_stream(event_json("ADDED", "d", 11) + event_json("MODIFIED", "a", 12) +
                                     event_json("DELETED", "b", 13, R"(,"last":true)"))});
  WatchOptions options;
  options.page_size = 2;
  options.label_selector = "x=y";
  options.field_selector = "spec.nodeName=n 1";
  watch(server, options);
  ASSERT_TRUE(sink_.wait_for({"replace a b c", "put d", "put a", "delete b"}));
  EXPECT_EQ(sink_.seen.get().items.back(), object_json("b", 13, R"(,"last":true)"));
  const auto requests = server.requests.get();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[0], "list limit=2&fieldSelector=spec.nodeName%3Dn%201&labelSelector=x%3Dy");
  EXPECT_EQ(requests[1], "list limit=2&continue=p%3D2&fieldSelector=spec.nodeName%3Dn%201&labelSelector=x%3Dy");
  EXPECT_TRUE(requests[2].starts_with("watch watch=true&allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds="));
  EXPECT_TRUE(requests[2].ends_with("&fieldSelector=spec.nodeName%3Dn%201&labelSelector=x%3Dy"));
  const int seconds = std::stoi(requests[2].substr(requests[2].find("timeoutSeconds=") + 15));
  EXPECT_GE(seconds, 300);
  EXPECT_LE(seconds, 600);
  stop();
}

TEST_F(ReflectorTest, AnExpiredPageTokenStartsOverWithoutPages) {
  FakeCollection server({reply(200, list_json({"a"}, 10, "t")), reply(410, kGone), list({"a", "b"}, 20)}, {});
  watch(server);
  ASSERT_TRUE(sink_.wait_for({"replace a b"}));
  ASSERT_TRUE(server.requests.wait([](const auto& all) { return all.size() == 4; }));
  EXPECT_EQ(summary(server),
            (std::vector<std::string>{"list limit=500", "list limit=500&continue=t", "list limit=0", "watch 20"}));
  stop();
}

TEST_F(ReflectorTest, ResumesFromTheLastVersionAlsoOfABookmark) {
  FakeCollection server({list({"a"}, 10)},
                        {stream(event_json("ADDED", "b", 11)), cut_stream(event_json("BOOKMARK", "", 50)),
                         cut_stream(event_json("ADDED", "c", 51) + R"({"type":"ADDED","obj)"), stream(""),
                         open_stream(event_json("ADDED", "d", 52))});
  watch(server);
  ASSERT_TRUE(sink_.wait_for({"replace a", "put b", "put c", "put d"}));
  EXPECT_EQ(summary(server),
            (std::vector<std::string>{"list limit=500", "watch 10", "watch 11", "watch 50", "watch 51", "watch 51"}));
  stop();
}

TEST_F(ReflectorTest, ListsAgainWhenTheVersionIsGone) {
  const std::string gone_event = R"({"type":"ERROR","object":)" + kGone + "}\n";
  FakeCollection server({list({"a"}, 10), list({"b"}, 20), list({}, 30)},
                        {reply(410, kGone), stream(event_json("ADDED", "c", 21) + gone_event),
                         open_stream(event_json("ADDED", "e", 31))});
  watch(server);
  ASSERT_TRUE(sink_.wait_for({"replace a", "replace b", "put c", "replace", "put e"}));
  EXPECT_EQ(summary(server), (std::vector<std::string>{"list limit=500", "watch 10", "list limit=500", "watch 20",
                                                       "list limit=500", "watch 30"}));
  stop();
}

TEST_F(ReflectorTest, AnotherErrorEventResumes) {
  FakeCollection server({list({"a"}, 10)},
                        {stream(R"({"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd sad"}})"
                                "\n"),
                         open_stream(event_json("ADDED", "b", 11))});
  watch(server);
  ASSERT_TRUE(sink_.wait_for({"replace a", "put b"}));
  const auto calls = sink_.seen.get().calls;
  ASSERT_EQ(calls.size(), 4U);
  EXPECT_EQ(calls[1], "trouble watch of /things: etcd sad");
  EXPECT_EQ(calls[2], "works");
  stop();
}

TEST_F(ReflectorTest, MalformedEventsLeadToANewList) {
  const std::string bad_lines[] = {
      "not json\n",
      R"({"type":"ADDED"})"
      "\n",
      R"({"type":"ADDED","object":7})"
      "\n",
      R"({"type":"ADDED","object":{"metadata":{}}})"
      "\n",
      R"({"type":"STRANGE","object":{"metadata":{"resourceVersion":"1"}}})"
      "\n",
      R"({"type":"ADDED","object":{"metadata":{"resourceVersion":"1"})"
      "\n",
      "[]\n",
  };
  for (const std::string& line : bad_lines) {
    SCOPED_TRACE(line);
    FakeCollection server({list({"a"}, 10), list({"b"}, 20)}, {open_stream(line)});
    RecordingSink sink;
    Config config;
    config.server = server.url();
    const auto client = std::move(*Client::create(config, {}, clock_, log_));
    WatchOptions options;
    options.path = "/things";
    options.first_backoff = Duration::millis(1);
    const auto watch = client->watch(options, sink);
    ASSERT_TRUE(sink.wait_for({"replace a", "replace b"}));
    ASSERT_TRUE(server.requests.wait([](const auto& all) { return all.size() == 4; }));
    EXPECT_EQ(summary(server).back(), "watch 20");
  }
}

TEST_F(ReflectorTest, TroubleIsToldAndItsEndToo) {
  FakeCollection server(
      {reply(500, "{}"), reply(200, "not a list"), reply(200, R"({"metadata":{},"items":[]})"),
       reply(403, R"({"kind":"Status","message":"things is forbidden","reason":"Forbidden","code":403})"),
       reply(429, "{}", "Retry-After: 0\r\n"), list({"a"}, 10)},
      {reply(503, "{}", "Retry-After: 0\r\n"), open_stream(event_json("ADDED", "b", 11))});
  watch(server);
  ASSERT_TRUE(sink_.wait_for({"replace a", "put b"}));
  const auto calls = sink_.seen.get().calls;
  ASSERT_EQ(calls.size(), 9U);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(calls[i].starts_with("trouble list of /things")) << calls[i];
  EXPECT_NE(calls[3].find("things is forbidden"), std::string::npos);
  EXPECT_EQ(calls[4], "replace a");
  EXPECT_EQ(calls[5], "works");
  EXPECT_TRUE(calls[6].starts_with("trouble watch of /things")) << calls[6];
  EXPECT_EQ(calls[7], "works");
  EXPECT_EQ(calls[8], "put b");
  stop();
}

TEST_F(ReflectorTest, ASilentStreamIsCutAndResumed) {
  FakeCollection server({list({"a"}, 10)},
                        {open_stream(event_json("BOOKMARK", "", 12)), open_stream(event_json("ADDED", "b", 13))});
  WatchOptions options;
  options.idle_limit = Duration::millis(50);
  watch(server, options);
  ASSERT_TRUE(sink_.seen.wait([](const Seen& seen) { return !seen.calls.empty() && seen.calls.size() >= 4; }));
  const auto calls = RecordingSink::data_calls(sink_.seen.get());
  EXPECT_EQ(calls[0], "replace a");
  EXPECT_EQ(calls[1], "put b");
  EXPECT_EQ(summary(server)[2], "watch 12");
  stop();
}

TEST_F(ReflectorTest, LinesMayBeSplitAtEveryByte) {
  const std::string text = event_json("ADDED", "b\xc3\xa9", 11, R"(,"text":"line\nend \" } ")") + "\r\n" +
                           event_json("MODIFIED", "c", 12) + event_json("DELETED", "d", 13);
  // A chunk a byte, and every split in two.
  std::vector<FakeCollection::Answer> watches;
  watches.emplace_back([=](RawConnection& connection) {
    connection.start_stream();
    for (const char c : text) connection.send_chunk(std::string_view(&c, 1));
    connection.end_stream();
  });
  for (size_t split = 1; split < text.size(); ++split) {
    watches.emplace_back([=](RawConnection& connection) {
      connection.start_stream();
      connection.send_chunk(std::string_view(text).substr(0, split));
      connection.send_chunk(std::string_view(text).substr(split));
      connection.end_stream();
    });
  }
  const size_t rounds = watches.size();
  FakeCollection server({list({}, 10)}, std::move(watches));
  watch(server);
  std::vector<std::string> wanted = {"replace"};
  for (size_t i = 0; i < rounds; ++i) wanted.insert(wanted.end(), {"put b\xc3\xa9", "put c", "delete d"});
  EXPECT_TRUE(sink_.wait_for(wanted));
  stop();
}

TEST_F(ReflectorTest, ObjectsOfSeveralMegabytes) {
  const std::string big(size_t{6} << 20, 'x');
  const std::string more = ",\"data\":\"" + big + "\"";
  FakeCollection server({list({}, 10)},
                        {open_stream(event_json("ADDED", "big", 11, more) + event_json("ADDED", "small", 12))});
  watch(server);
  ASSERT_TRUE(sink_.wait_for({"replace", "put big", "put small"}));
  EXPECT_EQ(sink_.seen.get().items[0], object_json("big", 11, more));
  stop();
}

TEST_F(ReflectorTest, NothingIsDeliveredAfterTheWatchEnded) {
  // The server never stops sending.
  FakeCollection server({list({"a"}, 10)}, {[](RawConnection& connection) {
                          connection.start_stream();
                          for (int i = 11;
                               connection.send_chunk(event_json("ADDED", "b", i)) && !connection.stopping();)
                            ++i;
                        }});
  watch(server);
  ASSERT_TRUE(sink_.seen.wait([](const Seen& seen) { return seen.calls.size() > 100; }));
  watch_.reset();
  const size_t calls = sink_.seen.get().calls.size();
  // The I/O thread has had every chance to go on by the time that it has answered another request.
  Request request;
  request.path = "/other";
  std::ignore = client_->call(request);
  EXPECT_EQ(sink_.seen.get().calls.size(), calls);
  stop();
}

// A sink that ends its own watch from inside a call.
class SelfEnding final : public WatchSink {
 public:
  void replace(const std::vector<std::string_view>&) override { note("replace"); }
  void added_or_modified(std::string_view) override {
    note("put");
    watch.reset();
  }
  void deleted(std::string_view) override { note("delete"); }
  void status(std::string_view) override { note("status"); }
  void note(const std::string& call) {
    calls.change([&](std::vector<std::string>& all) { all.push_back(call); });
  }
  Watched<std::vector<std::string>> calls;
  std::unique_ptr<Watch> watch;
};

TEST_F(ReflectorTest, ASinkMayEndItsOwnWatch) {
  FakeCollection server({list({"a"}, 10)}, {[](RawConnection& connection) {
                          connection.start_stream();
                          connection.send_chunk(event_json("ADDED", "b", 11) + event_json("DELETED", "b", 12));
                          connection.wait_for_close();
                        }});
  Config config;
  config.server = server.url();
  client_ = std::move(*Client::create(config, {}, clock_, log_));
  SelfEnding sink;
  Watched<bool> assigned(false);
  // Made on the I/O thread, so that the member is set before the first call.
  client_->send(Request{}, [&](const Result<Response>&) {
    WatchOptions options;
    options.path = "/things";
    sink.watch = client_->watch(options, sink);
    assigned.change([](bool& done) { done = true; });
  });
  ASSERT_TRUE(assigned.wait([](bool done) { return done; }));
  ASSERT_TRUE(sink.calls.wait([](const auto& calls) { return calls.size() >= 2; }));
  Request request;
  request.path = "/other";
  std::ignore = client_->call(request);
  EXPECT_EQ(sink.calls.get(), (std::vector<std::string>{"replace", "put"}));
  stop();
}

TEST_F(ReflectorTest, AWatchMayOutliveItsClient) {
  FakeCollection server({list({"a"}, 10)}, {});
  watch(server);
  ASSERT_TRUE(sink_.wait_for({"replace a"}));
  client_.reset();
  watch_.reset();
}

TEST_F(ReflectorTest, ManyWatchesShareTheIoThread) {
  RawServer server([](RawConnection& connection) {
    for (std::string request = connection.read_request(); !request.empty(); request = connection.read_request()) {
      if (request.find("watch=true") == std::string::npos) {
        connection.reply(200, list_json({"a"}, 10));
        continue;
      }
      connection.start_stream();
      connection.send_chunk(event_json("ADDED", "b", 11));
      connection.wait_for_close();
    }
  });
  Config config;
  config.server = server.url();
  client_ = std::move(*Client::create(config, {}, clock_, log_));
  std::vector<std::unique_ptr<RecordingSink>> sinks;
  std::vector<std::unique_ptr<Watch>> watches;
  for (int i = 0; i < 40; ++i) {
    WatchOptions options;
    options.path = "/things";
    sinks.push_back(std::make_unique<RecordingSink>());
    watches.push_back(client_->watch(options, *sinks.back()));
  }
  for (const auto& sink : sinks) EXPECT_TRUE(sink->wait_for({"replace a", "put b"}));
  EXPECT_EQ(client_->stats().in_flight, 0U);  // watches do not count
  watches.clear();
  stop();
}

}  // namespace
}  // namespace heddle::kube
