#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "simulator/report/text_table.h"

namespace foretrace {

// Writes all of `text` to standard output. Errors: the output cannot be written (a full disk, a
// closed pipe).
absl::Status Print(std::string_view text);

// What every JSON document of foretrace begins with: schema_version, foretrace_version, command.
// The schema's version grows when a key changes its meaning or goes.
inline constexpr int kJsonSchemaVersion = 1;

// Prints `object`, the text of a JSON object that a command made, with those members first.
absl::Status PrintJson(std::string_view command, std::string_view object);
// {"error": {"exit_code": ..., "message": ...}}, as every command with --json ends when it fails.
std::string ErrorJson(int exit_code, std::string_view message);

// For standard output: its width and colours when it is a terminal, else 100 columns without.
TextStyle OutputStyle();

// `text` with line breaks between words, so that no line is longer than `width`: its first line
// begins at column `at`, the others are indented by `indent`.
std::string Wrapped(std::string_view text, size_t width, size_t at, size_t indent);

// A field of a CSV file, in quotes.
std::string CsvQuoted(std::string_view text);

}  // namespace foretrace
