"""What every capture script shares: options, refusals, progress and time budget."""
import argparse
import datetime
import os
import shlex
import sys
import time


class Refusal(Exception):
    """A request that cannot be met here; one line that says why and what would help."""


class Budget:
    """A wall-clock limit, so that a run inside a lease ends with what it has."""

    def __init__(self, seconds):
        self._end = time.monotonic() + seconds if seconds else None

    def expired(self):
        return self._end is not None and time.monotonic() >= self._end

    def left(self):
        """Seconds left; None without a limit."""
        return None if self._end is None else self._end - time.monotonic()


class Progress:
    """A counter on stderr, shown only on a terminal, redrawn at most five times a second."""

    def __init__(self, what, total, stream=None):
        self._stream = stream or sys.stderr
        self._shown = self._stream.isatty()
        self._what, self._total, self._done = what, total, 0
        self._start = time.monotonic()
        self._last = 0.0

    def step(self, count=1):
        self._done += count
        now = time.monotonic()
        if self._shown and (now - self._last > 0.2 or self._done >= self._total):
            self._last = now
            elapsed = now - self._start
            left = elapsed / max(self._done, 1) * (self._total - self._done)
            self._stream.write("\r%s: %d of %d, %.0f s, about %.0f s left  " %
                               (self._what, self._done, self._total, elapsed, left))
            self._stream.flush()

    def close(self):
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()


def positive_int(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1, not %s" % text)
    return value


def benchmark_parser(description):
    """The options that all bench_*.py share."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--output", required=True, help="CSV file; resumed where it exists")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--platform", default="",
                        help="name in the platform column; derived from the device where empty")
    parser.add_argument("--seed", type=int, default=1, help="of sizes, data and measuring order")
    parser.add_argument("--repeats", type=positive_int, default=10, help="timed calls a row")
    parser.add_argument("--warmup", type=positive_int, default=3, help="calls before the timed ones")
    parser.add_argument("--budget-seconds", type=float, default=0,
                        help="stop after this time with what there is; 0: no limit")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="about a tenth of the shapes")
    size.add_argument("--tiny", action="store_true", help="few tiny shapes, for tests")
    parser.add_argument("--limit", type=int, default=0, help="measure at most this many rows; 0: all")
    parser.add_argument("--licence", default="Apache-2.0", help="licence of the table")
    return parser


def scale_of(options):
    return "tiny" if options.tiny else "quick" if options.quick else "full"


def command_line():
    """The call, as provenance: script and output by name, not by the place where they lay."""
    words = ["scripts/capture/" + os.path.basename(sys.argv[0])]
    for before, word in zip([""] + sys.argv[1:], sys.argv[1:]):
        words.append(os.path.basename(word) if before == "--output" else word)
    return shlex.join(words)


def now_text():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def message(text):
    print("%s: %s" % (os.path.basename(sys.argv[0]), text), file=sys.stderr)


def run_main(main):
    """Runs `main()`; refusals end with one line and exit code 2, Ctrl-C with 130."""
    from support.table import TableError
    try:
        sys.exit(main() or 0)
    except (Refusal, TableError, OSError) as error:
        message("error: %s" % error)
        sys.exit(2)
    except KeyboardInterrupt:
        message("interrupted; rows measured so far are in the output")
        sys.exit(130)


def import_torch():
    """PyTorch, or a refusal that says how to get it."""
    try:
        import torch
    except ImportError as error:
        raise Refusal("PyTorch cannot be imported (%s); install it, for example with "
                      "'apt-get install python3-torch', and use that Python" % error) from error
    return torch
