#include "simulator/cost/traced/function_layers.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "simulator/base/contains.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/kernel/named_work.h"
#include "simulator/cost/operator/trace_call.h"
#include "simulator/cost/traced/launch_place.h"

namespace foretrace {
namespace {

using trace_call::LeadingElements;

constexpr int64_t kMostHeadDimension = 512;

bool IsMatrix(const TensorShape& t) { return t.dims.size() == 2 && t.dims[0] > 1 && t.dims[1] > 1; }

bool IsFloating(DType type) {
  return type == DType::kFloat32 || type == DType::kFloat16 || type == DType::kBFloat16 ||
         type == DType::kFloat8;
}

// Activations have samples and positions; where all are matrices, the first is taken for them,
// which leaves the sizes of a product of two as they are.
const TensorShape* InputOf(std::span<const TensorShape> inputs) {
  const TensorShape* first = nullptr;
  for (const TensorShape& t : inputs) {
    if (!IsFloating(t.dtype) || t.dims.size() < 2) continue;
    if (t.dims.size() > 2) return &t;
    if (first == nullptr) first = &t;
  }
  return first;
}

std::vector<MatrixSizes> LayersOf(std::span<const TensorShape> inputs, const TensorShape& x) {
  std::vector<MatrixSizes> layers;
  const int64_t rows = LeadingElements(x, 1);
  int64_t width = x.dims.back();
  const TensorShape* before = nullptr;
  for (const TensorShape& w : inputs) {
    if (&w == &x || !IsMatrix(w)) continue;
    // Weights in 8 bits stand behind the same in 16.
    const bool repeated = before != nullptr && std::ranges::equal(before->dims, w.dims);
    before = &w;
    if (repeated) continue;
    const bool gated = !layers.empty() && w.dims[1] == width / 2;
    if (w.dims[1] == width || gated) {
      layers.push_back({rows, w.dims[0], w.dims[1]});
    } else if (w.dims[0] == width) {
      layers.push_back({rows, w.dims[1], w.dims[0]});
    } else {
      continue;
    }
    width = layers.back().n;
  }
  return layers;
}

// An input [rows, k], and for each expert weights [k, n] or [n, k]: a matrix each, or one array.
void AddExperts(std::span<const TensorShape> inputs, FunctionWork& work) {
  const TensorShape* x = nullptr;
  const TensorShape* w = nullptr;
  for (const TensorShape& t : inputs) {
    if (!IsFloating(t.dtype) || t.dims.size() < 2 || t.dims.size() > 3) continue;
    const int64_t width = x == nullptr ? 0 : x->dims.back();
    if (x == nullptr) {
      x = &t;
    } else if (w != nullptr) {
      work.experts += std::ranges::equal(w->dims, t.dims) ? 1 : 0;
    } else if (t.dims.back() == width || t.dims[t.dims.size() - 2] == width) {
      w = &t;
    }
  }
  if (w == nullptr) return;
  if (w->dims.size() == 3) work.experts = std::max<int64_t>(w->dims[0], 1);
  const int64_t k = x->dims.back(), last = w->dims.back();
  const int64_t n = last == k ? w->dims[w->dims.size() - 2] : last;
  work.dtype = x->dtype;
  work.cols = k;
  work.rows = LeadingElements(*x, 1);
  work.layers = {{work.rows, n, k}};
}

// How many sequences lie one behind the other, by a list of where each begins and the last ends.
int64_t PackedSequences(std::span<const TensorShape> inputs) {
  const auto begins = std::ranges::find_if(inputs, [](const TensorShape& t) {
    return t.dims.size() == 1 && t.dtype == DType::kInt32 && t.dims[0] > 1;
  });
  return begins == inputs.end() ? 1 : begins->dims[0] - 1;
}

// Queries, keys and values: [samples, s, heads, d], or [s, samples, heads, d], as Megatron has
// them, or [samples, heads, s, d]; sequences are taken to be longer than there are samples. Or
// [tokens, heads, d] of several sequences. The mask is no tensor: causal, as Transformer Engine's
// is unless told otherwise.
std::optional<AttentionOp> AttentionOf(std::span<const TensorShape> inputs) {
  for (size_t i = 0; i + 2 < inputs.size(); ++i) {
    const auto &q = inputs[i].dims, &k = inputs[i + 1].dims, &v = inputs[i + 2].dims;
    const bool packed = q.size() == 3 && k.size() == 3 && v.size() == 3 && q[2] == k[2] &&
                        k[0] == v[0] && k[1] == v[1] && k[1] > 0 && q[1] % k[1] == 0;
    if (packed && IsFloating(inputs[i].dtype) && q[2] <= kMostHeadDimension) {
      const int64_t sequences =
          std::clamp<int64_t>(PackedSequences(inputs), 1, std::max<int64_t>(q[0], 1));
      return AttentionOp{sequences, q[1], k[1], q[0] / sequences, k[0] / sequences, q[2], true};
    }
    const bool alike = q.size() == 4 && k.size() == 4 && v.size() == 4 && q[3] == k[3] &&
                       k[2] == v[2] && k[0] == v[0] && k[1] == v[1];
    if (!alike || !IsFloating(inputs[i].dtype) || q[3] > kMostHeadDimension) continue;
    // [samples, heads, s, d], as PyTorch has it: models have no more than so many heads.
    constexpr int64_t kMostHeads = 128;
    const bool heads_second = q[2] > kMostHeads && q[1] <= kMostHeads;
    const size_t heads = heads_second ? 1 : 2;
    const size_t sequence = heads_second ? 2 : q[0] > q[1] ? 0 : 1;
    const size_t samples = heads_second ? 0 : 1 - sequence;
    const AttentionOp op{q[samples], q[heads], k[heads], q[sequence], k[sequence], q[3], true};
    const bool fits = k[heads] > 0 && q[heads] % k[heads] == 0 && q[samples] == k[samples];
    if (fits) return op;
  }
  return std::nullopt;
}

using Shapes = absl::InlinedVector<TensorShape, 8>;

Shapes ShapesOf(const RankTrace& rank, NodeIndex call) {
  Shapes shapes;
  for (const Tensor& tensor : rank.tensors(call)) {
    if (!tensor.is_output && tensor.dims_count > 0) {
      shapes.push_back({rank.dims(tensor), tensor.dtype});
    }
  }
  return shapes;
}

// Of attention, or of the passes before and behind that its gradients take.
bool Attends(std::string_view kernel) {
  return IsAttentionKernel(kernel) || IsAroundAttention(kernel) || ContainsAny(kernel, {"sdpa"});
}

bool IsMatmul(std::string_view kernel) { return !Attends(kernel) && IsMatrixKernel(kernel); }

TracedOperator Assumed(OperatorCall::Shape shape, DType dtype, bool backward) {
  TracedOperator traced;
  traced.op = {std::move(shape), dtype, backward ? Direction::kBackward : Direction::kForward};
  traced.assumed = true;
  return traced;
}

}  // namespace

FunctionWork WorkOfFunction(std::string_view name, std::span<const TensorShape> inputs) {
  FunctionWork work;
  if (ContainsAny(name, {"rouped"})) {
    AddExperts(inputs, work);
    return work;
  }
  const TensorShape* x = InputOf(inputs);
  if (x == nullptr) return work;
  work.dtype = x->dtype;
  work.cols = x->dims.back();
  work.rows = LeadingElements(*x, 1);
  work.attention = AttentionOf(inputs);
  work.layers = LayersOf(inputs, *x);
  return work;
}

FunctionLayers::FunctionLayers(const TraceStore& store, const RankTrace& rank,
                               const AutogradFunctions& functions,
                               const std::map<uint32_t, CallKernels>& calls)
    : store_(store), rank_(rank) {
  if (calls.empty()) return;
  absl::flat_hash_map<uint32_t, std::vector<FunctionWork>> open;  // by forward name
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    if (rank.kind(node) != NodeKind::kCpuOp) continue;
    const auto asked = calls.find(i);
    Pass pass;
    if (const auto forward = functions.ForwardOf(rank.name(node))) {
      pass.backward = true;
      std::vector<FunctionWork>& before = open[forward->value];
      if (!before.empty()) {
        pass.work = std::move(before.back());
        before.pop_back();
      }
    } else if (functions.IsForward(rank.name(node)) || asked != calls.end()) {
      pass.work = WorkOfFunction(store.name(rank, node), ShapesOf(rank, node));
      if (functions.IsForward(rank.name(node))) open[rank.name(node).value].push_back(pass.work);
    }
    if (asked == calls.end()) continue;
    pass.kernels = asked->second.kernels;
    std::ranges::copy_if(pass.kernels, std::back_inserter(pass.matmuls),
                         [&](NodeIndex kernel) { return IsMatmul(store.name(rank, kernel)); });
    pass.gemms = GemmsOf(pass);
    passes_[i] = std::move(pass);
  }
}

// In order of issue: forward the layers, backward from the last on the gradients of y = x w for x,
// then for w; of grouped layers for each expert, or for all of them at once.
std::vector<FunctionLayers::Gemm> FunctionLayers::GemmsOf(const Pass& pass) {
  std::vector<Gemm> whole;
  for (const MatrixSizes& layer : pass.work.layers) whole.push_back({layer});
  if (pass.backward) {
    whole.clear();
    for (auto layer = pass.work.layers.rbegin(); layer != pass.work.layers.rend(); ++layer) {
      whole.push_back({{layer->m, layer->k, layer->n}});
      whole.push_back({{layer->n, layer->k, layer->m}, true});
    }
  }
  const int64_t experts = pass.work.experts;
  if (experts < 2 || whole.empty()) return whole;
  const size_t each = pass.matmuls.size() / whole.size();
  std::vector<Gemm> gemms;
  for (Gemm& gemm : whole) {
    int64_t& rows = gemm.over_rows ? gemm.sizes.k : gemm.sizes.m;
    const auto parts = each > 1 ? static_cast<int64_t>(each) : experts;
    rows = std::max<int64_t>(rows / parts, 1);
    gemm.groups = each > 1 ? 1 : experts;
    gemms.insert(gemms.end(), std::max<size_t>(each, 1), gemm);
  }
  return gemms;
}

// As many as there are kernels, in order; where there are more, operators within the call made the
// first of these (Megatron's gradient of the input is PyTorch's, that of the weights an
// extension's). One whose results the kernel's tiles do not hold is another one's.
const FunctionLayers::Gemm* FunctionLayers::Take(const LaunchPlace& place, NodeIndex kernel,
                                                 Pass& pass) {
  const auto ordinal =
      static_cast<size_t>(std::ranges::find(pass.matmuls, kernel) - pass.matmuls.begin());
  const size_t count = pass.gemms.size(), kernels = pass.matmuls.size();
  const size_t first = ordinal + (count > kernels ? count - kernels : 0);
  Gemm* chosen = nullptr;
  for (size_t d = 0; d < count; ++d) {
    Gemm& gemm = pass.gemms[(first + d) % count];
    if (gemm.taken) continue;
    const bool holds = place.Holds(gemm.sizes.m, gemm.sizes.n);
    if (chosen == nullptr || holds) chosen = &gemm;
    if (holds) break;
  }
  if (chosen != nullptr) chosen->taken = true;
  return chosen;
}

std::vector<NodeIndex> FunctionLayers::Together(const Pass& pass, NodeIndex kernel) const {
  const auto name = [&](NodeIndex node) { return store_.name(rank_, node); };
  std::vector<NodeIndex> list;
  if (Attends(name(kernel))) {
    std::ranges::copy_if(pass.kernels, std::back_inserter(list),
                         [&](NodeIndex node) { return Attends(name(node)); });
    // The first that is no pass before or behind stands for all.
    const auto main =
        std::ranges::find_if(list, [&](NodeIndex node) { return IsAttentionKernel(name(node)); });
    if (main == list.end() || *main != kernel) list.clear();
    return list;
  }
  const auto at = std::ranges::find(pass.kernels, kernel);
  if (at == pass.kernels.end() || !IsMatmul(name(kernel))) return {kernel};
  if (at != pass.kernels.begin() && rank_.kind(at[-1]) == NodeKind::kMemset) {
    list.push_back(at[-1]);
  }
  list.push_back(kernel);
  for (auto next = at + 1; next != pass.kernels.end(); ++next) {
    if (TraitsOfKernel(name(*next)).role != KernelRole::kSplitReduce) break;
    list.push_back(*next);
  }
  return list;
}

FunctionLayers::Part FunctionLayers::Next(const LaunchFlow& flow, size_t i, NodeIndex call) {
  const auto found = passes_.find(call.value);
  if (found == passes_.end()) return {};
  Pass& pass = found->second;
  const std::string_view kernel = flow.name(i);
  Part part{std::nullopt, Together(pass, flow.order()[i])};
  const FunctionWork& work = pass.work;
  if (part.kernels.empty()) return part;
  if (Attends(kernel)) {
    const bool backward = pass.backward || NamesGradient(kernel);
    if (work.attention) part.traced = Assumed(*work.attention, work.dtype, backward);
  } else if (IsMatmul(kernel)) {
    const bool float8 = TraitsOfKernel(kernel).precision == Precision::kFloat8;
    const DType dtype = float8 ? DType::kFloat8 : work.dtype;
    const Gemm* gemm = Take(flow.at(i), flow.order()[i], pass);
    if (gemm != nullptr && gemm->groups > 1) {
      const MatrixSizes& of = gemm->sizes;
      part.traced = Assumed(BatchedMatmulOp{gemm->groups, of.m, of.n, of.k}, dtype, false);
    } else if (gemm != nullptr) {
      part.traced = Assumed(LinearOp{gemm->sizes.m, gemm->sizes.n, gemm->sizes.k}, dtype, false);
    }
  } else if (NamedWorkOf(kernel).kind == KernelKind::kLayerNorm && work.rows > 0) {
    part.traced = Assumed(LayerNormOp{work.rows, work.cols}, work.dtype, pass.backward);
  }
  return part;
}

}  // namespace foretrace
