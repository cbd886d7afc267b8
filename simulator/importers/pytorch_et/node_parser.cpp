#include "simulator/importers/pytorch_et/node_parser.h"

#include <limits>
#include <optional>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/importers/json/text.h"
#include "simulator/importers/pytorch_et/process_groups.h"

namespace foretrace::pytorch_et {
namespace {

using json::Tape;
using Ref = Tape::Ref;

constexpr int64_t kMaxElements = int64_t{1} << 56;
constexpr size_t kMaxArguments = 65535;

int64_t IntegerAt(const Tape& tape, Ref at, int64_t fallback) {
  if (at == Tape::kNone || tape.IsArray(at) || tape.IsObject(at)) return fallback;
  return json::ParseInteger(tape.Text(at)).value_or(fallback);
}

std::vector<int64_t> IntegersAt(const Tape& tape, Ref list) {
  if (tape.IsString(list))
    return json::ParseIntegerList(tape.Text(list)).value_or(std::vector<int64_t>());
  std::vector<int64_t> values;
  if (!tape.IsArray(list)) return values;
  for (Ref e = tape.First(list); e != Tape::kNone; e = tape.Next(list, e)) {
    const auto value = json::ParseInteger(tape.Text(e));
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
}

// [tensor id, storage id, offset, elements, element size, "device"]
bool IsTensor(const Tape& tape, Ref value) {
  if (!tape.IsArray(value)) return false;
  int position = 0;
  for (Ref e = tape.First(value); e != Tape::kNone; e = tape.Next(value, e), ++position) {
    if (position > 5) return false;
    if (position == 5) {
      if (!tape.IsString(e)) return false;
    } else if (tape.kind(e) != Tape::Kind::kLiteral || !json::ParseInteger(tape.Text(e))) {
      return false;
    }
  }
  return position == 6;
}

// A tensor, or a list of tensors or of nothing.
bool IsTensors(const Tape& tape, Ref value) {
  if (!tape.IsArray(value)) return false;
  const Ref first = tape.First(value);
  return first == Tape::kNone || tape.IsArray(first) || IsTensor(tape, value);
}

// "Tensor(float)" gives "float"; "GenericList[Tensor(float),Tensor(int)]" the one at `index`.
DType TensorType(std::string_view type, size_t index) {
  constexpr std::string_view kOpen = "Tensor(";
  size_t at = type.find(kOpen);
  for (; index > 0 && at != std::string_view::npos; --index) at = type.find(kOpen, at + 1);
  if (at == std::string_view::npos) return DType::kUnknown;
  type.remove_prefix(at + kOpen.size());
  return ParseDType(type.substr(0, type.find(')')));
}

}  // namespace

Ref NodeParser::AttributeValue(const Tape& tape, std::string_view name) const {
  const Ref direct = tape.Member(Tape::kRoot, name);
  if (direct != Tape::kNone) return direct;
  const Ref attributes = tape.Member(Tape::kRoot, "attrs");
  if (!tape.IsArray(attributes)) return Tape::kNone;
  for (Ref e = tape.First(attributes); e != Tape::kNone; e = tape.Next(attributes, e)) {
    if (tape.Text(tape.Member(e, "name")) == name) return tape.Member(e, "value");
  }
  return Tape::kNone;
}

int64_t NodeParser::Attribute(const Tape& tape, std::string_view name, int64_t fallback) const {
  return IntegerAt(tape, AttributeValue(tape, name), fallback);
}

std::string_view NodeParser::TextAttribute(const Tape& tape, std::string_view name) const {
  return tape.Text(AttributeValue(tape, name));
}

NodeParser::Arguments NodeParser::FindArguments(const Tape& tape, bool outputs) const {
  const Ref list = tape.Member(Tape::kRoot, outputs ? "outputs" : "inputs");
  if (tape.IsObject(list)) {
    return {tape.Member(list, "values"), tape.Member(list, "shapes"), tape.Member(list, "types")};
  }
  return {list, tape.Member(Tape::kRoot, outputs ? "output_shapes" : "input_shapes"),
          tape.Member(Tape::kRoot, outputs ? "output_types" : "input_types")};
}

bool NodeParser::AddTensor(const Tape& tape, Ref value, Ref shape, std::string_view type,
                           uint16_t argument, bool outputs) {
  TensorRef tensor;
  int64_t fields[5] = {};
  size_t position = 0;
  for (Ref e = tape.First(value); position < 5; e = tape.Next(value, e), ++position) {
    fields[position] = json::ParseInteger(tape.Text(e)).value_or(0);
  }
  tensor.id = fields[0];
  tensor.storage = fields[1];
  tensor.offset = fields[2];
  tensor.elements = fields[3];
  tensor.element_size = fields[4];
  if (tensor.offset < 0 || tensor.elements < 0 || tensor.element_size < 0 ||
      tensor.offset > kMaxElements || tensor.elements > kMaxElements || tensor.element_size > 64) {
    return false;
  }
  tensor.argument = argument;
  tensor.is_output = outputs;
  tensor.dtype = TensorType(type, 0);
  tensor.dims_begin = static_cast<uint32_t>(document_.dims.size());
  if (tape.IsArray(shape)) {
    for (Ref e = tape.First(shape); e != Tape::kNone; e = tape.Next(shape, e)) {
      if (tensor.dims_count == std::numeric_limits<uint16_t>::max()) break;
      document_.dims.push_back(IntegerAt(tape, e, 0));
      ++tensor.dims_count;
    }
  }
  document_.tensors.push_back(tensor);
  return true;
}

absl::Status NodeParser::AddTensors(const Tape& tape, const Arguments& arguments, bool outputs) {
  if (!tape.IsArray(arguments.values)) return absl::OkStatus();
  size_t argument = 0;
  Ref shape = tape.First(arguments.shapes);
  Ref type = tape.First(arguments.types);
  for (Ref value = tape.First(arguments.values); value != Tape::kNone;
       value = tape.Next(arguments.values, value), ++argument) {
    if (argument > kMaxArguments) return InvalidInput("over {} arguments", kMaxArguments);
    const auto position = static_cast<uint16_t>(argument);
    bool good = true;
    if (IsTensor(tape, value)) {
      good = AddTensor(tape, value, shape, tape.Text(type), position, outputs);
    } else if (tape.IsArray(value)) {
      // A list of tensors, with parallel lists of shapes and, in one string, types.
      Ref inner_shape = shape == Tape::kNone ? Tape::kNone : tape.First(shape);
      size_t index = 0;
      for (Ref inner = tape.First(value); inner != Tape::kNone && good;
           inner = tape.Next(value, inner), ++index) {
        if (IsTensor(tape, inner)) {
          good = AddTensor(tape, inner, inner_shape, "", position, outputs);
          if (good) document_.tensors.back().dtype = TensorType(tape.Text(type), index);
        }
        if (inner_shape != Tape::kNone) inner_shape = tape.Next(shape, inner_shape);
      }
    }
    if (!good) return InvalidInput("a tensor has a negative or impossible size");
    if (shape != Tape::kNone) shape = tape.Next(arguments.shapes, shape);
    if (type != Tape::kNone) type = tape.Next(arguments.types, type);
  }
  return absl::OkStatus();
}

// record_param_comms(tensors, sequence, group, rank, collective, in splits, out splits, ...), where
// the group is an address up to schema 1.0.1 and (name, description) later; newer files repeat it
// all in attributes. c10d:: operators are described by their tensors.
void NodeParser::ReadComm(const Tape& tape, std::string_view name, Node& node) {
  CommRecord comm;
  if (name == "record_param_comms") {
    const Arguments inputs = FindArguments(tape, false);
    Ref at = tape.First(inputs.values);
    const auto advance = [&] { at = at == Tape::kNone ? at : tape.Next(inputs.values, at); };
    // Without tensors ("wait", barriers) the list begins with the sequence number.
    if (IsTensors(tape, at)) advance();
    // PyTorch 2.4 on: (sequence, is point to point)
    comm.sequence = IntegerAt(tape, tape.IsArray(at) ? tape.First(at) : at, -1);
    advance();
    if (at != Tape::kNone && tape.IsArray(at)) {
      const Ref group = tape.First(at);
      comm.group = tape.Text(group);
      if (group != Tape::kNone) comm.group_description = tape.Text(tape.Next(at, group));
    }
    advance();
    const int64_t rank = IntegerAt(tape, at, -1);
    advance();
    std::string_view operation = tape.Text(at);
    advance();
    comm.in_splits = IntegersAt(tape, at);
    advance();
    comm.out_splits = IntegersAt(tape, at);
    if (operation.empty()) operation = TextAttribute(tape, "collective_name");
    comm.is_wait = operation == "wait";
    comm.is_send = operation == "send";
    comm.is_recv = operation == "recv";
    if (!comm.is_wait && !comm.is_send && !comm.is_recv) comm.op = ParseCollectiveOp(operation);
    if (comm.is_send || comm.is_recv) comm.peer = rank;
    comm.dtype = ParseDType(TextAttribute(tape, "dtype"));
    comm.in_elements = Attribute(tape, "in_msg_nelems", -1);
    comm.out_elements = Attribute(tape, "out_msg_nelems", -1);
    comm.group_size = Attribute(tape, "pg_size", 0);
    if (comm.group.empty()) {
      comm.group = TextAttribute(tape, "pg_name");
      comm.group_description = TextAttribute(tape, "pg_desc");
    }
  } else if (name.starts_with("c10d::")) {
    name.remove_prefix(6);
    comm.is_send = name == "send";
    comm.is_recv = name.starts_with("recv");
    if (!comm.is_send && !comm.is_recv) comm.op = ParseCollectiveOp(name);
  } else {
    return;
  }
  node.comm = static_cast<int32_t>(document_.comms.size());
  document_.comms.push_back(std::move(comm));
}

// The groups stand as JSON text in the one input of "## process_group:init ##".
void NodeParser::ReadProcessGroups(const Tape& tape) {
  const Arguments inputs = FindArguments(tape, false);
  const Ref first = tape.First(inputs.values);
  if (tape.IsString(first)) {
    AddProcessGroups(tape.Text(first), document_.groups, document_.world_size);
  }
}

absl::Status NodeParser::Add(const Tape& tape, int64_t offset) {
  const auto position = document_.nodes.size();
  if (!tape.IsObject(Tape::kRoot)) {
    return InvalidInput("{}: node {} at byte {} is not an object", source_, position, offset);
  }
  const auto id = json::ParseInteger(tape.Text(tape.Member(Tape::kRoot, "id")));
  const Ref name_at = tape.Member(Tape::kRoot, "name");
  if (!id || *id < 0 || !tape.IsString(name_at)) {
    return InvalidInput("{}: node {} at byte {} has no {}", source_, position, offset,
                        id && *id >= 0 ? "name" : "valid id");
  }
  const std::string_view name = tape.Text(name_at);
  if (!json::IsValidUtf8(name)) {
    return InvalidInput("{}: node id {}: its name is not valid UTF-8", source_, *id);
  }
  Node node;
  node.id = static_cast<uint64_t>(*id);
  Ref parent = tape.Member(Tape::kRoot, "ctrl_deps");
  if (parent == Tape::kNone) parent = tape.Member(Tape::kRoot, "parent");
  if (tape.IsArray(parent)) parent = tape.First(parent);
  node.parent = static_cast<uint64_t>(IntegerAt(tape, parent, 0));
  node.record_function = Attribute(tape, "rf_id", -1);
  node.thread = Attribute(tape, "tid", 0);
  node.scope = Attribute(tape, "scope", 0);
  node.name = document_.strings.Intern(name);
  node.schema = document_.strings.Intern(TextAttribute(tape, "op_schema"));
  node.tensors_begin = static_cast<uint32_t>(document_.tensors.size());
  for (const bool outputs : {false, true}) {
    absl::Status status = AddTensors(tape, FindArguments(tape, outputs), outputs);
    if (!status.ok()) {
      return InvalidInput("{}: node id {} ({}): {}", source_, node.id, Excerpt(name, 80),
                          std::string(status.message()));
    }
  }
  node.tensors_count = static_cast<uint32_t>(document_.tensors.size()) - node.tensors_begin;
  ReadComm(tape, name, node);
  if (name == "## process_group:init ##") ReadProcessGroups(tape);
  document_.nodes.push_back(node);
  return absl::OkStatus();
}

}  // namespace foretrace::pytorch_et
