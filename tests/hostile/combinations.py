"""Hand-made hostile cases of options that do not go together, of what a recording says of its communication,
and of sizes: each is what somebody might type, and was once answered as if the option were not there."""

S = "$SRC/traces/samples/dlrm_8rank"
SEARCH = "search $SEEDS/gpt.yaml --platform dgx-a100 --gpus 4 --global-batch 64 --kernels none"
COMPARE = SEARCH + " --compare 'tp2 pp2 dp1 mb1' 'tp1 pp1 dp4 mb1'"
STAGES = "search mmt --platform dgx-a100 --gpus 4 --global-batch 64"
COLLECTIVE = "collective all_reduce --topology dgx-a100 --bytes 4M"
SERVE = "serve llama3.1-8b --platform dgx-h100 --count 5"
NOTHING = ("would change nothing",)

# Command, then options of which each changes nothing beside it.
IDLE = {
    COMPARE: ["--top 1", "--searcher local", "--journal j", "--schedules gpipe", "--max-tensor 1", "--max-zero 0",
              "--max-chunks 1", "--max-context 2", "--max-micro-batch 1", "--overlap", "--steps 3", "--seed 3"],
    SEARCH + " --searcher graphpipe": ["--max-tensor 1"],
    SEARCH: ["--torch-compile"],
    SEARCH + " --stack nemo": ["--overlap", "--torch-compile", "--max-zero 0", "--dispatch alltoall", "--ep-overlap"],
    SEARCH + " --searcher piper": ["--journal j", "--schedules gpipe", "--overlap", "--steps 3"],
    STAGES: ["--journal j", "--schedules gpipe", "--max-zero 0", "--max-chunks 1",
             "--max-context 2", "--max-micro-batch 1", "--overlap", "--seed 3"],
    SERVE: ["--draft llama3.1-8b", "--seed 7", "--routing least-loaded", "--rate 4 --concurrency 2"],
    "serve llama3.1-8b --platform dgx-h100 --requests $SEEDS/requests.csv": ["--seed 7"],
    "serve llama3.1-8b --platform dgx-h100 --skip-too-long --requests $SEEDS/azure.csv": ["--prefix-block 16"],
    SERVE + " --search --gpus 2": ["--parallel tp2", "--replicas 2", "--decode-engines 1", "--max-num-seqs 4",
                                   "--max-num-batched-tokens 512", "--timeline x.json"],
    "serve-study volumes": ["--platform dgx-a100", "--devices 2", "--spread 0.5", "--prompt 9", "--draft-us 80"],
    "serve-study decode": ["--draft-us 80", "--target-us 20000", "--accelerator sn30", "--link-gbps 25",
                           "--hop-ns 500", "--reach 0.5", "--prompt 1024"],
    "serve-study drafts": ["--platform dgx-a100", "--model llama2-13b", "--devices 2", "--spread 0.5",
                           "--table-us 50", "--host-us 500", "--accelerator sn30"],
    "serve-study phases --model llama3-8b --devices 16": ["--platform dgx-a100", "--spread 0.5", "--host-us 5"],
    "validate --mappings $SEEDS/rows.csv --platform dgx-a100": [
        "--what-if name=gemm:x2", "--cpu-scale 2", "--aligned-start", "--semantics algorithm1", "--without cpu",
        "--network fluid", "--durations model", "--on dgx-h100", "--process-groups $SEEDS/groups.yaml",
        "--allow-missing-ranks", "--absent never-last", "--strict", "--ignore x", "--rows r.csv", "--ablation",
        "--overheads-from-ranks 0-3", "--overheads-from-steps even"],
    "validate $SEEDS/cases.yaml": ["--what-if name=gemm:x2", "--strict", "--platform dgx-a100", "--cpu-scale 2"],
    "inspect $SEEDS/dgx.yaml": ["--kernels", "--ops", "--strict", "--ignore x", "--process-groups $SEEDS/groups.yaml"],
    "place dcgan --backends framework --device v100-sxm2-16gb": ["--micro-batch 4", "--strict"],
    "place bert-large --backends framework,flash-attention --device a100-sxm4-80gb": [
        "--strict", "--allow-missing-ranks"],
    f"predict {S}": ["--absent never-last", "--absent alike --allow-missing-ranks"],
}
# Other refusals: name, command, what the error says.
REFUSED = {
    "collective_chunks": (COLLECTIVE + " --algorithm ring --chunks 8", ("--chunks", "ring")),
    "collective_chunks_all_to_all": ("collective all_to_all --topology dgx-a100 --bytes 4M --chunks 8", ("--chunks",)),
    "collective_min_bytes": (COLLECTIVE + " --min-bytes 64M", ("--min-bytes", "--measured")),
    "collective_barrier": ("collective barrier --topology dgx-a100 --bytes 4M", ("--bytes", "barrier")),
    "timeline_ranks": (f"predict {S} --timeline d/ --timeline-ranks 0-99", ("--timeline-ranks", "no 8")),
    "timeline_steps": (f"predict {S} --timeline d/ --timeline-steps 99", ("--timeline-steps", "no 99")),
    "serve_encoder": ("serve bert-large --platform dgx-h100 --count 5 --input 100 --output 10", ("bert-large.yaml",)),
    "list_nothing": ("list", ("platforms",)),
    "help_markdown": ("help predict --markdown", ("--markdown",)),
    "near_option": (f"predict {S} --what-ifs x", ('did you mean "--what-if"',)),
    "near_platform": ("collective --topology DGX_A100", ("did you mean dgx-a100",)),
    "command_help": ("collective --topology dgx-a100 --ranks 0", ("foretrace collective --help",)),
}
# What a trace says of its communication, and what comes of it: words of the output, or of the refusal.
REPAIRED, DISTRIBUTED = ("unusable_argument",), ("distributedInfo",)
JOBS = {
    "whole": ("", 0, ("Verdict",)),
    "group_size_negative": ("'Group size=-4'", 0, REPAIRED),
    "group_size_other": ("'Group size=7'", 0, REPAIRED),
    "group_size_one_rank": ("'1:Group size=7'", 0, REPAIRED),
    "group_size_text": ("""'Group size="two"'""", 0, REPAIRED),
    "ranks_negative": ("""'Process Group Ranks="[-1, 1]"'""", 0, REPAIRED),
    "ranks_text": ("""'Process Group Ranks="banana"'""", 0, REPAIRED),
    "ranks_cut_short": ("""'Process Group Ranks="[0, 1, ...]"'""", 0, ("Verdict",)),
    "elements_negative": ("'In msg nelems=-5'", 0, REPAIRED),
    "elements_text": ("""'In msg nelems="lots"'""", 0, REPAIRED),
    "elements_half": ("'In msg nelems=1024.5'", 0, REPAIRED),
    "elements_many": ("'In msg nelems=4611686018427387904'", 0, REPAIRED),
    "dtype": ("""'dtype="Quux"'""", 0, REPAIRED),
    "rank_text": ("""'info.rank="zero"'""", 2, DISTRIBUTED),
    "rank_half": ("'info.rank=0.5'", 2, DISTRIBUTED),
    "world_text": ("""'info.world_size="two"'""", 2, DISTRIBUTED),
    "worlds": ("'1:info.world_size=9'", 2, ("a job of 9 ranks",)),
    "group_of_job": ("""'info.pg_config=[{"pg_name": "0", "ranks": [0, -1]}]'""", 0, ("unusable_group",)),
}


def combinations(case):
    for number, (command, options) in enumerate(IDLE.items()):
        for option in options:
            yield case(f"idle/{command.split()[0]}{number}/{option.replace(' ', '')}",
                       f"{command} {option}", (2,), (option.split()[0], *NOTHING), "",
                       "test ! -e j && test ! -e x.json")
    for name, (command, says) in REFUSED.items():
        yield case(f"refused/{name}", command, (2,), says, "", "test ! -e d")
    for name, (words, code, says) in JOBS.items():
        yield case(f"job/{name}", "predict job", (code,), says if code else (),
                   f"PYTHONPATH=$SRC/tests/hostile python3 $SRC/tests/hostile/job.py {words}", "", "",
                   () if code else says)
    # Who meets whom, where no trace says so: found, and said to be inferred.
    anonymous = "python3 $SRC/tests/hostile/anonymous.py"
    groups = [f"stream 30 of ranks {a},{a + 1}" for a in (0, 2, 4, 6)] + [
        f"stream 31 of ranks {a},{a + 2}" for a in (0, 1, 4, 5)] + [
        f"stream 34 of ranks {a},{a + 4}" for a in range(4)] + [f"exchange {a} and {a + 4}" for a in range(4)]
    yield case("inferred/groups", "inspect anonymous --json", (0,), (), anonymous, "", "",
               tuple(f'"{group}"' for group in groups))
    yield case("inferred/doubt", "predict anonymous", (0,), (), anonymous, "", "",
               ("16 communicators is inferred", "--process-groups"))
    # Sizes that took minutes.
    for name, command, code in (
            ("send_recv", "collective send_recv --topology dgx-a100:4096 --bytes 1M", 0),
            ("all_to_all", "collective all_to_all --topology dgx-a100:128 --bytes 1G", 0),
            ("all_to_all_many", "collective all_to_all --topology dgx-a100:4096 --bytes 1G", 3),
            ("all_to_all_fitted", "collective all_to_all --topology dgx-a100:4096 --network fitted --bytes 1G", 0),
            ("two_way_ring", "collective all_reduce --topology fat-tree-16384 --network fitted --bytes 1G "
                             "--algorithm bidirectional_ring", 0)):
        yield case(f"large/{name}", command, (code,))
