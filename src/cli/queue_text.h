// What `heddle queue` prints, from the objects of the API server. Pure.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/args.h"

namespace heddle::cli {

// queues_json: the list of AcceleratorQueues. pods_json: the list of pods without a node, or empty.
// The tree of all queues, or one queue with those below it and what waits in them.
// Errors: kNotFound (no such queue, with the nearest name), kInternal (an answer that is no list).
Result<std::string> queue_text(const std::string& queues_json, const std::string& pods_json, const std::string& name,
                               Output output);

}  // namespace heddle::cli
