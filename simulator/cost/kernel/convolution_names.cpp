#include "simulator/cost/kernel/convolution_names.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include "simulator/base/contains.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/kernel/name_numbers.h"

namespace foretrace {
namespace {

struct PartRule {
  ConvolutionPart part;
  std::initializer_list<std::string_view> names;
};

ConvolutionPart AroundOf(std::string_view name) {
  using enum ConvolutionPart;
  static const PartRule kRules[] = {
      {kLayout, {"nchwToNhwc", "nhwcToNchw", "nchwToFoldedNhwc", "tensorTransformGeneric"}},
      {kScale, {"scalePackedTensor"}},
      {kPad, {"nhwcAddPadding"}},
      {kWinogradData, {"winogradForwardData", "winogradWgradData"}},
      {kWinogradDelta, {"winogradWgradDelta"}},
      {kWinogradFilter,
       {"winogradForwardFilter", "winogradWgradOutput", "generateWinogradTilesKernel"}},
      {kWinogradResult, {"winogradForwardOutput"}},
      {kFourierTransform, {"fft2d_"}},
      {kSumOfImages, {"reduce_wgrad_nchw_helper"}},
      {kSumOfParts, {"splitKreduce", "_split_k_kernel", "ReduceSplitK"}},
      {kWorkspace, {"init_device_workspace", "OffsetsKernel"}},
  };
  for (const PartRule& rule : kRules) {
    if (ContainsAny(name, rule.names)) return rule.part;
  }
  return kUnknown;
}

ConvolutionPass PassOf(std::string_view name) {
  if (ContainsAny(name, {"wgrad", "Wgrad"})) return ConvolutionPass::kWeightGradient;
  if (ContainsAny(name, {"dgrad", "Dgrad"})) return ConvolutionPass::kInputGradient;
  return ConvolutionPass::kAny;
}

// The number at the front of the n-th argument of a template, counted from 0.
std::optional<int64_t> Argument(std::string_view arguments, int n) {
  for (; n > 0; --n) {
    const size_t comma = arguments.find(", ");
    if (comma == arguments.npos) return std::nullopt;
    arguments.remove_prefix(comma + 2);
  }
  return TakeNumber(arguments, 2);
}

// cuDNN's own kernels name their block by the logarithms of its sides, depth and threads, after
// the types and the most threads: "dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>",
// "wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>",
// "implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, ...>". First are channels: grids
// of resnet50-b16-fp32 (traces/README.md, "Captured") say so of dgrad_engine.
GemmBlock EngineBlockOf(std::string_view name) {
  struct Engine {
    std::string_view name;
    int first;  // argument of the sides
  };
  static constexpr std::array<Engine, 4> kEngines = {{{"dgrad_engine<", 2},
                                                      {"wgrad_alg0_engine<", 2},
                                                      {"implicit_convolve_sgemm<", 3},
                                                      {"explicit_convolve_sgemm<", 3}}};
  constexpr int64_t kMostSide = 8, kMostDepth = 6, kMostLanes = 5, kThreadsOfWarp = 32;
  for (const auto& [engine, first] : kEngines) {
    const size_t at = name.find(engine);
    if (at == name.npos) continue;
    const std::string_view arguments = name.substr(at + engine.size());
    std::array<int64_t, 5> logs = {};
    for (int i = 0; i < 5; ++i) {
      const auto log = Argument(arguments, first + i);
      const int64_t most = i < 2 ? kMostSide : i == 2 ? kMostDepth : kMostLanes;
      if (!log || *log > most) return {};
      logs[static_cast<size_t>(i)] = *log;
    }
    GemmBlock block;
    block.cols = int64_t{1} << logs[0];
    block.rows = int64_t{1} << logs[1];
    block.depth = int64_t{1} << logs[2];
    block.warps = std::max<int64_t>((int64_t{1} << (logs[3] + logs[4])) / kThreadsOfWarp, 1);
    return block;
  }
  return {};
}

// CUTLASS's of cuDNN 9 keep their mangled names: "...9GemmShapeILi64ELi128ELi32EE...".
GemmBlock MangledBlockOf(std::string_view name) {
  constexpr std::string_view kShape = "9GemmShapeILi", kNext = "ELi";
  const size_t at = name.find(kShape);
  if (at == name.npos || !ContainsAny(name, {"ImplicitGemmConvolution"})) return {};
  std::string_view rest = name.substr(at + kShape.size());
  std::array<int64_t, 3> sizes = {};
  for (size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = TakeNumber(rest, 3).value_or(0);
    if (sizes[i] == 0) return {};
    if (i + 1 < sizes.size()) {
      if (!rest.starts_with(kNext)) return {};
      rest.remove_prefix(kNext.size());
    }
  }
  return {sizes[0], sizes[1], sizes[2], 0};
}

GemmBlock TileBlockOf(std::string_view name) {
  if (const GemmBlock mangled = MangledBlockOf(name); mangled.known()) return mangled;
  const NamedTile tile = StatedTile(name);
  return {tile.rows, tile.cols, tile.depth, 0};
}

}  // namespace

ConvolutionKernel ConvolutionKernelOf(std::string_view name) {
  ConvolutionKernel kernel;
  kernel.element_bytes = ContainsAny(name, {"half", "bfloat16"}) ? 2 : 4;
  kernel.into_layout = ContainsAny(name, {"nchwTo"});
  kernel.winograd = ContainsAny(name, {"winogradWgrad"});
  kernel.part = AroundOf(name);
  if (kernel.part != ConvolutionPart::kUnknown) return kernel;
  kernel.pass = PassOf(name);
  kernel.scattered = ContainsAny(name, {"_strided_"});
  kernel.narrow = ContainsAny(name, {"sm90_xmma"});
  kernel.cut_up = ContainsAny(name, {"segment_k_on"});
  kernel.channels_last = ContainsAny(name, {"nhwckrsc"});
  kernel.by_warps = !ContainsAny(name, {"sm90", "sm100", "nvjet"});
  kernel.multiplies = ContainsAny(name, {"gemm_"}) && !ContainsAny(name, {"implicit_gemm"});
  kernel.precision = TraitsOfKernel(name).precision;
  kernel.block = EngineBlockOf(name);
  if (kernel.block.known()) {
    kernel.part = ConvolutionPart::kEngine;
  } else if (ContainsAny(name, {"_ffma_"})) {
    kernel.block = XmmaBlockOf(name);
    kernel.part = ContainsAny(name, {"_cf32cf32_"}) ? ConvolutionPart::kFourierGemm
                                                    : ConvolutionPart::kBlocks;
  } else if (kernel.precision != Precision::kFloat32 || MangledBlockOf(name).known()) {
    kernel.block = TileBlockOf(name);
    kernel.part = ConvolutionPart::kTile;
  }
  if (!kernel.block.known()) kernel.part = ConvolutionPart::kUnknown;
  return kernel;
}

}  // namespace foretrace
