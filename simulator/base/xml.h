#pragma once

#include <string>
#include <string_view>

namespace foretrace {

// `text` as the content of an XML element: well-formed, without control characters, escaped.
std::string XmlText(std::string_view text);

}  // namespace foretrace
