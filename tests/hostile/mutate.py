"""Seeded mutations of valid inputs."""
import gzip
import random
import re

HOSTILE = ["-1", "0", "nan", ".nan", "inf", "1e308", "-1e308", "1e-308", "99999999999999999999999",
           "9223372036854775807", "-9223372036854775808", "4294967296", "2147483648", "''", "null",
           "true", "[]", "{}", "\"\"", "*x", "~", "0x7f", "1_000", "1e15", "-0.0"]
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def flip(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def cut(rng, data):
    return data[: rng.randrange(len(data))]


def drop(rng, data):
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice([1, 4, 64]):]


def insert(rng, data):
    at = rng.randrange(len(data))
    piece = rng.choice([bytes([rng.randrange(256)]) * rng.choice([1, 8, 300]), b"\0", b"\xff\xfe",
                        b"\n", b"{", b"}", b"[", b"\"", b": ", b", ", b"- "])
    return data[:at] + piece + data[at:]


def number(rng, data):
    found = list(NUMBER.finditer(data))
    if not found:
        return flip(rng, data)
    for match in sorted(rng.sample(found, min(len(found), rng.choice([1, 1, 3]))),
                        key=lambda m: -m.start()):
        data = data[: match.start()] + rng.choice(HOSTILE).encode() + data[match.end():]
    return data


def lines(rng, data):
    rows = data.split(b"\n")
    i, j = rng.randrange(len(rows)), rng.randrange(len(rows))
    action = rng.randrange(4)
    if action == 0:
        rows.insert(j, rows[i])
    elif action == 1:
        del rows[i]
    elif action == 2:
        rows[i], rows[j] = rows[j], rows[i]
    else:
        rows[i] = rows[i].replace(b" ", b"", 1) if rng.random() < 0.5 else b"  " + rows[i]
    return b"\n".join(rows)


def repeat(rng, data):
    at = rng.randrange(len(data))
    piece = data[at: at + rng.choice([1, 16, 200])]
    return data[:at] + piece * rng.choice([2, 50]) + data[at:]


BINARY = [flip, cut, drop, insert, repeat]
TEXT = BINARY + [number] * 4 + [lines] * 2


def mutate(seed, slot, data):
    rng = random.Random(f"{slot}/{seed}")
    binary = slot in ("chakra", "bundle", "kernels_pb", "gzip", "xz", "tar", "snapshot", "pftrace",
                      "own_timeline")
    inside = slot in ("gzip", "own_timeline") and rng.random() < 0.5
    if inside:
        data = gzip.decompress(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if data:
            data = rng.choice(TEXT if inside or not binary else BINARY)(rng, data)
    return gzip.compress(data, mtime=0) if inside else data
