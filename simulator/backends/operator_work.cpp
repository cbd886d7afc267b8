#include "simulator/backends/operator_work.h"

#include <algorithm>

namespace foretrace {
namespace {

std::vector<KernelWork> KernelsOf(const ViewedOp& op) {
  std::vector<KernelWork> kernels;
  for (const OperatorCall& call : op.calls) {
    const KernelList of_call = Kernels(call);
    kernels.insert(kernels.end(), of_call.begin(), of_call.end());
  }
  return kernels;
}

// Two GEMMs around a softmax, as one operator; nullopt: it is no such group.
std::optional<OperatorCall> FusedAttention(const OperatorView& dag,
                                           const std::vector<int32_t>& ops) {
  const OperatorCall* first = nullptr;
  int gemms = 0, others = 0;
  bool softmax = false;
  for (const int32_t id : ops) {
    for (const OperatorCall& call : dag.op(id).calls) {
      if (std::holds_alternative<BatchedMatmulOp>(call.shape)) {
        if (first == nullptr) first = &call;
        ++gemms;
      }
      others += std::holds_alternative<LinearOp>(call.shape) ||
                std::holds_alternative<Conv2dOp>(call.shape);
      softmax = softmax || std::holds_alternative<SoftmaxOp>(call.shape);
    }
  }
  if (gemms != 2 || others > 0 || !softmax) return std::nullopt;
  const auto& scores = std::get<BatchedMatmulOp>(first->shape);
  AttentionOp attention{1, scores.b, scores.b, scores.m, scores.n, scores.k};
  return OperatorCall{attention, first->dtype, Direction::kForward};
}

}  // namespace

std::vector<KernelWork> GroupKernels(const OperatorView& dag, const std::vector<int32_t>& ops) {
  if (ops.size() == 1) return KernelsOf(dag.op(ops.front()));
  if (const std::optional<OperatorCall> attention = FusedAttention(dag, ops)) {
    const KernelList kernels = Kernels(*attention);
    return {kernels.begin(), kernels.end()};
  }
  KernelWork fused;
  double most = -1, flop = 0;
  int64_t read = 0, written = 0;
  for (const int32_t id : ops) {
    const std::vector<KernelWork> kernels = KernelsOf(dag.op(id));
    if (kernels.empty()) return {};
    for (const KernelWork& work : kernels) {
      flop += work.flop.count();
      read += work.read.count();
      // Of equal arithmetic the last, whose result is written.
      if (work.flop.count() >= most) {
        most = work.flop.count();
        fused = work;
      }
    }
    const int64_t result = kernels.back().written.count();
    if (id == ops.back()) {
      written = result;
      continue;
    }
    for (const int32_t reader : dag.consumers(id)) {
      const auto times = std::ranges::count(dag.op(reader).inputs, id);
      if (std::ranges::binary_search(ops, reader)) read -= times * result;
    }
  }
  fused.flop = Flop(flop);
  fused.read = Bytes(std::max<int64_t>(read, 0));
  fused.written = Bytes(written);
  return {fused};
}

std::optional<Estimate> EstimateGroup(const OperatorView& dag, const std::vector<int32_t>& ops,
                                      const KernelTimer& timer) {
  const std::vector<KernelWork> kernels = GroupKernels(dag, ops);
  if (kernels.empty()) return std::nullopt;
  Estimate sum{SimTime(), EstimateSource::kRecorded, false};
  for (const KernelWork& work : kernels) {
    const Estimate one = timer(work);
    if (one.source == EstimateSource::kMissing) return std::nullopt;
    sum.time += one.time;
    sum.source = std::max(sum.source, one.source);
    sum.extrapolated = sum.extrapolated || one.extrapolated;
  }
  return sum;
}

}  // namespace foretrace
