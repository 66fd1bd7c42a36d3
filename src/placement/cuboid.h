// Slices of a torus: which axis-aligned cuboid of free hosts a request gets, so that large ones stay possible.
//
// Pure and deterministic. Up to three axes; a mesh of two has a third of length 1.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle::placement {

using Extent = std::array<int, 3>;  // hosts along each axis, or a position

struct Torus {
  Extent size = {1, 1, 1};
  bool wraps = false;        // opposite faces are joined: a cuboid may go over the edge
  std::vector<bool> usable;  // by index_of(); hosts that can be taken
};
size_t index_of(const Extent& size, const Extent& at);
int64_t volume_of(const Extent& size);

struct Cuboid {
  Extent origin = {0, 0, 0};
  Extent size = {1, 1, 1};
  friend bool operator==(const Cuboid&, const Cuboid&) = default;
};
// Its hosts, the last axis fastest; over the edge where it wraps.
std::vector<Extent> hosts_of(const Torus& torus, const Cuboid& cuboid);

inline constexpr int kMostHosts = 16'384;  // of a torus

// The free cuboid of one of these sizes (orientations) that leaves the largest free cuboid possible; of equal ones the
// one with the fewest free neighbours, then the first size, then the lowest origin. Of many only the 32 with the fewest
// are compared. must_hold: positions that it has to contain. Nothing: there is none.
// Errors: kInvalidArgument for a torus without hosts, with more than kMostHosts, or where `usable` is not all of them.
// Cost: O(sizes * hosts * hosts of a face) and 32 * O(cuboid sizes * hosts).
Result<std::optional<Cuboid>> choose_cuboid(const Torus& torus, const std::vector<Extent>& sizes,
                                            const std::vector<Extent>& must_hold = {});
// Those of which choose_cuboid() takes one, in the order in which it looks at them; at most so many.
// Errors: as above. Cost: O(sizes * hosts * hosts of a face).
Result<std::vector<Cuboid>> free_cuboids(const Torus& torus, const std::vector<Extent>& sizes,
                                         const std::vector<Extent>& must_hold, size_t most);
// The largest by volume, then the lowest size and origin; nothing when no host is free. Errors and cost as above.
Result<std::optional<Cuboid>> largest_free_cuboid(const Torus& torus);

// "4x4x8" -> {4, 4, 8}; "2x4" -> {2, 4, 1}. Errors: kInvalidArgument with the form to write.
Result<Extent> parse_extent(std::string_view text);
std::string extent_text(const Extent& extent);
// The different sizes in hosts that a slice of `chips` has, in any orientation whose sides are whole hosts, the one as
// written first. Empty: no orientation is.
std::vector<Extent> orientations(const Extent& chips, const Extent& host);

}  // namespace heddle::placement
