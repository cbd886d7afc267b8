#include "simulator/importers/pytorch_et/document_reader.h"

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/importers/json/element_reader.h"
#include "simulator/importers/pytorch_et/node_parser.h"

namespace foretrace::pytorch_et {
namespace {

absl::Status CheckSchema(const std::string& source, std::string_view text) {
  if (text.starts_with("1.0.") || text.starts_with("1.1.")) return absl::OkStatus();
  return InvalidInput("{}: execution trace schema \"{}\" is not supported (1.0.x and 1.1.x are)",
                      source, Excerpt(text, 40));
}

}  // namespace

absl::StatusOr<Document> ReadDocument(ByteSource& input, const std::string& source) {
  Document document;
  NodeParser parser(source, document);
  json::ElementSink sink;
  sink.list = "nodes";
  sink.scalar = "schema";
  sink.on_scalar = [&](std::string_view text) {
    document.schema = text;
    return CheckSchema(source, text);
  };
  sink.on_element = [&parser](const json::Tape& node, int64_t offset) {
    return parser.Add(node, offset);
  };
  FORETRACE_RETURN_IF_ERROR(json::ReadElements(input, sink));
  if (document.nodes.empty()) return InvalidInput("{}: the execution trace has no nodes", source);
  if (document.schema.empty()) {
    return InvalidInput("{}: the execution trace names no schema version", source);
  }
  std::stable_sort(document.nodes.begin(), document.nodes.end(),
                   [](const Node& a, const Node& b) { return a.id < b.id; });
  for (size_t i = 1; i < document.nodes.size(); ++i) {
    if (document.nodes[i].id == document.nodes[i - 1].id) {
      return InvalidInput("{}: two nodes with id {} ({} and {})", source, document.nodes[i].id,
                          Excerpt(document.strings.Get(document.nodes[i - 1].name), 60),
                          Excerpt(document.strings.Get(document.nodes[i].name), 60));
    }
  }
  return document;
}

}  // namespace foretrace::pytorch_et
