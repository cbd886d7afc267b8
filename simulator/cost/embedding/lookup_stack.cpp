#include "simulator/cost/embedding/lookup_stack.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

constexpr double kSectorBytes = 32;  // least that DRAM and L2 move

StackKernel ReadKernel(const YamlReader& in) {
  static constexpr std::array<std::string_view, 18> kKeys = {
      "name",          "each",          "if",           "scattered",           "launches",
      "sample_rows",   "lookup_rows",   "unique_rows",  "lookup_bytes",        "unique_bytes",
      "sample_blocks", "chained_reads", "rows_at_once", "lookup_instructions", "sorts",
      "key_bytes",     "value_bytes",   "key_bits"};
  in.ExpectKeys(kKeys);
  static constexpr std::array<std::string_view, 2> kEach = {"table", "input"};
  static constexpr std::array<std::string_view, 3> kIf = {"always", "several_inputs",
                                                          "several_ranks"};
  static constexpr std::array<std::string_view, 2> kSorts = {"lookups", "unique"};
  StackKernel k;
  k.name = in.String("name");
  k.each_input = in.Choice("each", kEach) == 1;
  if (in.Has("if")) {
    const size_t when = in.Choice("if", kIf);
    k.several_inputs = when == 1;
    k.several_ranks = when == 2;
  }
  k.scattered = in.Bool("scattered", false);
  const auto number = [&](std::string_view key, double fallback) {
    return in.Number(key, 0, 1e4, fallback);
  };
  k.launches = number("launches", 1);
  k.sample_rows = number("sample_rows", 0);
  k.lookup_rows = number("lookup_rows", 0);
  k.unique_rows = number("unique_rows", 0);
  k.lookup_bytes = number("lookup_bytes", 0);
  k.unique_bytes = number("unique_bytes", 0);
  k.lookup_instructions = number("lookup_instructions", 0);
  k.sample_blocks = number("sample_blocks", 0);
  k.chained_reads = number("chained_reads", 0);
  k.rows_at_once = number("rows_at_once", 0);
  if (in.Has("sorts")) {
    k.sorts_unique = in.Choice("sorts", kSorts) == 1;
    k.key_bytes = in.Number("key_bytes", 1, 16);
    k.value_bytes = in.Number("value_bytes", 0, 64);
    k.key_bits = in.Number("key_bits", 0, 128, 0);
  }
  return k;
}

std::vector<StackKernel> ReadKernels(const YamlReader& in) {
  std::vector<StackKernel> kernels;
  for (const YamlReader& item : in.Items()) kernels.push_back(ReadKernel(item));
  return kernels;
}

absl::StatusOr<LookupStack> ReadStack(const YamlReader& in) {
  static constexpr std::array<std::string_view, 20> kKeys = {"name",
                                                             "source",
                                                             "comment",
                                                             "tensor_float32",
                                                             "cycle_us",
                                                             "reduces_loss",
                                                             "deals_by_size",
                                                             "kernel_us",
                                                             "read_us",
                                                             "stream_efficiency",
                                                             "scatter_efficiency",
                                                             "blocks_per_sm_us",
                                                             "instructions_per_sm_clock",
                                                             "sort_efficiency",
                                                             "sort_pass_us",
                                                             "sort_digit_bits",
                                                             "one_block_keys",
                                                             "measured",
                                                             "forward",
                                                             "backward"};
  in.ExpectKeys(kKeys);
  LookupStack s;
  s.name = in.String("name");
  s.source = in.String("source");
  s.tensor_float32 = in.Bool("tensor_float32", false);
  s.cycle = SimTime::FromUs(in.Number("cycle_us", 0, 1e6, 0));
  s.reduces_loss = in.Bool("reduces_loss", false);
  s.deals_by_size = in.Bool("deals_by_size", false);
  s.kernel = SimTime::FromUs(in.Number("kernel_us", 0, 1e3));
  s.read = SimTime::FromUs(in.Number("read_us", 0, 1e3));
  s.stream_efficiency = in.Number("stream_efficiency", 0.01, 1);
  s.scatter_efficiency = in.Number("scatter_efficiency", 0.01, 1);
  s.blocks_per_sm_us = in.Number("blocks_per_sm_us", 1e-3, 1e6);
  s.instructions_per_sm_clock = in.Number("instructions_per_sm_clock", 1, 1e6);
  s.sort_efficiency = in.Number("sort_efficiency", 0.01, 1);
  s.sort_pass = SimTime::FromUs(in.Number("sort_pass_us", 0, 1e4));
  s.sort_digit_bits = in.Number("sort_digit_bits", 1, 16);
  s.one_block_keys = in.Number("one_block_keys", 0, 1e6);
  s.forward = ReadKernels(in.Child("forward"));
  s.backward = ReadKernels(in.Child("backward"));
  if (in.ok() && s.forward.empty()) in.Fail("forward", "names no kernel");
  if (in.ok() && s.backward.empty()) in.Fail("backward", "names no kernel");
  FORETRACE_RETURN_IF_ERROR(in.status());
  return s;
}

// What one kernel works on: an input of a table, or the table.
struct Amounts {
  double samples = 0, lookups = 0, unique = 0, dim = 0, row_bytes = 0, pooling = 0;
};

double SortUs(const LookupStack& stack, const GpuPeaks& device, const StackKernel& kernel,
              const Amounts& a) {
  const double keys = kernel.sorts_unique ? a.unique : a.lookups;
  if (keys <= stack.one_block_keys) return stack.kernel.us();
  const double bits = kernel.key_bits > 0 ? kernel.key_bits : std::log2(std::max(a.lookups, 2.0));
  const double passes = std::ceil(bits / stack.sort_digit_bits);
  // Keys are read once to count digits, then keys and values read and written in each pass.
  const double bytes =
      keys * (kernel.key_bytes + passes * 2 * (kernel.key_bytes + kernel.value_bytes));
  return 2 * stack.kernel.us() + passes * stack.sort_pass.us() +
         bytes / (stack.sort_efficiency * device.dram_gbps * 1e3);
}

double KernelUs(const LookupStack& stack, const GpuPeaks& device, const StackKernel& kernel,
                const Amounts& a) {
  if (kernel.key_bytes > 0) return SortUs(stack, device, kernel, a);
  const double efficiency = kernel.scattered ? stack.scatter_efficiency : stack.stream_efficiency;
  // A distinct row lies anywhere: whole sectors move.
  const double sectors = std::ceil(a.row_bytes / kSectorBytes) * kSectorBytes;
  const double bytes = a.samples * kernel.sample_rows * a.row_bytes +
                       a.lookups * (kernel.lookup_rows * a.row_bytes + kernel.lookup_bytes) +
                       a.unique * (kernel.unique_rows * sectors + kernel.unique_bytes);
  double us = bytes / (efficiency * device.dram_gbps * 1e3);
  if (kernel.lookup_instructions > 0) {
    us = std::max(us, a.lookups * a.dim * kernel.lookup_instructions /
                          (device.sms * stack.instructions_per_sm_clock *
                           MultiprocessorClockHz(device) * 1e-6));
  }
  if (kernel.sample_blocks > 0) {
    const double blocks = a.samples * kernel.sample_blocks;
    us = std::max(us, blocks / (device.sms * stack.blocks_per_sm_us));
    if (kernel.rows_at_once > 0) {
      const double reads = kernel.chained_reads + std::ceil(a.pooling / kernel.rows_at_once) - 1;
      us = std::max(us, blocks / (device.sms * device.accelerator.occupancy.blocks) * reads *
                            stack.read.us());
    }
  }
  return us + kernel.launches * stack.kernel.us();
}

}  // namespace

absl::StatusOr<LookupStack> LoadLookupStack(const std::string& file) {
  return LoadYaml<LookupStack>(ReadYamlFile(file), file, ReadStack);
}

absl::StatusOr<LookupStack> ParseLookupStack(const std::string& text, const std::string& file) {
  return LoadYaml<LookupStack>(ParseYamlText(text, file), file, ReadStack);
}

absl::Status CheckStackDevice(const GpuPeaks& device) {
  if (device.accelerator.occupancy.blocks > 0 && MultiprocessorClockHz(device) > 0 &&
      device.dram_gbps > 0) {
    return absl::OkStatus();
  }
  return InvalidInput(
      "{} states no clock, no memory bandwidth or no blocks of a multiprocessor, by which kernels "
      "of a lookup stack are timed; add them to {}",
      device.name, device.accelerator.file);
}

SimTime StackTime(const LookupStack& stack, const GpuPeaks& device, const StackTable& table,
                  LookupPass pass, bool several_ranks) {
  FORETRACE_CHECK(!table.poolings.empty());
  const TableLookup& lookup = table.lookup;
  const auto inputs = static_cast<double>(table.poolings.size());
  double poolings = 0;
  for (const double p : table.poolings) poolings += p;
  Amounts whole;
  whole.samples = lookup.batch;
  whole.lookups = lookup.batch * lookup.pooling;
  whole.unique = std::min(lookup.unique_rows, whole.lookups);
  whole.dim = lookup.dim;
  whole.row_bytes = lookup.dim * RealBytes(table.element).count();
  whole.pooling = lookup.pooling;
  double us = 0;
  for (const StackKernel& k : pass == LookupPass::kForward ? stack.forward : stack.backward) {
    if (k.several_ranks && !several_ranks) continue;
    if (k.several_inputs && table.poolings.size() < 2) continue;
    if (!k.each_input) {
      us += KernelUs(stack, device, k, whole);
      continue;
    }
    for (const double p : table.poolings) {
      Amounts one = whole;
      const double share = poolings > 0 ? p / poolings : 1 / inputs;
      one.samples = whole.samples / inputs;
      one.lookups = whole.lookups * share;
      one.unique = std::min(whole.unique, one.lookups);
      one.pooling = one.samples > 0 ? one.lookups / one.samples : 0;
      us += KernelUs(stack, device, k, one);
    }
  }
  return SimTime::FromUs(us);
}

}  // namespace foretrace
