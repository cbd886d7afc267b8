# %% [markdown]
# # What holds a training step up?
# Cells as editors and Jupytext know them; `tests/python/test_python.py` runs the whole.

# %%
import os
import pathlib
import tempfile

import foretrace

data = pathlib.Path(os.environ["FORETRACE_SOURCE"])
job = foretrace.load(data / "traces/samples/dlrm_8rank")
print(job.rank_count, "ranks,", job.node_count, "nodes")

# %%
prediction = job.predict()
ranks = prediction.columns("ranks")
slowest = int(ranks["rank"][ranks["iteration_time_us"].argmax()])
print(f"{prediction.iteration_time_us:.1f} us, rank {slowest} is last")

# %% [markdown]
# ## What if its lookups took half the time?

# %%
answer = job.what_if(f"name=embedding,rank={slowest}:x0.5", iteration=0)
print(f"{answer.saved_us:.1f} us saved")

# %% [markdown]
# ## Mappings of a model, and its traces

# %%
found = foretrace.search(data / "traces/workloads/gpt-small.yaml", "dgx-a100", global_batch=16)
best = found.mappings[0]
print(best.mapping, f"{best.iteration_time_us:.0f} us")
with tempfile.TemporaryDirectory() as folder:
    generated = foretrace.generate(data / "traces/workloads/gpt-small.yaml", "dgx-a100", best.mapping, folder,
                                   global_batch=16)
    again = foretrace.predict(generated.output)
print(f"{again.iteration_time_us:.0f} us from its traces")
