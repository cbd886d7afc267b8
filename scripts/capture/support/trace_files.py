"""Writes a trace where PyTorch was built without Kineto (Debian's is): the profiler's own events in
Kineto's JSON layout, linked to the execution trace by record-function ids.  Standard library only.
"""
import gzip
import json

USER_SCOPE = 7  # RecordScope::USER_SCOPE: record_function in user code


class Event:
    """What is used of one profiler event; times in us."""

    def __init__(self, event):
        self.name, self.id, self.scope = event.name(), event.correlation_id(), event.scope()
        self.start, self.duration = _microseconds(event)
        self.thread, self.end_thread = event.start_thread_id(), event.end_thread_id()
        self.forward_thread, self.sequence = event.fwd_thread_id(), event.sequence_nr()
        self.is_async = event.is_async() or self.thread != self.end_thread
        self.shapes = event.shapes()
        self.types = event.dtypes() if hasattr(event, "dtypes") else []
        self.function_id = None


def _microseconds(event):
    if hasattr(event, "start_ns"):
        return event.start_ns() / 1e3, event.duration_ns() / 1e3
    return event.start_us(), event.duration_us()


def _attribute(node, name, default=None):
    """A field of an execution-trace node, in schema 1.0.1 or in a later one's attribute list."""
    if name in node:
        return node[name]
    return next((a["value"] for a in node.get("attrs", []) if a["name"] == name), default)


def link(events, nodes):
    """Gives events their record-function id where the execution trace's nodes of the same thread, in
    order of their beginning, bear the same names; returns (linked, not linked) within the span that
    the execution trace covers.

    Both observers see every record function; they number them differently.  Differences (an event
    that only one of them kept) are stepped over by looking a few names ahead on either side.
    """
    linked = missed = 0
    by_thread = {}
    for node in sorted(nodes, key=lambda n: n["id"]):
        if _attribute(node, "rf_id", 0):
            by_thread.setdefault(_attribute(node, "tid"), []).append(node)
    for thread, thread_nodes in by_thread.items():
        calls = sorted((e for e in events if e.thread == thread), key=lambda e: e.id)
        position = _first_match(calls, thread_nodes)
        for node in thread_nodes:
            ahead = next((i for i in range(position, min(position + 8, len(calls)))
                          if calls[i].name == node["name"]), None)
            if ahead is None:
                missed += 1
                continue
            calls[ahead].function_id = _attribute(node, "rf_id")
            linked += 1
            position = ahead + 1
    return linked, missed


def _first_match(calls, nodes):
    """Where in `calls` the names of the first nodes begin."""
    names = [n["name"] for n in nodes[:6]]
    for start in range(len(calls)):
        if [c.name for c in calls[start:start + len(names)]] == names:
            return start
    return 0


def _elements(shapes):
    total = 0
    for shape in shapes:
        if shape and all(isinstance(s, int) for s in shape):
            count = 1
            for extent in shape:
                count *= extent
            total += count
    return total


def trace_events(events, process, ranks):
    """The list traceEvents.  A call that ends on another thread (a collective at work in the background)
    goes to a row of its own, `thread` + 1000, so that rows nest as Kineto's do."""
    records, rows = [], {}
    for number, event in enumerate(sorted(events, key=lambda e: e.start)):
        arguments = {"External id": event.id, "Ev Idx": number}
        if event.function_id is not None:
            arguments["Record function id"] = event.function_id
        if event.sequence >= 0:
            arguments["Sequence number"] = event.sequence
            arguments["Fwd thread id"] = event.forward_thread
        if event.shapes:
            arguments["Input Dims"] = event.shapes
        if event.types:
            arguments["Input type"] = event.types
        if event.name.startswith("gloo:"):
            arguments.update({"Collective name": event.name[5:], "Group size": ranks,
                              "In msg nelems": _elements(event.shapes), "Process Group Name": "0",
                              "Process Group Ranks": str(list(range(ranks)))})
        row = event.thread + (1000 if event.is_async else 0)
        rows[row] = "background of thread %d" % event.thread if event.is_async else "thread %d" % row
        records.append({"ph": "X", "cat": "user_annotation" if event.scope == USER_SCOPE else "cpu_op",
                        "name": event.name, "pid": process, "tid": row, "ts": event.start,
                        "dur": event.duration, "args": arguments})
    begin = min((e.start for e in events), default=0)
    named = [{"ph": "M", "name": "process_name", "ts": begin, "pid": process, "tid": 0,
              "args": {"name": "python"}}]
    named += [{"ph": "M", "name": "thread_name", "ts": begin, "pid": process, "tid": row,
               "args": {"name": name}} for row, name in sorted(rows.items())]
    return named + records


def write_plain_trace(path, profiler, execution_trace, process, distributed):
    """Writes `path` (gzipped Kineto JSON) from a stopped torch profiler; returns facts for the
    manifest.  `execution_trace`: path of the rank's execution trace or None; `distributed`: the
    distributedInfo object or None."""
    events = [Event(e) for e in profiler.profiler.kineto_results.events() if not e.name().startswith("[")]
    linked = missed = 0
    if execution_trace:
        with open(execution_trace, encoding="utf-8") as file:
            linked, missed = link(events, json.load(file)["nodes"])
    document = {"schemaVersion": 1, "deviceProperties": [],
                "traceEvents": trace_events(events, process, (distributed or {}).get("world_size", 1)),
                "foretraceWriter": "scripts/capture/support/trace_files.py, PyTorch without Kineto"}
    if distributed:
        document["distributedInfo"] = distributed
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=9) as file:
        json.dump(document, file)
    return {"linked_nodes": linked, "unlinked_nodes": missed}
