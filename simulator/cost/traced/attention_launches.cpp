#include "simulator/cost/traced/attention_launches.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "simulator/base/contains.h"
#include "simulator/cost/kernel/name_numbers.h"
#include "simulator/cost/traced/next_token.h"

namespace foretrace {
namespace {

constexpr size_t kDigits = 4;

// The first three numbers of "Flash_fwd_kernel_traits<64, 128, 128, ".
std::optional<std::array<int64_t, 3>> TraitsAfter(std::string_view name) {
  const bool main = ContainsAny(name, {"flash_fwd_kernel<", "flash_bwd_dq_dk_dv_loop"});
  constexpr std::string_view kTraits = "kernel_traits<";
  const size_t at = name.find(kTraits);
  if (!main || at == name.npos) return std::nullopt;
  std::string_view rest = name.substr(at + kTraits.size());
  std::array<int64_t, 3> numbers{};
  for (int64_t& number : numbers) {
    while (rest.starts_with(' ') || rest.starts_with(',')) rest.remove_prefix(1);
    number = TakeNumber(rest, kDigits).value_or(0);
    if (number < 1) return std::nullopt;
  }
  return numbers;
}

std::optional<std::pair<int64_t, int64_t>> PairAfter(std::string_view name, std::string_view key) {
  const size_t at = name.find(key);
  if (at == name.npos) return std::nullopt;
  std::string_view rest = name.substr(at + key.size());
  std::pair<int64_t, int64_t> pair;
  if (!TakePair(rest, pair.first, pair.second)) return std::nullopt;
  return pair;
}

// Of cuDNN's the last side of its tile: "..._flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_...".
int64_t HeadOf(std::string_view name) {
  constexpr std::string_view kKnob = "_knob_";
  const size_t knob = name.find(kKnob);
  if (knob == name.npos) return AttentionLaunches::kHeadDimension;
  std::string_view rest = name.substr(knob + kKnob.size());
  TakeNumber(rest, kDigits);
  int64_t side = 0;
  for (int i = 0; i < 3; ++i) {
    if (rest.empty()) return AttentionLaunches::kHeadDimension;
    rest.remove_prefix(1);
    side = TakeNumber(rest, kDigits).value_or(0);
  }
  return side > 0 ? side : AttentionLaunches::kHeadDimension;
}

// Before its gradients one of cuDNN's takes products of what these begin with: blocks of queries,
// samples, heads. 128 threads take 8 elements each.
constexpr int64_t kElementsOfProducts = 1024;
bool IsProducts(std::string_view name) { return name.find("compute_dot_do_o") != name.npos; }

}  // namespace

AttentionLaunches::AttentionLaunches(const RankTrace& rank, const LaunchFlow& flow)
    : rank_(rank), flow_(flow), causal_(SaysNextToken(rank, flow)) {
  for (size_t i = 0; i < flow.order().size(); ++i) {
    const LaunchAttr* launch = rank.launch(flow.order()[i]);
    if (launch == nullptr || !IsProducts(flow.name(i))) continue;
    const bool other = alike_products_ != nullptr && !(*alike_products_ == *launch);
    alike_products_ = other ? nullptr : launch;
    if (other) return;
  }
}

std::optional<AttentionOp> AttentionLaunches::Of(size_t i, bool backward) const {
  std::optional<AttentionOp> op = Sizes(i, backward);
  if (op) op->causal = causal_;
  return op;
}

std::optional<AttentionOp> AttentionLaunches::Sizes(size_t i, bool backward) const {
  const std::string_view name = flow_.name(i);
  const LaunchAttr& launch = *rank_.launch(flow_.order()[i]);
  if (name.starts_with("cudnn") && name.find("sdpa") != name.npos) return Sdpa(i);
  AttentionOp op;
  int64_t block = 0;
  // FlashAttention-2 (flash_fwd_launch_template.h, flash_bwd_launch_template.h): blocks of a
  // sequence, sequences, heads; "Flash_fwd_kernel_traits<head dimension, queries, keys, ".
  if (const auto traits = TraitsAfter(name)) {
    block = backward ? (*traits)[2] : (*traits)[1];
    op = {launch.grid[1], launch.grid[2], launch.grid[2], 0, 0, (*traits)[0]};
  } else if (name.starts_with("fmha_cutlass")) {
    // PyTorch's (mem_eff_attention/kernel_forward.h, getBlocksGrid): blocks, heads, sequences;
    // "fmha_cutlassF_f32_aligned_64x128_rf_sm80".
    const auto tile = PairAfter(name, "_aligned_");
    if (!tile) return std::nullopt;
    block = backward ? tile->second : tile->first;
    const int64_t heads = launch.grid[1], columns = flow_.columns();
    const bool whole = columns > 0 && columns % heads == 0;
    op = {launch.grid[2], heads, heads, 0, 0, whole ? columns / heads : kHeadDimension};
  }
  if (block < 1 || op.b < 1) return std::nullopt;
  op.sq = op.skv = Sequence(i, launch.grid[0], block, op.b);
  return op;
}

std::optional<AttentionOp> AttentionLaunches::Sdpa(size_t i) const {
  const int64_t d = HeadOf(flow_.name(i));
  if (const LaunchAttr* products = ProductsNear(i)) {
    const int64_t queries = std::max<int64_t>(kElementsOfProducts / d, 1);
    const int64_t samples = products->grid[1], heads = products->grid[2];
    const int64_t length = Sequence(i, products->grid[0], queries, samples);
    return AttentionOp{samples, heads, heads, length, length, d};
  }
  const int64_t length = flow_.sequence(), heads = flow_.columns() / d;
  if (length < 1 || heads < 1) return std::nullopt;
  return AttentionOp{flow_.rows() / length, heads, heads, length, length, d};
}

// Blocks of so many queries (or, backward, keys) of a head: as many as a sequence has, which
// activations' rows tell exactly where they may.
int64_t AttentionLaunches::Sequence(size_t i, int64_t blocks, int64_t block, int64_t batch) const {
  for (const int64_t rows : flow_.RowsNear(i)) {
    const int64_t exact = batch > 0 && rows % batch == 0 ? rows / batch : 0;
    if (exact <= blocks * block && exact > (blocks - 1) * block) return exact;
  }
  return std::max<int64_t>(blocks * block - block / 2, 1);
}

// Of gradients those right before; forward those of the rank, where all are alike.
const LaunchAttr* AttentionLaunches::ProductsNear(size_t i) const {
  for (const size_t p : flow_.Before(i, 1)) {
    if (IsProducts(flow_.name(p))) return rank_.launch(flow_.order()[p]);
  }
  return alike_products_;
}

}  // namespace foretrace
