#include "base/random.h"

#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace heddle {
namespace {

// splitmix64: spreads a seed over the state, as the authors of xoshiro ask for.
uint64_t split_mix(uint64_t& seed) {
  seed += 0x9e3779b97f4a7c15;
  uint64_t z = seed;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

SeededRandom::SeededRandom(uint64_t seed) : state_{} {
  for (uint64_t& word : state_) word = split_mix(seed);
}

uint64_t SeededRandom::next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t SeededRandom::below(uint64_t bound) {
  // Numbers under the remainder of 2^64 / bound would make small results more likely.
  const uint64_t reject_under = (0 - bound) % bound;
  uint64_t value = next();
  while (value < reject_under) value = next();
  return value % bound;
}

std::string make_uuid(SeededRandom& random) {
  std::array<uint64_t, 2> words = {random.next(), random.next()};
  words[0] = (words[0] & ~uint64_t{0xf000}) | 0x4000;
  words[1] = (words[1] & ~(uint64_t{3} << 62)) | (uint64_t{2} << 62);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  text.reserve(36);
  for (size_t i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) text.push_back('-');
    text.push_back(kHex[(words[i / 16] >> (60 - 4 * (i % 16))) & 0xf]);
  }
  return text;
}

Result<std::string> random_bytes(size_t count) {
  std::string bytes(count, '\0');
  size_t done = 0;
  while (done < count) {
    const ssize_t got = ::getrandom(bytes.data() + done, count - done, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return fail_errno("getrandom", errno);
    }
    done += static_cast<size_t>(got);
  }
  return bytes;
}

Result<uint64_t> random_seed() {
  HEDDLE_TRY(const std::string bytes, random_bytes(sizeof(uint64_t)));
  uint64_t seed = 0;
  std::memcpy(&seed, bytes.data(), sizeof(seed));
  return seed;
}

}  // namespace heddle
