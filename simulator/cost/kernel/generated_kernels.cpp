#include "simulator/cost/kernel/generated_kernels.h"

#include <algorithm>
#include <string>

#include "simulator/base/contains.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

// Query heads that share keys and values in models that have fewer of these: four to eight.
constexpr double kQueriesOfKey = 4;

// An operator among those that the name lists.
bool Has(std::string_view name, std::string_view op) {
  const std::string listed = "_" + std::string(op) + "_";
  return name.find(listed) != name.npos;
}

// torch/_inductor/runtime/triton_heuristics.py, pointwise() and triton_config(): elements of a
// block, tried out among few. Along one dimension 256 a warp, of which there are at least four, or
// 64; large tensors have blocks of 1,024 and 512, small ones of 256 at least. Along two, 256 a warp
// of up to eight: tiles of 32 x 32, or of 4,096 elements.
int64_t ElementsOfBlock(const LaunchAttr& launch) {
  constexpr int64_t kWarp = 32, kFew = 64;
  constexpr double kMostThreads = 1024;
  const int64_t warps = static_cast<int64_t>(std::min(launch.threads(), kMostThreads)) / kWarp;
  const bool tiled = launch.grid[1] > 1;
  if (warps > 4) return tiled ? 4096 : 512;
  if (warps < 4) return 256 * std::max<int64_t>(warps, 1);
  return tiled || launch.grid[0] > kFew ? 1024 : 256;
}

// Each operator of two operands has one that no other makes; casts in front of complex numbers
// write twice the bytes, others read them; 8 bits are half. The scale of a quantisation is a
// number, and its product none of tensors.
void ReadPointwise(std::string_view name, GeneratedKernel& kernel) {
  const bool scaled = Has(name, "reciprocal"), tiled = kernel.turned_over;
  const bool gates = Has(name, "silu") || ContainsAny(name, {"gelu"});
  if (Has(name, "add")) ++kernel.read;
  if (Has(name, "mul") && (!scaled || (gates && !tiled))) ++kernel.read;
  if (ContainsAny(name, {"silu_backward", "gelu_backward"})) {  // of both that were multiplied
    kernel.gradient = true;
    kernel.read = 3;
    kernel.written = 2;
  }
  const bool converted = Has(name, "to_copy") && !scaled;
  if (Has(name, "view_as_complex")) {
    ++kernel.written;
  } else if (converted) {
    ++kernel.read;
  }
  if (Has(name, "expand")) kernel.read /= kQueriesOfKey;
  if (Has(name, "sum")) kernel.read *= kQueriesOfKey;
  if (kernel.quantises) kernel.written /= 2;
}

// A norm adds what comes beside the stream of a model to it first. For its gradient it does so
// again, and adds the gradient that passes it by.
void ReadNorm(std::string_view name, GeneratedKernel& kernel) {
  kernel.of_norm = true;
  kernel.gradient = ContainsAny(name, {"norm_backward"});
  const bool adds = Has(name, "add");
  if (kernel.gradient) {
    const bool again = ContainsAny(name, {"norm__fused", "norm_native", "norm__native"});
    kernel.read = 1 + (adds ? 1 : 0) + (adds && again ? 1 : 0);
  } else {
    kernel.read = adds ? 2 : 1;
    if (Has(name, "max")) kernel.written = 0;
  }
}

}  // namespace

std::optional<GeneratedKernel> GeneratedKernelOf(std::string_view name, const LaunchAttr& launch) {
  constexpr double kMost = 1e15;
  GeneratedKernel kernel;
  const bool pointwise = name.starts_with("triton_poi_"), rows = name.starts_with("triton_red_");
  if (!pointwise && !rows && !name.starts_with("triton_per_")) return std::nullopt;
  if (launch.blocks() > kMost) return std::nullopt;
  kernel.quantises = Has(name, "scaled_mm");
  kernel.turned_over = pointwise ? launch.grid[1] > 1 : Has(name, "clone") && Has(name, "t");
  if (pointwise) {
    kernel.elements = static_cast<int64_t>(launch.blocks()) * ElementsOfBlock(launch);
    ReadPointwise(name, kernel);
    return kernel;
  }
  kernel.softmax = ContainsAny(name, {"softmax"}) && launch.grid[0] > 1;
  const bool norm = ContainsAny(name, {"norm"}) && launch.grid[0] > 1;
  if (norm) ReadNorm(name, kernel);
  if (kernel.softmax) {
    kernel.gradient = ContainsAny(name, {"softmax_backward"});
    kernel.written = kernel.gradient ? 1 : 0;
  }
  if (norm || kernel.softmax) {
    kernel.kind = GeneratedKernel::Kind::kRowReduction;
    if (rows) kernel.rows = launch.grid[0];
    return kernel;
  }
  kernel.kind = GeneratedKernel::Kind::kReduction;
  ReadPointwise(name, kernel);
  kernel.written = 0;
  return kernel;
}

}  // namespace foretrace
