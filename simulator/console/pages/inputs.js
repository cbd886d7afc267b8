'use strict';
// What the pages of commands about traces and files lead with: what these hold, lack, and became.

answers.doctor = (a) => {
  headline(a.verdict, [a.source]);
  const lacks = a.findings.filter((f) => f.state !== 'holds');
  if (lacks.length > 0) {
    section('What it lacks').append(...lacks.map((f) => el('div', { class: f.state === 'optional' ? 'card' : 'card warning' },
      el('h3', {}, `${f.evidence}: ${f.found}`), el('p', {}, f.cost), f.remedy ? el('pre', {}, f.remedy) : null)));
  }
  section('What it holds').append(el('ul', {}, ...a.findings.filter((f) => f.state === 'holds').map((f) => el('li', {}, `${f.evidence}: ${f.found}`))));
};

answers.inspect = (a) => {
  if (a.description !== undefined) {
    headline(a.platform ?? a.accelerator, [a.ranks !== undefined ? `${a.ranks} ranks` : '']);
    section('Description').append(el('pre', {}, a.description));
    return;
  }
  if (a.devices) {  // a memory snapshot
    const most = a.devices.reduce((m, d) => (d.peak_bytes > m.peak_bytes ? d : m));
    headline(`Peak of ${shown(most.peak_bytes, 'bytes')} on device ${most.device}`, [
      `${shown(most.peak_reserved_bytes, 'bytes')} reserved, of which ${shown(most.fragmentation_share, 'share')} not allocated`]);
    const held = section('What holds the memory'), names = a.devices.map((d) => `device ${d.device}`);
    stacked(held, 'At the peak, by what PyTorch was about', names, {
      ...Object.fromEntries(Object.keys(most.ledger).filter((k) => k !== 'total_bytes').map((k) => [k.replace('_bytes', ''), a.devices.map((d) => d.ledger[k] / 1e6)])),
      free: a.devices.map((d) => Math.max(d.peak_reserved_bytes - d.peak_bytes, 0) / 1e6) }, 'MB', 'free: reserved and not allocated');
    bars(held, `Lines that hold it, device ${most.device}`, most.holders.slice(0, 20).map((h) => ({ line: h.line || '(no stack)', MB: h.bytes / 1e6 })), 'line', 'MB', 'MB');
    return;
  }
  if (a.by_rank === undefined) {  // lists of kernels or operators
    headline(`${(a.kernels ?? a.ops ?? []).length} kinds of work`);
    return;
  }
  headline(`${a.nodes} nodes of ${counted(a.ranks, 'rank')}${a.world_size > a.ranks ? `, of a job of ${a.world_size}` : ''}`, a.missing ?? []);
  const ranks = a.by_rank.map((r) => `rank ${r.rank}`);
  stacked(section('What each rank holds'), 'Device work', ranks, { kernels: a.by_rank.map((r) => r.kernels),
    'copies and fills': a.by_rank.map((r) => r.copies), communication: a.by_rank.map((r) => r.collectives) }, 'nodes');
  const steps = [...new Set(a.iterations.map((i) => i.number))];
  if (steps.length > 0 && steps.length <= 12) {
    const at = new Map(a.iterations.map((i) => [`${i.rank} ${i.number}`, i.duration_us]));
    stacked(section('Recorded steps'), 'Duration between their marks', ranks, Object.fromEntries(
      steps.map((n) => [`step ${n}`, a.by_rank.map((r) => ms(at.get(`${r.rank} ${n}`) ?? 0))])), 'ms', '', false);
  }
  const sent = a.communicators.filter((c) => c.bytes > 0).sort((x, y) => y.bytes - x.bytes).slice(0, 20);
  bars(section('Communicators'), 'Bytes of the rank that sends most, in the whole recording', sent.map((c) => ({ name: `${c.name} (${c.ranks.length} ranks)`, MB: c.bytes / 1e6 })), 'name', 'MB', 'MB');
};

answers.generate = (a) => {
  headline(`${a.ranks} ranks, ${a.nodes} nodes; an iteration takes ${shown(a.iteration_time_us, '_us')}`, [`in ${a.output}`]);
  notes(a.notes);
  facts(section('The job'), { workload: a.workload, mapping: a.mapping, 'nodes a rank': a.nodes / a.ranks });
  bars(section('What the traces hold'), 'Nodes by kind', a.kinds, 'kind', 'nodes', 'nodes', 'of all ranks; `foretrace predict` on the folder says where the time goes');
};

answers.convert = (a) => {
  const problems = a.check?.problems ?? [];
  headline(a.nodes === undefined ? 'Checked for other simulators' : `${a.ranks} ranks, ${a.nodes} nodes, in ${a.output}`,
    [a.check === undefined ? '' : problems.length === 0 ? 'another simulator runs them to their end' : 'another simulator would not run them to their end']);
  notes([...problems, ...(a.communication?.doubts ?? [])]);
  const c = a.check;
  if (c === undefined) return;
  bars(section('What another simulator finds'), 'Nodes', [['work and communication', c.nodes], ['collectives', c.collectives], ['sends', c.sends], ['receives', c.receives],
    ['never run', c.never_run], ['may overtake another of their group', c.unordered], ['of a type that does not run', c.unsupported],
    ['communication of 0 bytes', c.without_size], ['work without duration', c.without_duration]].map(([name, nodes]) => ({ name, nodes })), 'name', 'nodes', 'nodes');
};

answers.list = (a) => {
  const kinds = Object.entries(a).filter(([key, l]) => Array.isArray(l) && key !== 'folders');
  headline(kinds.map(([key, l]) => `${l.length} ${words(key)}`).join(', '), [`in ${(a.folders ?? []).join(', ')}`]);
  const gpus = (a.gpus ?? []).filter((g) => g.memory_GBps > 0 && g.fp16_TFLOPS > 0);
  if (gpus.length === 0) return;
  scatter(section('Computation and memory'), 'Rate of half precision against bandwidth of memory', { accelerators: gpus.map((g) => ({
    x: g.memory_GBps, y: g.fp16_TFLOPS, text: `${g.name}: ${g.fp16_TFLOPS} TFLOP/s, ${g.memory_GBps} GB/s` })) },
  axis('GB/s', LOG), axis('TFLOP/s', LOG), [], 'point at a mark for its name');
};
