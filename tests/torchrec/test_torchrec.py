"""foretrace.torchrec without torchrec: tables, tasks, plans and reports, on a small model and on the published one of 1,935 tables
and 96 ranks; torchrec's own types are stood in for by records of what they were given."""
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLISHED = pathlib.Path(os.environ.get("FORETRACE_REALDATA", ROOT / "data")) / "embedding/torchrec_plan_tables.csv"
spec = importlib.util.spec_from_file_location("torchrec_planner", ROOT / "simulator/api/python/foretrace/torchrec.py")
planner = importlib.util.module_from_spec(spec)
sys.modules["torchrec_planner"] = planner
spec.loader.exec_module(planner)

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
