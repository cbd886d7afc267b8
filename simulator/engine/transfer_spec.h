#pragma once
// What a rendezvous moves, for network models.

#include "absl/status/statusor.h"
#include "simulator/network/network_model.h"
#include "simulator/reconstruct/communicators.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Errors: communication without a size or an operation.
absl::StatusOr<TransferSpec> TransferOf(const TraceStore& store,
                                        const MatchedCommunicator& communicator,
                                        const MatchedRendezvous& rendezvous);

}  // namespace foretrace
