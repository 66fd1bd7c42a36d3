// What a job holds, by its allocation and the cards of the machine. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/claim.h"
#include "standalone/guard_share.h"
#include "standalone/job.h"
#include "standalone/machine.h"

namespace heddle::standalone {

// The amount of one capacity that a result takes; 0 when it names none.
int64_t consumed(const model::DeviceResult& result, const std::string& capacity);
// The card behind pool and device of a result; null when it is not there any more.
const vendors::Card* find_card(const Machine& machine, const model::DeviceResult& result);
// One entry a card; cards that are not there any more are left out.
std::vector<CardShare> card_shares(const Machine& machine, const Job& job);

}  // namespace heddle::standalone
