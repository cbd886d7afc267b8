#include "simulator/capture/traced_regions.h"

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "simulator/backends/text_of_sizes.h"
#include "simulator/capture/traced_calls.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

using traced::Calls;
using traced::StorageOf;

bool IsWork(NodeKind kind) {
  return kind == NodeKind::kKernel || kind == NodeKind::kMemset || kind == NodeKind::kMemcpy;
}

struct Namer {
  const std::string& base;
  std::string operator()(const LinearOp&) const { return "dense"; }
  std::string operator()(const BatchedMatmulOp&) const { return "batch_matmul"; }
  std::string operator()(const Conv2dOp&) const { return "conv2d"; }
  std::string operator()(const AttentionOp&) const { return "attention"; }
  std::string operator()(const LayerNormOp&) const { return "layer_norm"; }
  std::string operator()(const BatchNormOp&) const { return "batch_norm"; }
  std::string operator()(const SoftmaxOp&) const { return "softmax"; }
  std::string operator()(const DropoutOp&) const { return "dropout"; }
  std::string operator()(const ConcatOp&) const { return "concat"; }
  std::string operator()(const ReductionOp&) const { return base == "mean" ? "mean" : "sum"; }
  std::string operator()(const PoolOp&) const {
    return base.find("avg") != std::string::npos ? "avgpool2d" : "maxpool2d";
  }
  std::string operator()(const CopyOp&) const { return "cast"; }
  std::string operator()(const ElementwiseOp&) const { return traced::FunctionOf(base); }
  std::string operator()(const auto&) const { return base; }
};

std::string TypeOf(const OperatorCall& call, const std::string& base) {
  std::string type = std::visit(Namer{base}, call.shape);
  const bool gemm = type == "dense" || type == "batch_matmul";
  if (call.pass == Direction::kBackward && !gemm && !type.ends_with("backward")) {
    type += "_backward";
  }
  return type;
}

// Positions of the tensors that patterns speak of; other arguments are biases and statistics.
std::vector<size_t> Operands(const std::string& type, const std::string& base, size_t tensors) {
  const bool bias_first = base == "addmm" || base == "baddbmm";
  std::vector<size_t> at;
  if (type == "concat") {
    for (size_t i = 0; i < tensors; ++i) at.push_back(i);
    return at;
  }
  static constexpr std::string_view kTwo[] = {"dense",  "batch_matmul", "conv2d",
                                              "add",    "multiply",     "subtract",
                                              "divide", "maximum",      "minimum"};
  const size_t count = std::ranges::find(kTwo, type) != std::end(kTwo) ? 2 : 1;
  for (size_t i = bias_first && tensors > 2 ? 1 : 0; at.size() < count && i < tensors; ++i) {
    at.push_back(i);
  }
  return at;
}

class Reader {
 public:
  Reader(const TraceStore& store, const RankTrace& rank, int64_t iteration)
      : rank_(rank), calls_(store, rank, iteration) {}

  TracedRegions Read() {
    FindKernels();
    for (const NodeIndex n : calls_.nodes()) {
      if (calls_.nested(n)) continue;
      const auto kernels = kernels_.find(n.value);
      if (calls_.chosen(n) && kernels != kernels_.end()) {
        Add(n, kernels->second);
      } else {
        Forget(n);
      }
    }
    for (const auto& [step, kernels] : optimizer_kernels_) AddOptimizer(NodeIndex(step), kernels);
    return {OperatorView(rank_.info().source, std::move(ops_)),
            std::move(of_op_),
            std::move(recorded_),
            std::move(forward_),
            trains_,
            by_storage_};
  }

 private:
  void FindKernels() {
    for (uint32_t i = 0; i < rank_.size(); ++i) {
      const NodeIndex node(i);
      if (!IsWork(rank_.kind(node)) || !rank_.has_duration(node)) continue;
      const NodeIndex launcher = rank_.launcher(node);
      NodeIndex at = rank_.parent(launcher.valid() ? launcher : node);
      NodeIndex step;
      while (at.valid() && !calls_.chosen(at)) {
        if (calls_.name(at).find("Optimizer.step") != std::string_view::npos) step = at;
        at = rank_.parent(at);
      }
      if (at.valid()) {
        kernels_[at.value].push_back(node);
      } else if (step.valid() && InIteration(node)) {
        optimizer_kernels_[step.value].push_back(node);
      }
    }
  }

  bool InIteration(NodeIndex kernel) const {
    const NodeIndex launcher = rank_.launcher(kernel);
    return launcher.valid() && !calls_.nodes().empty() &&
           rank_.start(launcher) >= rank_.start(calls_.nodes().front()) &&
           rank_.start(launcher) <= rank_.end(calls_.nodes().back());
  }

  // An update of all parameters, as one operator of many kernels. Each element-wise call that an
  // update makes once for each parameter has all their elements together; of calls that it makes
  // more often there are more. Fused ones are left alone.
  void AddOptimizer(NodeIndex step, const std::vector<NodeIndex>& kernels) {
    const std::string_view name = calls_.name(step);
    OptimizerOp update;
    if (name.find("Adam") != std::string_view::npos) {
      update.kind = OptimizerKind::kAdam;
    } else if (name.find("SGD") == std::string_view::npos) {
      return;
    }
    if (name.find("Fused") != std::string_view::npos) return;
    update.impl = OptimizerImpl::kLoop;
    std::map<std::string, std::pair<int64_t, int64_t>> elements;  // by call: how many, of how many
    for (const NodeIndex n : calls_.nodes()) {
      if (calls_.pass(n) != traced::Pass::kOptimizer || !IsWithin(n, step)) continue;
      const std::string base = traced::BaseName(calls_.name(n));
      if (base.starts_with("foreach")) update.impl = OptimizerImpl::kForeach;
      const auto tensors = rank_.tensors(n);
      if (tensors.empty() || tensors.front().dims_count == 0) continue;
      auto& [calls, sum] = elements[base];
      ++calls;
      sum = SaturatingSum(sum, traced::Elements(rank_, tensors.front()));
    }
    int64_t most = 0;
    for (const auto& [base, of_call] : elements) most = std::max(most, of_call.second);
    for (const auto& [base, of_call] : elements) {
      // Scalars of the step's count and the like are no parameters.
      if (of_call.second < most / 8) continue;
      if (update.params == 0 || of_call.second < update.params) {
        update.params = of_call.second;
        update.tensors = of_call.first;
      }
      if (base == "mul" && update.kind == OptimizerKind::kSgd) {
        update.kind = OptimizerKind::kSgdMomentum;
      }
    }
    if (update.params == 0) return;
    ViewedOp op;
    op.type = update.kind == OptimizerKind::kAdam ? "adam_update" : "sgd_update";
    op.name = op.type + "#" + std::to_string(++names_[op.type]);
    op.inputs.assign(op.type == "adam_update" ? 4 : 2, kNoProducer);
    op.calls = {{update, DType::kFloat32, Direction::kForward}};
    forward_.push_back(false);
    SimTime sum;
    for (const NodeIndex kernel : kernels) sum += rank_.duration(kernel);
    recorded_.push_back(sum);
    of_op_.push_back(kernels);
    ops_.push_back(std::move(op));
  }

  static int64_t SaturatingSum(int64_t a, int64_t b) {
    constexpr int64_t kMost = int64_t{1} << 62;
    return a > kMost - b ? kMost : a + b;
  }
  bool IsWithin(NodeIndex n, NodeIndex step) const {
    for (NodeIndex at = n; at.valid(); at = rank_.parent(at)) {
      if (at == step) return true;
    }
    return false;
  }

  void Add(NodeIndex n, const std::vector<NodeIndex>& kernels) {
    const OperatorCall& call = calls_.operation(n).op;
    const std::string base = traced::BaseName(calls_.name(n));
    ViewedOp op;
    op.type = TypeOf(call, base);
    op.name = op.type + "#" + std::to_string(++names_[op.type]);
    op.calls = {call};
    forward_.push_back(calls_.pass(n) == traced::Pass::kForward);
    trains_ = trains_ || calls_.pass(n) == traced::Pass::kBackward;
    std::vector<Tensor> inputs;
    for (const Tensor& t : rank_.tensors(n)) {
      if (!t.is_output && t.dims_count > 0) inputs.push_back(t);
    }
    for (const size_t at : Operands(op.type, base, inputs.size())) {
      op.inputs.push_back(ProducerOf(n, inputs[at]));
      if (op.inputs.size() > 1) continue;
      std::vector<int32_t> shape;
      for (const int64_t d : rank_.dims(inputs[at])) {
        shape.push_back(static_cast<int32_t>(std::min<int64_t>(d, 1 << 30)));
      }
      op.shape = JoinSizes(shape);
    }
    const auto id = static_cast<int32_t>(ops_.size());
    last_result_ = ResultElements(n, call);
    last_type_ = inputs.empty() ? DType::kUnknown : inputs.front().dtype;
    last_accumulates_ = AccumulatesGradient(n);
    for (const Tensor& t : rank_.tensors(n)) {
      if (t.is_output && StorageOf(t) != 0) writer_[StorageOf(t)] = id;
    }
    SimTime sum;
    for (const NodeIndex kernel : kernels) sum += rank_.duration(kernel);
    recorded_.push_back(sum);
    of_op_.push_back(kernels);
    ops_.push_back(std::move(op));
  }

  // By storage; where the recording does not identify tensors, the operator before, where its
  // result is as large as this argument and may have its type. Sums into gradients follow each
  // other by chance.
  int32_t ProducerOf(NodeIndex n, const Tensor& t) {
    if (StorageOf(t) != 0) {
      by_storage_ = true;
      const auto found = writer_.find(StorageOf(t));
      return found == writer_.end() ? kNoProducer : found->second;
    }
    if (ops_.empty() || last_result_ <= 0 || traced::Elements(rank_, t) != last_result_ ||
        AccumulatesGradient(n) || last_accumulates_) {
      return kNoProducer;
    }
    // A cast's result is of another type than its argument.
    const bool after_cast = ops_.back().type == "cast";
    if (after_cast == (t.dtype == last_type_)) return kNoProducer;
    return static_cast<int32_t>(ops_.size()) - 1;
  }

  bool AccumulatesGradient(NodeIndex n) const {
    for (NodeIndex at = n; at.valid(); at = rank_.parent(at)) {
      if (traced::BaseName(calls_.name(at)) == traced::kAccumulateGrad) return true;
    }
    return false;
  }

  int64_t ResultElements(NodeIndex n, const OperatorCall& call) const {
    for (const Tensor& t : rank_.tensors(n)) {
      if (t.is_output && t.dims_count > 0) return traced::Elements(rank_, t);
    }
    const KernelList kernels = Kernels(call);
    const int64_t size = std::max<int64_t>(ElementSize(call.dtype), 1);
    return kernels.empty() ? 0 : kernels.back().written.count() / size;
  }

  // What other calls write comes from no operator that is known.
  void Forget(NodeIndex n) {
    for (const Tensor& t : rank_.tensors(n)) {
      if (!t.is_output || StorageOf(t) == 0) continue;
      const bool view = std::ranges::any_of(rank_.tensors(n), [&](const Tensor& in) {
        return !in.is_output && StorageOf(in) == StorageOf(t);
      });
      if (!view) writer_.erase(StorageOf(t));
    }
  }

  const RankTrace& rank_;
  Calls calls_;
  absl::flat_hash_map<uint32_t, std::vector<NodeIndex>> kernels_;  // by call
  std::map<uint32_t, std::vector<NodeIndex>> optimizer_kernels_;   // by step of an optimizer
  absl::flat_hash_map<int64_t, int32_t> writer_;                   // operator, by storage
  std::map<std::string, int> names_;
  int64_t last_result_ = 0;  // of the operator before: elements, type of its arguments
  DType last_type_ = DType::kUnknown;
  bool last_accumulates_ = false;
  std::vector<bool> forward_;
  bool trains_ = false;
  bool by_storage_ = false;
  std::vector<ViewedOp> ops_;
  std::vector<std::vector<NodeIndex>> of_op_;
  std::vector<SimTime> recorded_;
};

}  // namespace

TracedRegions RegionsOf(const TraceStore& store, const RankTrace& rank, int64_t iteration) {
  return Reader(store, rank, iteration).Read();
}

std::vector<int64_t> IterationsOf(const TraceStore& store, const RankTrace& rank) {
  std::vector<int64_t> numbers;
  if (traced::HasMarks(rank)) {
    for (const IterationMark& mark : rank.iterations()) numbers.push_back(mark.number);
    return numbers;
  }
  int64_t steps = 0;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    steps += store.name(rank, NodeIndex(i)).find("Optimizer.step") != std::string_view::npos;
  }
  for (int64_t step = 0; step <= steps; ++step) numbers.push_back(step);
  return numbers;
}

}  // namespace foretrace
