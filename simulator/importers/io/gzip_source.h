#pragma once
// gzip by zlib: unlike libarchive's filter it checks the CRC, so that a flipped bit is an error and
// not a wrong number.

#include <memory>

#include "simulator/importers/io/byte_source.h"

namespace foretrace {

bool LooksLikeGzip(std::string_view prefix);

// Decompresses `raw`, which may be several gzip members one after another (RFC 1952, section 2.2).
std::unique_ptr<ByteSource> MakeGzipSource(std::unique_ptr<ByteSource> raw,
                                           const InputLimits& limits);

}  // namespace foretrace
