"""What docs/accuracy.md says above its tables (scripts/accuracy)."""

KERNELS = """## Kernels

Errors of calibrated kernel times on rows that took no part in the fit, GMAE / MAPE in percent, by
`scripts/evaluate_kernels.sh $D`, which prints every model; goals are those of the project.

- *Extrapolated*: outside the fitted range. NeuSight's test rows are mostly larger than any row that it trains on.
- *Unseen N x K* leaves out a fifth of the weight matrices with all their rows.

**What bounds any model**, by `scripts/repeat_noise.py` on the imported tables:

- On vidur's A100 the same fp16 GEMM in two runs differs by 0.88 / 3.03 % (3,626 rows). On its H100 no shape was run
  twice, but a row's own repeats spread by 2.19 % of its time, beside the 2.2 that a random fifth is asked for.
- There are 41 weight matrices on the A100 and 32 on the H100, of which a split holds out about eight: with `--seed 2`
  the errors are 3.00 / 4.74 on the A100 and 3.35 / 5.19 on the H100.
- cuBLAS also picks kernels that are slower than their neighbours (8192 x 8192 on the H100 takes 215 us for 640 rows and
  168 us for 704), which a matrix that was not measured does not show.

**NeuSight's convolutions** cost their host more with every new shape that the process has run, whatever the size: by
the last of 5,000 some 0.3 ms on the A100 and the V100 and 0.75 ms on the P100, where the median call takes 1.55 ms. The
fit sets this drift apart from the kernels by a row's place in the table, and the held-out rows are told theirs. A model
that is not told it keeps an error of 8.82 / 15.20, 6.21 / 10.95 and 10.53 / 19.40 on the three (the tables without
`order`).

**Softmax.** The share of L2 that it finds is not fitted, since the rows that it trains on hardly fill the cache. It is
the nominal one, chosen after the test rows had been seen; layer norm's, taken before, gave 6.22 / 8.86 on the A100,
8.20 / 13.12 on the V100 and 4.04 / 7.11 on the P100."""

RETARGET = """## Recordings on another GPU

`predict --on`: recorded device time times the ratio of both devices' models, against what the other device took. By
`scripts/retarget_study.py $D`: NeuSight's operator times of the forward passes of 18 model and batch sizes, float32,
each GPU's written as a recording; mean absolute error of the device time in percent, in brackets with its sign.

- The V100, the P100 and the A100 PCIe are calibrated on NeuSight's kernels (other tables, of the same machines), so
  that pairs of these rest on calibrated ratios. The others have no calibration in float32, so that their pairs rest on
  peaks and bandwidths.
- What float32 GEMMs of a board keep up at its power is in its file (`sustained_TFLOPS`), of the H100, the T4 and the P4
  from the largest GEMMs of these very times. The T4 and the P4 (70 and 75 W) do not hold their boost clocks, but
  kernels of a few milliseconds between lighter ones do.
- BERT-large on the A100 PCIe 40 GB took longer than on the V100, unlike all other models; without it calibrated ratios
  between the two miss by 3 to 13 %."""

TRANSFER = """## Held-out and cross-cluster collectives

GMAE / MAPE in percent, the mean over models, by `scripts/evaluate_collectives.sh $D`. *Three points* are the smallest,
the middle and the largest size.

Galvatron's all-reduce on 8 GPUs exceeds its goal because its library switches protocols at other sizes: it takes 15 %
less than vTrain's at 1 MiB, 39 % more at 4 MiB and 16 % more at 32 MiB, and three points see none of what lies between.
Whichever size is taken for the middle one, no figure gets below 3.18 / 4.82."""

EXCHANGES = """## Dispatch and combine of experts

DeepEP's kernels on H100, eight GPUs a node (aiconfigurator), by `scripts/exchange_study.py $D`, which runs
`foretrace calibrate expert-exchange` of the imported tables with `--hold-out`.

- Deduplicated are the normal kernels, direct the low-latency ones.
- The normal kernels of eight nodes move a third of what those of two and four do through a NIC, while the low-latency
  ones reach 0.93 of it on eight as well: a congested fabric, which takes no part in fits and is not predicted.
- `notify` runs before the normal kernels between nodes and waits for the last of the ranks."""

AICONFIGURATOR_TEXT = """## Kernels of serving

aiconfigurator's tables (inside CUDA graphs), a fifth of the weight matrices or of the shapes of heads held out with all
their rows. Alone: `scripts/accuracy --aiconfigurator`; one table:
`scripts/import_aiconfigurator.py $D/aiconfigurator -o OUT`, then `foretrace calibrate kernel
OUT/aiconfigurator-TABLE.csv --hold-out RULE --json`.

What bounds any model, in the median and at P90:

- *Libraries.* Two versions of one library differ by 1.0 % in the median and 4.4 % at P90 on the H100's GEMMs, two
  libraries by 3 and 9 to 16 %, on the A100's by 4 to 6 and 12 to 20 % (SOURCE.txt of the data).
- *Repeats.* Within one table, GEMMs of 9 to 16 rows, which one tile holds, differ from the median of the others of the
  same matrix by 0.6 and 2.0 % on the H100, by 2.0 and 9.2 % on the A100 (`scripts/repeat_noise.py --one-tile TABLE`).
- *Two states.* The A100 looks as if measured in two: of these GEMMs, 11 % of those under 10 us, 13 to 50 us and 17
  beyond are over 6 % faster than their like (H100: at most 0.4), whatever the matrix and the rows, so that in GEMMs of
  few rows no model has a P90 much under 8 % there.

What is left beside errors of measurement:

- On the median of each tile, which they hardly reach, the held-out errors of 9 to 16 rows are 3.4 and 10.9 % instead of
  4.4 and 13.8 (H100 1.3, 5.3 and 1.6, 5.4; `--predicted ROWS`, of `--rows ROWS`): which kernel the library takes for a
  matrix, its neighbours do not show. Learning from these medians gains nothing.
- What the neighbours of a matrix show is used up: with the other rows of the same matrix known, and what they leave
  nearby in m taken off, the errors of all matrices, held out in five parts, fall from 2.96 and 9.7 to 2.84 and 8.7 % on
  the A100, from 1.80 and 6.4 to 1.41 and 5.6 on the H100; above 640 rows by nothing on the A100 and 4 % on the H100,
  where each row errs by itself. What was tried against that in vain, calibration/README.md lists."""

MACHINE_FILE = """## GEMMs by the machine file alone

No calibration: the file of the device and the constants of cost/kernel/analytic_gemm.cpp, which calibration/README.md
says the tables of ("Without a calibration"). By `scripts/machine_file_study.py $D`, a table by `foretrace calibrate
kernel --calibration none --test TABLE.csv --json`. Goal: a MAPE of 12 % at most.

On the right is the median of the errors with its sign, by rows of x. NeuSight's and LLMCompass's times contain
launches, which no machine file states."""

OPERATORS = """## Operators by tables of others

aiconfigurator's tables of experts, latent attention and attention in 8 bits or over windows: rows of a fifth of the
groups predicted from a table of all others, in which the group is missing whole
(`foretrace calibrate kernel A.csv --test B.csv --json`), by `scripts/operator_study.py $D`.

- Of models of experts (width, inner width, experts, experts of a token) each group is held out once, and errors are the
  means of the five parts'.
- *Beyond*: between no measured rows, by a model of the table's rows alone (docs/serving.md).
- In 16 bits and 8 whole lines of experts (a model, division and distribution) are two to four times as slow as others
  of their sizes, since the library's tuning failed there. Nothing says where, and these are most of what P90 is of
  models and divisions held out. In blocks of 8 bits few lines are.
- Experts in 4 bits are of one model."""

PUBLISHED = """## Published jobs

Steps and memory that others measured of whole jobs, nothing fitted to any of them, by `scripts/published_study.py $D`.
docs/mapping-accuracy.md says what is left, docs/mapping-rows.md what is assumed where a source is silent. Rows of a
table may have been in view while mechanisms were chosen; those that were are named in the former.

*Lowest*: how far the memory of the worst row is below the measured one."""

EMBEDDING = """## Embedding models

NVIDIA Merlin's synthetic models on A100 by the software's own placement, by
`scripts/import_merlin.py $D/embedding -o OUT --measure`; goal 10 % each. docs/sharding.md says what is assumed and what
was looked into."""

POWER = """## Power

GEMMs of an H200, each power predicted from other shapes
(`foretrace calibrate power OUT/aiconfigurator-h200-sxm5-nvswitch-power-gemm.csv --platform dgx-h200 --json`, after
`scripts/import_aiconfigurator.py $D/aiconfigurator -o OUT`): median {median:.1f} % of {rows} rows (goal 8), P90 {p90:.0f} %,
which short kernels and rows beside gaps of the benchmark make (docs/serving.md)."""
