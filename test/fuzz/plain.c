/*
 * plain.c
 *	  Stand-ins for functions that PostgreSQL replaces although the C library has them: they
 *	  call the library's; and those that count bits, of which each version calls another one. This
 *	  file does not include PostgreSQL's headers, which redefine the names.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int pg_fprintf(FILE *stream, const char *format, ...);
int pg_snprintf(char *text, size_t size, const char *format, ...);
int pg_vsnprintf(char *text, size_t size, const char *format, va_list args);
void pg_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));
size_t strlcpy(char *to, const char *from, size_t size);
void vacuum_delay_point(void);
unsigned long pg_popcount(const char *bytes, int n);
static int count_bits(unsigned int word);
static int count_long_bits(unsigned long word);

int (*pg_popcount32)(unsigned int word) = count_bits;
int (*pg_popcount64)(unsigned long word) = count_long_bits;
unsigned long (*pg_popcount_optimized)(const char *bytes, int n) = pg_popcount;

int
pg_fprintf(FILE *stream, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vfprintf(stream, format, args);
	va_end(args);
	return n;
}

int
pg_vsnprintf(char *text, size_t size, const char *format, va_list args)
{
	return vsnprintf(text, size, format, args);
}

int
pg_snprintf(char *text, size_t size, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, size, format, args);
	va_end(args);
	return n;
}

void
pg_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	qsort(base, n, size, compare);
}

/* Old C libraries lack this function */
size_t
strlcpy(char *to, const char *from, size_t size)
{
	return (size_t) snprintf(to, size, "%s", from);
}

/* Its arguments differ between versions */
void
vacuum_delay_point(void)
{
}

static int
count_bits(unsigned int word)
{
	return __builtin_popcount(word);
}

static int
count_long_bits(unsigned long word)
{
	return __builtin_popcountl(word);
}

unsigned long
pg_popcount(const char *bytes, int n)
{
	unsigned long count = 0;

	while (n-- > 0)
		count += count_bits((unsigned char) *bytes++);
	return count;
}
