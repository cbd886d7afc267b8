#include "simulator/importers/io/input_file.h"

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/importers/io/archive_reader.h"
#include "simulator/importers/io/gzip_source.h"

namespace foretrace {
namespace {

constexpr size_t kPeek = 1024;  // enough for the magic of an archive

// The current entry of a reader, which must outlive it.
class EntrySource : public ByteSource {
 public:
  EntrySource(std::string name, ArchiveReader& reader)
      : ByteSource(std::move(name)), reader_(reader) {}
  int64_t raw_offset() const override { return reader_.raw_offset(); }

 protected:
  absl::StatusOr<size_t> Read(char* buffer, size_t capacity) override {
    return reader_.Read(buffer, capacity);
  }

 private:
  ArchiveReader& reader_;
};

}  // namespace

std::string_view BaseName(std::string_view name) {
  const size_t slash = name.find_last_of("/:");
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

InputFile::InputFile(std::string path, std::string inside, const InputLimits& limits)
    : path_(std::move(path)), inside_(std::move(inside)), limits_(limits) {}

InputFile::~InputFile() = default;

bool InputFile::IsWanted(std::string_view member) const {
  if (member.empty() || BaseName(member).starts_with('.') || member.starts_with("__MACOSX/")) {
    return false;  // hidden
  }
  if (inside_.empty()) return true;
  while (member.starts_with("./")) member.remove_prefix(2);
  return member.starts_with(inside_) &&
         (member.size() == inside_.size() || member[inside_.size()] == '/');
}

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::Open(const std::string& path,
                                                           const InputLimits& limits,
                                                           const std::string& inside) {
  FORETRACE_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> raw, OpenRawFile(path));
  FORETRACE_ASSIGN_OR_RETURN(std::string_view prefix, raw->Peek(kPeek));
  if (LooksLikeGzip(prefix)) {
    raw = MakeGzipSource(std::move(raw), limits);
    FORETRACE_ASSIGN_OR_RETURN(prefix, raw->Peek(kPeek));
  }
  std::string_view wanted = inside;
  while (wanted.starts_with("./")) wanted.remove_prefix(2);
  while (wanted.ends_with('/')) wanted.remove_suffix(1);
  std::unique_ptr<InputFile> file(new InputFile(path, std::string(wanted), limits));
  if (!LooksCompressed(prefix) && !LooksLikeArchive(prefix)) {
    if (!inside.empty()) return InvalidInput("{}:{}: {} is no tar or zip", path, inside, path);
    file->single_ = std::move(raw);
    return file;
  }
  file->archive_ = std::make_unique<ArchiveReader>(std::move(raw), limits);
  FORETRACE_RETURN_IF_ERROR(file->archive_->Open());
  FORETRACE_ASSIGN_OR_RETURN(const bool any, file->archive_->NextEntry());
  if (!any) return InvalidInput("{}: the archive has no members", path);
  file->is_archive_ = file->archive_->is_archive();
  if (!inside.empty() && !file->is_archive_) {
    return InvalidInput("{}:{}: {} is no tar or zip", path, inside, path);
  }
  // An archive's first member waits as `single_` too; NextDocument filters it like the others.
  file->single_ = std::make_unique<EntrySource>(
      file->is_archive_ ? path + ":" + file->archive_->entry_name() : path, *file->archive_);
  return file;
}

absl::StatusOr<ByteSource*> InputFile::Document(std::unique_ptr<ByteSource> raw) {
  FORETRACE_ASSIGN_OR_RETURN(std::string_view prefix, raw->Peek(kPeek));
  if (is_archive_ && LooksLikeGzip(prefix)) {
    raw = MakeGzipSource(std::move(raw), limits_);
    FORETRACE_ASSIGN_OR_RETURN(prefix, raw->Peek(kPeek));
  }
  if (is_archive_ && LooksLikeArchive(prefix)) {
    return InvalidInput("{}: an archive within an archive; unpack it first", raw->name());
  }
  if (prefix.empty()) return InvalidInput("{}: the file is empty", raw->name());
  if (is_archive_ && LooksCompressed(prefix)) {
    const std::string name = raw->name();
    member_filter_ = std::make_unique<ArchiveReader>(std::move(raw), limits_);
    FORETRACE_RETURN_IF_ERROR(member_filter_->Open());
    FORETRACE_ASSIGN_OR_RETURN(const bool any, member_filter_->NextEntry());
    if (!any) return InvalidInput("{}: the file is empty", name);
    if (member_filter_->is_archive()) {
      return InvalidInput("{}: an archive within an archive; unpack it first", name);
    }
    raw = std::make_unique<EntrySource>(name, *member_filter_);
    FORETRACE_ASSIGN_OR_RETURN(const std::string_view inner, raw->Peek(1));
    if (inner.empty()) return InvalidInput("{}: the file is empty", name);
  }
  // A byte-order mark before JSON. Elsewhere the same bytes may mean something.
  FORETRACE_ASSIGN_OR_RETURN(const std::string_view begin, raw->Peek(kByteOrderMark.size() + 1));
  const std::string_view text = WithoutByteOrderMark(begin);
  if (text.starts_with('{') || text.starts_with('[')) raw->Skip(begin.size() - text.size());
  current_ = std::move(raw);
  return current_.get();
}

absl::StatusOr<ByteSource*> InputFile::NextDocument() {
  current_.reset();
  member_filter_.reset();
  if (!is_archive_) {
    if (single_ == nullptr) return nullptr;
    return Document(std::move(single_));
  }
  while (true) {
    if (single_ == nullptr) {
      FORETRACE_ASSIGN_OR_RETURN(const bool any, archive_->NextEntry());
      if (!any) return nullptr;
    }
    std::unique_ptr<ByteSource> member =
        single_ != nullptr
            ? std::move(single_)
            : std::make_unique<EntrySource>(path_ + ":" + archive_->entry_name(), *archive_);
    if (!archive_->is_regular() || !IsWanted(archive_->entry_name())) continue;
    return Document(std::move(member));
  }
}

}  // namespace foretrace
