#include "placement/grid.h"

#include <algorithm>

namespace heddle::placement {
namespace {

constexpr size_t kAxes = 3;

// One orientation at one offset.
struct Grid {
  Extent size = {1, 1, 1};    // of a cell
  Extent offset = {0, 0, 0};  // of the first
  Extent cells = {0, 0, 0};   // along each axis
};

// Calls `then` with each position of a block, the last axis fastest, until it says false.
template <typename Then>
bool each(const Extent& block, Then then) {
  Extent at = {0, 0, 0};
  for (at[0] = 0; at[0] < block[0]; ++at[0]) {
    for (at[1] = 0; at[1] < block[1]; ++at[1]) {
      for (at[2] = 0; at[2] < block[2]; ++at[2]) {
        if (!then(at)) return false;
      }
    }
  }
  return true;
}

int cells_along(const Torus& torus, const Grid& grid, size_t axis) {
  const int length = torus.size[axis];
  return (torus.wraps ? length : length - grid.offset[axis]) / grid.size[axis];
}

// The offsets that give different grids.
Extent offsets_of(const Torus& torus, const Extent& size) {
  Extent offsets = {1, 1, 1};
  for (size_t axis = 0; axis < kAxes; ++axis) {
    const int spare = torus.size[axis] - size[axis];
    offsets[axis] = torus.wraps ? (spare == 0 ? 1 : size[axis]) : std::min(spare + 1, size[axis]);
  }
  return offsets;
}

class Counter {
 public:
  explicit Counter(const Torus& torus) : torus_(torus), hits_(torus.usable.size(), 0) {}

  void add(const Grid& grid) {
    std::vector<size_t> hosts;
    int64_t full = 0;
    each(grid.cells, [&](const Extent& cell) {
      const size_t before = hosts.size();
      const bool whole = each(grid.size, [&](const Extent& in) {
        Extent at = {0, 0, 0};
        for (size_t axis = 0; axis < kAxes; ++axis)
          at[axis] = (grid.offset[axis] + cell[axis] * grid.size[axis] + in[axis]) % torus_.size[axis];
        const size_t index = index_of(torus_.size, at);
        hosts.push_back(index);
        return static_cast<bool>(torus_.usable[index]);
      });
      if (whole) {
        ++full;
      } else {
        hosts.resize(before);
      }
      return true;
    });
    if (full < best_ || full == 0) return;
    if (full > best_) {
      best_ = full;
      grids_ = 0;
      std::fill(hits_.begin(), hits_.end(), 0);
    }
    ++grids_;
    for (const size_t host : hosts) ++hits_[host];
  }

  [[nodiscard]] GridCount result() const {
    GridCount out{best_, std::vector<bool>(hits_.size(), false)};
    for (size_t host = 0; best_ > 0 && host < hits_.size(); ++host) out.needed[host] = hits_[host] == grids_;
    return out;
  }

 private:
  const Torus& torus_;
  int64_t best_ = 0;
  int64_t grids_ = 0;          // that reach it
  std::vector<int64_t> hits_;  // by host, of those
};

}  // namespace

Result<GridCount> count_on_grid(const Torus& torus, const std::vector<Extent>& sizes) {
  const int64_t hosts = volume_of(torus.size);
  if (hosts < 1 || hosts > kMostHosts || static_cast<int64_t>(torus.usable.size()) != hosts)
    return fail(Code::kInvalidArgument, "a torus has 1 to 16384 hosts, and says of each whether it is usable", "torus");
  Counter counter(torus);
  for (const Extent& size : sizes) {
    bool inside = true;
    for (size_t axis = 0; axis < kAxes; ++axis) inside = inside && size[axis] >= 1 && size[axis] <= torus.size[axis];
    if (!inside) continue;
    each(offsets_of(torus, size), [&](const Extent& offset) {
      Grid grid{.size = size, .offset = offset};
      for (size_t axis = 0; axis < kAxes; ++axis) grid.cells[axis] = cells_along(torus, grid, axis);
      counter.add(grid);
      return true;
    });
  }
  return counter.result();
}

}  // namespace heddle::placement
