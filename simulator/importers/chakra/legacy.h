#pragma once
// Chakra schemas before v0.0.4: proto2, without a version mark, and with other enum numbers.
//
//            first message   node fields                      first type   all_to_all,
//                                                                          reduce_scatter
//   v0.0.1   a node          flat: tensor_size, comm_type, .. MEM_LOAD 1   2, 4
//   v0.0.2   a node          attributes without bool          MEM_LOAD 1   1, 3
//   v0.0.3   a node, later   attributes with bool             METADATA 1   1, 3
//            metadata
// What is in the nodes tells them apart; a file that could be two versions is refused.

#include <string_view>

#include "absl/status/status.h"
#include "simulator/importers/chakra/message_stream.h"
#include "simulator/trace/builder.h"

namespace foretrace::chakra {

// Whether the first message of a file is a node, or the metadata of v0.0.3.
bool IsLegacyFirstMessage(std::string_view message);

// Whether `message`, the beginning of a file's first message (all of it if `whole`), can begin a
// Chakra file of any version.
bool LooksLikeFirstMessage(std::string_view message, bool whole);

// Reads a file whose first message is `first`. Errors: also nodes of no known version, or of more
// than one.
absl::Status ImportLegacy(MessageStream& stream, std::string_view first, RankTraceBuilder& builder);

}  // namespace foretrace::chakra
