#include "simulator/workload/operator_call_yaml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/workload/map_reader.h"

namespace foretrace {
namespace {

using Shape = OperatorCall::Shape;

// In the order of OperatorCall::Shape.
constexpr std::array<std::string_view, std::variant_size_v<Shape>> kNames = {
    "linear",  "batched_matmul", "conv2d",    "attention", "layer_norm", "softmax", "batch_norm",
    "dropout", "elementwise",    "reduction", "concat",    "copy",       "fill",    "memcpy",
    "index",   "pool",           "optimizer", "embedding", "opaque"};

// Shows `field` each size of a call with its key.
template <typename Field>
struct Sizes {
  Field field;

  template <typename... Values>
  void Each(std::initializer_list<const char*> keys, Values&... values) const {
    auto key = keys.begin();
    (field(*key++, values), ...);
  }
  void operator()(LinearOp& o) const {
    Each({"m", "n", "k", "bias", "needs_input_gradient", "needs_weight_gradient"}, o.m, o.n, o.k,
         o.bias, o.needs_input_gradient, o.needs_weight_gradient);
  }
  void operator()(BatchedMatmulOp& o) const { Each({"b", "m", "n", "k"}, o.b, o.m, o.n, o.k); }
  void operator()(Conv2dOp& o) const {
    Each({"n", "c", "h", "w", "k", "r", "s", "oh", "ow", "groups", "bias"}, o.n, o.c, o.h, o.w, o.k,
         o.r, o.s, o.oh, o.ow, o.groups, o.bias);
    Each({"needs_input_gradient", "needs_weight_gradient"}, o.needs_input_gradient,
         o.needs_weight_gradient);
  }
  void operator()(AttentionOp& o) const {
    Each({"b", "heads", "kv_heads", "sq", "skv", "d", "causal", "flash"}, o.b, o.heads, o.kv_heads,
         o.sq, o.skv, o.d, o.causal, o.flash);
  }
  void operator()(LayerNormOp& o) const { Each({"rows", "cols"}, o.rows, o.cols); }
  void operator()(SoftmaxOp& o) const { Each({"rows", "cols"}, o.rows, o.cols); }
  void operator()(BatchNormOp& o) const { Each({"n", "c", "h", "w"}, o.n, o.c, o.h, o.w); }
  void operator()(DropoutOp& o) const { Each({"elements"}, o.elements); }
  void operator()(ElementwiseOp& o) const {
    Each({"elements", "read_elements", "outputs", "flop_per_element", "output_dtype"}, o.elements,
         o.read_elements, o.outputs, o.flop_per_element, o.output_dtype);
  }
  void operator()(ReductionOp& o) const {
    Each({"rows", "cols", "across_rows"}, o.rows, o.cols, o.across_rows);
  }
  void operator()(ConcatOp& o) const { Each({"elements", "parts"}, o.elements, o.parts); }
  void operator()(CopyOp& o) const {
    Each({"elements", "strided", "output_dtype"}, o.elements, o.strided, o.output_dtype);
  }
  void operator()(FillOp& o) const { Each({"elements"}, o.elements); }
  void operator()(MemcpyOp& o) const { Each({"bytes", "pinned"}, o.bytes, o.pinned); }
  void operator()(IndexOp& o) const {
    Each({"elements", "index_count", "source_elements"}, o.elements, o.index_count,
         o.source_elements);
  }
  void operator()(PoolOp& o) const {
    Each({"input_elements", "output_elements", "window", "saves_indices"}, o.input_elements,
         o.output_elements, o.window, o.saves_indices);
  }
  void operator()(OptimizerOp& o) const { Each({"params", "tensors"}, o.params, o.tensors); }
  void operator()(EmbeddingOp& o) const {
    Each({"lookups", "bags", "dim", "unique_rows", "tables", "rows", "rowwise", "fused_update",
          "batched"},
         o.lookups, o.bags, o.dim, o.unique_rows, o.tables, o.rows, o.rowwise, o.fused_update,
         o.batched);
  }
  void operator()(OpaqueOp& o) const {
    Each({"read_bytes", "written_bytes"}, o.read_bytes, o.written_bytes);
  }
};
template <typename Field>
Sizes(Field) -> Sizes<Field>;

template <size_t kIndex = 0>
Shape DefaultOf(size_t index) {
  if constexpr (kIndex + 1 < kNames.size()) {
    if (index != kIndex) return DefaultOf<kIndex + 1>(index);
  }
  return Shape(std::in_place_index<kIndex>);
}

struct ReadField {
  MapReader& in;

  void operator()(const char* key, int64_t& value) const {
    in.Int(key, value);
    if (value < 0) in.Fail(key, "is negative");
  }
  void operator()(const char* key, bool& value) const { in.Bool(key, value); }
  void operator()(const char* key, double& value) const { in.Real(key, value); }
  void operator()(const char* key, DType& value) const {
    std::string name;
    in.String(key, name);
    if (name.empty()) return;
    value = ParseDType(name);
    if (value == DType::kUnknown) in.Fail(key, "is no type of elements");
  }
};

std::string TextOf(int64_t value) { return fmt::format("{}", value); }
std::string TextOf(bool value) { return value ? "true" : "false"; }
std::string TextOf(double value) { return fmt::format("{}", value); }
std::string TextOf(DType value) { return std::string(Name(value)); }

}  // namespace

absl::StatusOr<OperatorCall> ReadOperatorCall(const YAML::Node& node, const std::string& where) {
  if (!node.IsMap()) return InvalidInput("{}: must be a map", where);
  OperatorCall call;
  bool found = false;
  for (const auto& entry : node) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    if (key == "dtype") {
      call.dtype = ParseDType(entry.second.IsScalar() ? entry.second.Scalar() : "");
      if (call.dtype == DType::kUnknown) return InvalidInput("{}: unknown dtype", where);
      continue;
    }
    const auto* const name = std::find(kNames.begin(), kNames.end(), key);
    if (name == kNames.end() || found) {
      return InvalidInput("{}: {} '{}'; known are {}", where,
                          found ? "a second operator," : "unknown operator", key,
                          fmt::join(kNames, ", "));
    }
    found = true;
    call.shape = DefaultOf(static_cast<size_t>(name - kNames.begin()));
    MapReader in(entry.second, fmt::format("{}: {}", where, key));
    std::visit(Sizes{ReadField{in}}, call.shape);
    FORETRACE_RETURN_IF_ERROR(in.Finish());
  }
  if (!found) {
    return InvalidInput("{}: no operator; known are {}", where, fmt::join(kNames, ", "));
  }
  return call;
}

std::string OperatorCallYaml(const OperatorCall& call) {
  Shape shape = call.shape;
  // A size that is as by default goes without saying.
  std::vector<std::string> defaults, sizes;
  Shape plain = DefaultOf(shape.index());
  std::visit(Sizes{[&](const char*, auto& value) { defaults.push_back(TextOf(value)); }}, plain);
  size_t i = 0;
  std::visit(Sizes{[&](const char* key, auto& value) {
               const std::string text = TextOf(value);
               if (text != defaults[i++]) sizes.push_back(fmt::format("{}: {}", key, text));
             }},
             shape);
  return fmt::format("{{{}: {{{}}}, dtype: {}}}", kNames[shape.index()], fmt::join(sizes, ", "),
                     Name(call.dtype));
}

}  // namespace foretrace
