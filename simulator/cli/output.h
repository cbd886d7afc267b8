#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "simulator/report/text_table.h"

namespace foretrace {

// Writes all of `text` to standard output. Errors: the output cannot be written (a full disk, a
// closed pipe).
absl::Status Print(std::string_view text);

// For standard output: its width and colours when it is a terminal, else 100 columns without.
TextStyle OutputStyle();

// A field of a CSV file, in quotes.
std::string CsvQuoted(std::string_view text);

}  // namespace foretrace
