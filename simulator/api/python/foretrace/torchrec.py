"""Sharding plans for torchrec's models, chosen by the simulated time of a whole iteration.

    from foretrace.torchrec import Planner, Topology, read_tables

    planner = Planner(Topology(world_size=16, local_world_size=8, hbm_GB=80), batch_size=1024, platform="dgx-h100")
    plan = planner.plan_tables(read_tables("tables.json"))     # EmbeddingBagConfig's fields as JSON
    print(plan.report())
    plan.to_dict()                                             # {module: {table: ParameterSharding's fields}}

With torchrec, `planner.plan(module, sharders)` takes the place of its EmbeddingShardingPlanner and returns its
ShardingPlan. torchrec itself is imported by that call alone. Sizes: batch_size is that of one rank, as torchrec's.
"""
import contextlib
import csv
import dataclasses
import json
import pathlib
import subprocess
import tempfile

KINDS = {"table_wise": "TW", "column_wise": "CW", "row_wise": "RW", "table_row_wise": "TWRW", "data_parallel": "DP"}
# torchrec's DataType to foretrace's; quantised types as bytes.
TYPES = {"FP32": "float32", "FP16": "float16", "BF16": "bfloat16", "INT8": "int8", "UINT8": "uint8", "INT64": "int64", "INT32": "int32"}


@dataclasses.dataclass
class Table:
    """One EmbeddingBagConfig, and what a planner is told of its use."""
    name: str
    num_embeddings: int
    embedding_dim: int
    data_type: str = "FP32"
    feature_names: list = dataclasses.field(default_factory=list)
    pooling_factor: float = 1.0  # indices a sample, over all features
    zipf: float = 1.0            # of the rows that indices name; 0: uniform
    module: str = ""             # path of the module that holds it


@dataclasses.dataclass
class Topology:
    """Ranks, ranks of a node, and memory of a device; the fields that torchrec's Topology goes by."""
    world_size: int
    local_world_size: int = 8
    hbm_GB: float = 80

    @classmethod
    def of(cls, topology):
        """From torchrec's own, or as it is."""
        if isinstance(topology, cls):
            return topology
        devices = getattr(topology, "devices", None)
        hbm = min(d.storage.hbm for d in devices) if devices else topology.hbm_GB * 1e9
        return cls(topology.world_size, getattr(topology, "local_world_size", 8), hbm / 1e9)


def _name(value):
    """The name of an enumeration's member, or the text."""
    return str(getattr(value, "name", value)).rsplit(".", 1)[-1].upper()


def _table(config, module="", constraint=None):
    get = config.get if isinstance(config, dict) else lambda key, other=None: getattr(config, key, other)
    asked = (constraint.get if isinstance(constraint, dict) else lambda key, other=None: getattr(constraint, key, other)) if constraint else (
        lambda key, other=None: other)
    features = list(get("feature_names", None) or [])
    factors = asked("pooling_factors") or get("pooling_factors", None)
    pooling = sum(factors) if factors else get("pooling_factor", None) or max(len(features), 1)
    for key in ("num_embeddings", "embedding_dim"):
        if not isinstance(get(key, None), int) or get(key) < 1:
            raise ValueError(f"table {get('name', '?')!r}: {key} is {get(key, None)!r}; it must be a number over 0")
    if not get("name", None):
        raise ValueError("a table has no name")
    data_type = _name(get("data_type", "FP32"))
    if data_type not in TYPES:
        raise ValueError(f"table {get('name')!r}: data_type {data_type}; known are {', '.join(TYPES)}")
    return Table(get("name"), get("num_embeddings"), get("embedding_dim"), data_type, features, float(pooling), float(get("zipf", None) or 1.0),
                 module or get("module", None) or "")


def read_tables(source):
    """Tables from a list of EmbeddingBagConfig (or mappings with its fields, and pooling_factor, zipf, module), a JSON file of one, or a
    CSV file with the columns of a planner's statistics (table, emb_dim, hash_size, sum_pooling_factor). A name that comes twice
    counts once, as in torchrec's statistics."""
    if isinstance(source, (str, pathlib.Path)):
        path = pathlib.Path(source)
        if path.suffix == ".csv":
            with path.open(newline="") as file:
                rows = list(csv.DictReader(file))
            source = [{"name": r["table"], "num_embeddings": int(r["hash_size"]), "embedding_dim": int(r["emb_dim"]),
                       "pooling_factor": float(r["sum_pooling_factor"]), "module": r["table"].rpartition(".")[0]} for r in rows]
        else:
            source = json.loads(path.read_text())
            source = source["tables"] if isinstance(source, dict) else source
    tables = {}
    for config in source:
        table = config if isinstance(config, Table) else _table(config)
        tables.setdefault(table.name, table)
    if not tables:
        raise ValueError("no tables")
    return list(tables.values())


class Plan:
    """A plan, what it was ranked by, and the plans that it was ranked against."""

    def __init__(self, tables, topology, placements, answer, capacity_GB):
        self.tables, self.topology, self.answer = tables, topology, answer
        self._placements, self._capacity = placements, capacity_GB

    @property
    def iteration_time_us(self):
        return self.answer["best"]["iteration_time_us"]

    def to_dict(self):
        """{module: {table: {sharding_type, compute_kernel, ranks, sharding_spec: {shards: [{shard_sizes, shard_offsets, placement}]}}}}"""
        modules = {}
        for table in self.tables:
            name = table.name.removeprefix(table.module + ".") if table.module else table.name
            modules.setdefault(table.module, {})[name] = self._placements[table.name]
        return modules

    def to_torchrec(self):
        """torchrec's ShardingPlan; needs torchrec."""
        from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata
        from torchrec.distributed.types import EmbeddingModuleShardingPlan, ParameterSharding, ShardingPlan
        plan = {}
        for module, tables in self.to_dict().items():
            parameters = EmbeddingModuleShardingPlan()
            for name, p in tables.items():
                spec = None
                if p["sharding_type"] != "data_parallel":
                    spec = EnumerableShardingSpec([ShardMetadata(s["shard_offsets"], s["shard_sizes"], s["placement"])
                                                   for s in p["sharding_spec"]["shards"]])
                parameters[name] = ParameterSharding(sharding_type=p["sharding_type"], compute_kernel=p["compute_kernel"], ranks=p["ranks"],
                                                     sharding_spec=spec)
            plan[module] = parameters
        return ShardingPlan(plan=plan)

    def imbalance(self):
        """Largest over mean of what ranks have: {perf, hbm, lookups}."""
        ranks = self.answer["best"]["ranks"]
        out = {}
        for key, of in {"perf": lambda r: r["lookup_forward_us"] + r["lookup_backward_us"], "hbm": lambda r: r["memory_bytes"],
                        "lookups": lambda r: r["lookups"]}.items():
            values = [of(r) for r in ranks]
            out[key] = max(values) / (sum(values) / len(values)) if sum(values) > 0 else 1.0
        return out

    def report(self, tables=40):
        """Ranks and tables in the frame and columns of torchrec's EmbeddingStats, then why this plan, the second best, and the
        imbalance. Perf in brackets: lookups forward, all-to-all, lookups backward, collectives of row-wise tables."""
        best, plans = self.answer["best"], self.answer["plans"]
        found = sum(p["feasible"] for p in plans)
        text = ["--- Planner Statistics ---",
                f"--- Evaluated {max(self.answer['evaluated'], len(plans))} proposal(s), found {found} possible plan(s) ---", None]
        text += _columns(["Rank", "HBM (GB)", "DDR (GB)", "Perf (ms)", "Input (MB)", "Output (MB)", "Shards"], self._rank_rows())
        text += ["", "Perf: lookups forward, all-to-all, lookups backward, collectives of row-wise tables; of one iteration, simulated",
                 "Input: received, Output: sent in an iteration, Shards: number of tables", None]
        order = sorted(self.tables, key=lambda t: -t.pooling_factor * t.embedding_dim)
        text += _columns(["FQN", "Sharding", "Compute Kernel", "Pooling Factor", "Features", "Emb Dim", "Hash Size", "Ranks"],
                         [self._table_row(t) for t in order[:tables]])
        if len(order) > tables:
            text.append(f"... and {len(order) - tables} tables with less to look up")
        text += [None, f"Best: {best['sharder']}, {best['iteration_time_us'] / 1e3:.3f} ms an iteration of {len(plans)} plans"]
        others = [p for p in plans if p["sharder"] != best["sharder"] and p["feasible"]]
        if others:
            second = others[0]
            text.append(f"Second: {second['sharder']}, {100 * (second['iteration_time_us'] / best['iteration_time_us'] - 1):+.2f} %, "
                        f"lookup imbalance {second['lookup_imbalance']:.2f} against {best['lookup_imbalance']:.2f}")
        slowest = max(best["ranks"], key=_perf_us)
        fullest = max(best["ranks"], key=lambda r: r["memory_bytes"])
        text.append("Imbalance (largest over mean): " + ", ".join(f"{key} {value:.2f}" for key, value in self.imbalance().items()))
        text.append(f"Longest Critical Path: {_perf_us(slowest) / 1e3:.3f} ms on rank {slowest['rank']}")
        text.append(f"Peak Memory Pressure: {fullest['memory_bytes'] / 1e9:.3f} GB on rank {fullest['rank']}")
        text += [f"note: {note}" for note in self.answer.get("notes", [])]
        width = max(98, *(len(line) + 2 for line in text if line is not None))
        edge = "#" * (width + 2)
        lines = [f"#{'-' * (width - 2):^{width}}#" if line is None else f"#{line:^{width}}#" if line.startswith("--- ")
                 else f"# {line:<{width - 1}}#" for line in text]
        return "\n".join([edge, *lines, edge]) + "\n"

    def _rank_rows(self):
        shards = {}
        for p in self._placements.values():
            for rank in p["ranks"]:
                kinds = shards.setdefault(rank, {})
                kinds[KINDS[p["sharding_type"]]] = kinds.get(KINDS[p["sharding_type"]], 0) + 1
        used = sorted({kind for kinds in shards.values() for kind in kinds})
        rows = []
        for r in sorted(self.answer["best"]["ranks"], key=lambda r: r["rank"]):
            hbm = r["memory_bytes"] / 1e9
            parts = (r["lookup_forward_us"], r["all_to_all_us"], r["lookup_backward_us"], r["row_collectives_us"])
            rows.append([str(r["rank"]), f"{hbm:.3f} ({100 * hbm / self._capacity:.0f}%)", f"{r['host_bytes'] / 1e9:.3f}",
                         f"{_perf_us(r) / 1e3:.3f} ({','.join(f'{p / 1e3:.2f}' for p in parts)})", f"{r['received_bytes'] / 1e6:.2f}",
                         f"{r['sent_bytes'] / 1e6:.2f}", " ".join(f"{k}: {shards.get(r['rank'], {}).get(k, 0)}" for k in used)])
        return rows

    def _table_row(self, table):
        p = self._placements[table.name]
        ranks = p["ranks"]
        placed = ",".join(map(str, ranks)) if len(ranks) <= 8 else f"{ranks[0]}-{ranks[-1]} ({len(ranks)})"
        name = f"{table.module}.{table.name}" if table.module else table.name
        return [name[-44:], KINDS[p["sharding_type"]], p["compute_kernel"], f"{table.pooling_factor:.2f}", str(max(1, len(table.feature_names))),
                str(table.embedding_dim), str(table.num_embeddings), placed]


def _perf_us(rank):
    return rank["lookup_forward_us"] + rank["all_to_all_us"] + rank["lookup_backward_us"] + rank["row_collectives_us"]


def _columns(header, rows):
    """Lines of a table with a rule below its header; the first and last column to the left, others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells):
        last = len(cells) - 1
        return "   ".join(c.ljust(w) if i in (0, last) else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))).rstrip()
    return [line(header), line(["-" * w for w in widths]), *map(line, rows)]


class Planner:
    """Shaped as torchrec's EmbeddingShardingPlanner. Its estimates are foretrace's simulation on `platform`, with the kernels of
    `calibration` where given. `storage_reservation`: the share of a device's memory that is left for all but embeddings (a number, or
    torchrec's StorageReservation with `_percentage`). `dense`, `optimizer`: as a task's (docs/sharding.md). `program`: the program
    to run, instead of the library within this process."""

    def __init__(self, topology, batch_size, platform, calibration=None, constraints=None, storage_reservation=0.15, sharders=None,
                 sharding_types=("table_wise", "column_wise", "row_wise"), dense=None, optimizer=None, budget=None, program=None):
        self.topology, self.batch_size = Topology.of(topology), batch_size
        self.platform, self.calibration, self.constraints = platform, calibration, dict(constraints or {})
        self.reservation = float(getattr(storage_reservation, "_percentage", storage_reservation))
        if not 0 <= self.reservation < 1:
            raise ValueError(f"storage_reservation is {self.reservation}; it is a share, from 0 to below 1")
        self.sharders, self.budget, self.program = sharders, budget, program
        self.kinds = [k.lower() for k in self._kinds(sharding_types)]
        self.dense = dense or {"features": 1, "bottom": [16], "top": [1], "interaction": "concat"}
        self.optimizer = optimizer or {"kind": "adagrad", "rowwise": True}

    def _kinds(self, given):
        """What all tables may use. Errors: constraints that differ between tables, unknown kinds."""
        asked = {tuple(sorted(c.get("sharding_types") if isinstance(c, dict) else c.sharding_types)) for c in self.constraints.values()
                 if (c.get("sharding_types") if isinstance(c, dict) else getattr(c, "sharding_types", None))}
        if len(asked) > 1:
            raise ValueError("constraints: sharding_types that differ between tables are not supported; give all tables the same")
        kinds = list(asked.pop()) if asked else list(given)
        unknown = [k for k in kinds if k.lower() not in KINDS]
        if unknown:
            raise ValueError(f"sharding_types: {', '.join(unknown)}; known are {', '.join(KINDS)}")
        return kinds

    @property
    def capacity_GB(self):
        return self.topology.hbm_GB * (1 - self.reservation)

    def task(self, tables):
        """The task as `foretrace shard` reads it (JSON, which is YAML)."""
        task = {"name": "torchrec", "batch": self.batch_size * self.topology.world_size, "gpus": self.topology.world_size,
                "memory_GB": self.capacity_GB, "platform": self.platform, "placements": self.kinds, "exchange_indices": True,
                "dense": self.dense, "optimizer": self.optimizer,
                "cpu": {"t1_us": 0, "t2_us": 0, "t3_us": 0, "t4_us": 0, "t5_us": 0, "source": "none: placement alone is compared"},
                "tables": [{"name": t.name, "rows": t.num_embeddings, "dim": t.embedding_dim, "pooling": t.pooling_factor,
                            "dtype": TYPES[t.data_type], "reuse": {"zipf": t.zipf}} for t in tables]}
        if self.calibration:
            task["calibration"] = self.calibration
        return task

    def _run(self, arguments):
        if self.program is None:
            from . import run
            return run(arguments).to_dict()
        done = subprocess.run([self.program, *arguments, "--json"], capture_output=True, text=True)
        if done.returncode != 0:
            with contextlib.suppress(ValueError, KeyError):
                raise RuntimeError(json.loads(done.stdout)["error"]["message"])
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)

    def plan_tables(self, tables):
        """A Plan for tables, as read_tables takes them."""
        tables = read_tables(tables)
        with tempfile.TemporaryDirectory(prefix="foretrace-") as folder:
            task, output = pathlib.Path(folder) / "task.yaml", pathlib.Path(folder) / "plan.json"
            task.write_text(json.dumps(self.task(tables)))
            arguments = ["shard", str(task), "--output", str(output)]
            if self.sharders:
                arguments += ["--sharders", ",".join(self.sharders)]
            if self.budget:
                arguments += ["--budget", str(self.budget)]
            answer = self._run(arguments)
            placements = json.loads(output.read_text())["plan"]
        return Plan(tables, self.topology, placements, answer, self.capacity_GB)

    def plan(self, module, sharders):
        """torchrec's ShardingPlan of `module`, whose embedding modules are those that `sharders` are for."""
        types = tuple(s.module_type for s in sharders)
        tables = []
        for path, child in module.named_modules():
            if not isinstance(child, types):
                continue
            configs = child.embedding_bag_configs() if hasattr(child, "embedding_bag_configs") else child.embedding_configs()
            for config in configs:
                table = _table(config, path, self.constraints.get(config.name))
                tables.append(dataclasses.replace(table, name=f"{path}.{table.name}" if path else table.name))
        if not tables:
            raise ValueError("the module holds no embeddings that the sharders are for")
        self.last = self.plan_tables(tables)
        return self.last.to_torchrec()

    def collective_plan(self, module, sharders, pg=None):
        """Every rank computes the same plan: nothing is exchanged."""
        return self.plan(module, sharders)
