#pragma once
// What a timeline shows of a run besides its lanes: the critical path, and how full launch queues
// are.

#include "simulator/exporters/timeline/timeline_writer.h"
#include "simulator/report/critical_path.h"
#include "simulator/report/event_table.h"

namespace foretrace {

// The path of the reported iteration as a process of its own: one slice a stretch, named by its
// work, or by what it is spent on where that is none; args: activity, rank, lane. `origin` is the
// timeline's zero.
void WriteCriticalPathTrack(const EventTable& table, const CriticalPath& path, SimTime origin,
                            int32_t process, TimelineWriter& writer);

// A counter of the rank's process: work that is launched and has not started. Of what changes
// within 10 us the last value is written.
void WriteLaunchQueueCounter(const EventTable& table, RankIndex rank, SimTime origin,
                             int32_t process, TimelineWriter& writer);

// A counter of the rank's process: bytes that its collectives and sends move by the time that they
// take from the last arrival on, MB/s (the buffer, as of algorithm bandwidth); what has no recorded
// size is left out.
void WriteCommunicationCounter(const EventTable& table, RankIndex rank, SimTime origin,
                               int32_t process, TimelineWriter& writer);

}  // namespace foretrace
