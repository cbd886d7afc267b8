#include "simulator/trace/kinds.h"

#include <array>

#include "simulator/base/enum_names.h"

namespace foretrace {
std::string_view Name(NodeKind kind) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "cpu_op",     "runtime_call", "kernel", "memcpy",    "memset",
      "collective", "send",         "recv",   "annotation"};
  return EnumName(kNames, kind);
}

std::string_view Name(RuntimeCall call) {
  static constexpr std::array<std::string_view, 14> kNames = {"other",
                                                              "launch_kernel",
                                                              "memcpy_async",
                                                              "memcpy_sync",
                                                              "memset",
                                                              "graph_launch",
                                                              "stream_synchronize",
                                                              "device_synchronize",
                                                              "event_synchronize",
                                                              "event_record",
                                                              "event_query",
                                                              "stream_wait_event",
                                                              "malloc",
                                                              "free"};
  return EnumName(kNames, call);
}

std::string_view Name(MemcpyKind kind) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "unknown",       "htod_pinned", "htod_pageable", "dtoh_pinned",
      "dtoh_pageable", "dtod",        "ptop",          "htoh"};
  return EnumName(kNames, kind);
}

std::string_view Name(DependencyKind kind) {
  static constexpr std::array<std::string_view, 3> kNames = {"data", "control", "sync"};
  return EnumName(kNames, kind);
}

}  // namespace foretrace
