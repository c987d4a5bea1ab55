// test/bench/duckdb.mjs FOLDER: a DuckDB in memory, for peers.sh. FOLDER has node_modules.
//
// Each line of standard input names two files, one with a statement, one for its answer; the
// reply is a line with the time of the answer in milliseconds, or with an error.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const { DuckDBInstance } = createRequire(`${process.argv[2]}/`)('@duckdb/node-api');
const instance = await DuckDBInstance.create(':memory:');
const connection = await instance.connect();
let current = { text: null, statement: null };

// In the format of psql's unaligned output.
function show(value) {
	if (value === null) return '';
	if (typeof value === 'boolean') return value ? 't' : 'f';
	return String(value);
}

// A statement is prepared the first time it is used.
async function answer(text) {
	if (current.text !== text) current = { text, statement: await connection.prepare(text) };
	const began = performance.now();
	const rows = await (await current.statement.run()).getRows();
	return { rows, ms: performance.now() - began };
}

for await (const line of createInterface({ input: process.stdin })) {
	const [question, place] = line.split('\t');
	try {
		const { rows, ms } = await answer(readFileSync(question, 'utf8'));
		writeFileSync(place, rows.map((row) => `${row.map(show).join('|')}\n`).join(''));
		console.log(ms.toFixed(3));
	} catch (error) {
		console.log(`error: ${String(error.message).replace(/\s+/g, ' ')}`);
	}
}
