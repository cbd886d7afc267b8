#pragma once
// Imports bytes as one format and builds the rank: any input must end in a trace or in one line.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "simulator/base/check.h"
#include "simulator/importers/importer.h"

namespace foretrace {

inline void FuzzImport(const Importer& importer, const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  importer.Sniff(bytes.substr(0, 65536), "fuzz");
  const auto source = MakeMemorySource("fuzz", bytes);
  ImportOptions options;
  options.keep_link_keys = true;
  auto file = importer.Import(*source, "fuzz", options);
  if (!file.ok()) {
    FORETRACE_CHECK(file.status().message().find('\n') == std::string_view::npos);
    return;
  }
  (void)file->builder->Build(file->build_options);
}

}  // namespace foretrace
