"""Runs jobs through a timer into a table: random order, skipping what is there, within a budget."""
import random

from support.run import Progress, message


def measure_all(jobs, timer, table, options, budget):
    """Measures the jobs that the table lacks; returns (rows added, failures, jobs left over)."""
    jobs = [job for job in jobs if not table.has(job.row)]
    random.Random(options.seed).shuffle(jobs)
    if options.limit:
        jobs = jobs[:options.limit]
    progress = Progress(table.path, len(jobs))
    failures, done, added = [], 0, table.added
    try:
        while done < len(jobs) and not budget.expired():
            batch = jobs[done:done + timer.batch]
            outcome = timer.measure(batch)
            for job, sample in outcome.samples:
                if sample.time_us <= 0:
                    outcome.failures.append((job, "no time was measured"))
                    continue
                table.add(dict(job.row, time_us="%.6g" % sample.time_us,
                               std_us="%.4g" % sample.std_us, repeats=str(sample.repeats)))
            failures += outcome.failures
            done += len(batch)
            progress.step(len(batch))
    finally:
        progress.close()
        table.close()
    report(table, table.added - added, failures, len(jobs) - done)
    return table.added - added, failures, len(jobs) - done


def report(table, added, failures, left):
    """The closing lines on stderr: nothing that is missing goes unsaid."""
    shown = {}
    for job, why in failures:
        shown.setdefault((job.row["op"], job.row["phase"], job.row["dtype"], why), []).append(job)
    for (op, phase, dtype, why), group in list(shown.items())[:20]:
        message("not measured: %d x %s %s %s: %s" % (len(group), op, phase, dtype, why[:160]))
    message("%s: %d rows added to %d, %d not measurable%s" %
            (table.path, added, table.resumed, len(failures),
             ", %d left for want of time: call again to go on" % left if left else ""))
