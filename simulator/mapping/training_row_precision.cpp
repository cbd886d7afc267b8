// In which formats a row computes.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/mapping/training_row_fields.h"

namespace foretrace {

DType PrecisionOf(const std::string& text) {
  const std::pair<std::string_view, DType> words[] = {
      {"fp4", DType::kBFloat16},    {"fp8", DType::kBFloat16},      {"float8", DType::kBFloat16},
      {"bf16", DType::kBFloat16},   {"bfloat16", DType::kBFloat16}, {"fp16", DType::kFloat16},
      {"float16", DType::kFloat16}, {"half", DType::kFloat16},      {"fp32", DType::kFloat32},
      {"float32", DType::kFloat32}, {"tf32", DType::kFloat32}};
  for (const auto& [word, dtype] : words) {
    if (Contains(text, word)) return dtype;
  }
  // Lightning's "16-mixed" and "32-true".
  if (text.starts_with("16")) return DType::kFloat16;
  return text.starts_with("32") ? DType::kFloat32 : DType::kUnknown;
}

namespace {

// "fp8 blockwise", "FP8-SC" (sub-channel scaling, as NVIDIA's tables call it): a scale for each
// block of what is summed.
bool ScalesByBlock(const std::string& precision) {
  return Contains(precision, "block") || Contains(precision, "subchannel") ||
         Contains(precision, "sub-channel") || precision.ends_with("-sc") ||
         precision.ends_with("_sc") || precision.ends_with(" sc");
}

// "fp8 (current scaling)", "FP8-CS": scales by what an operand has now.
bool ScalesByPresent(const std::string& precision) {
  return Contains(precision, "current") || precision.ends_with("cs") ||
         Contains(precision, "cs ") || ScalesByBlock(precision);
}

}  // namespace

void SetGemmFormat(const Fields& f, TrainingRow& row) {
  const std::string precision = LowerCase(f.Text("precision"));
  const bool eight = Contains(precision, "fp8") || Contains(precision, "float8");
  // Lightning's "16-mixed" says which.
  if (precision == "16" || precision.starts_with("16-bit") || precision.starts_with("16 bit")) {
    row.notes.push_back(
        fmt::format("precision '{}' is taken for fp16, not bf16", f.Text("precision")));
  }
  row.mapping.mxfp8 = eight && Contains(precision, "mx");
  row.mapping.nvfp4 = Contains(precision, "fp4");
  if (Contains(precision, "mxfp4")) row.notes.emplace_back("MXFP4 is taken for NVFP4");
  row.mapping.fp8 = eight && !row.mapping.mxfp8 && !row.mapping.nvfp4;
  if (!row.mapping.fp8) return;
  if (ScalesByBlock(precision)) row.software.promotes_forward = true;
  // Such are gathered in 16 bits.
  row.scaled_by_row = Contains(precision, "rowwise");
  if (row.scaled_by_row) row.software.casts_before_gathers = false;
  // Largest magnitudes of earlier steps are reduced over ranks, present ones are each rank's own
  // (Transformer Engine, DelayedScaling and Float8CurrentScaling of common/recipe).
  if (ScalesByPresent(precision)) row.software.reduces_scales = false;
}

}  // namespace foretrace
