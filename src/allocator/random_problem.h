// Small random allocation problems in a form that is easy to shrink, as objects for the allocator, and their answer by
// brute force. For tests.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocator/allocator.h"
#include "allocator/node_pools.h"

namespace heddle::allocator::testing {

struct TestDevice {
  int pool = 0;
  int x = 0;  // attribute "d/x"; 0: absent
  int64_t memory = 0;
  int64_t step = 0;  // of the request policy; 0: no policy
  int64_t counter = 0;
  bool shared = false;
  bool tainted = false;
  bool held_whole = false;
  int64_t held_share = -1;  // memory; -1: no share
};

struct TestAlternative {
  int64_t count = 1;
  int want_x = 0;       // selector; 0: any
  int64_t memory = -1;  // capacity request; -1: none
  bool all = false;
  bool admin = false;
  bool tolerates = false;
};

struct TestRequest {
  std::vector<TestAlternative> alternatives;  // one: exactly
};

struct TestConstraint {
  bool match = true;
  int request = -1;  // -1: all
};

struct TestClaim {
  std::vector<TestRequest> requests;
  std::vector<TestConstraint> constraints;
};

struct Problem {
  std::vector<int64_t> pool_counters;  // total of the one counter of each pool; -1: the pool has none
  std::vector<TestDevice> devices;     // by pool
  std::vector<TestClaim> claims;
};

Problem random_problem(SeededRandom& random);
// Smaller problems: each with one thing left out or made plainer.
std::vector<Problem> smaller(const Problem& problem);
std::string describe(const Problem& problem);

// One device of the solution, in order of claims, requests and slots.
struct Chosen {
  size_t claim = 0;
  size_t request = 0;
  size_t alternative = 0;
  size_t device = 0;
  friend bool operator==(const Chosen&, const Chosen&) = default;
};
using Answer = std::optional<std::vector<Chosen>>;

// The first solution in upstream's order, by trying everything. Knows nothing of the allocator.
Answer brute_force(const Problem& problem);
// What is wrong with the choice; empty: nothing. Written apart from both.
std::string check(const Problem& problem, const std::vector<Chosen>& chosen);
// The allocator's answer; its error as text.
struct Outcome {
  Answer answer;
  std::string error;
};
Outcome ask_allocator(const Problem& problem, uint64_t steps);

}  // namespace heddle::allocator::testing
