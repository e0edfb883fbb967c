#pragma once

// Everything an engine needs.
#include "kvrail/event_queue.h"
#include "kvrail/kv_builders.h"
#include "kvrail/kv_layout.h"
#include "kvrail/kv_messenger.h"
#include "kvrail/layout_bytes.h"
#include "kvrail/model_shape.h"
#include "kvrail/pre_shared_key.h"
#include "kvrail/rail_failure.h"
#include "kvrail/shared_allocation.h"
#include "kvrail/transfer_engine.h"
#include "kvrail/transfer_plan.h"
