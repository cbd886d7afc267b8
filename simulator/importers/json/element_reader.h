#pragma once
// Documents of the form {"key": scalar, ..., "elements": [value, value, ...], ...}: hands out the
// elements of one list one by one, so that only one of them is held.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "simulator/importers/io/byte_source.h"
#include "simulator/importers/json/tape.h"

namespace foretrace::json {

struct ElementSink {
  // The key of the list; other lists and objects of the document are passed over.
  std::string_view list;
  // The key of a scalar that is wanted, and what to do with it; empty: none.
  std::string_view scalar;
  std::function<absl::Status(std::string_view text)> on_scalar;
  // `offset` is the byte at which the element begins.
  std::function<absl::Status(const Tape& element, int64_t offset)> on_element;
};

// Errors: the input is no such document, has no such list or has it twice, an element is larger
// than 256 MiB; what the sink returns.
absl::Status ReadElements(ByteSource& input, const ElementSink& sink);

}  // namespace foretrace::json
