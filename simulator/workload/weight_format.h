#pragma once
// How a checkpoint stores the weights of its GEMMs, where that is not the model's precision.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace foretrace {

enum class WeightFormat : uint8_t {
  kModel,     // as all else
  kFp8,       // 8 bits, a scale a tensor or row
  kFp8Block,  // a scale of 32 bits for 128 x 128 (DeepSeek-V3, 2024, section 3.3)
  kMxfp4,     // 4 bits, a scale of 8 for 32 (Open Compute Project, Microscaling formats, 2023)
  kInt4,      // 4 bits, a scale of 16 for 128 (GPTQ, 2022; AWQ, 2023)
  kCount
};
// "fp8_block"; "model".
std::string_view Name(WeightFormat format);
std::optional<WeightFormat> ParseWeightFormat(std::string_view text);
// "fp8, fp8_block, ...": all but kModel.
std::string WeightFormatNames();
// Bits of a weight with its part of the scales; 0: those of the model's precision.
double BitsOf(WeightFormat format);

}  // namespace foretrace
