"""foretrace: how long an iteration of distributed training takes, where the time goes, and what would
change it.

    import foretrace
    prediction = foretrace.predict("run1/")
    print(prediction.step_time_us, prediction.columns("ranks")["blocked_share"])
    faster = foretrace.predict("run1/", what_if=["name=.*gemm.*:x0.5"])

Functions take the options of the commands of the same name, with '_' for '-': `foretrace.predict(traces,
allow_missing_ranks=True, on="dgx-h100")` is `foretrace predict TRACES --allow-missing-ranks --on dgx-h100`. A list gives an option several times. Results hold the members of what the command prints with
--json as attributes, and `to_dict()` is that document.

Units: names that end in _us are microseconds, _ms milliseconds, _s seconds, _bytes bytes; shares are
fractions of 1. The GIL is released while work goes on; Ctrl-C ends it and raises KeyboardInterrupt.
`progress` is called as progress(what, done, total). What is asked more than once of the same traces is
faster on a Job (`foretrace.load`), which imports them once.
"""
import json
import os

from . import _foretrace

__all__ = ["Answer", "BadInput", "Collective", "Defect", "Error", "Generated", "Infeasible", "Job", "Prediction",
           "Result", "SearchResult", "Sharding", "StepPredictor", "Stopped", "Validation", "collective", "generate", "load",
           "predict", "run", "search", "sensitivity", "shard", "validate", "version"]


class Error(Exception):
    """Every failure; str() is the one line that the program prints."""
    exit_status = 1


class Defect(Error):
    """A defect of foretrace."""


class BadInput(Error, ValueError):
    """Input that is wrong; the message names file, place, cause and remedy."""
    exit_status = 2


class Infeasible(Error):
    """A request that cannot be met, such as a model that fits no device."""
    exit_status = 3


class Stopped(Error):
    """The work was ended before it was done."""
    exit_status = 130


_ERRORS = {2: BadInput, 3: Infeasible, 130: Stopped}


class _Record:
    """A JSON object whose members are attributes; nested ones too."""

    def __init__(self, members):
        self._members = members

    def __getattr__(self, name):
        try:
            return _wrapped(self.__dict__["_members"][name])
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name!r}; there are "
                                 f"{', '.join(self.__dict__.get('_members', {}))}") from None

    def __getitem__(self, name):
        return _wrapped(self._members[name])

    def __dir__(self):
        return [*super().__dir__(), *self._members]

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(self._members)})"

    def __eq__(self, other):
        return isinstance(other, _Record) and self._members == other._members

    def to_dict(self):
        """The members as Python's json reads them."""
        return self._members


def _wrapped(value):
    if isinstance(value, dict):
        return _Record(value)
    if isinstance(value, list):
        return [_wrapped(item) for item in value]
    return value


class Result(_Record):
    """What a command answered. `to_dict()` equals its --json."""

    def __init__(self, document):
        super().__init__(json.loads(document.json))
        self._document = document

    @property
    def json(self):
        """The document as text."""
        return self._document.json

    def columns(self, path):
        """The list of objects at `path` ("ranks", "critical_path.runs") as {name: column}: read-only NumPy
        arrays over the table's own memory (int64, or float64 with NaN for null), lists of str for texts.
        Members that are objects or lists are left out."""
        try:
            return self._document.columns(path)
        except _foretrace.Failure as failure:
            raise _error(failure) from None


class Prediction(Result):
    """step_time_us: in steady state where one is known, else iteration_time_us, which is of the slowest rank
    in the reported iteration, between its marks on the CPU; recorded_iteration_time_us: None
    without recorded times; baseline_us: the busiest stream's sum; iterations, ranks, communicators,
    critical_path, top_kernels, top_ops, sources, notes."""


class Validation(Result):
    """Predicted against recorded steps: errors in percent, by step and in all."""


class SearchResult(Result):
    """mappings: best first, each with iteration_time_us, memory_bytes_max (of the fullest device), yaml;
    pareto: time against memory."""


class Sharding(Result):
    """plans: best first, each with sharder, iteration_time_us, memory_bytes_max; best: with its placement."""


class Collective(Result):
    """rows: bytes, time_us, algbw_GBps, busbw_GBps by size."""


class Answer:
    """A prediction before and after edits."""

    def __init__(self, before, after):
        self.before, self.after = before, after

    @property
    def saved_us(self):
        """By how much a step is shorter, in microseconds."""
        return self.before.step_time_us - self.after.step_time_us


class Generated(Result):
    """output: the folder that traces were written to; ranks, nodes; iteration_time_us: of the mapping as
    simulated, which predict gives of the traces."""


def _error(failure):
    status, message = failure.args
    return _ERRORS.get(status, Defect)(message)


def _arguments(options):
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            words += [option, os.fspath(one) if isinstance(one, os.PathLike) else str(one)]
    return words


def _paths(paths):
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    return [os.fspath(path) for path in paths]


def _call(function, kind, *arguments):
    try:
        return kind(function(*arguments))
    except _foretrace.Failure as failure:
        raise _error(failure) from None


def run(arguments, progress=None, kind=Result):
    """Any command as the command line takes it, without --json: run(["collective", "all_reduce", "--topology",
    "dgx-a100", "--bytes", "1M"]). Raises Error."""
    words = [] if isinstance(arguments, str) else [str(word) for word in arguments]
    if not words:
        raise BadInput('run: takes the words of a command as a list, such as ["list", "gpus"]')
    return _call(_foretrace.run, kind, words, progress)


class Job:
    """Imported traces of one job. inspection: what `foretrace inspect` says of them."""

    def __init__(self, native):
        self._native = native
        self.inspection = Result(native.inspection)

    @property
    def rank_count(self):
        """Ranks that have a trace."""
        return self.inspection.ranks

    @property
    def world_size(self):
        """Ranks that the job has."""
        return self.inspection.world_size

    @property
    def node_count(self):
        return self.inspection.nodes

    def predict(self, progress=None, **options):
        """As foretrace.predict."""
        return predict(self, progress=progress, **options)

    def what_if(self, *edits, progress=None, **options):
        """The same run without and with `edits` (words of --what-if): an Answer."""
        before = predict(self, progress=progress, **options)
        return Answer(before, predict(self, progress=progress, what_if=list(edits), **options))

    def sensitivity(self, progress=None, **options):
        """As foretrace.sensitivity."""
        return sensitivity(self, progress=progress, **options)

    def validate(self, progress=None, **options):
        """As foretrace.validate."""
        return validate(self, progress=progress, **options)


def load(paths, progress=None, *, strict=False, process_groups="", ignore=(), jobs=0):
    """Imports the traces of one job (files, folders, tars or zips of ranks): a Job. jobs: files read at once, 0 for
    one per processor; process_groups: YAML with the members of communicators; ignore: patterns of names to
    pass over in folders."""
    return _call(_foretrace.load, Job, _paths(paths), strict, os.fspath(process_groups), list(ignore), jobs, progress)


def _on(traces, command, kind, options, progress):
    """`command` on a Job, or on paths."""
    words = _arguments(options)
    if isinstance(traces, Job):
        return _call(_foretrace.run_on, kind, traces._native, command, words, progress)
    paths = _paths(traces)
    if command == "validate":
        paths = [word for path in paths for word in ("--trace", path)]
    return run([command, *paths, *words], progress, kind)


def predict(traces, progress=None, **options):
    """Iteration time, where it goes, and why: a Prediction. `traces`: a Job, a path or paths. Options: what_if
    (edits such as "kind=collective:x0.5"), platform, network, durations, calibration, iteration, top, ..."""
    return _on(traces, "predict", Prediction, options, progress)


def validate(traces, progress=None, **options):
    """Predicted against the steps that the traces recorded: a Validation."""
    return _on(traces, "validate", Validation, options, progress)


def sensitivity(traces, progress=None, **options):
    """A Prediction with `sensitivity`: what the step owes to each op, communicator, CPU op and
    synchronisation."""
    return predict(traces, progress=progress, sensitivity=True, **options)


def search(workload, platform, global_batch, progress=None, **options):
    """Parallel mappings of a model ranked by simulated iteration time: a SearchResult. global_batch: samples of
    an iteration. Options: gpus, searcher, max_tensor, memory_gib, steps, seed, ..."""
    return run(["search", *_paths(workload), *_arguments({"platform": platform, "global_batch": global_batch,
                                                           **options})], progress, SearchResult)


def shard(task, progress=None, **options):
    """Plans for embedding tables on GPUs ranked by simulated iteration time: a Sharding. Options: sharders,
    seed, budget, jobs, ..."""
    return run(["shard", *_paths(task), *_arguments(options)], progress, Sharding)


def generate(workload, platform, mapping, output, progress=None, **options):
    """Per-rank Chakra traces of a model under a mapping ("tp2 pp2 dp2 mb1 gb16", or a file), in the folder
    `output`: a Generated. Options: gpus, prefix, launch_us, sizes_only, ..."""
    return run(["generate", *_paths(workload), *_arguments({"platform": platform, "mapping": mapping,
                                                            "output": output, **options})], progress, Generated)


def collective(operation, topology, progress=None, **options):
    """Times (microseconds) and bus bandwidths (GB/s) of a collective over sizes: a Collective. Options: ranks,
    bytes ("1M:1G"), algorithm, protocol, network."""
    return run(["collective", operation, *_arguments({"topology": topology, **options})], progress, Collective)


class StepPredictor:
    """What one step of an inference engine takes (`foretrace serve`'s model, platform and parallel; profile: a
    folder of layer profiles).

        StepPredictor("llama3.1-8b", "dgx-h100").predict(chunks=[(512, 0)], decodes=32, decode_cached=32000)

    chunks are (new tokens, cached tokens); the answer is a dict: us, and the shares calibrated, analytic and
    extrapolated.
    """

    def __init__(self, model, platform, parallel="tp1", profile=None):
        try:
            self._predictor = _foretrace.StepPredictor(os.fspath(model), os.fspath(platform), parallel,
                                                       None if profile is None else os.fspath(profile))
        except ValueError as error:
            raise BadInput(str(error)) from None

    def predict(self, chunks=(), decodes=0, decode_cached=0):
        return self._predictor.predict(list(chunks), decodes, decode_cached)


def version():
    """Of foretrace: "0.1.0"."""
    return _foretrace.version()
