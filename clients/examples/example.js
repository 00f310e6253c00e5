const { InfluxDB } = require('influx')

const url = new URL(process.argv[2])
const c = new InfluxDB({ host: url.hostname, port: Number(url.port), database: 'demo' }) // username, password

async function main() {
  await c.writePoints([{ measurement: 'weather', tags: { city: 'oslo' }, fields: { temperature: -3.5 } }])
  for (const row of await c.query('SELECT last(temperature) FROM weather GROUP BY city')) console.log(row.city, row.last)
}
main()
