#pragma once
// Embedding operators as queries of the lookup model.

#include "simulator/cost/embedding/embedding_model.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

// Tables of equal rows and dimension with rows that are equally likely, for operators of which no
// more is known.
EmbeddingQuery QueryOf(const EmbeddingOp& op, DType dtype);

// Time of sorting the lookups' indices for the backward pass, at the device's DRAM bandwidth:
// linearised (20 bytes a lookup), radix sorted with 4-byte positions in passes of 8 bits over the
// bits of a row number (24 bytes a pass), and run-length encoded (8).
double SortUs(const EmbeddingOp& op, const GpuPeaks& device);

}  // namespace foretrace
