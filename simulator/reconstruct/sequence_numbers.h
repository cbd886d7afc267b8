#pragma once
// Collectives matched by the numbers that the communication library gave them; a detail of
// communicators.h.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "simulator/reconstruct/comm_sequence.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct NumberedOperations {
  // Per operation that all members have, its position in the sequence of each.
  std::vector<std::vector<size_t>> positions;
  int64_t unmatched = 0;  // that some member lacks
};

// PyTorch counts the collectives of each process group ("Seq"), alike on all its ranks; several
// that it coalesces share a number and meet in order. nullopt: an operation has no number.
std::optional<NumberedOperations> MatchByNumber(const TraceStore& store,
                                                std::span<CommSequence* const> members);

}  // namespace foretrace
