#include "simulator/workload/scaled_calls.h"

#include <initializer_list>
#include <variant>

#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

struct Scaling {
  int64_t to = 1, from = 1;

  // n times `to`; sizes of files and recordings may be anything.
  int64_t Times(int64_t n) const { return SaturatingProduct({n, to}); }
  bool Whole(int64_t& n) const {
    const bool exact = Times(n) % from == 0;
    n = Times(n) / from;
    return exact;
  }
  bool Some(std::initializer_list<int64_t*> counts) const {
    for (int64_t* n : counts) *n = (Times(*n) + from - 1) / from;
    return true;
  }
  bool operator()(LinearOp& o) const { return Whole(o.m); }
  bool operator()(BatchedMatmulOp& o) const { return Whole(o.b); }
  bool operator()(Conv2dOp& o) const { return Whole(o.n); }
  bool operator()(AttentionOp& o) const { return Whole(o.b); }
  bool operator()(LayerNormOp& o) const { return Some({&o.rows}); }
  bool operator()(SoftmaxOp& o) const { return Some({&o.rows}); }
  bool operator()(BatchNormOp& o) const { return Some({&o.n}); }
  bool operator()(DropoutOp& o) const { return Some({&o.elements}); }
  bool operator()(ElementwiseOp& o) const { return Some({&o.elements, &o.read_elements}); }
  bool operator()(ReductionOp& o) const { return Some({o.across_rows ? &o.cols : &o.rows}); }
  bool operator()(ConcatOp& o) const { return Some({&o.elements}); }
  bool operator()(CopyOp& o) const { return Some({&o.elements}); }
  bool operator()(FillOp& o) const { return Some({&o.elements}); }
  bool operator()(MemcpyOp& o) const { return Some({&o.bytes}); }
  bool operator()(IndexOp& o) const { return Some({&o.elements, &o.index_count}); }
  bool operator()(PoolOp& o) const { return Some({&o.input_elements, &o.output_elements}); }
  bool operator()(OptimizerOp&) const { return true; }
  bool operator()(EmbeddingOp& o) const { return Some({&o.lookups, &o.bags, &o.unique_rows}); }
  bool operator()(OpaqueOp& o) const { return Some({&o.read_bytes, &o.written_bytes}); }
};

}  // namespace

bool ScaleSamples(int64_t from, int64_t to, OperatorCall& call) {
  return std::visit(Scaling{to, from}, call.shape);
}

}  // namespace foretrace
