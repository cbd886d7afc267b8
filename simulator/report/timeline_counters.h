#pragma once
// What a timeline shows of a run as values over time: launch queues, communication, memory, links.

#include <span>
#include <vector>

#include "simulator/base/units.h"
#include "simulator/exporters/timeline/timeline_writer.h"
#include "simulator/report/event_table.h"
#include "simulator/report/link_load.h"

namespace foretrace {

// Counters are of the process `process`; `origin` is the timeline's zero.

// Work of the rank that is launched and has not started. Of what changes within 10 us the last
// value is written.
void WriteLaunchQueueCounter(const EventTable& table, RankIndex rank, SimTime origin,
                             int32_t process, TimelineWriter& writer);

// Bytes that the rank's collectives and sends move by the time that they take from the last arrival
// on, MB/s (the buffer, as of algorithm bandwidth); what has no recorded size is left out.
void WriteCommunicationCounter(const EventTable& table, RankIndex rank, SimTime origin,
                               int32_t process, TimelineWriter& writer);

// Device memory of a rank from an instant on.
struct AllocatedMemory {
  SimTime at;
  Bytes allocated;
  Bytes reserved;  // 0: not known
};
// "allocated MB" and, where known, "reserved MB". What was before the origin counts at it.
void WriteMemoryCounters(std::span<const AllocatedMemory> samples, SimTime origin, int32_t process,
                         TimelineWriter& writer);

// A process "links" with a counter a link: the share of its bandwidth in use, percent. More than
// 100: transfers that were recorded or computed alone, and overlap.
void WriteLinkCounters(std::span<const LinkLoad> links, SimTime origin, int32_t process,
                       TimelineWriter& writer);

}  // namespace foretrace
