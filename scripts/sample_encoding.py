"""Rows of a synthetic rank as a Chakra trace with the attributes of docs/format.md."""

# Values of the trace store's enumerations (docs/format.md).
CPU_OP, RUNTIME, KERNEL, MEMCPY, COLLECTIVE, ANNOTATION = 0, 1, 2, 3, 5, 8
LAUNCH, MEMCPY_ASYNC, STREAM_SYNC, EVENT_RECORD, WAIT_EVENT = 1, 2, 6, 9, 11
HTOD_PINNED, DTOH_PAGEABLE = 1, 4
ALL_REDUCE, ALL_TO_ALL = 1, 7
FLOAT32, INT64 = 1, 10
CHAKRA_COMM_TYPE = {ALL_REDUCE: 0, ALL_TO_ALL: 6}
COMP_NODE, COMM_COLL_NODE = 4, 7
MAIN, AUTOGRAD, COMPUTE, COMM = range(4)  # lanes
LANES = [(0, 1001, 0, "thread 1001"), (0, 1002, 0, "thread 1002"),
         (1, 7, 0, "stream 7"), (1, 20, 0, "stream 20")]

US = 1_000_000  # picoseconds


# --- protobuf wire format -------------------------------------------------------------------------

def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field_int(number, value):
    return varint(number << 3) + varint(value)


def field_bytes(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def packed(number, values):
    return field_bytes(number, b"".join(map(varint, values))) if values else b""


def attribute(name, arm, value):
    """One AttributeProto in field `attr`; `arm` is the number of its value field."""
    body = field_bytes(1, name.encode())
    if isinstance(value, str):
        body += field_bytes(arm, value.encode())
    elif isinstance(value, bytes):
        body += field_bytes(arm, value)
    else:
        body += field_int(arm, value)
    return body


def int_list(name, values):
    return attribute(name, 10, packed(1, values))


def str_list(name, values):
    return attribute(name, 30, b"".join(field_bytes(1, v.encode()) for v in values))


def delimited(message):
    return varint(len(message)) + message


class Row:
    __slots__ = ("kind", "detail", "lane", "name", "start", "duration", "parent", "launcher",
                 "source_id", "data", "comm", "sync", "tensors", "index")

    def __init__(self, kind, detail, lane, name, start, duration, parent, source_id):
        self.kind, self.detail, self.lane, self.name = kind, detail, lane, name
        self.start, self.duration, self.parent, self.source_id = start, duration, parent, source_id
        self.launcher = self.comm = self.sync = None
        self.data, self.tensors = [], []

    def order(self):
        """The order of the trace store: by start, what encloses first."""
        level = {ANNOTATION: 0, CPU_OP: 1, RUNTIME: 2}.get(self.kind, 3)
        return (self.start, level, self.duration if level == 3 else -self.duration)


def encode_metadata(rank, rows):
    attributes = [
        attribute("foretrace.format", 9, 1),
        attribute("foretrace.rank", 9, rank.rank),
        attribute("foretrace.world_size", 9, rank.ranks),
        attribute("foretrace.nodes", 9, len(rows)),
        attribute("foretrace.producer", 29, "scripts/generate_sample.py (synthetic)"),
        attribute("foretrace.device", 29, "synthetic"),
        attribute("foretrace.has_times", 27, 1),
        attribute("foretrace.synthetic", 27, 1),
        int_list("foretrace.lanes", [v for lane in LANES for v in lane[:3]]),
        str_list("foretrace.lane_labels", [lane[3] for lane in LANES]),
        int_list("foretrace.iterations",
                 [v for number, row in rank.iterations for v in (number, row.index)]),
        str_list("foretrace.process_group", ["0", "default_pg"]),
        int_list("foretrace.group_ranks", list(range(rank.ranks))),
    ]
    return field_bytes(1, b"0.0.4") + b"".join(field_bytes(2, a) for a in attributes)


def encode_node(row, previous):
    on_cpu = row.lane < COMPUTE
    control = {r.index for r in (row.launcher, previous) if r is not None and r.index < row.index}
    values = [row.kind, row.detail, row.lane, row.start, row.duration + 1,
              row.parent.index + 1 if row.parent else 0,
              row.launcher.index + 1 if row.launcher else 0, row.source_id]
    while values[-1] == 0:
        values.pop()
    attributes = [
        attribute("is_cpu_op", 27, int(on_cpu)),
        attribute("tid" if on_cpu else "stream", 9, LANES[row.lane][1]),
        int_list("foretrace.node", values),
    ]
    if row.sync:
        attributes.append(int_list("foretrace.sync", row.sync))
    if row.comm:
        comm, in_splits, out_splits = row.comm
        attributes += [attribute("comm_type", 9, CHAKRA_COMM_TYPE[row.detail]),
                       attribute("comm_size", 9, comm[0]), attribute("pg_name", 29, "0"),
                       int_list("foretrace.comm", comm)]
        if in_splits:
            attributes += [int_list("foretrace.splits_in", in_splits),
                           int_list("foretrace.splits_out", out_splits)]
    if row.tensors:
        attributes.append(int_list("foretrace.tensors", row.tensors))
    # Readers of the bare schema get whole microseconds, rounded up.
    return (field_int(1, row.index) + field_bytes(2, row.name.encode())
            + field_int(3, COMM_COLL_NODE if row.comm else COMP_NODE) + packed(4, sorted(control))
            + packed(5, sorted(r.index for r in row.data)) + field_int(6, row.start // US)
            + field_int(7, max(-(-row.duration // US), 1))
            + b"".join(field_bytes(10, a) for a in attributes))


def encode_rank(rank):
    rows = sorted(rank.rows, key=Row.order)
    for index, row in enumerate(rows):
        row.index = index
    out = bytearray(delimited(encode_metadata(rank, rows)))
    previous = {}
    for row in rows:
        out += delimited(encode_node(row, previous.get(row.lane)))
        previous[row.lane] = row
    return bytes(out)
