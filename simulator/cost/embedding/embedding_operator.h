#pragma once
// Embedding operators as queries of the lookup model.

#include "simulator/cost/embedding/embedding_model.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

// Tables of equal rows and dimension with rows that are equally likely, for operators of which no
// more is known.
EmbeddingQuery QueryOf(const EmbeddingOp& op, DType dtype);

}  // namespace foretrace
