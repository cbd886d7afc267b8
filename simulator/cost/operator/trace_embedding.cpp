// Embedding lookups from the shapes of framework calls. Which rows a batch touches is not in traces
// of shapes: rows are taken as equally likely, and estimates are marked as assumed.

#include <algorithm>
#include <cmath>

#include "simulator/cost/operator/trace_call.h"

namespace foretrace::trace_call {
namespace {

bool IsList(const TensorShape& t) { return t.dims.size() == 1; }

// Distinct rows among `lookups` of rows that are equally likely.
int64_t UniformUniqueRows(int64_t lookups, int64_t rows) {
  if (rows <= 0) return lookups;
  const auto e = static_cast<double>(rows);
  const double unique = -e * std::expm1(-static_cast<double>(lookups) / e);
  return std::clamp<int64_t>(std::llround(unique), lookups > 0 ? 1 : 0, lookups);
}

void SetOptimizer(std::string_view name, EmbeddingOp& op) {
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  op.fused_update = !has("dense") && !has("Dense");
  op.rowwise = has("rowwise");
  op.optimizer = has("adagrad")               ? OptimizerKind::kAdagrad
                 : has("adam") || has("lamb") ? OptimizerKind::kAdam
                                              : OptimizerKind::kSgd;
}

}  // namespace

// FBGEMM's lookups take weights, then weights_offsets [T] and D_offsets [T+1] (after placements [T]
// when tables are split over memories), hash_size_cumsum [T+1], indices [N] and offsets [T B + 1].
// The dimension D is in the result [B, sum of D] alone.
Result BatchedLookup(std::string_view name, const Call& call) {
  EmbeddingOp op;
  op.batched = true;
  SetOptimizer(name, op);
  if (name.find("SplitLookupFunction") != name.npos) {  // backward: gradient [B, sum of D]
    if (!call.in_ok(1) || call.in[0].dims.size() != 2) return std::nullopt;
    op.bags = call.in[0].dims[0];
    op.dim = call.in[0].dims[1];
    op.tables = 0;
    TracedOperator traced = Backward(op, call);
    traced.assumed = true;
    return traced;
  }
  size_t at = 0;
  while (at + 1 < call.in.size() &&
         !(IsList(call.in[at]) && IsList(call.in[at + 1]) && call.in[at].dims[0] > 0 &&
           call.in[at + 1].dims[0] == call.in[at].dims[0] + 1)) {
    ++at;
  }
  if (at + 1 >= call.in.size()) return std::nullopt;
  op.tables = call.in[at].dims[0];
  size_t cumsum = at + 2;
  while (cumsum < call.in.size() && call.in[cumsum].dims[0] != op.tables + 1) ++cumsum;
  if (cumsum + 2 >= call.in.size()) return std::nullopt;
  const TensorShape &indices = call.in[cumsum + 1], &offsets = call.in[cumsum + 2];
  if (!IsList(indices) || !IsList(offsets) || (offsets.dims[0] - 1) % op.tables != 0) {
    return std::nullopt;
  }
  op.lookups = indices.dims[0];
  op.bags = offsets.dims[0] - 1;
  int64_t weights = 0;
  for (size_t i = 0; i < at; ++i) {
    const DType dtype = call.in[i].dtype;
    if (dtype == DType::kFloat32 || dtype == DType::kFloat16) {
      weights = std::max(weights, Elements(call.in[i]));
    }
  }
  op.rows = weights;  // in elements until the dimension is known
  TracedOperator traced = Traced(op, call);
  traced.assumed = true;
  auto& shape = std::get<EmbeddingOp>(traced.op.shape);
  if (!call.out.empty() && call.out[0].dims.size() == 2) {
    FinishLookup(call.out[0].dims[1], shape);
  } else {
    shape.dim = 0;
  }
  return traced;
}

Result EmbeddingBag(const Call& call) {
  if (!call.in_ok(3) || call.in[0].dims.size() != 2) return std::nullopt;
  EmbeddingOp op;
  op.rows = call.in[0].dims[0];
  op.dim = call.in[0].dims[1];
  op.lookups = Elements(call.in[1]);
  op.bags = IsList(call.in[1]) ? Elements(call.in[2]) : call.in[1].dims[0];
  op.fused_update = false;
  op.unique_rows = UniformUniqueRows(op.lookups, op.rows);
  TracedOperator traced = Traced(op, call);
  traced.assumed = true;
  return traced;
}

Result EmbeddingBagBackward(const Call& call) {
  if (!call.in_ok(2) || call.in[0].dims.size() < 2) return std::nullopt;
  EmbeddingOp op;
  op.dim = call.in[0].dims.back();
  op.bags = LeadingElements(call.in[0], 1);
  op.lookups = Elements(call.in[1]);
  op.fused_update = false;
  TracedOperator traced = Backward(op, call);
  traced.assumed = true;
  return traced;
}

}  // namespace foretrace::trace_call

namespace foretrace {

void FinishLookup(int64_t total_dim, EmbeddingOp& op) {
  op.dim = op.tables > 0 ? std::max<int64_t>(1, total_dim / op.tables) : 0;
  if (op.dim == 0) return;
  op.rows /= op.dim;
  const int64_t tables = std::max<int64_t>(op.tables, 1);
  op.unique_rows = SaturatingProduct(
      {trace_call::UniformUniqueRows(op.lookups / tables, op.rows / tables), tables});
}

}  // namespace foretrace
