#include "simulator/planning/files/line_journal.h"

#include <fmt/format.h>

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr std::string_view kBar = " | ";

constexpr uint64_t kFnvOffset = 14695981039346656037u;

uint64_t Fnv(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

std::string LineOf(const std::string& key, const std::string& value) {
  const std::string line = fmt::format("{}{}{}", key, kBar, value);
  return fmt::format("{}{}{:016x}\n", line, kBar, Fingerprint(line));
}

bool ReadLine(std::string_view line, std::string& key, std::string& value) {
  const size_t first = line.find(kBar), last = line.rfind(kBar);
  if (first == std::string_view::npos || first == last) return false;
  key = line.substr(0, first);
  const std::string content(line.substr(0, last));
  value = content.substr(first + kBar.size());
  return line.substr(last + kBar.size()) == fmt::format("{:016x}", Fingerprint(content));
}

// The file that this code runs from: the program, or a library that another one loaded.
std::string OwnFile() {
  Dl_info info;
  const bool known = dladdr(reinterpret_cast<const void*>(&Fingerprint), &info) != 0;
  const std::string name = known && info.dli_fname != nullptr ? info.dli_fname : "";
  return name.ends_with(".so") ? name : "/proc/self/exe";
}

// Which build this is, by its bytes: answers of other code are none of this one's. 0: it cannot be
// read.
uint64_t BuildFingerprint() {
  std::FILE* file = std::fopen(OwnFile().c_str(), "rb");
  if (file == nullptr) return 0;
  uint64_t hash = kFnvOffset;
  std::vector<char> buffer(1 << 16);
  for (size_t count; (count = std::fread(buffer.data(), 1, buffer.size(), file)) > 0;) {
    hash = Fnv({buffer.data(), count}, hash);
  }
  std::fclose(file);
  return hash;
}

// What process 0 met, on all of them: they end together.
absl::Status OfFirst(const Processes& processes, const absl::Status& status) {
  const std::string problem =
      processes.Broadcast(status.ok() ? std::string() : std::string(status.message()));
  return problem.empty() ? absl::OkStatus() : InvalidInput("{}", problem);
}

}  // namespace

uint64_t Fingerprint(const std::string& text) { return Fnv(text, kFnvOffset); }

LineJournal::LineJournal(LineJournal&& other) noexcept
    : file_(std::move(other.file_)),
      out_(std::exchange(other.out_, nullptr)),
      known_(std::move(other.known_)) {}

LineJournal::~LineJournal() {
  if (out_ != nullptr) std::fclose(out_);
}

absl::Status LineJournal::Read(const std::string& text, const std::string& header,
                               const Subject& subject) {
  if (text.empty()) return absl::OkStatus();
  const std::vector<std::string_view> lines = SplitLines(text);
  if (lines[0] != header) {
    return InvalidInput(
        "{}: the journal of another search ({} or the program's build differ); give "
        "another --journal",
        file_, subject.differs);
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    std::string key, value;
    if (ReadLine(lines[i], key, value)) {
      known_[key] = value;
    } else if (i + 1 < lines.size() || text.back() == '\n') {
      // A search that was killed may leave half a line behind, at the end alone.
      return InvalidInput("{}:{}: damaged; remove the line, or the file to start anew", file_,
                          i + 1);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<LineJournal> LineJournal::Open(const std::string& file, const Subject& subject,
                                              const Processes& processes) {
  LineJournal journal;
  journal.file_ = file;
  const std::string header = fmt::format("foretrace {} {:016x} {:016x}", subject.kind,
                                         Fingerprint(subject.question), BuildFingerprint());
  std::string text;
  absl::Status problem;
  if (processes.rank() == 0) {
    std::error_code error;
    if (std::filesystem::exists(file, error)) {
      absl::StatusOr<std::string> read = ReadBinaryFile(file, kMaxTableBytes);
      if (read.ok()) text = *std::move(read);
      problem = read.status();
    }
  }
  FORETRACE_RETURN_IF_ERROR(OfFirst(processes, problem));
  text = processes.Broadcast(std::move(text));
  FORETRACE_RETURN_IF_ERROR(journal.Read(text, header, subject));
  if (processes.rank() == 0) problem = journal.Rewrite(header);
  FORETRACE_RETURN_IF_ERROR(OfFirst(processes, problem));
  return journal;
}

absl::Status LineJournal::Rewrite(const std::string& header) {
  std::string all = header + "\n";
  for (const auto& [key, value] : known_) all += LineOf(key, value);
  FORETRACE_RETURN_IF_ERROR(WriteFile(file_, all));
  out_ = std::fopen(file_.c_str(), "ab");
  if (out_ != nullptr) return absl::OkStatus();
  return InvalidInput("{}: cannot write the journal: {}", file_, std::strerror(errno));
}

const std::string* LineJournal::Find(const std::string& key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : &found->second;
}

absl::Status LineJournal::Append(const std::string& key, const std::string& value) {
  known_[key] = value;
  if (out_ == nullptr) return absl::OkStatus();
  const std::string line = LineOf(key, value);
  if (std::fwrite(line.data(), 1, line.size(), out_) != line.size()) {
    return InvalidInput("{}: cannot write the journal: {}", file_, std::strerror(errno));
  }
  return absl::OkStatus();
}

absl::Status LineJournal::Flush() {
  if (out_ != nullptr && std::fflush(out_) != 0) {
    return InvalidInput("{}: cannot write the journal: {}", file_, std::strerror(errno));
  }
  return absl::OkStatus();
}

}  // namespace foretrace
