// Chakra execution traces: .et files of the MLCommons schema.

#include <memory>
#include <string>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/chakra/legacy.h"
#include "simulator/importers/chakra/mapper.h"
#include "simulator/importers/chakra/message_stream.h"
#include "simulator/importers/chakra/metadata.h"
#include "simulator/importers/chakra/node.h"
#include "simulator/importers/chakra/own_mapper.h"
#include "simulator/importers/chakra/wire.h"
#include "simulator/importers/importer.h"
#include "simulator/importers/json/text.h"

namespace foretrace {
namespace {

using chakra::MessageStream;

// Calls `add` with each node of the stream.
template <typename Add>
absl::Status ForEachNode(MessageStream& stream, const Add& add) {
  chakra::Node node;
  chakra::DecodeError error;
  std::string_view message;
  while (true) {
    FORETRACE_ASSIGN_OR_RETURN(const bool more, stream.Next(message));
    if (!more) return absl::OkStatus();
    if (!chakra::DecodeNode(message, node, error)) {
      return stream.ErrorAt(
          error.offset,
          fmt::format("malformed {} in node {}; the file is corrupted", error.what, node.id));
    }
    if (!json::IsValidUtf8(node.name) || !json::IsValidUtf8(node[chakra::Key::kGroup].bytes) ||
        !json::IsValidUtf8(node[chakra::Key::kCommGroup].bytes)) {
      return stream.ErrorAt(
          0, fmt::format("a name in node {} is not UTF-8; the file is corrupted", node.id));
    }
    FORETRACE_RETURN_IF_ERROR(add(node));
  }
}

class ChakraImporter : public Importer {
 public:
  std::string_view name() const override { return "chakra"; }

  bool Sniff(std::string_view prefix, std::string_view filename) const override;

  absl::StatusOr<ImportedFile> Import(ByteSource& input, const std::string& source,
                                      const ImportOptions& options) const override;
};

// A Chakra file has no magic number: its first message must parse to its end as what begins a
// file, or, if it is longer than the prefix, begin like it.
bool ChakraImporter::Sniff(std::string_view prefix, std::string_view filename) const {
  if (filename.ends_with(".et")) return true;
  chakra::WireReader framing(prefix);
  uint64_t size = 0;
  if (prefix.empty() || !framing.ReadVarint(size) || size > MessageStream::kMaxMessage) {
    return false;
  }
  if (size == 0) {
    // Metadata with nothing in it: the next message must be a node.
    const std::string_view rest = prefix.substr(framing.position());
    chakra::WireReader next(rest);
    return next.ReadVarint(size) && size > 0 && size <= rest.size() - next.position() &&
           chakra::LooksLikeFirstMessage(rest.substr(next.position(), size), true);
  }
  const bool whole = size <= prefix.size() - framing.position();
  const std::string_view message = prefix.substr(framing.position(), size);
  return chakra::LooksLikeFirstMessage(message, whole);
}

absl::StatusOr<ImportedFile> ChakraImporter::Import(ByteSource& input, const std::string& source,
                                                    const ImportOptions&) const {
  MessageStream stream(input, source);
  std::string_view message;
  FORETRACE_ASSIGN_OR_RETURN(const bool any, stream.Next(message));
  if (!any) return InvalidInput("{}: the file is empty", source);

  ImportedFile file;
  RankInfo info;
  info.source = source;
  file.builder = std::make_unique<RankTraceBuilder>(std::move(info));
  RankTraceBuilder& builder = *file.builder;
  file.build_options.infer_nesting = false;
  if (chakra::IsLegacyFirstMessage(message)) {
    file.build_options.sort_by_start = false;
    file.build_options.unique_source_ids = true;
    FORETRACE_RETURN_IF_ERROR(chakra::ImportLegacy(stream, message, builder));
    return file;
  }
  FORETRACE_ASSIGN_OR_RETURN(chakra::Metadata metadata, chakra::DecodeMetadata(message, source));
  if (metadata.own.format != 0) {
    file.rank = metadata.own.rank;
    chakra::OwnMapper mapper(builder, std::move(metadata.own));
    FORETRACE_RETURN_IF_ERROR(
        ForEachNode(stream, [&mapper](const chakra::Node& node) { return mapper.Add(node); }));
    FORETRACE_RETURN_IF_ERROR(mapper.Finish());
    file.build_options.sort_by_start = builder.info().has_times;
    return file;
  }
  builder.info().producer =
      metadata.version.empty() ? "chakra" : "chakra " + metadata.version.substr(0, 80);
  chakra::Mapper mapper(builder);
  FORETRACE_RETURN_IF_ERROR(
      ForEachNode(stream, [&mapper](const chakra::Node& node) { return mapper.Add(node); }));
  mapper.Finish();
  builder.info().has_times = mapper.has_starts();
  file.build_options.unique_source_ids = true;
  file.build_options.sort_by_start = mapper.has_starts();
  file.build_options.infer_nesting = mapper.has_starts();
  return file;
}

}  // namespace

std::unique_ptr<Importer> MakeChakraImporter() { return std::make_unique<ChakraImporter>(); }

}  // namespace foretrace
