#pragma once
// One node of an execution trace, from JSON.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "simulator/importers/json/tape.h"
#include "simulator/importers/pytorch_et/document.h"

namespace foretrace::pytorch_et {

class NodeParser {
 public:
  NodeParser(const std::string& source, Document& document)
      : source_(source), document_(document) {}

  // Appends the node on `tape` to the document. Understands flat nodes (schema 1.0.1: inputs,
  // input_shapes, parent, ...) and nested ones (1.0.2 on: inputs.values, attrs, ctrl_deps).
  absl::Status Add(const json::Tape& tape, int64_t offset);

 private:
  // The lists that describe an operator's inputs or its outputs.
  struct Arguments {
    json::Tape::Ref values = json::Tape::kNone;
    json::Tape::Ref shapes = json::Tape::kNone;
    json::Tape::Ref types = json::Tape::kNone;
  };

  int64_t Attribute(const json::Tape& tape, std::string_view name, int64_t fallback) const;
  std::string_view TextAttribute(const json::Tape& tape, std::string_view name) const;
  json::Tape::Ref AttributeValue(const json::Tape& tape, std::string_view name) const;
  Arguments FindArguments(const json::Tape& tape, bool outputs) const;
  absl::Status AddTensors(const json::Tape& tape, const Arguments& arguments, bool outputs);
  bool AddTensor(const json::Tape& tape, json::Tape::Ref value, json::Tape::Ref shape,
                 std::string_view type, uint16_t argument, bool outputs);
  void ReadComm(const json::Tape& tape, std::string_view name, Node& node);
  void ReadProcessGroups(const json::Tape& tape);

  const std::string& source_;
  Document& document_;
};

}  // namespace foretrace::pytorch_et
