// Kernels of calls of which only the arguments are known: engines' and FBGEMM's operators.

#include <algorithm>
#include <span>
#include <vector>

#include "simulator/base/real_sizes.h"
#include "simulator/cost/kernel/grouped_gemms.h"
#include "simulator/cost/kernel/index_kernels.h"
#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/kernel/peer_reductions.h"
#include "simulator/cost/traced/kernel_cost_model.h"

namespace foretrace {

void KernelCostModel::AssignExperts(const TraceStore& store, const RankTrace& rank,
                                    const CallKernels& op, std::vector<Entry>& entries) const {
  if (!chosen_for_chip_.at(rank.info().device_name)) return;
  std::vector<NodeIndex> gemms;
  std::vector<GroupedLaunch> launches;
  for (const NodeIndex node : op.kernels) {
    if (!GroupedKernelOf(store.name(rank, node))) continue;
    gemms.push_back(node);
    launches.push_back({store.name(rank, node), rank.waves_milli(node)});
  }
  // (tokens [tokens, width], the router's logits [tokens, experts], ...)
  const auto tensors = rank.tensors(op.call);
  if (gemms.empty() || tensors.size() < 2) return;
  const auto given = rank.dims(tensors[0]), logits = rank.dims(tensors[1]);
  if (given.size() != 2 || logits.size() != 2 || given[0] != logits[0]) return;
  const std::vector<SimTime> times = GroupedGemmTimes(models_->device(), StreamEfficiency(*models_),
                                                      launches, given[0], given[1], logits[1]);
  for (size_t i = 0; i < times.size(); ++i) {
    entries[gemms[i].value].estimate = {times[i], EstimateSource::kAnalytic, true};
    entries[gemms[i].value].kind = KernelKind::kBatchedGemm;
  }
}

void KernelCostModel::AssignPeerReductions(const TraceStore& store, const RankTrace& rank,
                                           const CallKernels& op,
                                           std::vector<Entry>& entries) const {
  // The group is not recorded: all ranks, up to as many as a switch of one node joins.
  constexpr int32_t kNode = 8;
  const int32_t ranks = std::min(store.world_size(), kNode);
  // The first tensor with a shape is summed; handles and addresses before it have none.
  const auto tensors = rank.tensors(op.call);
  const auto summed =
      std::ranges::find_if(tensors, [&](const Tensor& t) { return !rank.dims(t).empty(); });
  if (ranks < 2 || summed == tensors.end()) return;
  auto bytes = static_cast<double>(ElementSize(summed->dtype));
  for (const int64_t size : rank.dims(*summed)) bytes *= static_cast<double>(size);
  constexpr double kMostBytes = 1e15;
  if (!(bytes > 0 && bytes < kMostBytes)) return;
  for (const NodeIndex node : op.kernels) {
    const auto reduction = PeerReductionOf(store.name(rank, node));
    if (!reduction) continue;
    const auto time =
        TimeOf(*reduction, models_->device().accelerator.links, ranks, WholeBytes(bytes));
    if (time) entries[node.value].estimate = {*time, EstimateSource::kAnalytic, true};
  }
}

// Liger's losses (liger_kernel/ops/cross_entropy.py; fused_linear_cross_entropy.py launches one for
// every few rows): a block reads a row of scores for its softmax, then again, and writes the
// gradient over it. A row is as long as the scores that the call is given, or as the weights that
// make them have rows.
void KernelCostModel::AssignLosses(const TraceStore& store, const RankTrace& rank,
                                   const CallKernels& op, std::vector<Entry>& entries) const {
  constexpr int64_t kReads = 2;
  const auto tensors = rank.tensors(op.call);
  const bool fused = store.name(rank, op.call).find("FusedLinear") != std::string_view::npos;
  const Tensor* of_row = nullptr;  // scores, else weights
  for (const Tensor& t : tensors) {
    if (rank.dims(t).size() < 2) continue;
    of_row = &t;
    if (!fused) break;
  }
  if (of_row == nullptr) return;
  const auto dims = rank.dims(*of_row);
  const int64_t columns = fused ? dims.front() : dims.back();
  for (const NodeIndex node : op.kernels) {
    const LaunchAttr* launch = rank.launch(node);
    if (launch == nullptr || store.name(rank, node) != "liger_cross_entropy_kernel") continue;
    const int64_t bytes = SaturatingProduct({launch->grid[0], columns, ElementSize(of_row->dtype)});
    KernelWork work;
    work.kind = KernelKind::kOther;
    work.read = Bytes(SaturatingProduct({kReads, bytes}));
    work.written = Bytes(bytes);
    entries[node.value].estimate = {models_->Predict(work, Precision::kFloat32).time,
                                    EstimateSource::kAnalytic, true};
    entries[node.value].kind = KernelKind::kSoftmax;
    entries[node.value].call = op.call;
  }
}

void KernelCostModel::AssignBags(const TraceStore& store, const RankTrace& rank,
                                 const OpaqueOp& call, const CallKernels& op,
                                 std::vector<Entry>& entries) const {
  if (!chosen_for_chip_.at(rank.info().device_name)) return;
  for (const NodeIndex node : op.kernels) {
    const auto us = WarpsOfBagsUs(models_->device(), StreamEfficiency(*models_),
                                  LaunchOf(store, rank, node), call.read_bytes);
    if (!us) continue;
    entries[node.value].estimate = {Floor() + SimTime::FromUs(*us), EstimateSource::kAnalytic,
                                    true};
  }
}

}  // namespace foretrace
