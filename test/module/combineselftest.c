/*-------------------------------------------------------------------------
 *
 * combineselftest.c
 *	  Test of agg/combine.c: answers that have been added up must have the states of all rows.
 *
 * Answers are random, from a fixed seed: of some of the keys each, in no order, with numbers of
 * rows near the limit of exact sums.  Sums of 64 bits must be those of a plain loop over 128 bits,
 * although a key may have several elements.  Answers of other lists must be refused, or be right
 * if the memory of a list of keys is that of another one by now.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "utils/memutils.h"

#include "agg/agg.h"

#define KEYS			300
#define ANSWERS			5
#define ROUNDS			200

/* Words of an element: key, its number, rows, sum in two words, minimum, maximum, sum */
#define WORDS			8
#define FIRST_KIND		3

PG_FUNCTION_INFO_V1(gpujoin_combine_selftest);

/* The results of a plain loop */
typedef struct Totals
{
	uint64		rows[KEYS];
	int128		wide[KEYS];
	int64		least[KEYS];
	int64		greatest[KEYS];
	uint64		sum[KEYS];
} Totals;

static pg_prng_state prng;
static GjKeySet keys;

static GjReduceRequest *
make_request(MemoryContext context)
{
	static const uint32 kinds[] = {GJD_SUM, GJD_MIN, GJD_MAX, GJD_SUM};
	static const int words[] = {3, 5, 6, 7, 8};
	GjReduceRequest *request = palloc0(sizeof(GjReduceRequest));

	request->context = request->reduction.context = context;
	request->ngroups = 1;
	request->naggs = lengthof(kinds);
	for (int i = 0; i < lengthof(kinds); i++)
		request->aggs[i].kind = kinds[i];
	memcpy(request->words, words, sizeof(words));
	request->reduction.asked.grouping = GJD_BY_KEY;
	request->reduction.keys = &keys;
	request->reduction.nkeys = KEYS;
	request->reduction.element_words = WORDS;
	return request;
}

/*
 * Make an answer with some of the keys, the number of the first one being `shift`, and add it to
 * the totals of the keys, which are their numbers times three
 */
static void
fill_answer(GjReduceRequest *request, int shift, Totals *totals)
{
	GjReduction *r = &request->reduction;
	uint64		share = pg_prng_uint64(&prng) % 4;

	r->room = KEYS * WORDS * sizeof(uint64);
	r->words = MemoryContextAlloc(request->context, r->room);
	for (int i = 0; i < KEYS; i++)
	{
		int			key = i * 7 % KEYS; /* in no order */
		uint64	   *words = r->words + r->nelements * WORDS;
		uint64		rows = pg_prng_uint64(&prng) % ((uint64) 1 << (pg_prng_uint64(&prng) % 32)) + 1;
		int64		limit = pg_prng_uint64(&prng) % 2 == 0 ? PG_INT32_MIN : PG_INT32_MAX;
		int64		high = (int64) rows * limit;

		if (pg_prng_uint64(&prng) % 4 < share)
			continue;
		r->nelements++;
		words[0] = (uint64) key * 3;
		words[1] = (uint64) ((key + shift) % KEYS) << 1;
		words[2] = rows;
		words[3] = rows * PG_UINT32_MAX;
		words[4] = (uint64) high;
		words[5] = pg_prng_uint64(&prng) % 5 == 0 ? PG_INT64_MAX : pg_prng_uint64(&prng);
		words[6] = pg_prng_uint64(&prng) % 5 == 0 ? (uint64) PG_INT64_MIN : pg_prng_uint64(&prng);
		words[7] = pg_prng_uint64(&prng);
		totals->rows[key] += rows;
		totals->wide[key] += (int128) high * ((int64) 1 << 32) + (int128) words[3];
		totals->least[key] = Min(totals->least[key], (int64) words[5]);
		totals->greatest[key] = Max(totals->greatest[key], (int64) words[6]);
		totals->sum[key] += words[7];
	}
}

/*
 * Return the totals of the elements
 */
static void
read_totals(const GjReduction *r, Totals *totals)
{
	for (uint64 i = 0; i < r->nelements; i++)
	{
		const uint64 *words = r->words + i * WORDS;
		uint64		key = words[0] / 3;

		totals->rows[key] += words[2];
		totals->wide[key] += (int128) (int64) words[4] * ((int64) 1 << 32) + (int128) words[3];
		totals->least[key] = Min(totals->least[key], (int64) words[5]);
		totals->greatest[key] = Max(totals->greatest[key], (int64) words[6]);
		totals->sum[key] += words[7];
	}
}

static Totals *
make_totals(void)
{
	Totals	   *totals = palloc0(sizeof(Totals));

	for (int i = 0; i < KEYS; i++)
	{
		totals->least[i] = PG_INT64_MAX;
		totals->greatest[i] = PG_INT64_MIN;
	}
	return totals;
}

/*
 * Add up some answers, and compare the sums with those of a loop
 */
static void
run_round(MemoryContext context, bool renumbered)
{
	GjCombined	combined = {.request = make_request(context)};
	Totals	   *wanted = make_totals();
	Totals	   *found = make_totals();

	fill_answer(combined.request, 0, wanted);
	for (int i = 1; i < ANSWERS; i++)
	{
		GjReduceRequest *request = make_request(context);

		fill_answer(request, renumbered ? i : 0, wanted);
		if (!GjCombineMay(request) || !GjCombineAdd(&combined, request))
			elog(ERROR, "an answer with the same keys is refused");
	}
	read_totals(&combined.request->reduction, found);
	if (memcmp(wanted, found, sizeof(Totals)) != 0)
		elog(ERROR, "answers have been added up wrongly");
}

/*
 * Answers that do not fit must be refused, and change nothing
 */
static void
refuse(GjCombined *combined, GjReduceRequest *request, const char *what)
{
	uint64		before = combined->request->reduction.nelements;

	if (GjCombineAdd(combined, request))
		elog(ERROR, "an answer is not refused: %s", what);
	if (combined->request->reduction.nelements != before)
		elog(ERROR, "a refused answer is added: %s", what);
}

static GjProofs *
make_proofs(int64 rest)
{
	GjProofs   *proofs = palloc0(sizeof(GjProofs));

	proofs->n = KEYS;
	proofs->codes = palloc0_array(int64, KEYS);
	proofs->rests = palloc0_array(int64, KEYS);
	proofs->rests[KEYS - 1] = rest;
	return proofs;
}

static void
run_refusals(MemoryContext context)
{
	GjCombined	combined = {.request = make_request(context)};
	GjReduceRequest *request = make_request(context);
	GjKeySet	other;

	fill_answer(combined.request, 0, make_totals());
	fill_answer(request, 0, make_totals());
	request->reduction.keys = &other;
	refuse(&combined, request, "other keys");
	request->reduction.keys = &keys;
	request->reduction.nkeys--;
	refuse(&combined, request, "other number of keys");
	request->reduction.nkeys++;
	request->by_key = true;
	refuse(&combined, request, "partners are still to come");
	request->by_key = false;
	combined.request->by_key = true;
	refuse(&combined, request, "weights");
	request->by_key = true;
	combined.request->part = 1;
	refuse(&combined, request, "partners of another node");
	combined.request->part = 0;
	request->by_key = combined.request->by_key = false;
	request->words[1]++;
	refuse(&combined, request, "other words");
	request->words[1]--;
	request->aggs[1].kind = GJD_MAX;
	refuse(&combined, request, "other aggregates");
	request->aggs[1].kind = GJD_MIN;
	request->reduction.proofs = make_proofs(1);
	refuse(&combined, request, "rests");
	combined.request->reduction.proofs = make_proofs(2);
	refuse(&combined, request, "other rests");
}

Datum
gpujoin_combine_selftest(PG_FUNCTION_ARGS)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "combine selftest",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	pg_prng_seed(&prng, 44);
	for (int i = 0; i < ROUNDS; i++)
	{
		run_round(context, i % 2 == 1);
		MemoryContextReset(context);
	}
	run_refusals(context);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	PG_RETURN_INT64(ROUNDS * ANSWERS * KEYS);
}
