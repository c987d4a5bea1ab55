/*
 * fuzz.h
 *	  Common code of the fuzz targets: reading an input as a script, and reporting findings.
 *
 * An input is not the data itself but a script of small steps that damage, or create, it; so an
 * input of a few dozen bytes is an index with a bad page, or a conversation, and the corpus stays
 * small. A script that ends early reads zeroes.
 */
#ifndef GPUJOIN_TEST_FUZZ_H
#define GPUJOIN_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct script
{
	const uint8_t *data;
	size_t left;
} script;

static inline uint64_t
next_number(script *s, size_t bytes)
{
	uint64_t number = 0;
	size_t n = bytes < s->left ? bytes : s->left;

	if (n > 0)
		memcpy(&number, s->data, n);
	s->data += n;
	s->left -= n;
	return number;
}

#define next_byte(s) ((uint8_t) next_number(s, 1))

/* Returns the next n bytes of the script, or as many as are left */
static inline const uint8_t *
next_bytes(script *s, size_t *n)
{
	const uint8_t *at = s->data;

	if (*n > s->left)
		*n = s->left;
	s->data += *n;
	s->left -= *n;
	return at;
}

/* A finding: ends the program, like a report of a sanitizer */
#define require(condition) \
	((condition) ? (void) 0 : \
	 (fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition), abort()))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
