// Random programs against the simulated machine's own truth: two processes of a tenant allocate, free, map, export,
// load, build graphs, make and end contexts and pools, use threads with and without a context, fork, become other
// programs and are killed; after every step what is charged is what the device
// holds. HEDDLE_GUARD_STEPS and HEDDLE_GUARD_SEED make it longer and different.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "guard/harness.h"

namespace heddle::guard::test {
namespace {

constexpr int64_t kLimit = 2000 * kMiB;
constexpr int64_t kBlock = 2 * kMiB;
constexpr int64_t kNoContext = 201;

int64_t setting(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoll(value) : otherwise;
}

// Something that a process holds, and the word that ends it: "<word> <handle><rest>".
struct Held {
  std::string end;
  int64_t handle;
  std::string rest;
  int context;  // that owns it; -1: none
};

class Actor {
 public:
  explicit Actor(Probe probe) : probe_(std::move(probe)) {}
  Probe probe_;
  std::vector<Held> held_;
  int64_t contexts_[2] = {0, 0};
  int current_ = 0;
  bool pool_ = false;
};

class RandomTest : public testing::Test {
 protected:
  RandomTest()
      : machine_(folder_, {2, 8192, 300, 64}), random_(static_cast<uint64_t>(setting("HEDDLE_GUARD_SEED", 1))) {
    write_guard_files(folder_.path(), limits_for({{machine_.uuid(0), kLimit, 0, false, 300 * kMiB},
                                                  {machine_.uuid(1), kLimit, 0, false, 300 * kMiB}}));
  }

  uint64_t below(uint64_t bound) { return random_() % bound; }
  // From a byte to half a gigabyte, small and large alike.
  int64_t size() { return 1 + static_cast<int64_t>(random_() % (uint64_t{1} << (4 + below(26)))); }
  static int64_t whole_blocks(int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

  std::vector<int64_t> tell(Actor& a, const std::string& line) {
    history_ += "\n  " + std::to_string(a.probe_.pid()) + " " + line;
    auto answer = a.probe_.tell(line);
    history_ += " -> " + std::to_string(answer[0]);
    return answer;
  }

  bool start(Actor& a) {
    bool ok = tell(a, "init").at(0) == kOk;
    const auto made = tell(a, "ctx 0");
    a.contexts_[0] = made.size() > 1 ? made[1] : 0;
    ok = ok && (made[0] == kOk || made[0] == kOutOfMemory);
    return ok && made[0] == kOk && tell(a, "stream").at(0) == kOk;
  }

  Probe probe() const { return Probe(folder_.path(), HEDDLE_SIM_LIBRARIES, {}); }

  // One that makes something: held when it worked; a refusal is checked against what was free where the size is known.
  void take(Actor& a, const std::string& line, const std::string& end, const std::string& rest, int64_t known_bytes) {
    const auto device = static_cast<size_t>(a.current_);
    const int64_t before = charged(folder_.path(), device);
    const auto answer = tell(a, line);
    if (answer[0] == kOk) a.held_.push_back({end, answer.at(1), rest, a.current_});
    ASSERT_TRUE(answer[0] == kOk || answer[0] == kOutOfMemory) << answer[0] << history_;
    if (known_bytes == 0) return;
    const bool fits = before + whole_blocks(known_bytes) <= kLimit;
    EXPECT_EQ(answer[0] == kOk, fits) << "of " << before << history_;
  }

  void release(Actor& a) {
    if (a.held_.empty()) return;
    const size_t at = below(a.held_.size());
    const Held gone = a.held_[at];
    a.held_.erase(a.held_.begin() + static_cast<ptrdiff_t>(at));
    EXPECT_EQ(tell(a, gone.end + " " + text(gone.handle) + gone.rest)[0], kOk) << history_;
    if (gone.end != "free-async") return;
    EXPECT_EQ(tell(a, "sync")[0], kOk);
  }

  void handles(Actor& a) {
    const std::string bytes = text(whole_blocks(size()));
    const auto made = tell(a, "create-shared " + bytes);
    ASSERT_TRUE(made[0] == kOk || made[0] == kOutOfMemory) << history_;
    if (made[0] != kOk) return;
    std::vector<int64_t> references{made.at(1)};
    if (below(2) == 0) references.push_back(tell(a, "reimport " + text(references[0])).at(1));
    for (const int64_t reference : references) {
      if (below(2) == 0) {
        const auto mapped = tell(a, "map " + text(reference) + " " + bytes);
        if (mapped[0] == kOk) a.held_.push_back({"unmap", mapped.at(1), " " + bytes, -1});
      }
      if (below(3) != 0) {
        EXPECT_EQ(tell(a, "release-handle " + text(reference))[0], kOk) << history_;
      } else {
        a.held_.push_back({"release-handle", reference, "", -1});
      }
    }
  }

  // The other card's context comes and goes with all that it owns.
  void other_context(Actor& a) {
    if (a.contexts_[1] == 0) {
      const auto made = tell(a, "ctx 1");
      if (made[0] != kOk) return;
      a.contexts_[1] = made.at(1);
      a.current_ = 1;
      return;
    }
    if (below(2) == 0) {
      a.current_ = 1 - a.current_;
      EXPECT_EQ(tell(a, "set-ctx " + text(a.contexts_[a.current_]))[0], kOk) << history_;
      return;
    }
    EXPECT_EQ(tell(a, "set-ctx " + text(a.contexts_[0]))[0], kOk) << history_;
    EXPECT_EQ(tell(a, "ctx-destroy " + text(a.contexts_[1]))[0], kOk) << history_;
    std::erase_if(a.held_, [](const Held& held) { return held.context == 1; });
    a.contexts_[1] = 0;
    a.current_ = 0;
  }

  // A pool of the first card comes and goes; what came from it outlives it.
  void pools(Actor& a, const std::string& bytes) {
    if (a.current_ != 0) return release(a);
    if (!a.pool_) {
      EXPECT_EQ(tell(a, "pool")[0], kOk) << history_;
      a.pool_ = true;
    } else if (below(4) == 0) {
      EXPECT_EQ(tell(a, "pool-destroy")[0], kOk) << history_;
      a.pool_ = false;
      return;
    }
    take(a, "frompool " + bytes, "free-async", "", 0);
  }

  void threads(Actor& a, int64_t bytes) {
    const std::string number = text(bytes);
    switch (below(5)) {
      case 0:
        return take(a, "thread alloc " + number, "free", "", bytes);
      case 1:
        return take(a, "thread module " + number + " 1", "module-unload", "", 0);
      case 2:
        // Small enough to find room in; all of it is freed again.
        EXPECT_EQ(tell(a, "storm 3 30 " + text(1 + bytes % 3000000)).at(2), 0) << history_;
        return;
      case 3:
        EXPECT_EQ(tell(a, "bare-thread alloc " + number)[0], kNoContext) << history_;
        EXPECT_EQ(tell(a, "bare-thread module " + number + " 1")[0], kNoContext) << history_;
        EXPECT_EQ(tell(a, "bare-thread heap " + number)[0], kNoContext) << history_;
        return;
      default: {
        const auto made = tell(a, "bare-thread create " + text(whole_blocks(bytes)));
        ASSERT_TRUE(made[0] == kOk || made[0] == kOutOfMemory) << history_;
        if (made[0] == kOk) a.held_.push_back({"release-handle", made.at(1), "", -1});
        return;
      }
    }
  }

  void act(Actor& a) {
    const int64_t bytes = size();
    const std::string number = text(bytes);
    switch (below(20)) {
      case 0:
      case 1:
        return take(a, "alloc " + number, "free", "", bytes);
      case 2:
        return take(a, "managed " + number, "free", "", bytes);
      case 3:
        return take(a, "pitch " + text(1 + bytes % 5000) + " " + text(1 + bytes / 5000), "free", "", 0);
      case 4:
        // The stream belongs to the first card.
        return a.current_ == 0 ? take(a, "async " + number, "free-async", "", 0) : release(a);
      case 5:
        return take(a, "array " + text(1 + bytes % 3000) + " " + text(1 + bytes / 100000), "array-destroy", "", 0);
      case 6:
        return take(a, "mipmap " + text(1 + bytes % 4000) + " 500 4", "mipmap-destroy", "", 0);
      case 7:
        return take(a, "module " + number + " " + text(1 + bytes / 7), "module-unload", "", 0);
      case 8:
        return a.current_ == 0 ? take(a, "graph-memory any " + number, "graph-end", "", 0) : release(a);
      case 9:
        return handles(a);
      case 10:
        return other_context(a);
      case 11:
        tell(a, "heap " + text(bytes / 4));
        return;
      case 12:
        EXPECT_NE(tell(a, "fork alloc " + number)[0], kOk) << "the driver has no children" << history_;
        return;
      case 13:
      case 14:
        return pools(a, number);
      case 15:
        return threads(a, bytes);
      default:
        return release(a);
    }
  }

  Folder folder_;
  Machine machine_;
  std::mt19937_64 random_;
  std::string history_;
};

TEST_F(RandomTest, WhatIsChargedIsWhatTheDeviceHolds) {
  const int64_t steps = setting("HEDDLE_GUARD_STEPS", 500);
  std::vector<Actor> actors;
  for (int i = 0; i < 2; ++i) {
    actors.emplace_back(probe());
    ASSERT_TRUE(start(actors.back()));
  }
  for (int64_t step = 0; step < steps; ++step) {
    Actor& a = actors[below(2)];
    if (below(60) == 0) {
      history_.clear();
      if (below(2) == 0) {
        ASSERT_EQ(tell(a, "exec")[0], kOk);
        a = Actor(std::move(a.probe_));
      } else {
        a.probe_.kill();
        a = Actor(probe());
      }
      start(a);
      // Whoever asks next sees that the dead are gone.
      for (Actor& each : actors) tell(each, "info");
      while (a.contexts_[0] == 0) {
        release(actors[&a == &actors[0] ? 1 : 0]);
        start(a);
      }
    } else {
      act(a);
    }
    for (const int card : {0, 1}) {
      const int64_t now = charged(folder_.path(), static_cast<size_t>(card));
      ASSERT_EQ(now, machine_.taken(card)) << "card " << card << " after step " << step << ":" << history_;
      ASSERT_LE(now, kLimit) << history_;
    }
    if (history_.size() > 20000) history_.clear();
  }
}

}  // namespace
}  // namespace heddle::guard::test
