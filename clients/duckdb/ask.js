// Runs each statement of standard input, a JSON array, with DuckDB, and prints the rows as
// JSON, a line for each statement.
const { DuckDBInstance } = require('@duckdb/node-api')
const { readFileSync } = require('fs')

async function main () {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  for (const statement of JSON.parse(readFileSync(0, 'utf8'))) {
    const answer = await connection.runAndReadAll(statement)
    console.log(JSON.stringify(answer.getRowsJson()))
  }
}

main().catch(err => { console.error(err); process.exit(1) })
