#pragma once

#include <string>
#include <string_view>

namespace foretrace {

// `text` with every byte that is not part of well-formed UTF-8 (RFC 3629) replaced by '?', so that
// names from untrusted files can go into JSON and onto terminals.
std::string ValidUtf8(std::string_view text);

}  // namespace foretrace
