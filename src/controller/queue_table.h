// The tree of queues is the engine's, for every form of Heddle has it; this folder calls it by its own name.
#pragma once

#include "engine/queue_table.h"

namespace heddle::controller {

using engine::kQueueLabel;
using engine::kReservationLabel;
using engine::kRootQueue;
using engine::kUnassignedQueue;
using engine::QueueObject;
using engine::QueueTable;
using engine::read_queue_object;
using engine::read_reservation_object;
using engine::ReservationObject;

}  // namespace heddle::controller
