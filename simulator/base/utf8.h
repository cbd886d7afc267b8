#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace foretrace {

// `text` with every byte that is not part of well-formed UTF-8 (RFC 3629) replaced by '?', so that
// names from untrusted files can go into JSON and onto terminals.
std::string ValidUtf8(std::string_view text);

// `text` for a message of one line: well-formed, and with '?' for control characters.
std::string OneLine(std::string_view text);
// The first `bytes` of it.
std::string Excerpt(std::string_view text, size_t bytes);

// What editors and spreadsheets put before the first character.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
std::string_view WithoutByteOrderMark(std::string_view text);
void RemoveByteOrderMark(std::string& text);

}  // namespace foretrace
