#include "simulator/architect/workload_layers.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <variant>

#include <fmt/format.h>

#include "simulator/architect/core_search.h"
#include "simulator/architect/layer_passes.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/workload/scaled_calls.h"
#include "simulator/workload/tensor_parallel.h"

namespace foretrace {
namespace {

struct Gemms {
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

// GEMMs on tensor cores; empty: vector cores. Of empty matrices there are none.
std::vector<Gemm> GemmsOf(const OperatorCall& call) {
  std::vector<Gemm> gemms = std::visit(Gemms{}, call.shape);
  std::erase_if(gemms, [](const Gemm& g) { return std::min({g.batch, g.m, g.n, g.k}) <= 0; });
  return gemms;
}

// Beyond this a layer takes longer than times can say.
constexpr double kMostMultiplications = 1e18, kMostBytes = 1e14;

bool IsTooLarge(const OperatorCall& call) {
  if (static_cast<double>(TotalWork(call).bytes.count()) > kMostBytes) return true;
  return std::ranges::any_of(GemmsOf(call), [](const Gemm& g) {
    return static_cast<double>(g.batch) * static_cast<double>(g.m) * static_cast<double>(g.n) *
               static_cast<double>(g.k) >
           kMostMultiplications;
  });
}

// What vector cores do; point-wise ones by the name of their function.
struct VectorKindOf {
  std::string_view function;

  VectorKind operator()(const LayerNormOp&) const { return VectorKind::kLayerNorm; }
  VectorKind operator()(const BatchNormOp&) const { return VectorKind::kLayerNorm; }
  VectorKind operator()(const SoftmaxOp&) const { return VectorKind::kSoftmax; }
  VectorKind operator()(const DropoutOp&) const { return VectorKind::kDropout; }
  VectorKind operator()(const ReductionOp&) const { return VectorKind::kMean; }
  VectorKind operator()(const ElementwiseOp&) const {
    static constexpr std::pair<std::string_view, VectorKind> kKinds[] = {
        {"multiply", VectorKind::kMul},    {"subtract", VectorKind::kSub},
        {"divide", VectorKind::kDiv},      {"tanh", VectorKind::kTanh},
        {"sigmoid", VectorKind::kSigmoid}, {"silu", VectorKind::kSigmoid},
        {"relu", VectorKind::kRelu},       {"gelu", VectorKind::kRelu},
        {"neg", VectorKind::kNeg},         {"pow", VectorKind::kPow},
        {"sqrt", VectorKind::kSqrt},       {"rsqrt", VectorKind::kSqrt},
        {"exp", VectorKind::kErf}};
    for (const auto& [name, kind] : kKinds) {
      if (name == function) return kind;
    }
    return VectorKind::kAdd;
  }
  VectorKind operator()(const auto&) const { return VectorKind::kAdd; }
};

LayerOp TensorOp(const std::string& name, const Gemm& gemm) {
  LayerOp op;
  op.name = name;
  op.core = CoreClass::kTensor;
  op.gemm = gemm;
  return op;
}

LayerOp VectorOp(const Operator& of, const OperatorCall& call, Direction pass) {
  const KernelList kernels = Kernels(call);
  const int64_t bytes = kernels.empty() ? 0 : kernels.back().written.count();
  LayerOp op;
  op.name = of.name;
  op.core = CoreClass::kVector;
  op.elements = bytes / std::max<int64_t>(ElementSize(call.dtype), 1);
  op.cost = CostOf(std::visit(VectorKindOf{of.function}, call.shape), pass);
  op.hbm = TotalWork(call).bytes;
  op.pointwise = std::holds_alternative<ElementwiseOp>(call.shape) ||
                 std::holds_alternative<DropoutOp>(call.shape);
  return op;
}

// The sum over a group's devices of a tensor of so many bytes.
LayerOp AllReduce(const std::string& name, Bytes size, int64_t element) {
  LayerOp op;
  op.name = name + " all-reduce";
  op.core = CoreClass::kVector;
  op.elements = size.count() / element;
  op.cost = CostOf(VectorKind::kAdd, Direction::kForward);
  op.hbm = size * 3;
  op.collective = size;
  return op;
}

// A workload's operators at one width and micro-batch.
struct Scaled {
  const Workload& workload;
  int32_t width, micro_batch;
  std::vector<std::vector<OperatorCall>> calls;    // by operator
  std::vector<std::vector<OperatorEdge>> in, out;  // by operator

  Bytes Of(Bytes per_sample) const { return per_sample * micro_batch; }
  // Of what one device has.
  int64_t Share(const Operator& op, int64_t whole) const {
    return op.DividedBy(width) ? (whole + width - 1) / width : whole;
  }
};

// Operators [begin, end) as a layer.
class LayerMaker {
 public:
  LayerMaker(const Scaled& model, int32_t begin, int32_t end)
      : m_(model), begin_(begin), end_(end), element_(ElementSize(model.workload.dtype)) {}

  LayerSlice Make() {
    LayerSlice slice;
    for (int32_t id = begin_; id < end_; ++id) AddForward(id);
    for (int32_t id = end_; id-- > begin_;) AddBackward(id);
    slice.forward = Fused(std::move(forward_));
    slice.backward = Fused(std::move(backward_));
    std::map<int32_t, Bytes> entering;  // by producer
    for (int32_t id = begin_; id < end_; ++id) {
      const Operator& op = OpAt(id);
      slice.parameters += Bytes(m_.Share(op, op.parameters) * element_);
      slice.activations += m_.Of(Bytes(m_.Share(op, op.stash_tensor.count())) + op.stash_sequence);
      for (const OperatorEdge& e : m_.in[static_cast<size_t>(id)]) {
        if (!Inside(e.from)) entering[e.from] = std::max(entering[e.from], e.bytes);
      }
    }
    for (const auto& [from, bytes] : entering) slice.input += m_.Of(bytes);
    return slice;
  }

 private:
  const Operator& OpAt(int32_t id) const { return m_.workload.operators[static_cast<size_t>(id)]; }
  bool Inside(int32_t id) const { return id >= begin_ && id < end_; }
  bool Exchanges(const Operator& op) const { return m_.width > 1 && op.DividedBy(m_.width); }

  // After all of `after`; the operators after which the next one runs.
  static std::vector<int32_t> Push(LayerWork& work, LayerOp op, const std::vector<int32_t>& after) {
    const auto at = static_cast<int32_t>(work.ops.size());
    work.ops.push_back(std::move(op));
    for (const int32_t before : after) work.edges.emplace_back(before, at);
    return {at};
  }

  void AddForward(int32_t id) {
    const Operator& op = OpAt(id);
    std::vector<int32_t> after;
    for (const OperatorEdge& e : m_.in[static_cast<size_t>(id)]) {
      if (Inside(e.from)) after.push_back(maker_.at(e.from));
    }
    for (const OperatorCall& call : m_.calls[static_cast<size_t>(id)]) {
      const std::vector<Gemm> gemms = GemmsOf(call);
      if (gemms.empty()) after = Push(forward_, VectorOp(op, call, Direction::kForward), after);
      for (const Gemm& gemm : gemms) after = Push(forward_, TensorOp(op.name, gemm), after);
    }
    if (op.reduces_output && Exchanges(op)) {
      after = Push(forward_, AllReduce(op.name, m_.Of(op.output_bytes), element_), after);
    }
    maker_[id] = after.front();
  }

  // The gradient of each operand after those of all readers of the result.
  void AddBackward(int32_t id) {
    const Operator& op = OpAt(id);
    std::vector<int32_t> after;
    for (const OperatorEdge& e : m_.out[static_cast<size_t>(id)]) {
      if (Inside(e.to)) after.push_back(gradient_.at(e.to));
    }
    const auto& calls = m_.calls[static_cast<size_t>(id)];
    for (size_t c = calls.size(); c-- > 0;) {
      const std::vector<Gemm> gemms = GemmsOf(calls[c]);
      if (gemms.empty()) {
        after = Push(backward_, VectorOp(op, calls[c], Direction::kBackward), after);
      }
      for (size_t i = gemms.size(); i-- > 0;) {
        const Gemm& g = gemms[i];
        Push(backward_, TensorOp(op.name + " second gradient", {g.batch, g.k, g.n, g.m}), after);
        after =
            Push(backward_, TensorOp(op.name + " input gradient", {g.batch, g.m, g.k, g.n}), after);
      }
    }
    if (op.reduces_gradient && Exchanges(op)) {
      Bytes input;
      for (const OperatorEdge& e : m_.in[static_cast<size_t>(id)]) input = std::max(input, e.bytes);
      after = Push(backward_, AllReduce(op.name + " gradient", m_.Of(input), element_), after);
    }
    gradient_[id] = after.front();
  }

  const Scaled& m_;
  int32_t begin_, end_;
  int64_t element_;
  LayerWork forward_, backward_;
  std::map<int32_t, int32_t> maker_, gradient_;  // by operator
};

// Equal for layers of the same work.
std::string SignatureOf(const LayerSlice& slice) {
  std::string text = fmt::format("{} {} {};", slice.parameters.count(), slice.activations.count(),
                                 slice.input.count());
  for (const LayerWork* work : {&slice.forward, &slice.backward}) {
    for (const LayerOp& op : work->ops) {
      text += fmt::format("{} {} {} {} {} {} {} {} {};", static_cast<int>(op.core), op.gemm.batch,
                          op.gemm.m, op.gemm.n, op.gemm.k, op.elements, op.cost.per_element,
                          op.hbm.count(), op.collective.count());
    }
    for (const auto& [from, to] : work->edges) text += fmt::format("{}-{},", from, to);
  }
  return text;
}

absl::StatusOr<Scaled> ScaledTo(const Workload& w, int32_t width, int32_t micro_batch) {
  Scaled scaled{w, width, micro_batch, {}, {}, {}};
  scaled.in.resize(w.operators.size());
  scaled.out.resize(w.operators.size());
  for (const OperatorEdge& e : w.edges) {
    scaled.in[static_cast<size_t>(e.to)].push_back(e);
    scaled.out[static_cast<size_t>(e.from)].push_back(e);
  }
  bool divides = width == 1;
  for (const Operator& op : w.operators) {
    if (op.calls.empty()) {
      return InvalidInput(
          "{}: operator '{}' has no class: it runs on tensor or vector cores by its 'calls', which "
          "say what it computes on which shapes; give them in the workload's file, as "
          "`foretrace convert RECORDING --workload` writes them",
          w.name, op.name);
    }
    const bool divided = width > 1 && op.DividedBy(width);
    std::vector<OperatorCall> calls = divided ? DividedCalls(op, width) : op.calls;
    for (OperatorCall& call : calls) {
      divides = divides || (divided && !GemmsOf(call).empty());
      if (ScaleSamples(w.call_samples, micro_batch, call)) {
        if (!IsTooLarge(call)) continue;
        return InvalidInput(
            "{}: operator '{}' is too large for {} samples: at most {:.0e} multiplications and "
            "{:.0e} bytes an operator",
            w.name, op.name, micro_batch, kMostMultiplications, kMostBytes);
      }
      return Infeasible("{}: operator '{}' of {} samples has no batch dimension of {}", w.name,
                        op.name, w.call_samples, micro_batch);
    }
    scaled.calls.push_back(std::move(calls));
  }
  if (!divides) {
    return Infeasible("{}: tensor-parallel width {} divides none of its GEMMs; choose another",
                      w.name, width);
  }
  return scaled;
}

// Operators of cores in the backward pass of operator `id`.
size_t BackwardOps(const Scaled& model, int32_t id) {
  const Operator& op = model.workload.operators[static_cast<size_t>(id)];
  size_t count = op.reduces_gradient ? 1 : 0;
  for (const OperatorCall& call : op.calls) {
    count += std::max<size_t>(1, 2 * GemmsOf(call).size());
  }
  return count;
}

// Whether at most one operator before `at` is read from there on.
bool OnePasses(const Scaled& model, int32_t at) {
  int crossing = 0;
  for (int32_t i = 0; i < at && crossing < 2; ++i) {
    crossing += std::ranges::any_of(model.out[static_cast<size_t>(i)],
                                    [at](const OperatorEdge& e) { return e.to >= at; });
  }
  return crossing <= 1;
}

Flop GemmFlopOf(const Workload& w, int32_t micro_batch) {
  Flop flop;
  for (const Operator& op : w.operators) {
    for (const OperatorCall& call : op.calls) {
      for (const Gemm& g : GemmsOf(call)) {
        flop += GemmFlopOf(OperatorCall{BatchedMatmulOp{g.batch, g.m, g.n, g.k}});
      }
    }
  }
  return Flop(flop.count() * micro_batch / static_cast<double>(w.call_samples));
}

}  // namespace

absl::StatusOr<SlicedModel> SliceWorkload(const Workload& workload, int32_t width,
                                          int32_t micro_batch) {
  FORETRACE_ASSIGN_OR_RETURN(const Scaled scaled, ScaledTo(workload, width, micro_batch));
  SlicedModel model;
  model.width = width;
  model.micro_batch = micro_batch;
  model.gemm_flop = GemmFlopOf(workload, micro_batch);
  const auto count = static_cast<int32_t>(workload.operators.size());
  constexpr auto kMost = static_cast<int32_t>(kMostOpsOfLayer);
  std::map<std::string, int32_t> known;
  for (int32_t begin = 0; begin < count;) {
    int32_t end = begin + 1;
    size_t backward = BackwardOps(scaled, begin);
    while (end < count && end - begin < kMost &&
           (backward += BackwardOps(scaled, end)) <= kMaxSearchedOps &&
           !(end - begin >= kMost / 4 && OnePasses(scaled, end))) {
      ++end;
    }
    LayerSlice slice = LayerMaker(scaled, begin, end).Make();
    const auto [entry, is_new] =
        known.try_emplace(SignatureOf(slice), static_cast<int32_t>(model.kinds.size()));
    if (is_new) model.kinds.push_back(std::move(slice));
    model.chain.push_back(entry->second);
    begin = end;
  }
  return model;
}

}  // namespace foretrace
