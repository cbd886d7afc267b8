#include "simulator/console/answer_files.h"

#include "simulator/base/status_macros.h"
#include "simulator/console/csv_tables.h"
#include "simulator/console/output.h"
#include "simulator/console/page.h"

namespace foretrace {

absl::Status AnswerFiles::Write(std::string_view command,
                                const std::function<std::string()>& object,
                                const ProtectedFiles& inputs) {
  if (!asked()) return absl::OkStatus();
  const std::string document = JsonDocument(command, object());
  if (!page.empty()) FORETRACE_RETURN_IF_ERROR(WritePage(command, document, page));
  if (!tables.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteCsvTables(command, document, tables, inputs));
  }
  written_ = true;
  return absl::OkStatus();
}

}  // namespace foretrace
