#pragma once
// The words that foretrace uses.

#include <cstddef>
#include <string>

namespace foretrace {

// The glossary: what words of reports and documentation mean, one paragraph a term; as markdown
// for docs/glossary.md.
std::string GlossaryText(size_t width);
std::string GlossaryMarkdown();

}  // namespace foretrace
