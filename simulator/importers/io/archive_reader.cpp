#include "simulator/importers/io/archive_reader.h"

#include <clocale>

#include "simulator/base/check.h"
#include "simulator/base/compressed.h"
#include "simulator/base/error.h"
#include "simulator/base/module.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/io/archive_module.h"
#include "simulator/importers/io/gzip_source.h"

namespace foretrace {
namespace {

// While it lives, this thread's letters are UTF-8's, which alone lets libarchive give names of zips
// beyond ASCII.
class Utf8Letters {
 public:
  Utf8Letters() {
    static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    before_ = uselocale(utf8);  // null, where there is none, changes nothing
  }
  ~Utf8Letters() { uselocale(before_); }
  Utf8Letters(const Utf8Letters&) = delete;
  Utf8Letters& operator=(const Utf8Letters&) = delete;

 private:
  locale_t before_;
};

}  // namespace

bool LooksCompressed(std::string_view prefix) {
  return !UnpackerOf(prefix).empty() && !LooksLikeGzip(prefix);
}

bool LooksLikeArchive(std::string_view prefix) {
  // A zip's first member, or the end of one that has none.
  if (prefix.starts_with("PK\x03\x04") || prefix.starts_with("PK\x05\x06")) return true;
  constexpr size_t kMagicOffset = 257;  // POSIX.1-1988 ustar header
  return prefix.size() > kMagicOffset + 5 && prefix.substr(kMagicOffset, 5) == "ustar";
}

ArchiveReader::ArchiveReader(std::unique_ptr<ByteSource> raw, const InputLimits& limits)
    : raw_(std::move(raw)), limits_(limits) {}

ArchiveReader::~ArchiveReader() {
  if (handle_ != nullptr) library_->read_free(handle_);
}

ssize_t ArchiveReader::ReadRaw(archive*, void* self, const void** data) {
  auto* reader = static_cast<ArchiveReader*>(self);
  auto chunk = reader->raw_->Next();
  if (!chunk.ok()) {
    reader->raw_error_ = chunk.status();
    return -1;
  }
  *data = chunk->data();
  return static_cast<ssize_t>(chunk->size());
}

absl::Status ArchiveReader::Failure(std::string_view what) {
  if (!raw_error_.ok()) return raw_error_;
  const char* reason = library_->error_string(handle_);
  return InvalidInput("{}: {} after {} decompressed bytes: {}", raw_->name(), what, bytes_out_,
                      reason != nullptr ? reason : "unknown reason");
}

absl::Status ArchiveReader::Open() {
  FORETRACE_ASSIGN_OR_RETURN(void* const symbol, LoadModule("archive", kArchiveLibrary));
  library_ = reinterpret_cast<GetArchiveLibrary*>(symbol)();
  handle_ = library_->read_new();
  FORETRACE_CHECK(handle_ != nullptr);
  library_->support_xz(handle_);
  library_->support_zstd(handle_);
  library_->support_bzip2(handle_);
  library_->support_tar(handle_);
  library_->support_zip(handle_);
  library_->support_raw(handle_);
  if (library_->open(handle_, this, nullptr, &ArchiveReader::ReadRaw, nullptr) != ARCHIVE_OK) {
    return Failure("damaged or truncated compressed file");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ArchiveReader::NextEntry() {
  const Utf8Letters letters;
  archive_entry* entry = nullptr;
  const int result = library_->next_header(handle_, &entry);
  if (result == ARCHIVE_EOF) return false;
  if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return Failure("damaged or truncated file");
  const char* path = library_->pathname(entry);
  entry_name_ = path != nullptr ? path : "";
  is_encrypted_ = library_->is_encrypted(entry) != 0;
  is_regular_ = !is_archive() || library_->filetype(entry) == AE_IFREG;
  if (is_archive() && is_regular_ && entry_name_.empty()) {
    return InvalidInput(
        "{}: a member without a name, or with one that is not UTF-8; unpack it first",
        raw_->name());
  }
  entry_bytes_out_ = 0;
  return true;
}

bool ArchiveReader::is_archive() const { return library_->format(handle_) != ARCHIVE_FORMAT_RAW; }

absl::StatusOr<size_t> ArchiveReader::Read(char* buffer, size_t capacity) {
  const la_ssize_t count = library_->data(handle_, buffer, capacity);
  if (count < 0 && is_encrypted_ && raw_error_.ok()) {
    return InvalidInput("{}: encrypted; unpack it first", raw_->name());
  }
  if (count < 0) return Failure("damaged or truncated file");
  bytes_out_ += count;
  entry_bytes_out_ += count;
  if (entry_bytes_out_ > limits_.max_bytes) {
    return InvalidInput("{}: decompresses to more than {} bytes; raise the limit if it is a trace",
                        raw_->name(), limits_.max_bytes);
  }
  // `raw_` is read ahead of what has come out, so this never errs on the strict side.
  if (bytes_out_ > limits_.ratio_grace && bytes_out_ / limits_.max_ratio > raw_->offset()) {
    return InvalidInput("{}: {} bytes decompress to over {}: a decompression bomb, not a trace",
                        raw_->name(), raw_->offset(), bytes_out_);
  }
  return static_cast<size_t>(count);
}

}  // namespace foretrace
