#include "simulator/dataflow/workloads.h"

#include <fmt/format.h>

namespace foretrace::dataflow {
namespace {

Kernel Gemm(std::string name, KernelKind kind, Pass pass, std::array<int64_t, kDimensions> size) {
  Kernel k;
  k.name = std::move(name);
  k.kind = kind;
  k.pass = pass;
  k.size = size;
  k.tiled = Dimension::kCount;
  return k;
}

int64_t CeilOf(int64_t size, int64_t parts) { return (size + parts - 1) / parts; }

}  // namespace

Workload MakeDlrm(const DlrmSizes& sizes) {
  Workload w;
  w.name = "dlrm";
  w.per_chip = true;
  w.batch = sizes.micro_batches;
  const auto layers = static_cast<int>(sizes.bottom_layers + sizes.top_layers);
  const double exchanged = static_cast<double>(sizes.tables) * static_cast<double>(sizes.pooled) *
                           static_cast<double>(sizes.embedding) * static_cast<double>(sizes.rows) *
                           w.word_bytes;
  const std::array<int64_t, kDimensions> forward = {1, sizes.width, sizes.width, sizes.rows};
  const auto exchange = [&](Kernel& k) { k.memory_bytes = k.alltoall_bytes = exchanged; };
  for (int i = 0; i < layers; ++i) {
    w.kernels.push_back(
        Gemm(fmt::format("MLP_{}", i + 1), KernelKind::kWeightedGemm, Pass::kForward, forward));
    if (i + 1 == sizes.bottom_layers) exchange(w.kernels.back());
    if (i > 0) w.tensors.push_back({i - 1, i, {}});
  }
  // Backward from the last layer; its input gradient and its weights' gradient.
  for (int i = layers - 1; i >= 0; --i) {
    const auto id = static_cast<int>(w.kernels.size());
    w.kernels.push_back(Gemm(fmt::format("MLP_{}_bwd", i + 1), KernelKind::kWeightedGemm,
                             Pass::kBackward, forward));
    if (i + 1 == sizes.bottom_layers) exchange(w.kernels.back());
    if (i + 1 < layers) w.tensors.push_back({id - 1, id, {}});
  }
  for (int i = 0; i < layers; ++i) {
    const auto id = static_cast<int>(w.kernels.size());
    Kernel k = Gemm(fmt::format("MLP_{}_bwd_weight_update", i + 1), KernelKind::kGemm,
                    Pass::kBackward, {1, sizes.width, sizes.rows, sizes.width});
    k.weight_gradient = true;
    w.kernels.push_back(std::move(k));
    if (i > 0) w.tensors.push_back({i - 1, id, {}});  // activation of the layer before
    // Gradient of the layer after, which is the kernel before layer i's in backward order.
    if (i + 1 < layers) w.tensors.push_back({layers + (layers - 2 - i), id, {}});
  }
  return w;
}

Workload MakeHpl(const HplSizes& sizes) {
  Workload w;
  w.name = "hpl";
  w.tiled_size = CeilOf(sizes.n, sizes.grid_rows);
  w.per_chip = true;
  for (int i = 0; i < static_cast<int>(sizes.iterations); ++i) {
    const int64_t side = sizes.n - i * sizes.block;
    Kernel k =
        Gemm(fmt::format("Iteration_{}", i + 1), KernelKind::kGemm, Pass::kForward,
             {1, CeilOf(side, sizes.grid_rows), CeilOf(side, sizes.grid_columns), sizes.block});
    k.tiled = Dimension::kM;
    k.broadcast_bytes = k.output_elements() * w.word_bytes;
    w.kernels.push_back(std::move(k));
    if (i > 0) w.tensors.push_back({i - 1, i, {}});
  }
  return w;
}

Workload MakeFft(const FftSizes& sizes) {
  Workload w;
  w.name = "fft";
  w.tiled_size = sizes.m;
  w.per_chip = true;
  for (int step = 0; step < 2; ++step) {
    Kernel k = Gemm(fmt::format("Step_{}", step + 1), KernelKind::kGemm, Pass::kForward,
                    {1, sizes.m, sizes.radix, CeilOf(sizes.n, sizes.chips)});
    k.tiled = Dimension::kM;
    if (step == 1) {
      k.alltoall_bytes = k.output_elements() * w.word_bytes;
      w.tensors.push_back({0, 1, {}});
    }
    w.kernels.push_back(std::move(k));
  }
  return w;
}

}  // namespace foretrace::dataflow
