#include "placement/cuboid.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace heddle::placement {
namespace {

constexpr size_t kCompared = 32;
constexpr int kMostChips = 10'000;  // along an axis

// How many hosts of any box are usable, in constant time. The torus is repeated once along each axis where it wraps.
class Sums {
 public:
  explicit Sums(const Torus& torus) : size_(torus.size), extent_(torus.size) {
    if (torus.wraps) {
      for (int& side : extent_) side *= 2;
    }
    sums_.assign(
        static_cast<size_t>(extent_[0] + 1) * static_cast<size_t>(extent_[1] + 1) * static_cast<size_t>(extent_[2] + 1),
        0);
    for (int x = 0; x < extent_[0]; ++x) {
      for (int y = 0; y < extent_[1]; ++y) {
        for (int z = 0; z < extent_[2]; ++z) {
          const bool usable = torus.usable[index_of(size_, {x % size_[0], y % size_[1], z % size_[2]})];
          at(x + 1, y + 1, z + 1) = (usable ? 1 : 0) + at(x, y + 1, z + 1) + at(x + 1, y, z + 1) + at(x + 1, y + 1, z) -
                                    at(x, y, z + 1) - at(x, y + 1, z) - at(x + 1, y, z) + at(x, y, z);
        }
      }
    }
  }

  [[nodiscard]] bool all_usable(const Cuboid& cuboid) const {
    const auto& [o, s] = cuboid;
    const int x = o[0] + s[0];
    const int y = o[1] + s[1];
    const int z = o[2] + s[2];
    if (x > extent_[0] || y > extent_[1] || z > extent_[2]) return false;
    const int64_t sum = get(x, y, z) - get(o[0], y, z) - get(x, o[1], z) - get(x, y, o[2]) + get(o[0], o[1], z) +
                        get(o[0], y, o[2]) + get(x, o[1], o[2]) - get(o[0], o[1], o[2]);
    return sum == volume_of(s);
  }

 private:
  [[nodiscard]] size_t place(int x, int y, int z) const {
    return (static_cast<size_t>(x) * static_cast<size_t>(extent_[1] + 1) + static_cast<size_t>(y)) *
               static_cast<size_t>(extent_[2] + 1) +
           static_cast<size_t>(z);
  }
  int64_t& at(int x, int y, int z) { return sums_[place(x, y, z)]; }
  [[nodiscard]] int64_t get(int x, int y, int z) const { return sums_[place(x, y, z)]; }

  Extent size_;
  Extent extent_;
  std::vector<int64_t> sums_;
};

Result<void> check(const Torus& torus) {
  int64_t hosts = 1;
  for (const int side : torus.size) {
    if (side < 1 || side > kMostHosts) return fail(Code::kInvalidArgument, "a side is out of range", "size");
    hosts *= side;
  }
  if (hosts > kMostHosts) return fail(Code::kInvalidArgument, "there are too many hosts", "size");
  if (torus.usable.size() != static_cast<size_t>(hosts)) {
    return fail(Code::kInvalidArgument, "is not one entry a host", "usable");
  }
  return {};
}

bool fits_into(const Extent& inner, const Extent& outer) {
  return inner[0] <= outer[0] && inner[1] <= outer[1] && inner[2] <= outer[2];
}

template <typename Use>
void each_position(const Extent& size, Use use) {
  for (int x = 0; x < size[0]; ++x) {
    for (int y = 0; y < size[1]; ++y) {
      for (int z = 0; z < size[2]; ++z) use(Extent{x, y, z});
    }
  }
}

// One way to lie along an axis that it fills is enough.
bool needless(const Torus& torus, const Cuboid& cuboid) {
  for (size_t axis = 0; axis < 3; ++axis) {
    if (torus.wraps && cuboid.size[axis] == torus.size[axis] && cuboid.origin[axis] > 0) return true;
  }
  return false;
}

// Hosts beside its faces that are free.
int64_t free_beside(const Torus& torus, const Cuboid& cuboid) {
  int64_t free = 0;
  for (size_t axis = 0; axis < 3; ++axis) {
    if (cuboid.size[axis] == torus.size[axis]) continue;
    Cuboid face = cuboid;
    face.size[axis] = 1;
    for (const int at : {cuboid.origin[axis] - 1, cuboid.origin[axis] + cuboid.size[axis]}) {
      const bool outside = at < 0 || at >= torus.size[axis];
      if (outside && !torus.wraps) continue;
      face.origin[axis] = (at + torus.size[axis]) % torus.size[axis];
      for (const Extent& host : hosts_of(torus, face)) free += torus.usable[index_of(torus.size, host)] ? 1 : 0;
    }
  }
  return free;
}

// Every size, the largest first.
std::vector<Extent> sizes_of(const Extent& most) {
  std::vector<Extent> sizes;
  each_position(most, [&](const Extent& less) { sizes.push_back({less[0] + 1, less[1] + 1, less[2] + 1}); });
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const Extent& a, const Extent& b) { return volume_of(a) > volume_of(b); });
  return sizes;
}

// sizes: sizes_of() the torus.
std::optional<Cuboid> largest(const Torus& torus, const std::vector<Extent>& sizes) {
  const Sums sums(torus);
  const auto usable = std::count(torus.usable.begin(), torus.usable.end(), true);
  for (const Extent& size : sizes) {
    if (volume_of(size) > usable) continue;
    std::optional<Cuboid> found;
    each_position(torus.size, [&](const Extent& origin) {
      const Cuboid cuboid{origin, size};
      if (!found && !needless(torus, cuboid) && sums.all_usable(cuboid)) found = cuboid;
    });
    if (found) return found;
  }
  return std::nullopt;
}

struct Candidate {
  Cuboid cuboid;
  int64_t exposed = 0;
  size_t order = 0;
};

std::vector<Candidate> candidates_of(const Torus& torus, const std::vector<Extent>& sizes,
                                     const std::vector<Extent>& must_hold) {
  const Sums sums(torus);
  std::vector<Candidate> candidates;
  for (const Extent& size : sizes) {
    if (!fits_into(size, torus.size) || volume_of(size) < 1) continue;
    each_position(torus.size, [&](const Extent& origin) {
      const Cuboid cuboid{origin, size};
      if (needless(torus, cuboid) || !sums.all_usable(cuboid)) return;
      if (!must_hold.empty()) {
        const auto hosts = hosts_of(torus, cuboid);
        const bool holds = std::all_of(must_hold.begin(), must_hold.end(), [&](const Extent& at) {
          return std::find(hosts.begin(), hosts.end(), at) != hosts.end();
        });
        if (!holds) return;
      }
      candidates.push_back({cuboid, free_beside(torus, cuboid), candidates.size()});
    });
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.exposed != b.exposed ? a.exposed < b.exposed : a.order < b.order;
  });
  return candidates;
}

}  // namespace

size_t index_of(const Extent& size, const Extent& at) {
  return (static_cast<size_t>(at[0]) * static_cast<size_t>(size[1]) + static_cast<size_t>(at[1])) *
             static_cast<size_t>(size[2]) +
         static_cast<size_t>(at[2]);
}

int64_t volume_of(const Extent& size) {
  return int64_t{size[0]} * size[1] * size[2];
}

std::vector<Extent> hosts_of(const Torus& torus, const Cuboid& cuboid) {
  std::vector<Extent> hosts;
  hosts.reserve(static_cast<size_t>(volume_of(cuboid.size)));
  each_position(cuboid.size, [&](const Extent& at) {
    Extent host;
    for (size_t axis = 0; axis < 3; ++axis) host[axis] = (cuboid.origin[axis] + at[axis]) % torus.size[axis];
    hosts.push_back(host);
  });
  return hosts;
}

Result<std::optional<Cuboid>> choose_cuboid(const Torus& torus, const std::vector<Extent>& sizes,
                                            const std::vector<Extent>& must_hold) {
  HEDDLE_CHECK_OK(check(torus));
  std::vector<Candidate> candidates = candidates_of(torus, sizes, must_hold);
  if (candidates.size() > kCompared) candidates.resize(kCompared);
  std::optional<Cuboid> best;
  int64_t most = -1;
  Torus left = torus;
  const std::vector<Extent> all_sizes = sizes_of(torus.size);
  const auto before = candidates.empty() ? std::nullopt : largest(torus, all_sizes);
  const int64_t bound = before ? volume_of(before->size) : 0;
  for (const Candidate& candidate : candidates) {
    const auto hosts = hosts_of(torus, candidate.cuboid);
    for (const Extent& host : hosts) left.usable[index_of(torus.size, host)] = false;
    const auto rest = largest(left, all_sizes);
    for (const Extent& host : hosts) left.usable[index_of(torus.size, host)] = true;
    const int64_t volume = rest ? volume_of(rest->size) : 0;
    if (volume <= most) continue;
    most = volume;
    best = candidate.cuboid;
    if (volume == bound) break;  // no candidate leaves more than there is
  }
  return best;
}

Result<std::vector<Cuboid>> free_cuboids(const Torus& torus, const std::vector<Extent>& sizes,
                                         const std::vector<Extent>& must_hold, size_t most) {
  HEDDLE_CHECK_OK(check(torus));
  std::vector<Cuboid> out;
  for (const Candidate& candidate : candidates_of(torus, sizes, must_hold)) {
    if (out.size() == most) break;
    out.push_back(candidate.cuboid);
  }
  return out;
}

Result<std::optional<Cuboid>> largest_free_cuboid(const Torus& torus) {
  HEDDLE_CHECK_OK(check(torus));
  return largest(torus, sizes_of(torus.size));
}

Result<Extent> parse_extent(std::string_view text) {
  Extent extent = {1, 1, 1};
  size_t axis = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int side = 0;
    const auto [next, error] = std::from_chars(at, end, side);
    if (error != std::errc() || side < 1 || side > kMostChips || axis == extent.size()) break;
    extent[axis++] = side;
    if (next == end) {
      if (axis < 2) break;
      return extent;
    }
    if (*next != 'x') break;
    at = next + 1;
  }
  return fail(Code::kInvalidArgument, fmt::format("'{}' is no topology: write one such as 4x4x8 or 2x4", text));
}

std::string extent_text(const Extent& extent) {
  return fmt::format("{}x{}x{}", extent[0], extent[1], extent[2]);
}

std::vector<Extent> orientations(const Extent& chips, const Extent& host) {
  std::vector<Extent> out;
  constexpr std::array<std::array<size_t, 3>, 6> kTurns = {
      {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
  for (const auto& turn : kTurns) {
    Extent size;
    bool whole = true;
    for (size_t axis = 0; axis < 3; ++axis) {
      whole = whole && chips[turn[axis]] % host[axis] == 0;
      size[axis] = chips[turn[axis]] / host[axis];
    }
    if (whole && std::find(out.begin(), out.end(), size) == out.end()) out.push_back(size);
  }
  return out;
}

}  // namespace heddle::placement
