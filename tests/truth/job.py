"""Jobs whose timing is known exactly, recorded as Kineto profiles.

A job is a graph of events, each as late as the latest event before it plus its own time, over the CPU
threads, streams and transfers of all ranks. Building it anew with other durations gives what would
have been measured, which a what-if on the profile has to predict. Nothing here shares code or
formulas with foretrace.
"""

# pylint: disable=unused-import
from events import (GEMM, SEND_RECV, ALL_REDUCE, ALL_TO_ALL, LAUNCH_QUEUE, COMPUTE, TENSOR_PARALLEL,
                    EMBEDDING, DATA_PARALLEL, PIPELINE, COPIES, INPUT_DIST, EXCHANGE, AUXILIARY,
                    EventGraph, Rank, Range)
from recording import HIP, DEVICES, as_rocm, communication, Job
from stream_jobs import auxiliary, first_used_late, prefetching, run_ahead, two_queues, forked_graphs
from training_jobs import (rooted, fused_and_separate, pipeline, megatron, ring, data_parallel,
                           bucketed)
