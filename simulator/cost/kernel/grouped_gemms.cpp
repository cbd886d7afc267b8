#include "simulator/cost/kernel/grouped_gemms.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "simulator/cost/kernel/gemm_block.h"

namespace foretrace {
namespace {

// Takes the type that `text` begins with off it: bits an element, 0 where there is none. MX formats
// scale 32 elements by a byte, NVIDIA's four-bit format 16 by one.
double TakeType(std::string_view& text) {
  constexpr struct {
    std::string_view name;
    double bits;
  } kTypes[] = {{"MxE2m1", 4 + 8.0 / 32}, {"MxE4m3", 8 + 8.0 / 32},
                {"E2m1", 4 + 8.0 / 16},   {"E4m3", 8},
                {"Bfloat16", 16},         {"Fp16", 16}};
  for (const auto& type : kTypes) {
    if (!text.starts_with(type.name)) continue;
    text.remove_prefix(type.name.size());
    return type.bits;
  }
  return 0;
}

// Takes "<key><number>" of at most four digits off the front; 0: there is none.
int64_t TakeNumber(std::string_view& text, char key) {
  if (text.empty() || text.front() != key) return 0;
  constexpr size_t kDigits = 4;
  const std::string_view digits = text.substr(1, kDigits);
  int64_t number = 0;
  const char* const end = std::from_chars(digits.begin(), digits.end(), number).ptr;
  text.remove_prefix(static_cast<size_t>(end - text.begin()));
  return number;
}

double Ceil(double x, double unit) { return std::ceil(x / unit); }

// Blocks that a launch has, by how many of them a multiprocessor holds: what its operands leave of
// shared memory, where scales are kept apart.
double BlocksOf(const GpuPeaks& device, const GroupedKernel& kernel, uint32_t waves_milli) {
  const double of_step = (static_cast<double>(kernel.rows) * std::floor(kernel.weight_bits) +
                          static_cast<double>(kernel.tokens) * std::floor(kernel.token_bits)) *
                         static_cast<double>(kernel.depth) / 8;
  const auto shared = static_cast<double>(device.accelerator.occupancy.shared_memory.count());
  const double resident =
      std::max(std::floor(shared / (of_step * static_cast<double>(kernel.buffers))), 1.0);
  return std::round(waves_milli / 1000.0 * device.sms * resident);
}

struct Sizes {
  double blocks = 0, depth = 0;  // blocks that have tokens; the whole reduction
};

// All blocks run, and each reads its operands through the cache: many blocks of one expert read the
// same weights at about the same time, and yet that takes as long as from memory. Set by the one
// recording with such kernels (traces/b200).
SimTime TimeOf(const GpuPeaks& device, double bandwidth_efficiency, const GroupedKernel& kernel,
               const Sizes& sizes) {
  const auto rows = static_cast<double>(kernel.rows), tokens = static_cast<double>(kernel.tokens);
  const double operands =
      (rows * kernel.weight_bits + tokens * kernel.token_bits) * sizes.depth / 8;
  const double results = rows * tokens * kernel.result_bits / 8 / (kernel.gated ? 2 : 1);
  const double memory_us =
      sizes.blocks * (operands + results) / (device.dram_gbps * 1e3 * bandwidth_efficiency);
  const Precision precision =
      std::max(kernel.weight_bits, kernel.token_bits) > 12 ? Precision::kHalf : Precision::kFloat8;
  const double peak = device.peak_tflops(precision);
  const double compute_us =
      peak > 0 ? sizes.blocks * 2 * rows * tokens * sizes.depth / (peak * 1e6) : 0;
  return SimTime::FromUs(GemmStartUs(device) + std::max(memory_us, compute_us));
}

}  // namespace

std::optional<GroupedKernel> GroupedKernelOf(std::string_view name) {
  constexpr size_t kFields = 6, kMost = 64;
  std::vector<std::string_view> fields;
  for (std::string_view rest = name; fields.size() < kMost && !rest.empty();) {
    fields.push_back(rest.substr(0, rest.find('_')));
    rest.remove_prefix(std::min(fields.back().size() + 1, rest.size()));
  }
  if (fields.size() <= kFields || fields[0] != "bmm" || fields[3] != "Fp32") return std::nullopt;
  const auto has = [&](std::string_view word) {
    return std::ranges::find(fields, word) != fields.end();
  };
  std::string_view block = fields[4], stages = fields[5], operands = fields[2];
  const int64_t a = TakeNumber(block, 't'), b = TakeNumber(block, 'x');
  const bool weights_first = has("transOut");
  GroupedKernel kernel;
  kernel.rows = weights_first ? a : b;
  kernel.tokens = weights_first ? b : a;
  kernel.depth = TakeNumber(block, 'x');
  const int64_t unrolled = std::max<int64_t>(TakeNumber(block, 'u'), 1);
  kernel.buffers = TakeNumber(stages, 's') * unrolled;
  const double first = TakeType(operands);
  const double second = operands.empty() ? first : TakeType(operands);
  kernel.weight_bits = weights_first ? first : second;
  kernel.token_bits = weights_first ? second : first;
  std::string_view results = fields[1];
  kernel.result_bits = TakeType(results);
  kernel.gated = has("swiGlu") || has("geGlu");
  kernel.dynamic = has("dynBatch");
  const bool whole = operands.empty() && results.empty() && block.empty() && stages.empty();
  const bool known = std::min({first, second, kernel.result_bits}) > 0 &&
                     std::min({a, b, kernel.depth, kernel.buffers}) > 0;
  return whole && known ? std::optional(kernel) : std::nullopt;
}

double ExpectedTokenBlocks(double pairs, int64_t experts, int64_t tokens) {
  const double mean = pairs / static_cast<double>(experts);
  const auto size = static_cast<double>(tokens);
  constexpr double kMany = 1e4;  // beyond, a part of a block in the mean is half of one
  double of_expert = 0;
  if (mean > kMany) {
    of_expert = mean / size + (size - 1) / (2 * size);
  } else if (mean > 0) {
    const double most = mean + 12 * std::sqrt(mean) + 12;
    for (double k = 1; k <= most; ++k) {
      of_expert += std::exp(k * std::log(mean) - mean - std::lgamma(k + 1)) * Ceil(k, size);
    }
  }
  return static_cast<double>(experts) * of_expert;
}

std::vector<SimTime> GroupedGemmTimes(const GpuPeaks& device, double bandwidth_efficiency,
                                      std::span<const GroupedLaunch> launches, int64_t tokens,
                                      int64_t width, int64_t experts) {
  if (launches.size() != 2 || std::min({tokens, width, experts}) < 1) return {};
  const auto up = GroupedKernelOf(launches[0].name), down = GroupedKernelOf(launches[1].name);
  if (!up || !down || !up->dynamic || !down->dynamic || up->tokens != down->tokens) return {};
  const auto of_block = static_cast<double>(up->tokens);
  const double down_rows = Ceil(static_cast<double>(width), static_cast<double>(down->rows));
  const double most = BlocksOf(device, *down, launches[1].waves_milli) / down_rows;
  const double up_rows =
      std::round(BlocksOf(device, *up, launches[0].waves_milli) / std::max(most, 1.0));
  if (most < 1 || up_rows < 1) return {};
  // Launched are as many as there would be, were all experts but for one token full.
  const auto pairs_at_most =
      of_block * most - static_cast<double>(experts) * (of_block - 1) + of_block - 1;
  const double of_token = std::max(std::floor(pairs_at_most / static_cast<double>(tokens)), 1.0);
  const double filled = std::min(
      ExpectedTokenBlocks(of_token * static_cast<double>(tokens), experts, up->tokens), most);
  const double inner = up_rows * static_cast<double>(up->rows) / (up->gated ? 2 : 1);
  return {TimeOf(device, bandwidth_efficiency, *up, {up_rows * filled, static_cast<double>(width)}),
          TimeOf(device, bandwidth_efficiency, *down, {down_rows * filled, inner})};
}

}  // namespace foretrace
