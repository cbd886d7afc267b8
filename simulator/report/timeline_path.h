#pragma once

#include "simulator/exporters/timeline/timeline_writer.h"
#include "simulator/report/critical_path.h"
#include "simulator/report/event_table.h"

namespace foretrace {

// The path of the reported iteration as a process of its own: one slice a stretch, named by its
// work, or by what it is spent on where that is none; args: activity, rank, lane. `origin` is the
// timeline's zero.
void WriteCriticalPathTrack(const EventTable& table, const CriticalPath& path, SimTime origin,
                            int32_t process, TimelineWriter& writer);

}  // namespace foretrace
