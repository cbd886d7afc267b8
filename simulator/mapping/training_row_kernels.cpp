// Which kernels a row says that it ran.

#include <fmt/format.h>

#include "simulator/mapping/stack_choices.h"
#include "simulator/mapping/training_row_fields.h"
#include "simulator/mapping/training_row_text.h"

namespace foretrace {
namespace {

// How many times as long as the quickest fused attention others take on Hopper: FlashAttention-2
// 1.5 to 2 (Shah et al., 2024, FlashAttention-3, abstract), cuDNN 1.01 to 1.09 (figures 5 and 6).
constexpr double kSecondFlash = 1.75, kCudnn = 1.07;
constexpr const char* kHopper = "GH100";

// Of a row that says whether attention is one kernel, or which; of no version FlashAttention-2,
// where its software does not fuse attention by itself.
void FuseAttention(const Fields& f, TrainingRow& row) {
  StackRelease& software = row.software;
  const std::string said = f.Text("note") + "; " + f.Text("framework");
  const auto told = [&](std::initializer_list<std::string_view> terms) {
    return ToldOf(said, terms);
  };
  const Told third = told({"flash attention 3", "flashattention 3", "flashattention3", "fa3",
                           "flash attn 3", "flash3"});
  const Told second = told({"flash attention 2", "flashattention 2", "flashattention2", "fa2",
                            "flash attn 2", "flash2"});
  const Told cudnn = told({"cudnn attention", "cudnn flash*", "cudnn fused attention"});
  const Told any = told({"flash attention*", "flashattention*", "flash attn*", "flashattn*", "fa2",
                         "fa3", "fused attention", "cudnn attention", "cudnn flash*"});
  if (any == Told::kNo || told({"eager attention", "attn implementation eager"}) == Told::kYes) {
    if (software.fused_attention) row.notes.emplace_back("attention not fused, as the row says");
    software.fused_attention = false;
    return;
  }
  if (any != Told::kYes) return;
  const bool newest = third == Told::kYes, library = cudnn == Told::kYes;
  if (newest || library || second == Told::kYes || !software.fused_attention) {
    software.attention_slowdown.clear();
    software.attention_slowdown_depth = 0;
    if (!newest) software.attention_slowdown[kHopper] = library ? kCudnn : kSecondFlash;
  }
  if (!software.fused_attention) row.notes.emplace_back("attention fused, as the row says");
  software.fused_attention = true;
}

// Megatron's loss, of a row that says that it is fused: by Transformer Engine's kernel unless
// Megatron's own is named (Megatron Core, cross_entropy_fusion_impl). "cef" is SimuMax's word.
void FuseLoss(const Fields& f, TrainingRow& row) {
  LossForm& loss = row.software.loss;
  if (loss != LossForm::kInPlace && loss != LossForm::kCompiledInPlace) return;
  if (SaidOf(f, {"fused cross entropy", "cross entropy fus*", "cross entropy loss fus*", "cef*"}) !=
      Told::kYes) {
    return;
  }
  const bool own = SaidOf(f, {"native*"}) == Told::kYes;
  loss = own ? LossForm::kCompiledInPlace : LossForm::kOverwritten;
  row.notes.push_back(fmt::format("fused cross entropy taken as {}",
                                  own ? "Megatron's own" : "Transformer Engine's"));
}

}  // namespace

void SetKernelsOf(const Fields& f, TrainingRow& row) {
  const bool compiled = ToldOf(f.Text("note"), {"torch . compile*"}) == Told::kYes;
  row.software.compiled = false;
  if (compiled) Compile(row.software);
  row.software.loss = LossOf(row.software, row.mapping);
  FuseLoss(f, row);
  FuseAttention(f, row);
  SetKernels(row.software, row.config);
}

}  // namespace foretrace
