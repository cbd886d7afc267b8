#pragma once
// Which communication streams of different ranks are one communicator, when no file says so; a
// detail of communicators.h.

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/reconstruct/comm_sequence.h"
#include "simulator/reconstruct/end_spread.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// How far b's operations are ahead of a's: a's k-th meets b's (k + shift)-th. Recordings may be cut
// at different places, so a few operations at the edges can lack a partner, and equal lists may be
// of different steps. With times, the shift for which operations, their sizes if any, and the
// numbers of their steps agree, and of those the one whose ends agree best; nullopt: the operations
// disagree however they are shifted.
std::optional<int64_t> AlignSequences(const TraceStore& store, const CommSequence& a,
                                      const CommSequence& b);

// Whether operations so shifted have the sizes of their partners, as far as recorded.
bool SizesAgree(const CommSequence& a, const CommSequence& b, int64_t shift);

// False where there are enough operations to tell that these two do not end together, so aligned.
bool MayEndTogether(const TraceStore& store, const CommSequence& a, const CommSequence& b,
                    int64_t shift);

// How far apart the ends of operations so aligned lie; SimTime::Max() where none are.
EndSpread FitEnds(const TraceStore& store, const CommSequence& a, const CommSequence& b,
                  int64_t shift);

// Sets of sequences (at most one of each rank) that meet. Kernels of one collective end together on
// all members, so the spread of the differences of their ends is a microsecond or two between
// members, and much more between replicas that only run alike; a constant clock offset cancels.
// Streams of one name on several ranks are divided along an axis of the mesh of ranks where ends
// allow one: of such the axis that leaves least waiting unexplained, then the shortest.
std::vector<std::vector<CommSequence*>> GroupByEnds(const TraceStore& store,
                                                    const std::vector<CommSequence*>& open);

}  // namespace foretrace
