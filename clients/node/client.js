// Uses the npm packages influx and @influxdata/influxdb-client as people do.
//
// Usage: node client.js HOST PORT. The last line printed is the counts.
'use strict'

const assert = require('node:assert')
const Influx = require('influx')
const { InfluxDB, Point } = require('@influxdata/influxdb-client')

const [host, port] = process.argv.slice(2)
let passed = 0
let failed = 0

function check(name, got, want) {
  try {
    assert.deepStrictEqual(got, want)
    passed++
  } catch (e) {
    failed++
    console.log(`${name}: ${e.message}`)
  }
}

async function refused(name, promise, pattern) {
  try {
    await promise
    check(name, 'no error', pattern)
  } catch (e) {
    check(name, pattern.test(e.message), true)
  }
}

async function version1() {
  const influx = new Influx.InfluxDB({
    host, port: Number(port), database: 'js',
    schema: [{
      measurement: 'm', tags: ['host', 'odd'],
      fields: { f: Influx.FieldType.FLOAT, i: Influx.FieldType.INTEGER, s: Influx.FieldType.STRING, b: Influx.FieldType.BOOLEAN },
    }],
  })
  const hosts = await influx.ping(5000)
  check('ping', [hosts[0].online, hosts[0].version.startsWith('1.')], [true, true])
  await influx.createDatabase('js')
  check('databases', (await influx.getDatabaseNames()).includes('js'), true)
  const points = []
  for (let i = 0; i < 100; i++) {
    points.push({
      measurement: 'm', tags: { host: `h${i % 2}`, odd: 'a b,c=d' },
      fields: { f: i / 4, i, s: 'say "x\\y"', b: i % 2 === 0 }, timestamp: new Date(1500000000000 + i * 1000),
    })
  }
  await influx.writePoints(points)
  await influx.writeMeasurement('n', [{ fields: { v: 1 }, timestamp: 1500000000 }], { precision: 's' })
  const rows = await influx.query('SELECT * FROM m')
  check('rows', rows.length, 100)
  check('row', [rows[99].time.toISOString(), rows[99].host, rows[99].odd, rows[99].f, rows[99].i, rows[99].s, rows[99].b],
    ['2017-07-14T02:41:39.000Z', 'h1', 'a b,c=d', 24.75, 99, 'say "x\\y"', false])
  check('nanoseconds', rows[1].time.getNanoTime(), '1500000001000000000')
  const grouped = await influx.query('SELECT sum(i) FROM m GROUP BY host')
  check('groups', grouped.groups().map((g) => [g.tags.host, g.rows[0].sum]), [['h0', 2450], ['h1', 2500]])
  check('statements', (await influx.query(['SELECT i FROM m LIMIT 1', 'SELECT v FROM n'])).map((r) => r.length), [1, 1])
  check('placeholders', (await influx.query('SELECT i FROM m WHERE host = $host AND i >= $from', { placeholders: { host: 'h1', from: 90 } })).length, 5)
  check('raw', (await influx.queryRaw('SELECT count(i) FROM m', { precision: 's' })).results[0].series[0].values, [[0, 100]])
  check('measurements', await influx.getMeasurements(), ['m', 'n'])
  check('series', await influx.getSeries({ measurement: 'n' }), ['n'])
  await influx.createRetentionPolicy('week', { duration: '7d', replication: 1, database: 'js' })
  await influx.alterRetentionPolicy('week', { duration: '14d', replication: 1, database: 'js', default: false })
  check('policies', (await influx.showRetentionPolicies('js')).map((p) => [p.name, p.duration, p.default]),
    [['autogen', '0s', true], ['week', '336h0m0s', false]])
  await influx.dropRetentionPolicy('week', 'js')
  await influx.createUser('u', 'p')
  await influx.grantPrivilege('u', 'READ', 'js')
  check('users', (await influx.getUsers()).map((u) => [u.user, u.admin]), [['u', false]])
  await influx.revokePrivilege('u', 'READ', 'js')
  await influx.setPassword('u', 'q')
  await influx.dropUser('u')
  await influx.createContinuousQuery('cq', 'SELECT mean(f) INTO avg FROM m GROUP BY time(1h)', 'js')
  check('continuous queries', (await influx.showContinousQueries('js')).map((q) => q.name), ['cq'])
  await influx.dropContinuousQuery('cq', 'js')
  await influx.dropSeries({ measurement: (m) => m.name('m'), where: (e) => e.tag('host').equals.value('h0') })
  check('after the drop', (await influx.query('SELECT i FROM m')).length, 50)
  await refused('parse error', influx.query('SELEC'), /error parsing query/)
  await refused('type conflict', influx.writePoints([{ measurement: 'n', fields: { v: 'text' }, timestamp: 1500000000 }], { precision: 's' }), /field type conflict/)
  await refused('no database', influx.writePoints([{ measurement: 'n', fields: { v: 1 } }], { database: 'nosuch' }), /database not found/)
  await influx.dropMeasurement('m', 'js')
  check('dropped', await influx.getMeasurements(), ['n'])
}

async function version2() {
  const client = new InfluxDB({ url: `http://${host}:${port}`, token: 'user:password' })
  const write = client.getWriteApi('', 'js/autogen', 's', { gzipThreshold: 10, batchSize: 30 })
  write.useDefaultTags({ via: 'v2' })
  for (let i = 0; i < 100; i++) {
    write.writePoint(new Point('w').tag('host', `h${i % 2}`).floatField('f', i / 4).intField('i', i).timestamp(1500000000 + i))
  }
  await write.close()
  const influx = new Influx.InfluxDB({ host, port: Number(port), database: 'js' })
  check('v2 write', (await influx.queryRaw("SELECT count(i), sum(f) FROM w WHERE via = 'v2'", { precision: 's' })).results[0].series[0].values, [[0, 100, 1237.5]])
  const errors = []
  const bad = client.getWriteApi('', 'nosuch', 's', { writeFailed: (e) => { errors.push(e.statusCode) } })
  bad.writeRecord('m v=1')
  await bad.close().catch(() => {})
  check('v2 no database', errors, [404])
  await influx.dropDatabase('js')
  check('dropped', (await influx.getDatabaseNames()).includes('js'), false)
}

version1().then(version2).catch((e) => {
  failed++
  console.log(e)
}).finally(() => console.log(`${passed} passed, ${failed} failed`))
