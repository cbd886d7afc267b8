#pragma once
// Chakra files for tests, written with the generated protobuf classes: independent of the
// importer's own wire decoder.

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <string>

#include "chakra.pb.h"
#include "simulator/importers/importer.h"

namespace foretrace::chakra_wire {

inline void AppendMessage(const google::protobuf::MessageLite& message, std::string& file) {
  google::protobuf::io::StringOutputStream out(&file);
  google::protobuf::util::SerializeDelimitedToZeroCopyStream(message, &out);
}

inline AttributeProto* AddAttr(Node& node, const std::string& name) {
  AttributeProto* attribute = node.add_attr();
  attribute->set_name(name);
  return attribute;
}

inline Node MakeNode(uint64_t id, NodeType type, const std::string& name) {
  Node node;
  node.set_id(id);
  node.set_type(type);
  node.set_name(name);
  return node;
}

inline std::string FileStart() {
  GlobalMetadata metadata;
  metadata.set_version("0.0.4");
  std::string file;
  AppendMessage(metadata, file);
  return file;
}

inline absl::StatusOr<RankTraceBuilder::Result> ImportBytes(std::string_view bytes) {
  auto input = MakeMemorySource("t.0.et", bytes);
  auto file = MakeChakraImporter()->Import(*input, "t.0.et", ImportOptions());
  if (!file.ok()) return file.status();
  return file->builder->Build(file->build_options);
}

}  // namespace foretrace::chakra_wire
