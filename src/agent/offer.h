// What a node offers, and by which hard partitions: those that exist, and those that are made when a claim gets them.
// Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/record.h"
#include "agent/slices.h"
#include "catalog/catalog.h"
#include "vendors/vendor.h"

namespace heddle::agent {

// making: vendors whose cards are cut on request, where the catalogue knows how and the driver can.
//
// A partition that was made for a claim is no device of its own: it is the one that the claim was granted. What others
// have made stays a device, takes what it has from what can be made beside it, and keeps the card from being offered
// whole. Of a card that nothing is made of any more, the partitions that claims hold are still there.
Offer offer_of(const catalog::Catalog& catalog, const std::set<std::string>& making, std::vector<vendors::Card> cards,
               const std::vector<ClaimRecord>& records);

// The inventory with its cards marked as cut as they are in the offer: a card whose partitions are all made for claims
// is offered still.
vendors::Inventory as_offered(vendors::Inventory inventory, const Offer& offer);

}  // namespace heddle::agent
