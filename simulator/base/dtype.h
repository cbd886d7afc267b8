#pragma once

#include <cstdint>
#include <string_view>

namespace foretrace {

enum class DType : uint8_t {
  kUnknown,
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kFloat8,
  kInt8,
  kUInt8,
  kInt16,
  kInt32,
  kInt64,
  kBool,
  kComplex64,
  kComplex128,
  kCount,
};

std::string_view Name(DType type);
// Accepts "float", "c10::Half", "Float", "bfloat16", "long int", ...; kUnknown otherwise.
DType ParseDType(std::string_view text);
// Bytes of one element; 0 for kUnknown.
int64_t ElementSize(DType type);

}  // namespace foretrace
