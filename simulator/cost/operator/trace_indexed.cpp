// Elements and rows that indices choose, from the shapes of framework calls.

#include <iterator>

#include "simulator/cost/operator/trace_call.h"

namespace foretrace::trace_call {

Result Gather(const Call& call, Direction pass) {
  if (call.in.empty()) return std::nullopt;
  IndexOp op;
  op.source_elements = Elements(call.in[0]);
  op.index_count = call.in_ok(2) ? Elements(call.in[1]) : 0;
  op.elements = call.out.empty() ? (call.in_ok(2) ? op.index_count : op.source_elements)
                                 : Elements(call.out[0]);
  TracedOperator traced = Traced(op, call, pass);
  traced.assumed = call.out.empty();
  traced.access.elements = op.elements;
  traced.access.indices = std::ssize(call.in) - 1;
  if (call.in_ok(2) && op.index_count == op.elements && call.in[1].dims.back() > 0) {
    traced.access.rows = op.index_count / call.in[1].dims.back();
  }
  return traced;
}

// Where the result is not recorded, rows are taken to be selected from the outermost dimension.
Result SelectRows(const Call& call) {
  if (call.out.empty() && call.in_ok(2) && call.in[0].dims[0] > 0) {
    const int64_t count = Elements(call.in[1]);
    const int64_t row = Elements(call.in[0]) / call.in[0].dims[0];
    IndexOp op{SaturatingProduct({count, row}), count, Elements(call.in[0])};
    TracedOperator traced = Traced(op, call);
    traced.assumed = true;
    traced.access.elements = op.elements;
    traced.access.indices = 1;
    return traced;
  }
  return Gather(call, Direction::kForward);
}

Result EmbeddingRows(const Call& call) {
  if (!call.in_ok(2) || call.in[0].dims.size() != 2) return std::nullopt;
  IndexOp op;
  op.source_elements = Elements(call.in[0]);
  op.index_count = Elements(call.in[1]);
  op.elements = SaturatingProduct({op.index_count, call.in[0].dims[1]});
  return Traced(op, call);
}

Result IndexPut(const Call& call) {
  if (!call.in_ok(2)) return std::nullopt;
  const int64_t values = Elements(call.in.back());
  // A profile leaves out the dimensions of a list of indices: each value then has one.
  const int64_t indices = call.in_ok(3) ? Elements(call.in[1]) : values;
  TracedOperator traced = Traced(IndexOp{values, indices, Elements(call.in[0])}, call);
  traced.access.elements = values;
  // A mask of the whole destination, or one value for each of it: how many it chooses is not said.
  traced.assumed = call.in.size() == 2 && values == Elements(call.in[0]);
  return traced;
}

}  // namespace foretrace::trace_call
