// Which running work would have to end for one that waits to start: found by trial on an oracle, never guessed.
//
// Pure and deterministic. Cost: at most `steps` calls of the oracle for one site or for all, and as many of `allowed`.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "queueing/preemption.h"

namespace heddle::queueing {

struct RemedySearch {
  // In the order in which they are expected to end. `cost`: what they hold; the large ones are tried by themselves,
  // too.
  std::vector<const Victim*> running;
  // Whether quota lets it start when these have ended. Monotone.
  std::function<bool(const std::vector<const Victim*>&)> allowed;
  size_t steps = 256;
};

// One, where one of those that were tried alone is enough: of these the first to end. Else several that are enough
// together, of which none could be left out; for one site the fewest that were found, in the order of `running`.
// Empty: nothing was found within the steps, or it fits as things are.
[[nodiscard]] std::vector<const Victim*> who_has_to_end(FitOracle& oracle, const RemedySearch& search);

}  // namespace heddle::queueing
