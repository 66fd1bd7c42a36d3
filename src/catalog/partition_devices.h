// A card's forms as devices of Dynamic Resource Allocation: one counter set a card, and every partition at every place
// a device that consumes of it, so that whole, shared and partitioned use exclude each other by arithmetic.
// Pure; cost: a few dozen devices a card.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "catalog/catalog.h"
#include "model/device.h"

namespace heddle::catalog {

struct CardForms {
  // Counters: "<slot>-<n>" of 1 for each slot, and those of the table; "partitions" for a table of mode uniform.
  model::CounterSet counters;
  // All of them: what the device that stands for the whole card (used alone or shared) consumes.
  model::CounterConsumption whole;
  // Named "<card>-<partition>-<place>", unique and DNS labels; with the attributes type "partition", profile and, when
  // placed, placement (first slot), and the capacity memory in whole MiB where it is known. Attributes of the card
  // (vendor, model, parentUUID ...) are added by who knows it. In the order of the table, last place first.
  std::vector<model::Device> devices;
};

// card: the name of the card's device, such as gpu-0; the counter set has the same name.
// mode: of a table that is uniform, the name of the partition that the card is cut into now; else empty.
// Errors: kInvalidArgument for a mode that the table does not have, or one of a table that is mixed; kUnsupported for
// a table without partitions or with more counters than a set can hold (32).
Result<CardForms> partition_devices(const PartitionTable& table, const std::string& card,
                                    std::optional<std::string_view> mode = {});

}  // namespace heddle::catalog
