'use strict';
// What each command's page leads with: the number, why, and the pictures that its users expect.

const LOG = { type: 'logarithmic' };
const percent = (part, whole) => (whole ? `${(100 * (part / whole - 1)).toFixed(2)} %` : '');
const ms = (us) => us / 1000;
// To two digits, for the end of an axis.
const rounded = (value, how) => { const unit = 10 ** (Math.floor(Math.log10(value)) - 1); return Number((how(value / unit) * unit).toPrecision(2)); };

// A flame graph: a row a level, a bar a module, as wide as its device time.
function flame(where, attribution) {
  const total = attribution.device_us;
  const starts = [];
  const within = new Map();  // parent to where its next child begins
  const levels = Math.min(14, Math.max(...attribution.rows.map((r) => r.depth)) + 1);
  const bars = attribution.rows.map((r, i) => {
    starts[i] = within.get(r.parent) ?? (r.parent < 0 ? 0 : starts[r.parent]);
    within.set(r.parent, starts[i] + r.total.device_us);
    return { x: [ms(starts[i]), ms(starts[i] + r.total.device_us)], y: r.depth, name: r.name, us: r.total.device_us };
  }).filter((b) => b.us > total / 1000 && b.y < levels);
  chart(where, `${(100 * attribution.attributed_share).toFixed(1)} % of the device's time belongs to a ${attribution.to}${attribution.issued_before_recording?.device_us > 0 ? `, of what was issued while recording` : ''}`, { type: 'bar',
    data: { labels: Array.from({ length: levels }, (_, i) => i), datasets: [{ data: bars, grouped: false, barPercentage: 1, categoryPercentage: 1,
      borderWidth: 1, borderColor: colour('--paper'), backgroundColor: bars.map((_, i) => palette(i)) }] },
    options: { indexAxis: 'y', parsing: { xAxisKey: 'x', yAxisKey: 'y' }, scales: { x: axis('ms', { max: ms(total) }), y: axis('depth') },
      plugins: { legend: { display: false }, tooltip: { callbacks: { title: () => '', label: (at) => `${at.raw.name}: ${shown(at.raw.us, '_us')} (${(100 * at.raw.us / total).toFixed(1)} %)` } } } } },
  'point at a bar for its name', 60 + 22 * levels);
}

// The error of a cell like "1.95 %" or "2.2 / 4.9 %", of which the first counts.
const errorOf = (cell) => { const found = /^[+-]?([0-9.]+)/.exec(cell ?? ''); return found ? Number(found[1]) : null; };

answers.accuracy = (a) => {
  headline('How far predictions can be trusted', [`made on ${a.made}`,
    'in-sample: a replay with its own overheads; held out: overheads, kernels or tables that took no part']);
  for (const { title, about, rows } of a.tables) {
    const where = section(title);
    if (about) where.append(el('p', { class: 'why' }, about));
    const columns = Object.keys(rows[0] ?? {});
    const errors = columns.filter((c) => /^(Mean|Max|MAPE|GMAE|GMAE \/ MAPE %|error %)/.test(c)).slice(0, 2);
    const drawn = rows.filter((r) => errors.some((c) => errorOf(r[c]) !== null)).slice(0, 40);
    if (errors.length > 0 && drawn.length > 0) {
      chart(where, `${title}: error`, { type: 'bar', data: { labels: drawn.map((r) => columns.slice(0, 2).map((c) => r[c]).join(', ').slice(0, 60)),
        datasets: errors.map((c, i) => ({ label: c, backgroundColor: palette(i), data: drawn.map((r) => errorOf(r[c])) })) },
      options: { indexAxis: 'y', scales: { x: axis('%'), y: axis('') } } }, 'absolute errors in percent', 90 + 24 * drawn.length);
    }
  }
};

answers.predict = (a) => {
  const changed = a.step?.unedited_period_us;
  headline(a.step?.period_us ? `A step takes ${shown(a.step.period_us, '_us')}` : `Iteration ${a.iteration} takes ${shown(a.iteration_time_us, '_us')}`, [
    changed ? `without the change a step takes ${shown(changed, '_us')}: ${percent(a.step.period_us, changed)}`
      : a.step?.recorded_period_us ? `recorded: ${shown(a.step.recorded_period_us, '_us')}; the prediction differs by ${percent(a.step.period_us, a.step.recorded_period_us)}` : '',
    a.step?.period_us ? `iteration ${a.iteration} takes ${shown(a.iteration_time_us, '_us')} between its marks` : '',
    changed ? '' : a.recorded_iteration_time_us ? `recorded: ${shown(a.recorded_iteration_time_us, '_us')}; the prediction differs by ${percent(a.iteration_time_us, a.recorded_iteration_time_us)}` : '',
    a.scale_out ? `on ${a.scale_out.ranks} ranks between ${shown(a.scale_out.lower_us, '_us')} and ${shown(a.scale_out.upper_us, '_us')}, from ${a.scale_out.ranks_at_hand} of ${a.scale_out.recorded_ranks}` : '',
    `the busiest stream alone would take ${shown(a.baseline_us, '_us')}`]);
  notes([...(a.doubt ? [`warning: ${a.doubt}`] : []), ...a.notes]);
  if (a.scale_out?.groups.length > 0) {
    stacked(section('More ranks'), 'Collectives of groups that grow', a.scale_out.groups.flatMap((g) => [`${g.group}: ${g.from} ranks`, `${g.to} ranks`]), {
      transfer: a.scale_out.groups.flatMap((g) => [ms(g.transfer_before_us), ms(g.transfer_after_us)]),
      'later arrival of the last': a.scale_out.groups.flatMap((g) => [0, ms(g.later_us)]) }, 'ms', 'of the whole recording');
  }
  const why = section('Where the time goes');
  const ranks = a.ranks.map((r) => `rank ${r.rank}`);
  stacked(why, 'Time of each rank', ranks, {
    computation: a.ranks.map((r) => ms(r.computation_us)),
    'exposed transfer': a.ranks.map((r) => ms(r.exposed_transfer_us)),
    'waiting for other ranks': a.ranks.map((r) => ms(r.exposed_communication_us - r.exposed_transfer_us)),
    'nothing on the device': a.ranks.map((r) => ms(r.window_us - r.computation_us - r.exposed_communication_us)),
  }, 'ms', 'communication counts where no computation hides it');
  const busiest = a.ranks.map((r) => [...r.streams].sort((x, y) => y.busy_share - x.busy_share)[0]);
  const causes = [...new Set(busiest.flatMap((s) => Object.keys(s?.idle_us ?? {})))];
  const called = { none: 'no work before or after', program_order: 'gap between kernels' };
  stacked(why, 'What the busiest stream of each rank waits for', ranks, Object.fromEntries(
    causes.map((c) => [called[c] ?? c, busiest.map((s) => ms(s?.idle_us[c] ?? 0))])), 'ms', 'idle time by cause');
  const path = section('Critical path');
  const rows = [...new Set(a.critical_path.runs.map((r) => `rank ${r.rank}`))].sort();
  const kinds = [...new Set(a.critical_path.runs.map((r) => r.kind))];
  const colours = coloursOf(kinds.map(words));
  chart(path, 'What decides when the iteration ends', { type: 'bar', data: { labels: rows,
    datasets: kinds.map((kind, i) => ({ label: words(kind), backgroundColor: colours[i], grouped: false,
      data: a.critical_path.runs.filter((r) => r.kind === kind).map((r) => ({
        x: [ms(r.start_us), ms(r.start_us + r.time_us)], y: `rank ${r.rank}`, text: `${r.lane}: ${r.name}, ${shown(r.time_us, '_us')}` })) })) },
  options: { indexAxis: 'y', parsing: { xAxisKey: 'x', yAxisKey: 'y' }, scales: { x: axis('ms'), y: axis('') },
    plugins: { tooltip: { callbacks: { label: (at) => at.raw.text } } } } }, 'point at a bar for its lane and work', 90 + 34 * rows.length);
  shareBar(path, 'What it is spent on', Object.fromEntries(Object.entries(a.critical_path.activities_us)
    .map(([k, v]) => [k, v / a.critical_path.total_us])));
  if (a.difference.length > 0) bars(section('What the change does'), 'Difference by cause', a.difference.slice(0, 20), 'cause', 'difference_us', 'us');
  if (a.sensitivity.length > 0) {
    bars(section('What is worth making faster'), 'Gain if it took no time', a.sensitivity.filter((s) => s.gain_us > 0).slice(0, 25)
      .map((s) => ({ ...s, name: `${s.kind}: ${s.name}` })), 'name', 'gain_us', 'us',
      'of the step, one kind of work at a time');
  }
  if (a.attribution) flame(section(`Device time by ${a.attribution.to}`), a.attribution);
  if (a.memory) {
    const most = a.memory.reduce((m, r) => (r.peak_bytes > m.peak_bytes ? r : m));
    const ledgers = [['recorded', most.ledger], ['with the change', most.changed]].filter(([, l]) => l);
    if (ledgers.length > 0) {
      const free = (l) => Math.max(most.capacity_bytes - l.total_bytes, 0);
      stacked(section('What holds the memory'), `Rank ${most.rank} at its peak`, ledgers.map(([n]) => n), {
        ...Object.fromEntries(Object.keys(most.ledger).filter((k) => k !== 'total_bytes').map((k) => [k.replace('_bytes', ''), ledgers.map(([, l]) => l[k] / 1e9)])),
        ...(most.capacity_bytes > 0 ? { free: ledgers.map(([, l]) => free(l) / 1e9) } : {}) }, 'GB', 'of the device');
    }
    const kinds = Object.keys(a.memory[0].phases);
    stacked(section('Memory'), 'Device memory at its peak, by what it was allocated in', a.memory.map((m) => `rank ${m.rank}`), Object.fromEntries(
      kinds.map((k) => [k.replace('_bytes', ''), a.memory.map((m) => m.phases[k] / 1e6)])), 'MB',
    a.memory.map((m) => m.capacity_bytes ? `rank ${m.rank}: ${shown(m.peak_bytes, 'bytes')} of ${shown(m.capacity_bytes, 'bytes')}` : '').filter(Boolean).slice(0, 4).join('; '));
  }
  shareBar(section('What it rests on'), 'Critical-path time by source', a.sources);
};

answers.validate = (a) => {
  const scale = a.cases.some((c) => c.measured_us !== undefined) ? 'us' : 's';
  const s = a.summary ?? {};
  headline(s.mape_percent !== undefined ? `Mean absolute error ${shown(s.mape_percent, '_percent')}, largest ${shown(s.max_percent, '_percent')}` : 'Predicted against measured',
    [s.count !== undefined ? `${s.count} cases judged${s.refused ? `, ${s.refused} refused` : ''}` : '']);
  notes([...(a.doubts ?? []).map((doubt) => `warning: ${doubt}`), ...a.notes]);
  const judged = (a.cases ?? []).filter((c) => c[`predicted_${scale}`] > 0 && c[`measured_${scale}`] > 0);
  if (judged.length === 0) return;
  const name = (c) => [c.name, c.mapping, c.rank === undefined ? '' : `rank ${c.rank}`, c.step === undefined ? '' : `step ${c.step}`].filter(Boolean).join(' ');
  const point = (c) => ({ x: c[`measured_${scale}`], y: c[`predicted_${scale}`], text: `${name(c)}: ${shown(c.error_percent, '_percent')}` });
  const times = judged.flatMap((c) => [c[`measured_${scale}`], c[`predicted_${scale}`]]);
  const low = rounded(Math.min(...times) * 0.85, Math.floor), high = rounded(Math.max(...times) * 1.15, Math.ceil);
  const range = { ...(high > 5 * low ? LOG : {}), min: low, max: high };
  const line = (factor) => [{ x: low, y: low * factor }, { x: high, y: high * factor }];
  const why = section('Predicted over measured');
  scatter(why, 'Predicted over measured', { cases: judged.map(point), equal: line(1), '+10 %': line(1.1), '-10 %': line(0.9) },
    axis(`measured, ${scale}`, range), axis(`predicted, ${scale}`, range), ['equal', '+10 %', '-10 %']);
  bars(why, 'Error by case', judged.slice(0, 60).map((c) => ({ ...c, label: name(c) })), 'label', 'error_percent', '%',
    judged.length > 60 ? `the first 60 of ${judged.length}` : '');
};

answers.search = (a) => {
  const best = a.mappings[0];
  headline(best ? `${best.mapping}: ${shown(best.iteration_time_us, '_us')} an iteration` : 'No mapping fits',
    [`${a.workload} on ${a.devices} devices, ${a.global_batch} samples an iteration`,
      `${a.evaluated} mappings evaluated, ${a.infeasible} do not fit`]);
  notes([...(a.notes ?? []), ...(a.failures ?? [])]);
  const point = (m) => ({ x: m.memory_bytes_max / 1e9, y: ms(m.iteration_time_us), text: `${m.mapping}: ${shown(m.iteration_time_us, '_us')}, ${shown(m.memory_bytes_max, 'bytes')}` });
  const front = [...a.pareto].map(point).sort((x, y) => x.x - y.x);
  scatter(section('Time and memory'), 'Time against memory', { 'Pareto front': front, mappings: a.mappings.map(point) },
    axis('memory, GB'), axis('iteration, ms'), ['Pareto front'], 'point at a mark for its mapping');
  const ranked = a.mappings.slice(0, 20);
  stacked(section('Ranked'), 'Iteration time of the fastest mappings', ranked.map((m) => m.mapping), {
    computation: ranked.map((m) => ms(m.iteration_time_us) * (1 - m.exposed_communication_share - m.bubble_share)),
    'exposed transfer': ranked.map((m) => ms(m.iteration_time_us) * m.exposed_communication_share),
    'idle (pipeline bubble)': ranked.map((m) => ms(m.iteration_time_us) * m.bubble_share) }, 'ms');
  const { extrapolated_share: beyond, ...sources } = a.kernel_sources ?? {};
  shareBar(section('What it rests on'), 'Time of the fastest mapping\'s kernels by source', sources,
    beyond > 0 ? `${shown(beyond, 'share')} of it beyond what was calibrated` : '');
};

answers.shard = (a) => {
  const best = a.best;
  headline(best ? `${best.sharder}: ${shown(best.iteration_time_us, '_us')} an iteration` : 'No plan fits',
    [`${a.task} on ${a.gpus} GPUs, batch ${a.batch}`]);
  notes(a.notes);
  const plans = section('Plans');
  bars(plans, 'Iteration time by sharder', a.plans.map((p) => ({ ...p, ms: ms(p.iteration_time_us) })), 'sharder', 'ms', 'ms');
  if (!best) return;
  const gpus = best.ranks.map((r) => `GPU ${r.rank}`);
  const balance = section('The best plan by GPU');
  stacked(balance, 'Time', gpus, Object.fromEntries(['computing', 'exposed_transfer', 'waiting', 'idle']
    .map((k) => [k, best.ranks.map((r) => ms(r[`${k}_us`]))])), 'ms');
  const capacity = a.memory_capacity_bytes;
  stacked(balance, 'Memory against capacity', gpus, {
    ...Object.fromEntries(Object.keys(best.ranks[0].memory).map((k) => [k.replace('_bytes', ''), best.ranks.map((r) => r.memory[k] / 1e9)])),
    free: best.ranks.map((r) => Math.max(capacity - r.memory_bytes, 0) / 1e9) }, 'GB',
  `largest: ${shown(best.memory_bytes_max, 'bytes')} of ${shown(capacity, 'bytes')}`);
  // A row of a table's shards on each GPU, widths in rows and columns.
  const elements = (p) => gpus.map((_, g) => p.ranks.reduce((n, r, i) => n + (r === g ? p.rows[i] * p.columns[i] : 0), 0) / 1e6);
  const largest = [...best.placement].sort((x, y) => Math.max(...elements(y)) - Math.max(...elements(x)));
  stacked(balance, 'Tables', gpus, { ...Object.fromEntries(largest.slice(0, 14).map((p) => [`${p.table} (${words(p.kind)})`, elements(p)])),
    ...(largest.length > 14 ? { 'other tables': gpus.map((_, g) => largest.slice(14).reduce((n, p) => n + elements(p)[g], 0)) } : {}) },
  'million elements', 'shards of the largest tables, and all others together');
  shareBar(section('What it rests on'), 'Simulated time by source', best.sources);
  bars(balance, 'Lookups', best.ranks.map((r) => ({ gpu: `GPU ${r.rank}`, lookups: r.lookups })), 'gpu', 'lookups', 'lookups');
};

const counted = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;
const tableName = (t) => `${t.operation}, ${counted(t.ranks, 'rank')}, ${counted(t.nodes, 'node')}${t.held_out ? ' (held out)' : ''}`;

answers.collective = (a) => {
  if (a.tables) {
    headline('Collectives against measurements', [`network: ${a.network}`]);
    bars(section('Errors'), 'Mean absolute error of each table', a.tables.map((t) => ({
      ...t, label: tableName(t) })), 'label', 'mape_percent', '%');
    const over = section('Measured and predicted');
    for (const [key, unit] of [['us', 'us'], ['busbw_GBps', 'GB/s']]) {
      const groups = {}, lines = [], colours = {};
      for (const [i, t] of a.tables.slice(0, 8).entries()) {
        lines.push(`${tableName(t)}, predicted`);
        colours[`${tableName(t)}, predicted`] = colours[`${tableName(t)}, measured`] = i;
        groups[`${tableName(t)}, measured`] = t.points.map((r) => ({ x: r.bytes, y: r[`measured_${key}`] }));
        groups[lines[lines.length - 1]] = t.points.map((r) => ({ x: r.bytes, y: r[`predicted_${key}`] }));
      }
      scatter(over, key === 'us' ? 'Time' : 'Bus bandwidth', groups, axis('bytes', { ...LOG, ...byteTicks }), axis(unit, LOG), lines,
        `points: measured; lines: predicted${a.tables.length > 8 ? '; the first eight tables' : ''}`, colours);
    }
    return;
  }
  const last = a.rows[a.rows.length - 1];
  headline(`${shown(last.bytes, 'bytes')} on ${last.ranks} ranks: ${shown(last.time_us, '_us')}, ${shown(last.busbw_GBps)} GB/s of bus bandwidth`,
    [`${last.algorithm}, ${last.network}`]);
  const series = (value) => {
    const groups = {};
    for (const row of a.rows) (groups[`${row.ranks} ranks, ${row.algorithm}`] ??= []).push({ x: row.bytes, y: row[value] });
    return groups;
  };
  const over = section('Over size');
  for (const [title, value, unit] of [['Time', 'time_us', 'us'], ['Bus bandwidth', 'busbw_GBps', 'GB/s']]) {
    const groups = series(value);
    scatter(over, title, groups, axis('bytes', { ...LOG, ...byteTicks }), axis(unit, LOG), Object.keys(groups));
  }
};

answers.calibrate = (a) => {
  const mean = a.mean_of_models ?? {};
  headline(`Mean error over models ${shown(mean.mape_percent, '_percent')}`, [a.in_sample ? 'on the rows that were fitted' : 'on held-out rows']);
  notes(a.notes);
  bars(section('Errors'), 'Geometric mean absolute error by model', a.models ?? [], 'name', 'gmae_percent', '%');
  const groups = {};
  for (const r of a.rows ?? []) {
    (groups[r.extrapolated ? `${r.model} (extrapolated)` : r.model] ??= []).push({ x: r.measured_us, y: r.residual_percent,
      text: `${r.platform} ${r.shape}: measured ${shown(r.measured_us, '_us')}, predicted ${shown(r.predicted_us, '_us')}` });
  }
  if (Object.keys(groups).length === 0) return;
  scatter(section('Residuals'), `Predicted over measured, of ${a.in_sample ? 'the fitted rows' : 'rows that were held out of the fit'}`,
    groups, axis('measured, us', LOG), axis('%'));
};

answers.diff = (a) => {
  headline(`${a.difference_us < 0 ? 'Faster' : 'Slower'} by ${shown(Math.abs(a.difference_us), '_us')}`,
    [`before ${shown(a.before.time_us, '_us')}, after ${shown(a.after.time_us, '_us')} (${percent(a.after.time_us, a.before.time_us)})`]);
  const steps = [['before', a.before.time_us], ['after', a.after.time_us]].map(([name, us]) => ({ name, us }));
  bars(section('The step'), 'Before and after', steps, 'name', 'us', 'us');
  notes([...a.doubts.map((doubt) => `warning: ${doubt}`), ...a.notes]);
  bars(section('Where it comes from'), 'Difference by cause', a.causes.slice(0, 30), 'cause', 'difference_us', 'us');
};

answers.serve = (a) => {
  if (a.configurations) {
    const best = a.configurations[0];
    headline(best ? `${best.configuration}: ${shown(best.goodput_requests_per_s)} requests/s within the service level` : 'No configuration fits', [a.why]);
    const groups = { configurations: a.configurations.map((c) => ({ x: c.tokens_per_s_per_user, y: c.tokens_per_s_per_gpu, text: c.configuration })) };
    scatter(section('Speed and cost'), 'Throughput of a GPU against speed of a user', groups, axis('tokens/s of a user'), axis('tokens/s of a GPU'));
    return;
  }
  const s = a.summary;
  headline(`${shown(s.output_tokens_per_s)} output tokens/s; ${s.verdict}`, [`${a.model} on ${a.platform}, ${a.engine}, ${a.parallel}`,
    `first token ${shown(s.ttft_s.mean, '_s')}, then ${shown(s.tpot_s.mean, '_s')} a token (means)`]);
  notes(a.notes);
  const latencies = section('Latencies');
  const kinds = Object.keys(s.ttft_s).filter((k) => typeof s.ttft_s[k] === 'number');
  chart(latencies, 'Latency by percentile', { type: 'bar', data: { labels: kinds, datasets: ['ttft_s', 'tpot_s', 'itl_s', 'e2e_s', 'queue_s'].map((k, i) => ({
    label: words(k.replace('_s', '')), data: kinds.map((q) => s[k]?.[q] * 1000), backgroundColor: palette(i) })) },
  options: { scales: { x: axis(''), y: axis('ms', LOG) } } });
  const m = a.memory;
  if (m) {
    stacked(section('Memory'), 'Of a device', [''], { weights: [m.weights_bytes / 1e9], activations: [m.activations_bytes / 1e9],
      'keys and values': [m.kv_bytes / 1e9], reserve: [m.reserve_bytes / 1e9],
      free: [Math.max(m.device_bytes - m.weights_bytes - m.activations_bytes - m.kv_bytes - m.reserve_bytes, 0) / 1e9] }, 'GB', m.verdict);
  }
  shareBar(section('What it rests on'), 'Time of steps by source', { calibrated: a.step_time.calibrated_share, analytic: a.step_time.analytic_share });
  if ((a.load ?? []).length > 1) {
    scatter(section('Load'), 'Requests over time', { running: a.load.map((l) => ({ x: l.time_s, y: l.running })),
      waiting: a.load.map((l) => ({ x: l.time_s, y: l.waiting })) }, axis('s'), axis('requests'), ['running', 'waiting']);
  }
};

answers.dataflow = (a) => {
  headline(`${a.workload} on ${a.system}: ${shown(a.iteration_ns, '_ns')} an iteration, ${(100 * a.utilisation).toFixed(1)} % of peak`, [counted(a.chips, 'chip')]);
  const parts = a.partitions ?? [];
  stacked(section('Partitions'), 'What bounds each partition', parts.map((_, i) => `partition ${i + 1}`), Object.fromEntries(
    ['compute_ns', 'memory_ns', 'network_ns'].map((k) => [k.replace('_ns', ''), parts.map((p) => (p[k] ?? 0) / 1000)])), 'us', 'the longest decides', false);
};

answers.architect = (a) => {
  const throughput = a.models.map((m) => `${m.name} ${shown(m.plan_on_common.throughput_samples_per_s)} samples/s`).join(', ');
  headline(`One design for ${counted(a.models.length, 'model')} on ${counted(a.devices, 'device')}: ${throughput}`, [
    Object.entries(a.common.design).map(([k, v]) => (k === 'buffer_MB' ? `buffer ${v} MB` : k === 'area_mm2' ? `area ${shown(v)} mm2` : `${words(k)} ${shown(v)}`)).join(', '),
    `objective: ${a.objective}`]);
  bars(section('Throughput'), 'Of each model on the common design', a.models.map((m) => ({ name: m.name, v: m.plan_on_common.throughput_samples_per_s })), 'name', 'v', 'samples/s');
  bars(section('Utilisation'), 'Of each model on the common design', a.models.map((m) => ({ name: m.name, v: 100 * m.plan_on_common.mfu })), 'name', 'v', '%');
};

function placedRecording(a) {
  headline(`The step takes ${shown(a.step_before_us, '_us')} as recorded, ${shown(a.step_after_us, '_us')} with the backends`,
    [`${a.kernels_gone} kernels and launches gone, ${shown(a.cpu_saved_us, '_us')} of CPU time for them`]);
  notes(a.notes);
  const saved = a.regions.slice(0, 20).map((r) => ({ name: `${r.backend}: ${r.types}`, v: r.before_us - r.after_us }));
  if (saved.length > 0) bars(section('What is replaced'), 'Device time that it saves', saved, 'name', 'v', 'us');
  if (a.ablation.length > 0) bars(section('Backend by backend'), 'The step with the backends up to one', a.ablation, 'backends_up_to', 'step_us', 'us');
}

answers.place = (a) => {
  if (a.step_before_us !== undefined) return placedRecording(a);
  headline(`${a.network ?? 'The recording'}: ${shown(a.cost_us ?? a.time_us, '_us')}`, [a.operators !== undefined ? `${a.operators} operators` : '']);
  notes(a.notes);
  if (a.source_shares) shareBar(section('What it rests on'), 'Time by source', a.source_shares);
  if ((a.backends ?? []).length > 0) bars(section('Backends'), 'Time by backend', a.backends, 'name', 'time_us', 'us');
  const steps = a.ablation.filter((s) => s.cost_us !== null);
  if (steps.length > 0) bars(section('Backend by backend'), 'With the backends up to one', steps, 'backends_up_to', 'cost_us', 'us');
  const g = a.graph_level;
  if (g) {
    bars(section(`Calls of ${g.engine}`), g.proven ? 'No placement is cheaper than the one over frontiers' : 'Best found, and what no placement is below',
      [['one by one', g.op_level_us], ['evolution', g.evolved_us], ['over frontiers', g.exact_us], ['bound', g.bound_us]]
        .map(([name, v]) => ({ name, v })), 'name', 'v', 'us');
    const generations = (g.evolved_by_generation_us ?? []).map((us, i) => ({ x: i + 1, y: ms(us) }));
    if (generations.length > 1) {
      scatter(page.lastChild, 'Evolution', { 'best of the generation': generations }, axis('generation'), axis('ms'), ['best of the generation']);
    }
  }
};

answers.sweep = (a) => {
  const points = a.points.filter((p) => p.feasible);
  const value = a.values[0];
  headline(`${a.swept}: ${a.verdict}`);
  const [x, ...others] = a.axes;
  const numeric = x.values.every((v) => v !== '' && Number.isFinite(Number(v)));
  for (const column of [...a.values, 'efficiency']) {
    if (!points.every((p) => typeof p[column] === 'number')) continue;
    const groups = {};
    for (const p of points) {
      const name = others.map((o) => `${o.name}=${p[o.name]}`).join(', ') || column;
      (groups[name] ??= []).push({ x: Number(p[x.name]), y: /_us$/.test(column) ? ms(p[column]) : /bytes/.test(column) ? p[column] / 1e9 : p[column] });
    }
    const where = column === value ? section('Over the values') : page.lastChild;
    const name = column.replace(/^[a-z_]+\[-?\d+\]\./, ''), title = heading(name);
    const unit = /_us$/.test(name) ? `${title}, ms` : /bytes/.test(name) ? `${title}, GB` : title;
    const doubling = numeric && x.values.length > 2 && Number(x.values[0]) > 0 && Number(x.values.at(-1)) / Number(x.values[0]) >= 8;
    if (numeric) scatter(where, title, groups, axis(heading(x.name), doubling ? { ...LOG, ticks: { callback: (v) => (x.values.includes(String(v)) ? String(v) : '') },
      afterBuildTicks: (scale) => { scale.ticks = x.values.map((v) => ({ value: Number(v) })); } } : {}), axis(unit), Object.keys(groups));
    else bars(where, title, points.map((p) => ({ label: a.axes.map((o) => p[o.name]).join(', '), v: /_us$/.test(column) ? ms(p[column]) : p[column] })), 'label', 'v', unit);
  }
};

const compact = { ticks: { maxRotation: 0, format: { notation: 'compact' } } };  // 5M

answers.explore = (a) => {
  const fit = a.points.filter((p) => p.feasible);
  const name = (p) => [p.workload, p.accelerator, p.topology, p.memory, p.network].join(', ');
  const fastest = fit.reduce((best, p) => (best === null || p.iteration_ns < best.iteration_ns ? p : best), null);
  headline(`${fit.length} of ${a.points.length} points fit`, [a.study, fastest ? `fastest: ${name(fastest)}, ${shown(fastest.iteration_ns, '_ns')} an iteration` : '']);
  const front = fit.filter((p) => p.pareto);
  const where = section('Speed, price and power');
  for (const [key, unit] of [['price_USD', '$'], ['power_W', 'W']]) {
    const at = (p) => ({ x: p[key], y: p.iteration_ns / 1e6, text: `${name(p)}: ${shown(p.iteration_ns, '_ns')}, ${shown(p[key])} ${unit}` });
    scatter(where, `Time of an iteration against ${words(key)}`, { 'Pareto front': front.map(at), points: fit.map(at) }, axis(unit, { ...LOG, ...compact }), axis('ms', LOG));
  }
  if (fit.length > 60) return;
  stacked(section('What bounds them'), 'Time by what bounds it', fit.map(name), Object.fromEntries(
    ['compute_ns', 'memory_ns', 'network_ns'].map((k) => [k.replace('_ns', ''), fit.map((p) => (p[k] ?? 0) / 1e6)])), 'ms', 'the longest decides', false);
};

answers.other = (a) => {
  headline(a.verdict ?? 'Answer');
  notes(a.notes);
};

draw();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
