// Random small problems: the allocator must find what trying everything finds, the same devices in the same order, and
// an independent check must agree with each answer.
//
// HEDDLE_ALLOCATOR_CASES: how many (default 2000); HEDDLE_ALLOCATOR_SEED: where to begin (default 1).
#include <gtest/gtest.h>

#include <cstdlib>

#include "allocator/random_problem.h"

namespace heddle::allocator::testing {
namespace {

constexpr uint64_t kSteps = 1'000'000;

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string text_of(const Answer& answer) {
  if (!answer) return "no";
  std::string text;
  for (const Chosen& one : *answer) {
    text += std::to_string(one.claim) + "/" + std::to_string(one.request) + "/" + std::to_string(one.alternative) +
            ":" + std::to_string(one.device) + " ";
  }
  return text;
}

// What is wrong with the allocator's answer; empty: nothing.
std::string complaint(const Problem& problem) {
  const Outcome outcome = ask_allocator(problem, kSteps);
  if (!outcome.error.empty()) return "error: " + outcome.error;
  const Answer expected = brute_force(problem);
  if (outcome.answer) {
    const std::string wrong = check(problem, *outcome.answer);
    if (!wrong.empty()) return "invalid: " + wrong + ": " + text_of(outcome.answer);
  }
  if (outcome.answer == expected) return {};
  return "expected " + text_of(expected) + ", got " + text_of(outcome.answer);
}

Problem shrink(Problem problem) {
  for (bool again = true; again;) {
    again = false;
    for (const Problem& candidate : smaller(problem)) {
      if (complaint(candidate).empty()) continue;
      problem = candidate;
      again = true;
      break;
    }
  }
  return problem;
}

TEST(AllocatorRandom, AgreesWithTryingEverything) {
  const uint64_t first = setting("HEDDLE_ALLOCATOR_SEED", 1);
  const uint64_t count = setting("HEDDLE_ALLOCATOR_CASES", 2000);
  uint64_t solved = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SeededRandom random(seed);
    const Problem problem = random_problem(random);
    if (!complaint(problem).empty()) {
      const Problem small = shrink(problem);
      FAIL() << "seed " << seed << ", shrunk:\n" << describe(small) << complaint(small);
    }
    if (brute_force(problem)) ++solved;
  }
  // Neither answer may be rare, or the problems test nothing.
  EXPECT_GT(solved, count / 10);
  EXPECT_LT(solved, count - count / 10);
}

}  // namespace
}  // namespace heddle::allocator::testing
