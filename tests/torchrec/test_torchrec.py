"""foretrace.torchrec without torchrec: tables, tasks, plans and reports, on a small model and on the published one of 1,935 tables
and 96 ranks; torchrec's own types are stood in for by records of what they were given."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLISHED = pathlib.Path(os.environ.get("FORETRACE_REALDATA", ROOT / "data")) / "embedding/torchrec_plan_tables.csv"


def load(name, file):
    spec = importlib.util.spec_from_file_location(name, ROOT / "simulator/api/python/foretrace" / file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


planner = load("torchrec_planner", "torchrec.py")
balance = load("torchrec_rebalance", "rebalance.py")

TABLES = [{"name": f"t{i}", "num_embeddings": 1000 * (i + 1), "embedding_dim": 64, "feature_names": [f"f{i}"], "data_type": "DataType.FP32",
           "pooling_factors": [10.0 + i], "module": "sparse.ebc"} for i in range(8)]


def make(**options):
    options = {"batch_size": 256, "platform": "dgx-a100", "sharders": ["lpt", "naive"], "program": os.environ["FORETRACE"]} | options
    return planner.Planner(planner.Topology(world_size=4, local_world_size=4, hbm_GB=40), **options)


def covered(shards, rows, columns):
    """Whether shards are a table, each place once."""
    area = sum(s["shard_sizes"][0] * s["shard_sizes"][1] for s in shards)
    corners = {tuple(s["shard_offsets"]) for s in shards}
    inside = all(s["shard_offsets"][k] + s["shard_sizes"][k] <= (rows, columns)[k] for s in shards for k in range(2))
    return area == rows * columns and len(corners) == len(shards) and inside


class Torchrec(unittest.TestCase):
    def test_tables(self):
        tables = planner.read_tables(TABLES)
        self.assertEqual([t.pooling_factor for t in tables], [10 + i for i in range(8)])
        self.assertEqual(tables[0].data_type, "FP32")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tables.json"
            path.write_text(json.dumps({"tables": TABLES}))
            self.assertEqual(planner.read_tables(path), tables)
        for bad in ({"name": "x", "num_embeddings": 0, "embedding_dim": 4}, {"num_embeddings": 1, "embedding_dim": 4},
                    {"name": "x", "num_embeddings": 1, "embedding_dim": 4, "data_type": "INT3"}):
            with self.assertRaises(ValueError):
                planner.read_tables([bad])

    def test_plan(self):
        plan = make().plan_tables(TABLES)
        modules = plan.to_dict()
        self.assertEqual(list(modules), ["sparse.ebc"])
        self.assertEqual(sorted(modules["sparse.ebc"]), sorted(t["name"] for t in TABLES))
        for table in TABLES:
            placed = modules["sparse.ebc"][table["name"]]
            self.assertTrue(covered(placed["sharding_spec"]["shards"], table["num_embeddings"], table["embedding_dim"]))
            self.assertTrue(set(placed["ranks"]) <= {0, 1, 2, 3})
        self.assertGreater(plan.iteration_time_us, 0)
        self.assertTrue(all(value >= 1 for value in plan.imbalance().values()))
        report = plan.report()
        self.assertEqual(len({len(line) for line in report.splitlines()}), 1, "a frame")
        for text in ("Planner Statistics", "Rank", "HBM (GB)", "DDR (GB)", "Input (MB)", "Best: lpt", "Second: naive", "Imbalance",
                     "Longest Critical Path", "Peak Memory Pressure", "sparse.ebc.t7"):
            self.assertIn(text, report)

    def test_constraints_and_reservation(self):
        same = {t["name"]: {"sharding_types": ["row_wise"]} for t in TABLES}
        plan = make(constraints=same).plan_tables(TABLES)
        self.assertEqual({p["sharding_type"] for p in plan.to_dict()["sparse.ebc"].values()}, {"row_wise"})
        with self.assertRaisesRegex(ValueError, "differ"):
            make(constraints={"t0": {"sharding_types": ["row_wise"]}, "t1": {"sharding_types": ["table_wise"]}})
        with self.assertRaisesRegex(ValueError, "known are"):
            make(sharding_types=["grid_shard"])
        self.assertAlmostEqual(make(storage_reservation=0.25).capacity_GB, 30)
        with self.assertRaises(RuntimeError):  # 3.2 TB of rows in 4 x 40 GB
            make().plan_tables([{"name": "huge", "num_embeddings": 2_000_000_000, "embedding_dim": 400}])

    def test_torchrec_types(self):
        class Given:
            def __init__(self, *arguments, **named):
                self.arguments, self.named = arguments, named
        stand_ins = {"torch.distributed._shard.sharding_spec": {"EnumerableShardingSpec": Given, "ShardMetadata": Given},
                     "torchrec.distributed.types": {"EmbeddingModuleShardingPlan": dict, "ParameterSharding": Given, "ShardingPlan": Given}}
        for name, members in stand_ins.items():
            for i in range(1, len(name.split(".")) + 1):
                sys.modules.setdefault(".".join(name.split(".")[:i]), types.ModuleType(name))
            sys.modules[name] = types.SimpleNamespace(**members)

        class Bags:
            def embedding_bag_configs(self):
                return [types.SimpleNamespace(**{k: v for k, v in t.items() if k not in ("module", "pooling_factors")}) for t in TABLES]

        class Model:
            def named_modules(self):
                return [("", self), ("sparse.ebc", Bags())]
        made = make(constraints={t["name"]: types.SimpleNamespace(sharding_types=None, pooling_factors=t["pooling_factors"]) for t in TABLES})
        plan = made.plan(Model(), [types.SimpleNamespace(module_type=Bags)])
        parameters = plan.named["plan"]["sparse.ebc"]
        self.assertEqual(sorted(parameters), sorted(t["name"] for t in TABLES))
        first = parameters["t0"].named
        self.assertEqual(set(first), {"sharding_type", "compute_kernel", "ranks", "sharding_spec"})
        shard = first["sharding_spec"].arguments[0][0]
        self.assertEqual(shard.arguments[0], [0, 0])
        self.assertRegex(shard.arguments[2], r"rank:\d/cuda:\d")
        self.assertEqual([t.pooling_factor for t in made.last.tables], [10 + i for i in range(8)])

    def test_rebalance(self):
        def table(name, ms, gb, width=128, ranks=(0,), sharding="CW"):
            return balance.Table(name, sharding, ms, gb, width, list(ranks))
        # 7 5 4 on two ranks beside 2 x 3 by row: 3 + 7 and 3 + 9.
        plan = balance.rebalance([table("a", 7, 1), table("b", 5, 1), table("c", 4, 1), table("r", 6, 2, ranks=(0, 1), sharding="RW")])
        self.assertEqual(sorted(plan.perf_ms), [10, 12])
        self.assertEqual(plan.memory_GB, [2, 3])
        self.assertEqual(balance.slowest(plan.tables), 19)
        # Largest first gives 6 3 3 and 5 4, a swap 6 4 and 5 3 3; the report says what moving the largest beside the others costs.
        plan = balance.rebalance([table(n, ms, 1) for n, ms in zip("abcde", (6, 5, 4, 3, 3))], ranks=2)
        self.assertEqual(sorted(plan.perf_ms), [10, 11])
        self.assertIn("rank 0: slowest 17.0 ms (+6.0)", plan.report())
        # 8 7 6 5 4: largest first gives 8 5 4 and 7 6, a swap 8 7 and 6 5 4.
        plan = balance.rebalance([table(n, ms, 1) for n, ms in zip("abcde", (8, 7, 6, 5, 4))], ranks=2)
        self.assertEqual(sorted(plan.perf_ms), [15, 15])
        # Memory comes before time: two of 3 GB do not share 4 GB.
        plan = balance.rebalance([table("a", 9, 3), table("b", 1, 3), table("c", 1, 1)], ranks=2, hbm_GB=4)
        self.assertEqual(max(plan.memory_GB), 4)
        self.assertNotEqual(plan.shards[0].rank, plan.shards[1].rank)
        with self.assertRaisesRegex(ValueError, "b: 3.000 GB do not fit: the emptiest rank has 1.000 GB left, 2.000 GB too little"):
            balance.rebalance([table("a", 9, 3), table("b", 1, 3)], ranks=1, hbm_GB=4)
        for room in (0, -3, float("nan")):
            with self.assertRaisesRegex(ValueError, "hbm_GB must be more than 0"):
                balance.rebalance([table("a", 9, 3)], hbm_GB=room)
        rows = [table("a", 9, 3), table("r", 6, 9, ranks=(0, 1), sharding="RW"), table("s", 6, 1, ranks=(1,), sharding="RW")]
        with self.assertRaisesRegex(ValueError, "by row alone take 5.500 GB of rank 1, 1.500 GB too much; the largest is r"):
            balance.rebalance(rows, hbm_GB=4)
        # Shards of a table lie on ranks of their own, and are no narrower than asked for.
        wide = [table("a", 8, 1, 256), table("b", 1, 1)]
        self.assertEqual(max(balance.rebalance(wide, ranks=2).perf_ms), 5)
        self.assertEqual(max(balance.rebalance(wide, ranks=2, min_width=256).perf_ms), 8)

    def test_statistics_that_are_none(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tables.csv"
            for text in ("table\n", "table,sharding,perf_ms,hbm_GB,emb_dim,ranks\nx,CW,much,1,8,0\n",
                         "table,sharding,perf_ms,hbm_GB,emb_dim,ranks\nx,CW,-1,1,8,0\n",
                         "table,sharding,perf_ms,hbm_GB,emb_dim,ranks\nx,CW,1,1,8,\n"):
                path.write_text(text)
                with self.assertRaisesRegex(ValueError, "tables.csv"):
                    balance.read_statistics(path)

    @unittest.skipUnless(PUBLISHED.exists(), "needs the public data (FORETRACE_REALDATA)")
    def test_published_plan_by_its_own_estimates(self):
        tables = balance.read_statistics(PUBLISHED)
        self.assertAlmostEqual(balance.slowest(tables), 1300.325, delta=0.05)  # as the planner prints it
        room = 19.17  # the most that its own ranks hold
        plan = balance.rebalance(tables, hbm_GB=room)
        self.assertLess(max(plan.perf_ms), 1.001 * plan.bound_ms)
        self.assertLess(max(plan.perf_ms) / plan.mean_ms, 1.2205)  # the planner: 1.296
        self.assertLessEqual(max(plan.memory_GB), room)
        for table, ranks in zip(tables, plan.ranks_of):
            self.assertEqual(len(ranks), 0 if table.sharding == "RW" else len(table.ranks))
        self.assertAlmostEqual(sum(plan.perf_ms), sum(t.perf_ms for t in tables), delta=1e-6)
        narrow = balance.rebalance(tables, hbm_GB=room, min_width=32)
        self.assertLess(max(narrow.perf_ms) / narrow.mean_ms, 1.01)

    @unittest.skipUnless(PUBLISHED.exists(), "needs the public data (FORETRACE_REALDATA)")
    def test_published_model_as_a_task(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "task.yaml"
            subprocess.run([sys.executable, ROOT / "scripts/import_torchrec.py", PUBLISHED, "-o", path, "--platform", "dgx-h100",
                            "--hbm-GB", "138"], check=True)
            done = subprocess.run([os.environ["FORETRACE"], "shard", path, "--sharders", "lpt", "--json"], capture_output=True, check=True)
        answer = json.loads(done.stdout)
        self.assertEqual(len(answer["best"]["ranks"]), 96)
        self.assertTrue(answer["plans"][0]["feasible"])

    @unittest.skipUnless(PUBLISHED.exists(), "needs the public data (FORETRACE_REALDATA)")
    def test_published_plan(self):
        tables = planner.read_tables(PUBLISHED)
        self.assertEqual(len(tables), 1934)  # of 1,935 lines one stands twice
        made = planner.Planner(planner.Topology(world_size=96, hbm_GB=138), 2560, "dgx-h100", program=os.environ["FORETRACE"],
                               sharders=["lpt", "size_lookup_greedy"], storage_reservation=0)
        plan = made.plan_tables(tables)
        placements = {f"{module}.{name}": p for module, tables in plan.to_dict().items() for name, p in tables.items()}
        self.assertEqual(set(placements), {t.name for t in tables})
        for table in tables:
            shards = placements[table.name]["sharding_spec"]["shards"]
            self.assertTrue(covered(shards, table.num_embeddings, table.embedding_dim), table.name)
        self.assertLess(max(r["memory_bytes"] for r in plan.answer["best"]["ranks"]), 138e9)
        self.assertIn("and 1894 tables", plan.report())


if __name__ == "__main__":
    unittest.main()
