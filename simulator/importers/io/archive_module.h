#pragma once
// libarchive as a module (base/module.h): few inputs are archives, and it brings ten libraries.

#include <archive.h>
#include <archive_entry.h>

namespace foretrace {

// The functions that ArchiveReader calls, with libarchive's names and meanings.
struct ArchiveLibrary {
  decltype(&archive_read_new) read_new;
  decltype(&archive_read_free) read_free;
  decltype(&archive_read_support_filter_xz) support_xz;
  decltype(&archive_read_support_filter_zstd) support_zstd;
  decltype(&archive_read_support_filter_bzip2) support_bzip2;
  decltype(&archive_read_support_format_tar) support_tar;
  decltype(&archive_read_support_format_zip_streamable) support_zip;
  decltype(&archive_read_support_format_raw) support_raw;
  decltype(&archive_read_open) open;
  decltype(&archive_read_next_header) next_header;
  decltype(&archive_read_data) data;
  decltype(&archive_format) format;
  decltype(&archive_error_string) error_string;
  decltype(&archive_entry_pathname) pathname;
  decltype(&archive_entry_filetype) filetype;
  decltype(&archive_entry_is_encrypted) is_encrypted;
};

inline constexpr const char* kArchiveLibrary = "foretrace_archive_library";
using GetArchiveLibrary = const ArchiveLibrary*();

}  // namespace foretrace
