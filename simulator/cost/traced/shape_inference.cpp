#include "simulator/cost/traced/shape_inference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "simulator/base/contains.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/traced/attention_launches.h"
#include "simulator/cost/traced/batched_products.h"
#include "simulator/cost/traced/convolution_layers.h"
#include "simulator/cost/traced/function_layers.h"
#include "simulator/cost/traced/generated_calls.h"
#include "simulator/cost/traced/launch_flow.h"
#include "simulator/cost/traced/linear_layers.h"
#include "simulator/cost/traced/sparse_lookups.h"

namespace foretrace {
namespace {

constexpr size_t kAround = 3;  // kernels between the parts of an operator

DType TypeOf(std::string_view name) {
  if (ContainsAny(name, {"BFloat16", "bfloat16", "bf16"})) return DType::kBFloat16;
  return ContainsAny(name, {"Half", "half", "f16", "float16"}) ? DType::kFloat16 : DType::kFloat32;
}

// A kernel that adds values where indices say, one an index.
bool AddsPairs(std::string_view name) {
  return ContainsAny(name, {"indexing_backward_kernel_stride_1<"});
}

class Inference {
 public:
  Inference(const TraceStore& store, const RankTrace& rank, const GpuPeaks& device,
            const AutogradFunctions& functions, const KernelCalls& calls)
      : store_(store),
        rank_(rank),
        device_(device),
        flow_(store, rank, device),
        attention_(rank, flow_),
        layers_(store, rank, flow_, attention_, functions),
        convolutions_(store, rank, flow_, calls),
        lookups_(rank, flow_, device),
        products_(rank, flow_, lookups_),
        generated_(flow_, rank, flow_.element()) {}

  // Of the kernels of a call the first that tells.
  std::optional<TracedOperator> Of(size_t i, const CallKernels& op) {
    const LaunchPlace& place = flow_.at(i);
    if (generated_.Is(i)) return generated_.Next(i, Logits(i, flow_.rows()));
    if (const auto convolution = convolutions_.Of(op.call)) return Convolution(*convolution);
    if (auto lookup = Lookup(i)) return lookup;
    if (auto write = IndexedWrite(op)) return write;
    if (place.gemm) return Gemm(i, op.call);
    if (place.attention) return Attention(i, op.call);
    if (place.rows > 0) return Rows(i, op.call);
    if (auto sum = Sum(i, op.call)) return sum;
    if (auto norm = BatchNorm(i, op.call)) return norm;
    if (op.kernels.size() == 1 || op.kernels.size() == place.parts) return Elements(i);
    return std::nullopt;
  }
  // Without a call: the kernel at place i with what is a part of the same operator beside it.
  std::vector<NodeIndex> Together(size_t i) const {
    std::vector<NodeIndex> kernels;
    if (const auto found = convolutions_.Of(flow_.order()[i])) {
      const auto run = flow_.order().subspan(found->first, found->last - found->first + 1);
      return {run.begin(), run.end()};
    }
    if (const size_t parts = flow_.at(i).parts; parts > 1) {
      const auto run = flow_.order().subspan(i, parts);
      return {run.begin(), run.end()};
    }
    for (const size_t p : flow_.Before(i, kAround)) {
      if (!IsPart(i, p)) break;
      kernels.insert(kernels.begin(), flow_.order()[p]);
    }
    kernels.push_back(flow_.order()[i]);
    for (const size_t p : flow_.Behind(i, kAround)) {
      if (IsPart(i, p)) kernels.push_back(flow_.order()[p]);
    }
    return kernels;
  }
  // Of a call with shapes, whose backward pass may have none.
  void Known(size_t i, NodeIndex call, const TracedOperator& traced) {
    const auto* layer = std::get_if<LinearOp>(&traced.op.shape);
    if (layer == nullptr || !flow_.at(i).gemm) return;
    layers_.Known(i, call, {layer->m, layer->n, layer->k});
  }
  const LaunchFlow& flow() const { return flow_; }
  LaunchFlow TakeFlow() && { return std::move(flow_); }

 private:
  const LaunchAttr& LaunchOf(size_t i) const { return *rank_.launch(flow_.order()[i]); }

  TracedOperator Traced(OperatorCall::Shape shape, DType dtype, Direction pass) const {
    TracedOperator traced;
    traced.op = {std::move(shape), dtype, pass};
    traced.assumed = true;
    return traced;
  }

  std::optional<TracedOperator> Gemm(size_t i, NodeIndex call) {
    const std::string_view name = store_.name(rank_, call);
    const Precision precision = TraitsOfKernel(flow_.name(i)).precision;
    const bool half = precision == Precision::kHalf;
    const DType named = TypeOf(flow_.name(i));
    DType dtype = half && named == DType::kFloat32 ? DType::kBFloat16 : named;
    if (precision == Precision::kFloat8) dtype = DType::kFloat8;
    const bool no_call = rank_.kind(call) != NodeKind::kCpuOp;
    if (name == "aten::bmm" || name == "aten::baddbmm" || (no_call && products_.Is(i))) {
      const BatchedMatmulOp op = products_.Of(i);
      if (op.b < 1) return std::nullopt;
      return Traced(op, dtype, Direction::kForward);
    }
    const MatrixSizes sizes = layers_.Next(i, call);
    if (!sizes.known()) return std::nullopt;
    return Traced(LinearOp{sizes.m, sizes.n, sizes.k}, dtype, Direction::kForward);
  }

  TracedOperator Convolution(const ConvolutionLayers::Found& found) const {
    DType dtype = DType::kFloat32;
    for (size_t i = found.first; i <= found.last; ++i) {
      const DType named = TypeOf(flow_.name(i));
      const bool half = TraitsOfKernel(flow_.name(i)).precision == Precision::kHalf;
      if (named != DType::kFloat32) dtype = named;
      if (half && dtype == DType::kFloat32) dtype = DType::kFloat16;
    }
    return Traced(found.op, dtype, found.pass);
  }

  // Of rows of a table.
  std::optional<TracedOperator> Lookup(size_t i) const {
    const DType dtype = TypeOf(flow_.name(i));
    const int64_t size = ElementSize(dtype);
    if (const auto table = lookups_.Lookup(i); table.lookups > 0) {
      EmbeddingOp op{table.lookups, lookups_.bags(), table.bytes / size};
      op.fused_update = false;
      return Traced(op, dtype, Direction::kForward);
    }
    if (const auto table = lookups_.Update(i); table.lookups > 0) {
      const int64_t elements = SaturatingProduct({table.lookups, table.bytes / size});
      TracedOperator traced = Traced(IndexOp{elements, table.lookups}, dtype, Direction::kForward);
      traced.access.elements = elements;
      return traced;
    }
    return std::nullopt;
  }

  // Values added where indices say: a warp an index, a plane of blocks for each sample
  // (aten/src/ATen/native/cuda/Indexing.cu, indexing_backward_kernel_stride_1). Of as many places
  // again, as a triangle of a square has.
  std::optional<TracedOperator> IndexedWrite(const CallKernels& op) const {
    for (const NodeIndex kernel : op.kernels) {
      const std::string_view name = store_.name(rank_, kernel);
      const LaunchAttr* launch = rank_.launch(kernel);
      if (launch == nullptr || !AddsPairs(name)) continue;
      const int64_t indices = SaturatingProduct({launch->grid[0], launch->block[1]});
      const int64_t values = SaturatingProduct({indices, launch->grid[2]});
      return Traced(IndexOp{values, indices, SaturatingProduct({2, values})}, TypeOf(name),
                    Direction::kForward);
    }
    return std::nullopt;
  }

  // A GEMM's parts are added up, gradients of a norm have kernels of their own for its weights,
  // those of attention passes before and behind; batch norms sum first, then write.
  bool IsPart(size_t main, size_t other) const {
    const std::string_view name = flow_.name(other);
    if (flow_.at(main).gemm) {
      return other > main && (TraitsOfKernel(name).role == KernelRole::kSplitReduce ||
                              ContainsAny(name, {"_split_k_kernel"}));
    }
    if (flow_.at(main).attention) {
      return IsAroundAttention(name);
    }
    const std::string_view of_main = flow_.name(main);
    if (AddsPairs(of_main)) {  // by sorted indices
      return other < main && ContainsAny(name, {"RadixSort", "elementwise_kernel_with_index"});
    }
    if (other < main) return false;
    if (of_main.find("batch_norm_collect_statistics") != of_main.npos) {
      return name.find("batch_norm_transform_input") != name.npos;
    }
    if (of_main.find("batch_norm_backward_reduce") != of_main.npos) {
      return name.find("batch_norm_backward_elemt") != name.npos;
    }
    return NamesGradient(of_main) && ContainsAny(name, {"GammaBeta", "gamma_beta"});
  }

  std::optional<TracedOperator> Attention(size_t i, NodeIndex call) const {
    const bool backward = NamesGradient(store_.name(rank_, call));
    const auto op = attention_.Of(i, backward);
    if (!op) return std::nullopt;
    const std::string_view name = flow_.name(i);
    const bool in_16_bits = name.starts_with("cudnn");  // all of them are
    return Traced(*op, in_16_bits ? DType::kBFloat16 : TypeOf(name),
                  backward ? Direction::kBackward : Direction::kForward);
  }

  std::optional<TracedOperator> Rows(size_t i, NodeIndex call) {
    const std::string_view name = store_.name(rank_, call), kernel = flow_.name(i);
    const Direction pass = NamesGradient(name) ? Direction::kBackward : Direction::kForward;
    const int64_t rows = flow_.at(i).rows;
    if (kernel.find("SoftMax") != kernel.npos) {
      const bool logarithm = kernel.find("LogSoftMax") != kernel.npos;
      const int64_t columns = logarithm ? Logits(i, rows) : products_.ScoreColumns(i);
      if (columns < 1) return std::nullopt;
      return Traced(SoftmaxOp{rows, columns, logarithm}, TypeOf(kernel), pass);
    }
    const int64_t columns = NormColumns(i);
    if (columns < 1) return std::nullopt;
    if (name == "aten::mean" || kernel.find("MeanOps<") != kernel.npos) {
      return Traced(ReductionOp{rows, columns}, TypeOf(kernel), Direction::kForward);
    }
    return Traced(LayerNormOp{rows, columns}, TypeOf(kernel), pass);
  }

  // Elements beyond what 32 bits can address are moved by several kernels, so that the layer that
  // makes them says more.
  int64_t Logits(size_t i, int64_t rows) {
    const MatrixSizes layer = layers_.last();
    if (layer.m == rows && layer.n > 0) logits_ = layer.n;
    if (logits_ > 0) return logits_;
    return rows > 0 ? flow_.Near(i) / rows : 0;
  }

  int64_t NormColumns(size_t i) const {
    constexpr size_t kBeside = 2;
    const int64_t rows = flow_.at(i).rows;
    int64_t other = 0;
    for (const bool before : {true, false}) {
      for (const size_t p : before ? flow_.Before(i, kBeside) : flow_.Behind(i, kBeside)) {
        const int64_t columns = flow_.at(p).Columns(rows);
        if (columns == flow_.columns()) return columns;
        if (other == 0) other = columns;
      }
    }
    return other > 0 && flow_.RowsNear(i).front() != rows ? other : flow_.columns();
  }

  // Of the result of the convolution before, else of what the activation beside it moves.
  std::optional<TracedOperator> BatchNorm(size_t i, NodeIndex call) const {
    const std::string_view name = store_.name(rank_, call);
    if (name.find("batch_norm") == name.npos || flow_.at(i).moved > 0) return std::nullopt;
    const int64_t known = flow_.at(i).channels;
    const int64_t channels = known > 0 ? known : std::max<int64_t>(LaunchOf(i).grid[0], 1);
    const int64_t pixels = convolutions_.PixelsOfNorm(i);
    const int64_t image = pixels > 0 ? pixels : flow_.Near(i) / channels;
    if (image < 1) return std::nullopt;
    const Direction pass = NamesGradient(name) ? Direction::kBackward : Direction::kForward;
    return Traced(BatchNormOp{1, channels, image, 1}, TypeOf(flow_.name(i)), pass);
  }

  // Of a layer's bias the gradient is a sum over rows.
  std::optional<TracedOperator> Sum(size_t i, NodeIndex call) const {
    const MatrixSizes layer = layers_.Behind(i, call);
    const bool sums = store_.name(rank_, call) == "aten::sum" ||
                      store_.name(rank_, call).find("sum_functor") != std::string_view::npos;
    if (!sums) return std::nullopt;
    const ReductionOp op = layer.known() ? ReductionOp{layer.n, layer.m, true} : SharedHeads(i);
    if (op.rows < 1) return std::nullopt;
    return Traced(op, TypeOf(flow_.name(i)), Direction::kForward);
  }

  // Heads of queries that share one of keys and values have gradients each, which are added up
  // right behind attention's: four results a thread (aten/src/ATen/native/cuda/Reduce.cuh,
  // output_vec_size). rows = 0: something else is.
  ReductionOp SharedHeads(size_t i) const {
    constexpr size_t kBehind = 4;
    constexpr int64_t kResults = 4;
    constexpr double kMostThreads = 1024;
    if (!ContainsAny(flow_.name(i), {"reduce_kernel<128, 4, "})) return {};
    const int64_t results = SaturatingProduct(
        {kResults, static_cast<int64_t>(std::min(LaunchOf(i).threads(), kMostThreads)),
         LaunchOf(i).grid[0]});
    for (const size_t p : flow_.Before(i, kBehind)) {
      const auto attention =
          flow_.at(p).attention ? attention_.Of(p, NamesGradient(flow_.name(p))) : std::nullopt;
      if (!attention) continue;
      const int64_t all =
          SaturatingProduct({attention->b, attention->heads, attention->skv, attention->d});
      if (results < 1 || all % results != 0 || all / results < 2) return {};
      return {results, all / results, true};
    }
    return {};
  }

  std::optional<TracedOperator> Elements(size_t i) const {
    const std::string_view name = flow_.name(i);
    int64_t elements = flow_.at(i).moved;
    if (elements < 1 || flow_.at(i).gathered > 0) return std::nullopt;
    const Launch launch{.name = name, .waves_milli = 1, .attr = &LaunchOf(i)};
    const auto work = WorkOfLaunch(launch, device_);
    if (!work || work->written <= Bytes()) return std::nullopt;
    const int64_t operands = work->read.count() / work->written.count();
    DType dtype = work->dtype;
    if (dtype == DType::kComplex64) elements /= 2;
    ElementwiseOp op{elements, SaturatingProduct({operands, elements})};
    // Casts are named by what they make.
    if (ContainsAny(name, {"float16_copy_kernel"})) {  // bfloat16 too
      op.output_dtype = TypeOf(name);
      dtype = DType::kFloat32;
    }
    TracedOperator traced = Traced(op, dtype, Direction::kForward);
    const KernelRole role = TraitsOfKernel(name).role;
    const bool strided = role == KernelRole::kStrided || role == KernelRole::kStridedConverted;
    traced.access.elements = elements;
    traced.access.tensors = operands + 1;
    traced.access.dimensions = strided ? 2 : 1;
    return traced;
  }

  const TraceStore& store_;
  const RankTrace& rank_;
  const GpuPeaks& device_;
  LaunchFlow flow_;
  AttentionLaunches attention_;
  LinearLayers layers_;
  ConvolutionLayers convolutions_;
  SparseLookups lookups_;
  BatchedProducts products_;
  GeneratedCalls generated_;
  int64_t logits_ = 0;  // columns
};

using CallsOfKernels = absl::flat_hash_map<uint32_t, NodeIndex>;

CallsOfKernels ByKernel(const std::map<uint32_t, CallKernels>& calls) {
  CallsOfKernels by_kernel;
  for (const auto& [call, op] : calls) {
    for (const NodeIndex kernel : op.kernels) by_kernel[kernel.value] = op.call;
  }
  return by_kernel;
}

}  // namespace

std::optional<LaunchFlow> InferShapes(const TraceStore& store, const RankTrace& rank,
                                      const GpuPeaks& device, KernelCalls& calls) {
  const bool launched = std::ranges::any_of(calls.shapeless, [&](const auto& entry) {
    return rank.launch(entry.second.kernels.front()) != nullptr;
  });
  if (!launched && calls.functions.empty() && calls.uncalled.empty()) return std::nullopt;
  const AutogradFunctions autograd(store, rank);
  Inference inference(store, rank, device, autograd, calls);
  FunctionLayers functions(store, rank, autograd, calls.functions);
  const CallsOfKernels function_of = ByKernel(calls.functions);
  absl::flat_hash_set<NodeIndex> uncalled(calls.uncalled.begin(), calls.uncalled.end());
  const LaunchFlow& flow = inference.flow();
  const auto add = [&](uint32_t key, TracedOperator traced, CallKernels op) {
    calls.operators[key] = std::move(traced);
    calls.launched[key] = std::move(op);
  };
  for (size_t i = 0; i < flow.order().size(); ++i) {
    const NodeIndex kernel = flow.order()[i], launcher = rank.launcher(kernel);
    if (const auto function = function_of.find(kernel.value); function != function_of.end()) {
      FunctionLayers::Part part = functions.Next(flow, i, function->second);
      if (part.kernels.empty()) continue;
      const CallKernels op{function->second, std::move(part.kernels)};
      if (!part.traced && rank.launch(kernel) != nullptr) part.traced = inference.Of(i, op);
      if (part.traced) add(kernel.value, *std::move(part.traced), op);
      continue;
    }
    if (rank.launch(kernel) == nullptr) continue;
    if (uncalled.contains(kernel)) {
      auto traced = inference.Of(i, {kernel, {kernel}});
      if (!traced) continue;
      std::vector<NodeIndex> together = inference.Together(i);
      for (const NodeIndex part : together) uncalled.erase(part);
      add(kernel.value, *std::move(traced), {NodeIndex(), std::move(together)});
      continue;
    }
    if (!launcher.valid()) continue;
    const NodeIndex parent = rank.parent(launcher);
    const auto at = calls.shapeless.find(parent.value);
    if (at == calls.shapeless.end()) {
      const auto known = calls.operators.find(parent.value);
      if (known != calls.operators.end() && known->second) {
        inference.Known(i, parent, *known->second);
      }
    } else if (!calls.launched.contains(at->first)) {
      if (auto traced = inference.Of(i, at->second)) add(at->first, *std::move(traced), at->second);
    }
  }
  return std::move(inference).TakeFlow();
}

}  // namespace foretrace
