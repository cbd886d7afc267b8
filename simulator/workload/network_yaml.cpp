#include "simulator/workload/network_yaml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

constexpr size_t kMaxOps = 100'000;
constexpr TensorId kNoTensor = -1;

using Sizes = std::vector<int32_t>;

GraphOpKind KindOf(std::string_view type) {
  struct Entry {
    std::string_view type;
    GraphOpKind kind;
  };
  using enum GraphOpKind;
  static constexpr std::array<Entry, 34> kKinds = {{
      {"conv2d", kConvolution},
      {"conv3d", kConvolution},
      {"dense", kMatmul},
      {"matmul", kMatmul},
      {"softmax", kSoftmax},
      {"layer_norm", kNorm},
      {"batch_matmul", kBatchedMatmul},
      {"mean", kReduction},
      {"sum", kReduction},
      {"global_avgpool", kReduction},
      {"global_avgpool2d", kReduction},
      {"global_avgpool3d", kReduction},
      {"avgpool2d", kPool},
      {"avgpool3d", kPool},
      {"maxpool2d", kPool},
      {"maxpool3d", kPool},
      {"concat", kConcat},
      {"reshape", kCopy},
      {"transpose", kCopy},
      {"relu", kElementwise},
      {"sigmoid", kElementwise},
      {"tanh", kElementwise},
      {"gelu", kElementwise},
      {"sqrt", kElementwise},
      {"exp", kElementwise},
      {"silu", kElementwise},
      {"dropout", kElementwise},
      {"cast", kElementwise},
      {"upsampling", kElementwise},
      {"add", kElementwise},
      {"biasadd", kElementwise},
      {"multiply", kElementwise},
      {"subtract", kElementwise},
      {"divide", kElementwise},
  }};
  const auto* const found = std::ranges::find(kKinds, type, &Entry::type);
  return found == kKinds.end() ? kOpaque : found->kind;
}

// Inputs that the gradient of a point-wise operator is made from.
int8_t KeptInputs(std::string_view type) {
  static constexpr std::array<std::string_view, 7> kOfOne = {"relu", "sigmoid", "tanh", "gelu",
                                                             "silu", "sqrt",    "exp"};
  if (std::ranges::find(kOfOne, type) != kOfOne.end()) return 1;
  return type == "multiply" || type == "divide" ? 2 : 0;
}

// "3x3" -> {3, 3}; empty where there is no such attribute.
Sizes SizesOf(const GraphOp& op, const char* attribute) {
  Sizes values;
  const auto found = op.attributes.find(attribute);
  if (found == op.attributes.end()) return values;
  for (const absl::string_view part : absl::StrSplit(found->second, 'x')) {
    int32_t value = 0;
    if (!absl::SimpleAtoi(part, &value) || value < 1) return {};
    values.push_back(value);
  }
  return values;
}

class NetworkLoader {
 public:
  explicit NetworkLoader(const YamlReader& root) : root_(root) {}

  absl::StatusOr<Network> Load() {
    root_.ExpectKeys(
        std::array<std::string_view, 5>{"name", "description", "source", "dtype", "ops"});
    out_.name = root_.String("name");
    constexpr std::array<std::string_view, 3> kTypes = {"float32", "float16", "bfloat16"};
    constexpr std::array<DType, 3> kDTypes = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
    dtype_ = root_.Has("dtype") ? kDTypes[root_.Choice("dtype", kTypes)] : DType::kUnknown;
    const std::vector<YamlReader> items = root_.Child("ops").Items();
    if (root_.ok() && (items.empty() || items.size() > kMaxOps)) {
      root_.Fail("ops", "1 to 100000 operators are needed");
    }
    for (const YamlReader& item : items) {
      if (root_.ok()) AddOperator(item);
    }
    if (!root_.ok()) return root_.status();
    return std::move(out_);
  }

 private:
  struct Made {
    TensorId result = kNoTensor;
    Sizes sizes;  // empty: not known
  };

  void AddOperator(const YamlReader& item) {
    item.ExpectKeys(
        std::array<std::string_view, 6>{"name", "op", "inputs", "shape", "output", "attributes"});
    GraphOp op;
    op.name = item.String("name");
    op.function = item.String("op");
    op.in_block = false;
    op.kind = KindOf(op.function);
    const Sizes in = item.Integers("shape", 1, 1 << 30);
    const Sizes out = item.Has("output") ? item.Integers("output", 1, 1 << 30) : Sizes();
    if (item.ok() && item.Has("attributes")) {
      for (const auto& [key, value] : item.Child("attributes").Entries()) {
        op.attributes[key] = value.AsString();
      }
    }
    std::vector<const Made*> producers;  // null: a weight or an input of the graph
    for (const YamlReader& input : item.Child("inputs").Items()) {
      const std::string from = input.AsString();
      if (!item.ok()) return;
      const auto found = made_.find(from);
      if (from != "*" && found == made_.end()) {
        item.Fail("inputs", "'" + from +
                                "' is no operator before this one; weights and inputs of the "
                                "graph are written *");
        return;
      }
      producers.push_back(from == "*" ? nullptr : &found->second);
    }
    if (!item.ok()) return;
    if (producers.empty()) {
      item.Fail("inputs", "an operator reads something; weights and inputs of the graph are *");
      return;
    }
    const bool weighted = producers.size() > 1 && producers[1] == nullptr;
    op.kept = std::min(KeptInputs(op.function),
                       static_cast<int8_t>(std::min<size_t>(producers.size(), 2)));
    Specialise(op, in, out, weighted);
    const Made result{Tensor(op.name, TensorRole::kActivation, out), out};
    op.outputs = {result.result};
    Connect(item, op, producers, in, out);
    if (item.ok() && op.kind == GraphOpKind::kConvolution) CheckGroups(item, op, in, out);
    if (!item.ok()) return;
    if (!made_.emplace(op.name, result).second) {
      item.Fail("name", "'" + op.name + "' names another operator already");
      return;
    }
    out_.graph.AddOp(std::move(op));
  }

  // What its kind needs of attributes and sizes; without them it is opaque. `weighted`: its second
  // operand is no result of an operator.
  static void Specialise(GraphOp& op, const Sizes& in, const Sizes& out, bool weighted) {
    bool known = !in.empty() && !out.empty();
    if (op.kind == GraphOpKind::kMatmul && !weighted) op.kind = GraphOpKind::kBatchedMatmul;
    if (op.kind == GraphOpKind::kConvolution) {
      const size_t dimensions = op.function == "conv2d" ? 2 : 3;
      known = known && weighted && SizesOf(op, "kernel_size").size() == dimensions &&
              SizesOf(op, "groups").size() == 1 && in.size() == dimensions + 2 &&
              out.size() == dimensions + 2;
    } else if (op.kind == GraphOpKind::kBatchedMatmul) {
      known = known && in.size() > 1 && in.size() == out.size();
    } else if (op.kind == GraphOpKind::kPool) {
      const Sizes window = SizesOf(op, "pool_size");
      known = known && !window.empty();
      for (const int32_t size : window) op.window = std::min<int64_t>(op.window * size, 1 << 30);
    }
    op.strided = op.function == "transpose";
    if (!known) op.kind = GraphOpKind::kOpaque;
  }

  void Connect(const YamlReader& item, GraphOp& op, const std::vector<const Made*>& producers,
               const Sizes& in, const Sizes& out) {
    for (size_t i = 0; i < producers.size(); ++i) {
      const Made* producer = producers[i];
      if (producer != nullptr && i == 0 && !producer->sizes.empty() && producer->sizes != in) {
        item.Fail("shape",
                  fmt::format("the first input is [{}]", fmt::join(producer->sizes, ", ")));
        return;
      }
      if (producer != nullptr) {
        op.inputs.push_back(producer->result);
      } else if (i == 0) {
        op.inputs.push_back(Tensor("input", TensorRole::kActivation, in));
      } else {
        op.inputs.push_back(Weight(op, in, out));
      }
    }
    // A result of unknown size is as its reader says.
    const TensorId first = op.inputs.front();
    if (producers.front() != nullptr && producers.front()->sizes.empty()) {
      GraphTensor view = out_.graph.tensor(first);
      view.axes = Axes(in);
      view.consumers.clear();
      op.inputs.front() = out_.graph.AddTensor(std::move(view));
    }
  }

  // Of GEMMs by the input's and the result's last axes; of convolutions from channels to
  // channels; of pointwise operators as long as the last axis, of sums of biases the channels.
  TensorId Weight(const GraphOp& op, const Sizes& in, const Sizes& out) {
    GraphTensor weight{"weight", TensorRole::kWeight, dtype_, {}, kNoOp, {}};
    if (op.kind == GraphOpKind::kMatmul) {
      weight.axes = {LastAxis(op.inputs[0]), LastAxis(op.outputs[0])};
    } else if (op.kind == GraphOpKind::kConvolution) {
      const int32_t groups = SizesOf(op, "groups").front();
      weight.axes = {Axis(out[1]), Axis(in[1] / std::max(groups, 1))};
      for (const int32_t size : SizesOf(op, "kernel_size")) weight.axes.push_back(Axis(size));
    } else if (op.kind == GraphOpKind::kElementwise) {
      const bool channels = op.function == "biasadd" && out.size() > 1;
      weight.axes = {Axis(channels ? out[1] : out.back())};
    }
    return out_.graph.AddTensor(std::move(weight));
  }

  void CheckGroups(const YamlReader& item, const GraphOp& op, const Sizes& in,
                   const Sizes& out) const {
    const int32_t groups = SizesOf(op, "groups").front();
    if (in[1] % groups != 0 || out[1] % groups != 0) {
      item.Fail("attributes",
                fmt::format("{} groups do not divide {} and {} channels", groups, in[1], out[1]));
    }
  }

  AxisId LastAxis(TensorId tensor) const { return out_.graph.tensor(tensor).axes.back(); }
  AxisId Axis(int64_t size) { return out_.graph.AddAxis("", size); }
  absl::InlinedVector<AxisId, 4> Axes(const Sizes& sizes) {
    absl::InlinedVector<AxisId, 4> axes;
    for (const int32_t size : sizes) axes.push_back(Axis(size));
    return axes;
  }
  TensorId Tensor(std::string name, TensorRole role, const Sizes& sizes) {
    return out_.graph.AddTensor({std::move(name), role, dtype_, Axes(sizes), kNoOp, {}});
  }

  const YamlReader& root_;
  Network out_;
  DType dtype_ = DType::kUnknown;
  absl::flat_hash_map<std::string, Made> made_;
};

absl::StatusOr<Network> Load(const YamlReader& root) { return NetworkLoader(root).Load(); }

}  // namespace

absl::StatusOr<Network> LoadNetwork(const std::string& file) {
  return LoadYaml<Network>(ReadYamlFile(file), file, Load);
}

absl::StatusOr<Network> ParseNetwork(const std::string& text, const std::string& file) {
  return LoadYaml<Network>(ParseYamlText(text, file), file, Load);
}

}  // namespace foretrace
