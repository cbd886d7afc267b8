#include "simulator/console/command.h"

namespace foretrace {

std::string Examples(std::initializer_list<const char*> lines) {
  std::string text = "Examples:\n";
  for (const char* line : lines) text += std::string("  ") + line + "\n";
  return text;
}

}  // namespace foretrace
