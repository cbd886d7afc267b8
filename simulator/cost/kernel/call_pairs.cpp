#include "simulator/cost/kernel/call_pairs.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

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

}  // namespace

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
