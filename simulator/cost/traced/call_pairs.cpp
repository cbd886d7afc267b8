#include "simulator/cost/traced/call_pairs.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "simulator/cost/operator/kernel_expander.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

using ConvolutionKey = std::array<int64_t, 8>;

ConvolutionKey KeyOf(const Conv2dOp& op) {
  return {op.n, op.c, op.h, op.w, op.k, op.r, op.s, op.groups};
}

void CompleteConvolutions(const std::vector<TracedOperator*>& in_order) {
  absl::flat_hash_map<ConvolutionKey, std::pair<int64_t, int64_t>> outputs;
  for (const TracedOperator* traced : in_order) {
    const auto* op = std::get_if<Conv2dOp>(&traced->op.shape);
    if (op != nullptr && !traced->assumed) outputs.try_emplace(KeyOf(*op), op->oh, op->ow);
  }
  for (TracedOperator* traced : in_order) {
    auto* op = std::get_if<Conv2dOp>(&traced->op.shape);
    if (op == nullptr || !traced->assumed) continue;
    const auto it = outputs.find(KeyOf(*op));
    if (it == outputs.end()) continue;
    std::tie(op->oh, op->ow) = it->second;
    traced->assumed = false;
  }
}

struct OpenLookup {
  uint32_t call = 0;
  EmbeddingOp* op = nullptr;
};

// `batch` bags of each table; both are needed for tables * batch bags.
bool Fits(const EmbeddingOp& forward, int64_t batch) {
  return batch > 0 && forward.bags == forward.tables * batch;
}

void CompleteLookups(const std::vector<uint32_t>& order, TracedCalls& calls) {
  std::vector<OpenLookup> open;
  for (const uint32_t call : order) {
    TracedOperator& traced = *calls[call];
    auto* op = std::get_if<EmbeddingOp>(&traced.op.shape);
    if (op == nullptr) continue;
    if (traced.op.pass == Direction::kForward) {
      if (op->tables > 0 && op->lookups > 0) open.push_back({call, op});
      continue;
    }
    if (op->tables != 0) continue;  // complete
    const int64_t batch = op->bags, total_dim = op->dim;
    const auto it = std::find_if(open.rbegin(), open.rend(), [&](const OpenLookup& o) {
      return Fits(*o.op, batch) && o.op->fused_update == op->fused_update;
    });
    if (it == open.rend()) continue;
    EmbeddingOp& forward = *it->op;
    if (forward.dim == 0) FinishLookup(total_dim, forward);
    op->tables = forward.tables;
    op->lookups = forward.lookups;
    op->bags = forward.bags;
    op->rows = forward.rows;
    op->unique_rows = forward.unique_rows;
    op->dim = forward.dim;
    open.erase(std::next(it).base());
  }
}

TracedOperator ConcatOf(int64_t elements, int64_t parts, DType dtype) {
  TracedOperator traced;
  traced.op = {ConcatOp{elements, parts}, dtype, Direction::kForward};
  traced.assumed = true;
  traced.access.elements = elements;
  return traced;
}

int64_t Elements(const RankTrace& rank, const Tensor& tensor) {
  int64_t elements = 1;
  for (const int64_t size : rank.dims(tensor)) elements = SaturatingProduct({elements, size});
  return elements;
}

// Buffers that are cleared are no result of what came before.
bool IsFill(std::string_view name) {
  return name == "aten::zero_" || name == "aten::fill_" || name == "aten::zeros";
}

// The gradient of a split joins the gradients of the parts, which autograd's node takes.
std::optional<TracedOperator> ConcatOfGradients(const TraceStore& store, const RankTrace& rank,
                                                NodeIndex call) {
  const NodeIndex node = rank.parent(call);
  if (!node.valid() || rank.kind(node) != NodeKind::kCpuOp) return std::nullopt;
  const std::string_view name = store.name(rank, node);
  constexpr std::string_view kSplit = "Split", kBackward = "Backward";
  if (name.find(kSplit) == name.npos || name.find(kBackward) == name.npos) return std::nullopt;
  int64_t elements = 0, parts = 0;
  DType dtype = DType::kUnknown;
  for (const Tensor& tensor : rank.tensors(node)) {
    if (tensor.is_output || rank.dims(tensor).empty()) continue;
    elements = SaturatingSum({elements, Elements(rank, tensor)});
    dtype = tensor.dtype;
    ++parts;
  }
  if (parts < 2) return std::nullopt;
  return ConcatOf(elements, parts, dtype);
}

// The output's rows and columns where `dims` can be those of the convolution's output.
std::optional<std::pair<int64_t, int64_t>> OutputOf(const Conv2dOp& op,
                                                    std::span<const int64_t> dims) {
  if (dims.size() != 4 || dims[0] != op.n || dims[1] != op.k) return std::nullopt;
  if (dims[2] < 1 || dims[3] < 1 || dims[2] > op.h + op.r || dims[3] > op.w + op.s) {
    return std::nullopt;
  }
  return std::pair(dims[2], dims[3]);
}

}  // namespace

void CompleteFromFollowers(const RankTrace& rank, TracedCalls& calls) {
  constexpr uint32_t kFarthest = 32;  // nodes, those within the convolution included
  for (auto& [call, traced] : calls) {
    auto* op = traced.has_value() ? std::get_if<Conv2dOp>(&traced->op.shape) : nullptr;
    if (op == nullptr || !traced->assumed || traced->op.pass != Direction::kForward) continue;
    const NodeIndex convolution(call);
    const uint32_t last = std::min(rank.size(), call + kFarthest);
    for (uint32_t i = call + 1; i < last && traced->assumed; ++i) {
      const NodeIndex next(i);
      const bool follows = rank.kind(next) == NodeKind::kCpuOp &&
                           rank.lane(next) == rank.lane(convolution) &&
                           rank.start(next) >= rank.end(convolution);
      if (!follows || rank.tensors(next).empty()) continue;
      if (const auto output = OutputOf(*op, rank.dims(rank.tensors(next).front()))) {
        std::tie(op->oh, op->ow) = *output;
        traced->assumed = false;
      } else if (rank.dims(rank.tensors(next).front()).size() == 4) {
        break;  // other data are being worked on
      }
    }
  }
}

std::optional<TracedOperator> ConcatFromNeighbours(const TraceStore& store, const RankTrace& rank,
                                                   NodeIndex call) {
  if (auto parts = ConcatOfGradients(store, rank, call)) return parts;
  constexpr uint32_t kFarthest = 24;  // nodes, those within the concatenation included
  const uint32_t last = std::min(rank.size(), call.value + kFarthest);
  for (uint32_t i = call.value + 1; i < last; ++i) {
    const NodeIndex next(i);
    if (rank.kind(next) != NodeKind::kCpuOp || rank.lane(next) != rank.lane(call)) continue;
    if (rank.start(next) < rank.end(call) || IsFill(store.name(rank, next))) continue;
    for (const Tensor& tensor : rank.tensors(next)) {
      if (!rank.dims(tensor).empty()) return ConcatOf(Elements(rank, tensor), 2, tensor.dtype);
    }
  }
  return std::nullopt;
}

void CompletePairs(TracedCalls& calls) {
  std::vector<uint32_t> order;
  for (const auto& [call, traced] : calls) {
    if (traced.has_value()) order.push_back(call);
  }
  std::sort(order.begin(), order.end());
  std::vector<TracedOperator*> in_order;
  for (const uint32_t call : order) in_order.push_back(&*calls[call]);
  CompleteConvolutions(in_order);
  CompleteLookups(order, calls);
  for (const uint32_t call : order) {
    const auto* op = std::get_if<EmbeddingOp>(&calls[call]->op.shape);
    if (op != nullptr && (op->dim == 0 || op->tables == 0)) calls[call].reset();
  }
}

}  // namespace foretrace
