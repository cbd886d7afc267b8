"""A better placement under a torchrec planner's own estimates: the columns of the statistics that it prints.

    from foretrace.rebalance import read_statistics, rebalance
    plan = rebalance(read_statistics("tables.csv"), ranks=96, hbm_GB=19.2)
    print(plan.report())

The statistics (one line a table: table, sharding, perf_ms, hbm_GB, emb_dim, ranks) say what each table costs by the planner's own
model; shards of a table cost and hold equal parts. Tables by row stay on all their ranks; the others go where the slowest rank is
least slow and memory lasts: largest first, then moves and swaps out of the slowest rank. `min_width`: columns of the narrowest shard
(torchrec's MIN_CW_DIM); halves of a table take half of its estimate each. Nothing here is measured or simulated: foretrace.torchrec
plans by simulated iterations.
"""
import argparse
import csv
import dataclasses
import json
import sys

MIN_WIDTH = 128  # torchrec/distributed/planner/constants.py, MIN_CW_DIM
TOLERANCE = 1e-3  # of the bound: the search ends


@dataclasses.dataclass
class Table:
    """A line of the statistics."""
    name: str
    sharding: str
    perf_ms: float
    hbm_GB: float
    width: int
    ranks: list


@dataclasses.dataclass
class Shard:
    table: int
    perf_ms: float
    hbm_GB: float
    rank: int = -1


def _ranks(text):
    ranks = []
    for word in text.split():
        first, _, last = word.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return ranks


def read_statistics(path):
    """Tables of a CSV file with the planner's columns. Errors: ValueError with file, line and column."""
    tables = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            try:
                table = Table(row["table"], row["sharding"], float(row["perf_ms"]), float(row["hbm_GB"]), int(row["emb_dim"]),
                              _ranks(row["ranks"]))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}: {row.get('table', '?')}: {error}; columns: table, sharding, perf_ms, hbm_GB, emb_dim, ranks") from None
            if not (0 <= table.perf_ms < float("inf") and 0 <= table.hbm_GB < float("inf")) or table.width < 1 or not table.ranks:
                raise ValueError(f"{path}: {table.name}: perf_ms and hbm_GB must be numbers from 0, emb_dim and ranks at least one")
            tables.append(table)
    if not tables:
        raise ValueError(f"{path}: no tables")
    return tables


class Rebalanced:
    """Shards with their ranks, and what ranks have: perf_ms, hbm_GB."""

    def __init__(self, tables, shards, ranks, hbm_GB):
        self.tables, self.shards, self.hbm_GB = tables, shards, hbm_GB
        self.perf_ms, self.memory_GB = [0.0] * ranks, [0.0] * ranks
        self.fixed_ms = [0.0] * ranks
        for table in tables:
            if table.sharding != "RW":
                continue
            for rank in table.ranks:
                self.fixed_ms[rank] += table.perf_ms / len(table.ranks)
                self.memory_GB[rank] += table.hbm_GB / len(table.ranks)
        self.perf_ms = list(self.fixed_ms)
        self.of_rank = [[] for _ in range(ranks)]
        self.ranks_of = [set() for _ in tables]

    def put(self, shard, rank):
        shard.rank = rank
        self.perf_ms[rank] += shard.perf_ms
        self.memory_GB[rank] += shard.hbm_GB
        self.of_rank[rank].append(shard)
        self.ranks_of[shard.table].add(rank)

    def take(self, shard):
        self.perf_ms[shard.rank] -= shard.perf_ms
        self.memory_GB[shard.rank] -= shard.hbm_GB
        self.of_rank[shard.rank].remove(shard)
        self.ranks_of[shard.table].discard(shard.rank)

    def allows(self, shard, rank, without=0.0):
        """Whether the rank has room, once `without` GB have left it, and no other shard of the table."""
        return rank not in self.ranks_of[shard.table] and self.memory_GB[rank] - without + shard.hbm_GB <= self.hbm_GB

    @property
    def mean_ms(self):
        return sum(self.perf_ms) / len(self.perf_ms)

    @property
    def bound_ms(self):
        """No placement of these shards has a faster slowest rank."""
        largest = max((s.perf_ms for s in self.shards), default=0.0)
        return max(self.mean_ms, min(self.fixed_ms) + largest)

    def second_best(self, shard):
        """Another rank for the shard, what the slowest rank would then take, and the memory that it lacks (0 where one has room);
        None: there is no other."""
        others = [r for r in range(len(self.perf_ms)) if r not in self.ranks_of[shard.table]]
        if not others:
            return None
        lacks = {r: max(self.memory_GB[r] + shard.hbm_GB - self.hbm_GB, 0.0) for r in others}
        rank = min(others, key=lambda r: (lacks[r] > 0, self.perf_ms[r], r))
        rest = max((v for r, v in enumerate(self.perf_ms) if r not in (rank, shard.rank)), default=0.0)
        return rank, max(rest, self.perf_ms[rank] + shard.perf_ms, self.perf_ms[shard.rank] - shard.perf_ms), lacks[rank]

    def to_dict(self):
        ranks = {}
        for shard in self.shards:
            ranks.setdefault(self.tables[shard.table].name, []).append(shard.rank)
        return {"slowest_ms": max(self.perf_ms), "mean_ms": self.mean_ms, "bound_ms": self.bound_ms, "recorded_slowest_ms": slowest(self.tables),
                "largest_GB": max(self.memory_GB), "ranks_of_tables": ranks, "perf_ms": self.perf_ms, "hbm_GB": self.memory_GB}

    def report(self, tables=20):
        before, now, bound = slowest(self.tables), max(self.perf_ms), self.bound_ms
        lines = [f"Slowest rank: {now:.1f} ms, {100 * (now / self.mean_ms - 1):.1f} % over the mean of {self.mean_ms:.1f} "
                 f"(planner: {before:.1f} ms, {100 * (before / self.mean_ms - 1):.1f} %); no placement of these shards is under {bound:.1f} ms"]
        largest = max(self.shards, key=lambda s: s.perf_ms, default=None)
        if largest is not None and bound > self.mean_ms:
            lines.append(f"The bound is {self.tables[largest.table].name}: {largest.perf_ms:.1f} ms beside {min(self.fixed_ms):.1f} ms of tables "
                         "by row; narrower shards (min_width) lower it")
        room = f" of {self.hbm_GB:.2f}" if self.hbm_GB < float("inf") else ""
        lines.append(f"Memory: at most {max(self.memory_GB):.2f}{room} GB for tables")
        lines += ["", f"{'Table':<44} {'ms':>8} {'GB':>7} {'Rank':>5} {'Rank, ms':>9}  Second best"]
        for shard in sorted(self.shards, key=lambda s: -s.perf_ms)[:tables]:
            other = self.second_best(shard)
            text = "-" if other is None else f"rank {other[0]}: slowest {other[1]:.1f} ms ({other[1] - now:+.1f})"
            if other is not None and other[2] > 0:
                text += f", {other[2]:.3f} GB too little"
            lines.append(f"{self.tables[shard.table].name[-44:]:<44} {shard.perf_ms:>8.1f} {shard.hbm_GB:>7.3f} {shard.rank:>5} "
                         f"{self.perf_ms[shard.rank]:>9.1f}  {text}")
        lines.append("Rank: the fastest with room when the table's turn came, largest first, and after moves and swaps out of the slowest")
        return "\n".join(lines) + "\n"


def slowest(tables):
    """What the slowest rank takes under the planner's own placement, ms."""
    perf = {}
    for table in tables:
        for rank in table.ranks:
            perf[rank] = perf.get(rank, 0.0) + table.perf_ms / len(table.ranks)
    return max(perf.values())


def _shards(tables, ranks, min_width):
    """Of all tables but those by row: at least as many as the planner made, none narrower than min_width by choice."""
    mean = sum(t.perf_ms for t in tables) / ranks
    fixed = sum(t.perf_ms / len(t.ranks) for t in tables if t.sharding == "RW")
    shards = []
    for i, table in enumerate(tables):
        if table.sharding == "RW":
            continue
        parts = len(table.ranks)
        while table.perf_ms / parts > max(mean - fixed, 0) and table.width // (2 * parts) >= min_width:
            parts *= 2
        shards += [Shard(i, table.perf_ms / parts, table.hbm_GB / parts) for _ in range(parts)]
    return shards


def _check_fixed(plan):
    """Tables by row stay where they are: what they take must fit."""
    worst = max(range(len(plan.memory_GB)), key=lambda r: plan.memory_GB[r])
    if plan.memory_GB[worst] > plan.hbm_GB:
        largest = max((t for t in plan.tables if t.sharding == "RW" and worst in t.ranks), key=lambda t: t.hbm_GB / len(t.ranks))
        raise ValueError(f"tables by row alone take {plan.memory_GB[worst]:.3f} GB of rank {worst}, "
                         f"{plan.memory_GB[worst] - plan.hbm_GB:.3f} GB too much; the largest is {largest.name}; give more hbm_GB")


def _place(plan, shard):
    ranks = range(len(plan.perf_ms))
    free = [r for r in ranks if plan.allows(shard, r)]
    if not free:
        room = max(plan.hbm_GB - plan.memory_GB[r] for r in ranks)
        raise ValueError(f"{plan.tables[shard.table].name}: {shard.hbm_GB:.3f} GB do not fit: the emptiest rank has {max(room, 0):.3f} GB left, "
                         f"{shard.hbm_GB - room:.3f} GB too little; give more hbm_GB or ranks, or narrower shards (min_width)")
    plan.put(shard, min(free, key=lambda r: (plan.perf_ms[r], r)))


def _improve(plan):
    """One move or swap that makes the slowest rank faster and no other as slow; False: there is none."""
    worst = max(range(len(plan.perf_ms)), key=lambda r: plan.perf_ms[r])
    before, best = plan.perf_ms[worst], None
    for rank in sorted(range(len(plan.perf_ms)), key=lambda r: (plan.perf_ms[r], r)):
        if rank == worst:
            continue
        for shard in plan.of_rank[worst]:
            for other in (None, *plan.of_rank[rank]):
                gain = shard.perf_ms - (other.perf_ms if other else 0.0)
                if gain <= 0:
                    continue
                after = max(before - gain, plan.perf_ms[rank] + gain)
                if after >= (best[0] if best else before - 1e-9):
                    continue
                if plan.allows(shard, rank, other.hbm_GB if other else 0.0) and (
                        other is None or plan.allows(other, worst, shard.hbm_GB)):
                    best = (after, shard, other, rank)
        if best is not None:
            break
    if best is None:
        return False
    _, shard, other, rank = best
    plan.take(shard)
    if other is not None:
        plan.take(other)
        plan.put(other, worst)
    plan.put(shard, rank)
    return True


def rebalance(tables, ranks=None, hbm_GB=float("inf"), min_width=MIN_WIDTH, moves=5000):
    """Places `tables` (read_statistics) on `ranks` (default: those of the statistics), each with hbm_GB for tables. Errors: ValueError with
    the table that does not fit, and by how much."""
    if not hbm_GB > 0:
        raise ValueError(f"hbm_GB must be more than 0, not {hbm_GB}")
    named = 1 + max(r for t in tables for r in t.ranks)
    ranks = named if ranks is None else ranks
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, not {ranks}")
    if min_width < 1:
        raise ValueError(f"min_width must be at least 1, not {min_width}")
    if ranks < named and any(t.sharding == "RW" and max(t.ranks) >= ranks for t in tables):
        raise ValueError(f"tables by row lie on {named} ranks; {ranks} are too few")
    plan = Rebalanced(tables, _shards(tables, ranks, min_width), ranks, hbm_GB)
    _check_fixed(plan)
    total_ms = sum(s.perf_ms for s in plan.shards) or 1.0
    total_GB = sum(s.hbm_GB for s in plan.shards) or 1.0
    for shard in sorted(plan.shards, key=lambda s: -max(s.perf_ms / total_ms, s.hbm_GB / total_GB)):
        _place(plan, shard)
    for _ in range(moves):
        if max(plan.perf_ms) <= plan.bound_ms * (1 + TOLERANCE) or not _improve(plan):
            break
    return plan


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m foretrace.rebalance", description=__doc__.splitlines()[0])
    parser.add_argument("tables", help="CSV file of a planner's statistics, one line a table")
    parser.add_argument("--ranks", type=int, help="number of ranks (default: those of the statistics)")
    parser.add_argument("--hbm-GB", type=float, default=float("inf"), help="memory of a rank for tables")
    parser.add_argument("--min-width", type=int, default=MIN_WIDTH, help="columns of the narrowest shard (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    options = parser.parse_args(arguments)
    try:
        plan = rebalance(read_statistics(options.tables), options.ranks, options.hbm_GB, options.min_width)
    except (OSError, ValueError) as error:
        sys.exit(f"rebalance: error: {error}")
    print(json.dumps(plan.to_dict()) if options.json else plan.report(), end="\n" if options.json else "")


if __name__ == "__main__":
    main()
