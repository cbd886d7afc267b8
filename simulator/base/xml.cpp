#include "simulator/base/xml.h"

#include "simulator/base/utf8.h"

namespace foretrace {

std::string XmlText(std::string_view text) {
  std::string out;
  for (const char c : OneLine(text)) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace foretrace
