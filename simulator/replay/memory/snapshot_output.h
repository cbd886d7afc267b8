#pragma once

#include <span>
#include <string>

#include "simulator/importers/memory_snapshot/memory_snapshot.h"
#include "simulator/report/text_table.h"

namespace foretrace {

std::string SnapshotText(std::span<const DeviceSnapshot> devices, const TextStyle& style);
std::string SnapshotJson(std::span<const DeviceSnapshot> devices);  // an object: devices[]

}  // namespace foretrace
