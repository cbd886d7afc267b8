#include "simulator/base/dtype.h"

#include <array>
#include <string>
#include <utility>

#include "simulator/base/enum_names.h"

namespace foretrace {

std::string_view Name(DType type) {
  static constexpr std::array<std::string_view, 14> kNames = {
      "unknown", "float32", "float64", "float16", "bfloat16", "float8",    "int8",
      "uint8",   "int16",   "int32",   "int64",   "bool",     "complex64", "complex128"};
  return EnumName(kNames, type);
}

DType ParseDType(std::string_view text) {
  std::string t = LowerCase(text);
  for (std::string_view prefix : {"c10::", "at::", "torch."}) {
    if (t.starts_with(prefix)) t.erase(0, prefix.size());
  }
  static constexpr std::pair<std::string_view, DType> kSpellings[] = {
      {"float", DType::kFloat32},
      {"float32", DType::kFloat32},
      {"fp32", DType::kFloat32},
      {"double", DType::kFloat64},
      {"float64", DType::kFloat64},
      {"fp64", DType::kFloat64},
      {"half", DType::kFloat16},
      {"float16", DType::kFloat16},
      {"fp16", DType::kFloat16},
      {"bfloat16", DType::kBFloat16},
      {"bf16", DType::kBFloat16},
      {"float8_e4m3fn", DType::kFloat8},
      {"float8_e5m2", DType::kFloat8},
      {"float8", DType::kFloat8},
      {"fp8", DType::kFloat8},
      {"signed char", DType::kInt8},
      {"char", DType::kInt8},
      {"int8", DType::kInt8},
      {"unsigned char", DType::kUInt8},
      {"byte", DType::kUInt8},
      {"uint8", DType::kUInt8},
      {"short", DType::kInt16},
      {"int16", DType::kInt16},
      {"short int", DType::kInt16},
      {"int", DType::kInt32},
      {"int32", DType::kInt32},
      {"long", DType::kInt64},
      {"long int", DType::kInt64},
      {"long long", DType::kInt64},
      {"int64", DType::kInt64},
      {"bool", DType::kBool},
      {"complexfloat", DType::kComplex64},
      {"complex64", DType::kComplex64},
      {"complex<float>", DType::kComplex64},
      {"complexdouble", DType::kComplex128},
      {"complex128", DType::kComplex128},
      {"complex<double>", DType::kComplex128},
  };
  for (const auto& [spelling, type] : kSpellings) {
    if (t == spelling) return type;
  }
  return DType::kUnknown;
}

int64_t ElementSize(DType type) {
  switch (type) {
    case DType::kComplex128:
      return 16;
    case DType::kFloat64:
    case DType::kInt64:
    case DType::kComplex64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
      return 2;
    case DType::kFloat8:
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool:
      return 1;
    default:
      return 0;
  }
}

}  // namespace foretrace
