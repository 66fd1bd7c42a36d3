// Randomness with a seed that is passed in (decisions), and the machine's own (names, keys).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace heddle {

// xoshiro256**: the same seed gives the same numbers on every machine. Not for secrets.
class SeededRandom {
 public:
  explicit SeededRandom(uint64_t seed);
  uint64_t next();
  // Uniform in [0, bound). bound > 0.
  uint64_t below(uint64_t bound);

 private:
  std::array<uint64_t, 4> state_;
};

// A version 4 UUID in lower case from the given source.
std::string make_uuid(SeededRandom& random);

// Bytes of getrandom(2). Errors: kInternal.
Result<std::string> random_bytes(size_t count);
Result<uint64_t> random_seed();

}  // namespace heddle
