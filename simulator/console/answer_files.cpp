#include "simulator/console/answer_files.h"

#include <filesystem>

#include "simulator/base/error.h"
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

absl::Status AnswerFiles::CheckBeside(const std::string& folder) const {
  std::error_code error;
  const auto path = [&error](const std::filesystem::path& p) {
    const auto whole = std::filesystem::weakly_canonical(std::filesystem::absolute(p), error);
    return whole.has_filename() ? whole : whole.parent_path();
  };
  const std::filesystem::path taken = path(folder);
  if (!page.empty() && path(page) == taken / "index.html") {
    return InvalidInput("--html {}: is the page that is written to {} anyway; leave it out", page,
                        folder);
  }
  if (!tables.empty() && path(tables) == taken) {
    return InvalidInput("--csv and --output are both {}", tables);
  }
  return absl::OkStatus();
}

}  // namespace foretrace
