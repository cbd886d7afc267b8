#include "simulator/cost/embedding/embedding_operator.h"

#include <algorithm>

#include "simulator/cost/embedding/expected_reuse.h"

namespace foretrace {
EmbeddingQuery QueryOf(const EmbeddingOp& op, DType dtype) {
  const auto tables = static_cast<size_t>(std::clamp<int64_t>(op.tables, 1, 100'000));
  const auto share = [tables](int64_t total) {
    return static_cast<double>(total) / static_cast<double>(tables);
  };
  TableLookup table;
  table.batch = share(op.bags);
  table.rows = share(op.rows);
  table.dim = static_cast<double>(op.dim);
  table.pooling = op.bags > 0 ? static_cast<double>(op.lookups) / static_cast<double>(op.bags) : 0;
  if (op.rows > 0) {
    const ExpectedAccess expected = UniformAccess(share(op.lookups), table.rows);
    table.reuse = expected.reuse;
    table.unique_rows = expected.unique_rows;
  } else {
    table.unique_rows = share(op.unique_rows);
  }
  EmbeddingQuery query;
  query.tables.assign(tables, table);
  query.weight_dtype = dtype;
  query.optimizer = op.optimizer;
  query.rowwise = op.rowwise;
  query.fused_update = op.fused_update;
  query.mean_lengths = tables > 1;
  return query;
}

}  // namespace foretrace
