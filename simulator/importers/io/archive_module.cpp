#include "simulator/importers/io/archive_module.h"

#include <type_traits>

namespace foretrace {

extern "C" [[gnu::visibility("default")]] const ArchiveLibrary* foretrace_archive_library() {
  static constexpr ArchiveLibrary kLibrary = {
      .read_new = &archive_read_new,
      .read_free = &archive_read_free,
      .support_xz = &archive_read_support_filter_xz,
      .support_zstd = &archive_read_support_filter_zstd,
      .support_bzip2 = &archive_read_support_filter_bzip2,
      .support_tar = &archive_read_support_format_tar,
      .support_zip = &archive_read_support_format_zip_streamable,
      .support_raw = &archive_read_support_format_raw,
      .open = &archive_read_open,
      .next_header = &archive_read_next_header,
      .data = &archive_read_data,
      .format = &archive_format,
      .error_string = &archive_error_string,
      .pathname = &archive_entry_pathname,
      .filetype = &archive_entry_filetype,
      .is_encrypted = &archive_entry_is_encrypted,
  };
  return &kLibrary;
}
static_assert(std::is_same_v<decltype(foretrace_archive_library), GetArchiveLibrary>);

}  // namespace foretrace
