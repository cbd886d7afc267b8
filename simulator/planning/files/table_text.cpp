#include "simulator/planning/files/table_text.h"

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/importers/io/input_file.h"

namespace foretrace {

absl::StatusOr<std::string> ReadTableText(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const auto file, InputFile::Open(path, InputLimits()));
  FORETRACE_ASSIGN_OR_RETURN(ByteSource * source, file->NextDocument());
  std::string text;
  while (source != nullptr) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string_view more, source->Next());
    if (more.empty()) break;
    if (text.size() + more.size() > static_cast<size_t>(kMaxTableBytes)) {
      return InvalidInput("{}: is larger than {} bytes", path, kMaxTableBytes);
    }
    text += more;
  }
  RemoveByteOrderMark(text);
  return text;
}

}  // namespace foretrace
