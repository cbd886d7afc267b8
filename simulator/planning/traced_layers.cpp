#include "simulator/planning/traced_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>
#include <variant>

#include "simulator/architect/layer_passes.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/planning/traced_regions.h"

namespace foretrace {
namespace {

struct Products {
  std::vector<Gemm> operator()(const LinearOp& o) const { return {{1, o.m, o.n, o.k}}; }
  std::vector<Gemm> operator()(const BatchedMatmulOp& o) const { return {{o.b, o.m, o.n, o.k}}; }
  std::vector<Gemm> operator()(const Conv2dOp& o) const {
    const int64_t groups = std::max<int64_t>(o.groups, 1);
    return {{groups, o.n * o.oh * o.ow, o.k / groups, o.c * o.r * o.s / groups}};
  }
  std::vector<Gemm> operator()(const AttentionOp& o) const {
    return {{o.b * o.heads, o.sq, o.skv, o.d}, {o.b * o.heads, o.sq, o.d, o.skv}};
  }
  std::vector<Gemm> operator()(const auto&) const { return {}; }
};

// Products on tensor cores; empty: vector cores.
std::vector<Gemm> ProductsOf(const OperatorCall& call) {
  return std::visit(Products{}, call.shape);
}

struct Weights {
  int64_t operator()(const LinearOp& o) const { return o.n * o.k; }
  int64_t operator()(const Conv2dOp& o) const {
    return o.k * o.c / std::max<int64_t>(o.groups, 1) * o.r * o.s;
  }
  int64_t operator()(const LayerNormOp& o) const { return 2 * o.cols; }
  int64_t operator()(const BatchNormOp& o) const { return 2 * o.c; }
  int64_t operator()(const EmbeddingOp& o) const { return o.rows * o.dim; }
  int64_t operator()(const auto&) const { return 0; }
};

Bytes WeightsOf(const OperatorCall& call) {
  return Bytes(std::visit(Weights{}, call.shape) * ElementSize(call.dtype));
}

// The shape of an operator on `to` samples where it was recorded on `from`. False: a product has no
// whole batch dimension then.
struct Scaling {
  int64_t to = 1, from = 1;

  bool Whole(int64_t& n) const {
    const bool exact = n * to % from == 0;
    n = n * to / from;
    return exact;
  }
  bool Some(std::initializer_list<int64_t*> counts) const {
    for (int64_t* n : counts) *n = (*n * to + from - 1) / from;
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

VectorKind KindOf(std::string_view type) {
  static constexpr std::pair<std::string_view, VectorKind> kKinds[] = {
      {"multiply", VectorKind::kMul},
      {"subtract", VectorKind::kSub},
      {"divide", VectorKind::kDiv},
      {"tanh", VectorKind::kTanh},
      {"sigmoid", VectorKind::kSigmoid},
      {"silu", VectorKind::kSigmoid},
      {"dropout", VectorKind::kDropout},
      {"layer_norm", VectorKind::kLayerNorm},
      {"batch_norm", VectorKind::kLayerNorm},
      {"relu", VectorKind::kRelu},
      {"gelu", VectorKind::kRelu},
      {"neg", VectorKind::kNeg},
      {"pow", VectorKind::kPow},
      {"sqrt", VectorKind::kSqrt},
      {"rsqrt", VectorKind::kSqrt},
      {"exp", VectorKind::kErf},
      {"mean", VectorKind::kMean},
      {"sum", VectorKind::kMean},
      {"softmax", VectorKind::kSoftmax},
      {"logsoftmax", VectorKind::kSoftmax}};
  for (const auto& [name, kind] : kKinds) {
    if (name == type) return kind;
  }
  return VectorKind::kAdd;
}

int64_t ResultBytes(const OperatorCall& call) {
  const KernelList kernels = Kernels(call);
  return kernels.empty() ? 0 : kernels.back().written.count();
}

LayerOp TensorOp(const std::string& name, const Gemm& gemm) {
  LayerOp op;
  op.name = name;
  op.core = CoreClass::kTensor;
  op.gemm = gemm;
  return op;
}

LayerOp VectorOp(const std::string& name, std::string_view type, const OperatorCall& call,
                 Direction pass) {
  LayerOp op;
  op.name = name;
  op.core = CoreClass::kVector;
  op.elements = ResultBytes(call) / std::max<int64_t>(ElementSize(call.dtype), 1);
  op.cost = CostOf(KindOf(type), pass);
  op.hbm = TotalWork(call).bytes;
  op.pointwise = std::holds_alternative<ElementwiseOp>(call.shape) ||
                 std::holds_alternative<DropoutOp>(call.shape);
  return op;
}

// Operators [begin, end) of a recording as a layer.
class LayerMaker {
 public:
  LayerMaker(const OperatorView& dag, const std::vector<int32_t>& forward, size_t begin, size_t end)
      : dag_(dag),
        ops_(forward.begin() + static_cast<std::ptrdiff_t>(begin),
             forward.begin() + static_cast<std::ptrdiff_t>(end)) {}

  LayerSlice Make() {
    LayerSlice slice;
    for (const int32_t id : ops_) AddForward(id);
    for (size_t i = ops_.size(); i-- > 0;) AddBackward(ops_[i]);
    slice.forward = Fused(std::move(forward_));
    slice.backward = Fused(std::move(backward_));
    for (const int32_t id : ops_) {
      const OperatorCall& call = dag_.op(id).calls.front();
      slice.parameters += WeightsOf(call);
      slice.activations += Bytes(ResultBytes(call));
      for (const int32_t input : dag_.op(id).inputs) {
        if (input != kNoProducer && !maker_.contains(input) && read_.insert({input, 0}).second) {
          slice.input += Bytes(ResultBytes(dag_.op(input).calls.front()));
        }
      }
    }
    return slice;
  }

 private:
  static int32_t Push(LayerWork& work, LayerOp op, const std::vector<int32_t>& after) {
    const auto at = static_cast<int32_t>(work.ops.size());
    work.ops.push_back(std::move(op));
    for (const int32_t before : after) work.edges.emplace_back(before, at);
    return at;
  }

  void AddForward(int32_t id) {
    const ViewedOp& op = dag_.op(id);
    const OperatorCall& call = op.calls.front();
    std::vector<int32_t> after;
    for (const int32_t input : op.inputs) {
      if (const auto made = maker_.find(input); made != maker_.end()) after.push_back(made->second);
    }
    const std::vector<Gemm> products = ProductsOf(call);
    int32_t last = -1;
    if (products.empty()) {
      last = Push(forward_, VectorOp(op.name, op.type, call, Direction::kForward), after);
    }
    for (const Gemm& gemm : products) {
      last = Push(forward_, TensorOp(op.name, gemm), after);
      after = {last};
    }
    maker_[id] = last;
  }

  // The gradient of each operand after those of all readers of the result.
  void AddBackward(int32_t id) {
    const ViewedOp& op = dag_.op(id);
    const OperatorCall& call = op.calls.front();
    std::vector<int32_t> after;
    for (const int32_t reader : dag_.consumers(id)) {
      if (const auto made = gradient_.find(reader); made != gradient_.end()) {
        after.push_back(made->second);
      }
    }
    const std::vector<Gemm> products = ProductsOf(call);
    if (products.empty()) {
      gradient_[id] =
          Push(backward_, VectorOp(op.name, op.type, call, Direction::kBackward), after);
      return;
    }
    int32_t input = -1;
    for (size_t i = products.size(); i-- > 0;) {
      const Gemm& g = products[i];
      const std::vector<int32_t> before = input < 0 ? after : std::vector<int32_t>{input};
      Push(backward_, TensorOp(op.name + " second gradient", {g.batch, g.k, g.n, g.m}), before);
      input =
          Push(backward_, TensorOp(op.name + " input gradient", {g.batch, g.m, g.k, g.n}), before);
    }
    gradient_[id] = input;
  }

  const OperatorView& dag_;
  std::vector<int32_t> ops_;
  LayerWork forward_, backward_;
  std::map<int32_t, int32_t> maker_, gradient_, read_;  // by operator
};

// Equal for layers of the same work.
std::string SignatureOf(const LayerSlice& slice) {
  std::string text = fmt::format("{} {} {};", slice.parameters.count(), slice.activations.count(),
                                 slice.input.count());
  for (const LayerWork* work : {&slice.forward, &slice.backward}) {
    for (const LayerOp& op : work->ops) {
      text += fmt::format("{} {} {} {} {} {} {} {};", static_cast<int>(op.core), op.gemm.batch,
                          op.gemm.m, op.gemm.n, op.gemm.k, op.elements, op.cost.per_element,
                          op.hbm.count());
    }
    for (const auto& [from, to] : work->edges) text += fmt::format("{}-{},", from, to);
  }
  return text;
}

// The recording's graph on other samples, with what is not known of it filled in: operators without
// a producer follow the one before.
absl::StatusOr<OperatorView> Connected(const TracedRegions& regions, const Scaling& scaling) {
  std::vector<ViewedOp> ops = regions.dag.ops();
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!regions.forward[i]) continue;
    for (OperatorCall& call : ops[i].calls) {
      if (std::visit(scaling, call.shape)) continue;
      return Infeasible("operator '{}' of {} samples has no batch dimension of {}", ops[i].name,
                        scaling.from, scaling.to);
    }
  }
  if (!regions.by_storage) {
    for (size_t i = 1; i < ops.size(); ++i) {
      const bool alone =
          std::ranges::all_of(ops[i].inputs, [](int32_t p) { return p == kNoProducer; });
      if (alone) ops[i].inputs = {static_cast<int32_t>(i) - 1};
    }
  }
  return OperatorView(regions.dag.name(), std::move(ops));
}

// Whether at most one operator before `at` is read from there on.
bool OnePasses(const OperatorView& dag, const std::vector<int32_t>& forward, size_t at) {
  int crossing = 0;
  for (size_t i = 0; i < at; ++i) {
    crossing += std::ranges::any_of(dag.consumers(forward[i]), [&](int32_t reader) {
      return reader >= forward[at] && std::ranges::binary_search(forward, reader);
    });
  }
  return crossing <= 1;
}

}  // namespace

absl::StatusOr<SlicedModel> LayersOfRecording(const TraceStore& store, int32_t samples,
                                              int32_t micro_batch) {
  const RankTrace& rank = store.ranks().front();
  SlicedModel model;
  model.micro_batch = micro_batch;
  for (const int64_t iteration : IterationsOf(store, rank)) {
    const TracedRegions regions = RegionsOf(store, rank, iteration);
    std::vector<int32_t> forward;
    for (int32_t id = 0; id < regions.dag.size(); ++id) {
      if (regions.forward[static_cast<size_t>(id)]) forward.push_back(id);
    }
    if (forward.empty()) continue;
    FORETRACE_ASSIGN_OR_RETURN(const OperatorView dag,
                               Connected(regions, Scaling{micro_batch, samples}));
    for (const int32_t id : forward) {
      for (const Gemm& g : ProductsOf(dag.op(id).calls.front())) {
        model.product_flop += Flop(2.0 * static_cast<double>(g.batch) * static_cast<double>(g.m) *
                                   static_cast<double>(g.n) * static_cast<double>(g.k));
      }
    }
    std::map<std::string, int32_t> known;
    for (size_t begin = 0; begin < forward.size();) {
      size_t end = std::min(begin + 1, forward.size());
      while (end < forward.size() && end - begin < kMostOpsOfLayer &&
             !(end - begin >= kMostOpsOfLayer / 4 && OnePasses(dag, forward, end))) {
        ++end;
      }
      LayerSlice slice = LayerMaker(dag, forward, begin, end).Make();
      const auto [entry, is_new] =
          known.try_emplace(SignatureOf(slice), static_cast<int32_t>(model.kinds.size()));
      if (is_new) model.kinds.push_back(std::move(slice));
      model.chain.push_back(entry->second);
      begin = end;
    }
    return model;
  }
  return InvalidInput(
      "{}: no forward call with kernels has a known operator and shapes; record shapes "
      "(record_shapes=True), or give the execution trace too",
      rank.info().source);
}

}  // namespace foretrace
