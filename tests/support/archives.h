#pragma once
// Compressed files and tars for tests.

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foretrace {

enum class Compression { kNone, kGzip, kXz, kZstd };

inline void AddFilter(archive* writer, Compression compression) {
  switch (compression) {
    case Compression::kNone:
      archive_write_add_filter_none(writer);
      break;
    case Compression::kGzip:
      archive_write_add_filter_gzip(writer);
      break;
    case Compression::kXz:
      archive_write_add_filter_xz(writer);
      break;
    case Compression::kZstd:
      archive_write_add_filter_zstd(writer);
      break;
  }
}

inline void WriteCompressed(const std::string& path, std::string_view content,
                            Compression compression) {
  archive* writer = archive_write_new();
  archive_write_set_format_raw(writer);
  AddFilter(writer, compression);
  ASSERT_EQ(archive_write_open_filename(writer, path.c_str()), ARCHIVE_OK);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  ASSERT_EQ(archive_write_header(writer, entry), ARCHIVE_OK);
  archive_write_data(writer, content.data(), content.size());
  archive_entry_free(entry);
  archive_write_free(writer);
}

using ArchiveMembers = std::vector<std::pair<std::string, std::string>>;

// Members of name and content; a name that ends in '/' makes a folder. The writer is freed.
inline void WriteMembers(archive* writer, const std::string& path, const ArchiveMembers& members) {
  ASSERT_EQ(archive_write_open_filename(writer, path.c_str()), ARCHIVE_OK);
  for (const auto& [name, content] : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_filetype(entry, name.ends_with('/') ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<int64_t>(content.size()));
    ASSERT_EQ(archive_write_header(writer, entry), ARCHIVE_OK);
    archive_write_data(writer, content.data(), content.size());
    archive_entry_free(entry);
  }
  archive_write_free(writer);
}

inline void WriteTar(const std::string& path, const ArchiveMembers& members,
                     Compression compression) {
  archive* writer = archive_write_new();
  archive_write_set_format_ustar(writer);
  AddFilter(writer, compression);
  WriteMembers(writer, path, members);
}

inline void WriteZip(const std::string& path, const ArchiveMembers& members) {
  archive* writer = archive_write_new();
  archive_write_set_format_zip(writer);
  WriteMembers(writer, path, members);
}

}  // namespace foretrace
