#include "simulator/backends/operator_dag.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "simulator/backends/operator_work.h"
#include "simulator/backends/text_of_sizes.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

constexpr size_t kMaxOps = 100'000;

absl::StatusOr<OperatorDag> Load(const YamlReader& root) {
  root.ExpectKeys(std::array<std::string_view, 5>{"name", "description", "source", "dtype", "ops"});
  std::string name = root.String("name");
  constexpr std::array<std::string_view, 3> kTypes = {"float32", "float16", "bfloat16"};
  constexpr std::array<DType, 3> kDTypes = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  const DType dtype = root.Has("dtype") ? kDTypes[root.Choice("dtype", kTypes)] : DType::kUnknown;
  std::vector<DagOp> ops;
  std::vector<OperatorSizes> sizes;
  absl::flat_hash_map<std::string, int32_t> ids;
  const std::vector<YamlReader> items = root.Child("ops").Items();
  if (root.ok() && (items.empty() || items.size() > kMaxOps)) {
    root.Fail("ops", "1 to 100000 operators are needed");
  }
  for (const YamlReader& item : items) {
    if (!root.ok()) break;
    item.ExpectKeys(
        std::array<std::string_view, 6>{"name", "op", "inputs", "shape", "output", "attributes"});
    DagOp op;
    op.name = item.String("name");
    op.type = item.String("op");
    OperatorSizes& of = sizes.emplace_back();
    of.input = item.Integers("shape", 1, 1 << 30);
    if (item.Has("output")) of.output = item.Integers("output", 1, 1 << 30);
    op.shape = JoinSizes(of.input);
    for (const YamlReader& input : item.Child("inputs").Items()) {
      const std::string from = input.AsString();
      if (!item.ok()) break;
      if (from == "*") {
        op.inputs.push_back(kNoProducer);
        continue;
      }
      const auto found = ids.find(from);
      if (found == ids.end()) {
        item.Fail("inputs", "'" + from +
                                "' is no operator before this one; weights and inputs of the "
                                "graph are written *");
        break;
      }
      op.inputs.push_back(found->second);
    }
    if (item.ok() && item.Has("attributes")) {
      for (const auto& [key, value] : item.Child("attributes").Entries()) {
        op.attributes[key] = value.AsString();
      }
    }
    if (!root.ok()) break;
    if (!ids.emplace(op.name, static_cast<int32_t>(ops.size())).second) {
      item.Fail("name", "'" + op.name + "' names another operator already");
      break;
    }
    ops.push_back(std::move(op));
  }
  if (!root.ok()) return root.status();
  if (dtype != DType::kUnknown) {
    for (size_t i = 0; i < ops.size(); ++i) ops[i].calls = CallsOf(ops, sizes, i, dtype);
  }
  return OperatorDag(std::move(name), std::move(ops));
}

}  // namespace

OperatorDag::OperatorDag(std::string name, std::vector<DagOp> ops)
    : name_(std::move(name)), ops_(std::move(ops)), consumers_(ops_.size()) {
  for (int32_t id = 0; id < size(); ++id) {
    for (const int32_t input : op(id).inputs) {
      if (input == kNoProducer) continue;
      std::vector<int32_t>& of_input = consumers_[static_cast<size_t>(input)];
      if (of_input.empty() || of_input.back() != id) of_input.push_back(id);
    }
  }
}

int32_t OperatorDag::Find(const std::string& name) const {
  const auto found = std::ranges::find(ops_, name, &DagOp::name);
  return found == ops_.end() ? -1 : static_cast<int32_t>(found - ops_.begin());
}

absl::StatusOr<OperatorDag> LoadOperatorDag(const std::string& file) {
  return LoadYaml<OperatorDag>(ReadYamlFile(file), file, Load);
}

absl::StatusOr<OperatorDag> ParseOperatorDag(const std::string& text, const std::string& file) {
  return LoadYaml<OperatorDag>(ParseYamlText(text, file), file, Load);
}

}  // namespace foretrace
